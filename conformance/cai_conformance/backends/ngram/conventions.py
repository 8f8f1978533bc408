"""What the neural n-gram states about its conventions, before any number."""

from __future__ import annotations

from typing import Final

CONVENTIONS: Final = (
    ("rope", "none"),
    ("rope_base", "none"),
    ("window", "fixed context, oldest token first"),
    ("argmax", "lowest id, BOS masked"),
    ("softmax_scale", "none"),
    ("swiglu_gate", "first projection"),
    ("norm", "none"),
    ("norm_eps", "none"),
    ("tie", "untied"),
    ("adamw", "decoupled decay of the weight before the update, epsilon outside the root, running beta products"),
    ("loss", "mean over rows of the last shifted target"),
    ("padding", "none"),
)
