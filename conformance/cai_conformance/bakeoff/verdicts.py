"""The published rules by which phases 6 and 7 judge their own claims.

========================== ============================================================================================
claim                      holds
========================== ============================================================================================
phase 6, convergence       0 < loss ≤ 2.34 + 0.05, and below 2.53 and 2.87
phase 7, convergence       0 < loss ≤ 1.61 + 0.25
decode cost                a streamed token takes 2.0 ms at most, and the dearest bucket of steps at most twice the
                           cheapest; with the first alone it is PARTIAL
========================== ============================================================================================

The losses are those that phases 1, 3, 4 and 6 reached in their time boxes. A loss is that of one batch. (CAI NEURAL
API, decode-features bake-off.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cai_conformance.bakeoff.counting import Bucket

TRANSFORMER_LOSS: Final = 2.87
RECURRENCE_LOSS: Final = 2.34
LATENT_LOSS: Final = 2.53
HYBRID_LOSS: Final = 1.61

HYBRID_SLACK: Final = 0.05
GROUPED_SLACK: Final = 0.25
DEAREST: Final = 2.0
"""Milliseconds that a streamed token may take."""
STEEPEST: Final = 2.0
"""How many times the cheapest bucket the dearest one may cost."""
SMALLEST: Final = 1e-9
"""What a time counts at least where something is divided by it."""


class Word(StrEnum):
    """What a verdict can say."""

    HOLDS = "HOLDS"
    PARTIAL = "PARTIAL"
    NOT_CONFIRMED = "NOT CONFIRMED"
    NOT_COMPARABLE = "NOT COMPARABLE"


@dataclass(frozen=True)
class Verdict:
    """A claim, what came of it, and the numbers that decided."""

    claim: str
    word: Word
    reason: str


def hybrid_convergence(loss: float) -> Verdict:
    """Judge the loss of phase 6 by those of the pure stacks."""
    holds = 0.0 < loss <= RECURRENCE_LOSS + HYBRID_SLACK and loss < LATENT_LOSS and loss < TRANSFORMER_LOSS
    reason = (
        f"loss {loss:.2f}; recurrence {RECURRENCE_LOSS} + {HYBRID_SLACK}, latent attention {LATENT_LOSS}, "
        f"transformer {TRANSFORMER_LOSS}"
    )
    return Verdict("convergence", _holds(holds), reason)


def grouped_convergence(loss: float) -> Verdict:
    """Judge the loss of phase 7 by that of phase 6."""
    holds = 0.0 < loss <= HYBRID_LOSS + GROUPED_SLACK
    return Verdict("convergence", _holds(holds), f"loss {loss:.2f}; dense hybrid {HYBRID_LOSS} + {GROUPED_SLACK}")


def incomparable(reason: str) -> Verdict:
    """Say why a loss is not held against published ones."""
    return Verdict("convergence", Word.NOT_COMPARABLE, reason)


def decode_cost(milliseconds: float, steps: Sequence[Bucket]) -> Verdict:
    """Judge the milliseconds that a streamed token takes, prefill included, and whether longer prefixes cost more."""
    costs = [bucket.milliseconds for bucket in steps]
    dearest, cheapest = max(costs, default=0.0), min(costs, default=0.0)
    affordable = milliseconds <= DEAREST
    flat = dearest <= STEEPEST * max(cheapest, SMALLEST)
    reason = (
        f"{milliseconds:.2f} ms a token, at most {DEAREST}; steps from {cheapest:.3f} to {dearest:.3f} ms, "
        f"at most {STEEPEST:g} times"
    )
    if not affordable:
        return Verdict("decode cost", Word.NOT_CONFIRMED, reason)
    return Verdict("decode cost", Word.HOLDS if flat else Word.PARTIAL, reason)


def speedup(slow: float, fast: float) -> float:
    """Return how many times faster something is; a time of nothing counts as the smallest one."""
    return slow / max(fast, SMALLEST)


def _holds(holds: bool) -> Word:
    return Word.HOLDS if holds else Word.NOT_CONFIRMED
