"""Witnesses of vector cases: what each of them makes a backend meet, counted from its input and its right answer."""
