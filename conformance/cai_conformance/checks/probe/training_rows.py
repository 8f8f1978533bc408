"""Small ragged batches for the checks of training: repeated ids, padding, rows of unequal length."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from cai_conformance.checks.probe.probe import Probe
from cai_conformance.checks.tolerance.distance import unit_in_last_place
from cai_conformance.checks.tolerance.training import MOST_FLOOR, MOST_PART
from cai_conformance.engine import MANTISSA_BITS, LossAndGradients, TrainingBatch, TrainingEngine
from cai_reference.splitmix import SplitMix64, below
from cai_reference.text.story_batches import StoryBatch

LENGTHS: Final = (6, 3, 4, 7, 3)
"""How many tokens the rows have."""
THREE, TWO = (0, 1, 2), (3, 4)
"""The rows of two micro batches."""
SEED: Final = 405


@dataclass(frozen=True)
class Rows:
    """Rows of ids that batches are made of; each but the last id of a row is asked for the one behind it.

    Of several heads each is asked for as many targets of a row, so that one weight a row is right for all of them.
    """

    rows: tuple[tuple[int, ...], ...]
    heads: int

    @classmethod
    def of(cls, probe: Probe) -> Rows:
        """Draw rows in which ids come again."""
        generator, vocabulary = SplitMix64(SEED), probe.vocabulary
        first = min(2, vocabulary - 1)
        rows: list[tuple[int, ...]] = []
        heads = int(probe.rows().shape[0])
        for length in LENGTHS:
            drawn = [first + below(generator, vocabulary - first) for _ in range(length + heads - 2)]
            # The second id comes again at the end of its row, and the first row's in every other one.
            drawn[-1] = drawn[0]
            rows.append((0, *drawn) if not rows else (0, rows[0][1], *drawn[1:]))
        return cls(tuple(rows), heads)

    def batch(self, *numbers: int) -> TrainingBatch:
        """Return a batch of some rows, in this order."""
        chosen = [self.rows[number] for number in numbers]
        width = max(map(len, chosen)) - 1
        if self.heads == 1:
            return TrainingBatch.of(StoryBatch(tuple(chosen), width))
        inputs = tuple((*row[:-1], *(0,) * (width - len(row) + 1)) for row in chosen)
        targets = tuple(tuple(self._targets(row, head, width) for row in chosen) for head in range(self.heads))
        return TrainingBatch(inputs, targets)

    def count(self, *numbers: int) -> int:
        """Return how many targets a head has in some rows."""
        return sum(len(self.rows[number]) - self.heads for number in numbers)

    @cached_property
    def repeated(self) -> int:
        """How many inputs have an id that another input of the first three rows has."""
        ids = [token for number in THREE for token in self.rows[number][:-1]]
        return sum(ids.count(token) > 1 for token in ids)

    @cached_property
    def padded(self) -> int:
        """How many places of the first three rows are padding."""
        lengths = [len(self.rows[number]) for number in THREE]
        return sum(max(lengths) - length for length in lengths)

    def _targets(self, row: tuple[int, ...], head: int, width: int) -> tuple[int, ...]:
        wanted = row[1 + head : len(row) - self.heads + 1 + head]
        return (*wanted, *(-1,) * (width - len(wanted)))


def rows_of(probe: Probe) -> Rows:
    """Return the rows that all judges of training share."""
    return probe.memory.remembered("training rows", lambda: Rows.of(probe))


def gradients_of(probe: Probe, engine: TrainingEngine, *numbers: int) -> LossAndGradients:
    """Return loss and gradients of a batch of rows, asked for once.

    Raises:
        EngineError: the engine failed.
    """
    name = f"gradients of {numbers}"
    return probe.memory.remembered(name, lambda: engine.gradients(rows_of(probe).batch(*numbers)))


def most_units(precision: str) -> float:
    """Return by how many units in the last place rounding may ever move a loss or a gradient."""
    return min(MOST_FLOOR, MOST_PART * 2.0 ** MANTISSA_BITS[precision])


def loss_allowance(loss: float, precision: str) -> float:
    """Return by how many nats two ways to the same loss may differ."""
    if not np.isfinite(loss):
        return 0.0
    return most_units(precision) * unit_in_last_place(loss, precision)
