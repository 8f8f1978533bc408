"""Checks by topic, each declared where it stands: what it is called, asks, needs, must have met and claims to catch."""
