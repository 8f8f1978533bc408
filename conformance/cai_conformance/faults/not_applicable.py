"""Kinds of faults that no seeded fault stands for, each with the reason: our models or suites have nothing to be wrong.

What is listed here is not caught by any suite. Whoever adds the part that a reason says is missing takes the kind off
this list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NOT_APPLICABLE: Final[Mapping[str, str]] = {
    "S02": "no model of the suites keeps the state of a convolution: the recurrence has none, and the draft's token"
    " shift, which is one over two tokens, is computed from the newest two ids each time",
    "S03": "the recurrence of our models has no convolution, and no prompt of the suites is shorter than the two tokens"
    " of the draft's token shift",
    "C02": "an engine that trains is given its batches, so that it has no position in data to lose, and no suite asks"
    " a backend to stop its own run and go on",
}
"""By kind."""
