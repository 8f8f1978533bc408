"""Judges that only the neural n-gram needs: recounting its trace, and the facts published about it."""
