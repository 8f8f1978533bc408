"""Judges that drive an engine call by call. A backend that cannot be driven is skipped by them, with that reason."""
