"""The reference as a backend: its engine, its runs, and the records of both."""
