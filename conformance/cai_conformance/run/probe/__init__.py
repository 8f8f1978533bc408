"""An engine held against itself, on any model folder."""
