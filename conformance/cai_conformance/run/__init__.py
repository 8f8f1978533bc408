"""A run: what is asked of a backend, by whom, and what becomes of the answers."""
