"""Decode arms on a net: what each emits, reads and takes."""
