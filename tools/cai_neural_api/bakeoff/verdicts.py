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

What is counted of decode runs: the cost of a step by the length of the sequence, repeated trigrams, variety.

As published. (CAI NEURAL API, decode-features bake-off.)

How long a forward pass over the whole context takes, as phase 9 measures it.

A net of sequential blocks and one of parallel blocks, neither of them trained: two passes to warm up, then the mean of
twelve. The id at position t is 2 + (t mod 100). (CAI NEURAL API, decode-features bake-off.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cai_conformance.verdicts import Clock
from cai_neural_api.decode.arms import ArmRun
from cai_neural_api.net.graph import Net
from cai_reference.arithmetic import Arithmetic

BOUNDS: Final = (16, 32)
NAMES: Final = ("<16", "16-31", ">=32")
"""The lengths of a sequence before a step that are told apart, and what they are called."""

TRIGRAM: Final = 3


@dataclass(frozen=True)
class Bucket:
    """The steps from sequences of similar lengths, and their mean cost."""

    name: str
    steps: int
    milliseconds: float


def buckets(runs: Iterable[ArmRun]) -> tuple[Bucket, ...]:
    """Return the cost of decode steps, prefill not included, over all runs; empty buckets are left out."""
    seconds: list[list[float]] = [[] for _ in NAMES]
    for run in runs:
        for length, took in run.steps:
            seconds[sum(length >= bound for bound in BOUNDS)].append(took)
    return tuple(
        Bucket(name, len(taken), 1000.0 * sum(taken) / len(taken))
        for name, taken in zip(NAMES, seconds, strict=True)
        if taken
    )


def repeated_trigrams(new: Sequence[int]) -> int:
    """Count the places of generated ids at which a trigram begins that began earlier, overlapping or not.

    The first three places never count.
    """
    trigrams = [tuple(new[place : place + TRIGRAM]) for place in range(len(new) - TRIGRAM + 1)]
    return sum(trigrams[place] in trigrams[:place] for place in range(TRIGRAM, len(trigrams)))


def distinct(new: Sequence[int]) -> int:
    """Return how many different ids were generated: an equality of arms says little where there are few."""
    return len(set(new))


def smallest_margin(run: ArmRun) -> float | None:
    """Return by how much the closest choice of a run was made; None of a run that chose nothing."""
    return min((prediction.margin for prediction in run.predictions), default=None)


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
class ClaimVerdict:
    """A claim, what came of it, and the numbers that decided."""

    claim: str
    word: Word
    reason: str


def hybrid_convergence(loss: float) -> ClaimVerdict:
    """Judge the loss of phase 6 by those of the pure stacks."""
    holds = 0.0 < loss <= RECURRENCE_LOSS + HYBRID_SLACK and loss < LATENT_LOSS and loss < TRANSFORMER_LOSS
    reason = (
        f"loss {loss:.2f}; recurrence {RECURRENCE_LOSS} + {HYBRID_SLACK}, latent attention {LATENT_LOSS}, "
        f"transformer {TRANSFORMER_LOSS}"
    )
    return ClaimVerdict("convergence", Word.HOLDS if holds else Word.NOT_CONFIRMED, reason)


def grouped_convergence(loss: float) -> ClaimVerdict:
    """Judge the loss of phase 7 by that of phase 6."""
    word = Word.HOLDS if 0.0 < loss <= HYBRID_LOSS + GROUPED_SLACK else Word.NOT_CONFIRMED
    return ClaimVerdict("convergence", word, f"loss {loss:.2f}; dense hybrid {HYBRID_LOSS} + {GROUPED_SLACK}")


def incomparable(reason: str) -> ClaimVerdict:
    """Say why a loss is not held against published ones."""
    return ClaimVerdict("convergence", Word.NOT_COMPARABLE, reason)


def decode_cost(milliseconds: float, steps: Sequence[Bucket]) -> ClaimVerdict:
    """Judge the milliseconds that a streamed token takes, prefill included, and whether longer prefixes cost more."""
    costs = [bucket.milliseconds for bucket in steps]
    dearest, cheapest = max(costs, default=0.0), min(costs, default=0.0)
    flat = dearest <= STEEPEST * max(cheapest, SMALLEST)
    reason = (
        f"{milliseconds:.2f} ms a token, at most {DEAREST}; steps from {cheapest:.3f} to {dearest:.3f} ms, "
        f"at most {STEEPEST:g} times"
    )
    if not milliseconds <= DEAREST:
        return ClaimVerdict("decode cost", Word.NOT_CONFIRMED, reason)
    return ClaimVerdict("decode cost", Word.HOLDS if flat else Word.PARTIAL, reason)


def speedup(slow: float, fast: float) -> float:
    """Return how many times faster something is; a time of nothing counts as the smallest one."""
    return slow / max(fast, SMALLEST)


WARM_UPS: Final = 2
TIMED: Final = 12
FIRST_ID: Final = 2
IDS: Final = 100


def time_forward(net: Net, arithmetic: Arithmetic, clock: Clock) -> float:
    """Return the mean milliseconds of a forward pass over the whole context.

    Raises:
        NetError: the net does not run.
    """
    ids = [FIRST_ID + position % IDS for position in range(net.context)]
    for _ in range(WARM_UPS):
        net.run(arithmetic, [ids])
    start = clock()
    for _ in range(TIMED):
        net.run(arithmetic, [ids])
    return 1000.0 * (clock() - start) / TIMED
