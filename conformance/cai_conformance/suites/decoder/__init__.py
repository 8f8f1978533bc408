"""The decode suites: one definition, many phases."""
