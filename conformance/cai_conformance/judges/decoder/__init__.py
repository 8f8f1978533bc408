"""Judges that only the decode suites need: arms, counters, caches, witnesses."""
