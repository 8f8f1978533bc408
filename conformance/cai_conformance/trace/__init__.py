"""The trace: its records, its grammar (version 1), the parser, the formatter, and the comparison of two traces."""
