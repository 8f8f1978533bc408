"""Kinds of faults that no seeded fault stands for, each with the reason: our models or suites have nothing to be wrong.

What is listed here is not caught by any suite. Whoever adds the part that a reason says is missing takes the kind off
this list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NOT_APPLICABLE: Final[Mapping[str, str]] = {
    "S02": "the recurrence of our models has no convolution, so that there is no state of one",
    "S03": "the recurrence of our models has no convolution, so that no prompt is shorter than a kernel",
    "C01": "no suite asks a backend to save its training and go on: engines begin with fresh moments, and runs are"
    " whole. The reference's own checkpoints are held by its tests alone",
    "C02": "no suite asks a backend to save its training and go on, so that no position is lost",
}
"""By kind."""
