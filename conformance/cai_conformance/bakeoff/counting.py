"""What is counted of decode runs: the cost of a step by the length of the sequence, repeated trigrams, variety.

As published. (CAI NEURAL API, decode-features bake-off.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from cai_conformance.nets.arms import ArmRun

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
