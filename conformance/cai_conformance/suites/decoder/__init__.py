"""The nine decode suites: one definition, nine phases."""
