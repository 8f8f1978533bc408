"""Judges: each looks at the evidence and says what holds. None of them prints or decides an exit code."""
