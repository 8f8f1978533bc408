"""Measuring what rounding does to a backend, so that a tolerance is a measurement and not a choice."""
