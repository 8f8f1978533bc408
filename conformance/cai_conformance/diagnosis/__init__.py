"""Where answers part from the reference, and which mistake fits."""
