"""What a sampler is, and what every sampler refuses."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.legacy.sampling.errors import (
    EmptySamplingRow,
    MinPOutOfRange,
    NotAProbability,
    NothingProbable,
    SamplingRowShape,
    TopKTooSmall,
    TopPOutOfRange,
)


class Sampler(Protocol):
    """Whatever chooses a token."""

    def choose(self, row: Array) -> int:
        """Return the id of the token chosen from its probabilities [vocabulary]."""
        ...


def check_row(row: Array) -> None:
    """Refuse what is not a row of probabilities; they need not add up to one.

    Raises:
        SamplingRowShape, EmptySamplingRow: it is not one row, or there is nothing in it.
        NotAProbability: with the first value that is not in [0, 1].
        NothingProbable: all are zero.
    """
    if row.ndim != 1:
        raise SamplingRowShape(row.shape)
    if not len(row):
        raise EmptySamplingRow
    wrong = np.flatnonzero(~((row >= 0.0) & (row <= 1.0)))
    if len(wrong):
        raise NotAProbability(int(wrong[0]), float(row[wrong[0]]))
    if not row.any():
        raise NothingProbable(len(row))


def check_top_k(k: int) -> None:
    """Raise TopKTooSmall unless k ≥ 1."""
    if k < 1:
        raise TopKTooSmall(k)


def check_top_p(p: float) -> None:
    """Raise TopPOutOfRange unless 0 < p ≤ 1."""
    if not 0.0 < p <= 1.0:
        raise TopPOutOfRange(p)


def check_min_p(q: float) -> None:
    """Raise MinPOutOfRange unless 0 < q ≤ 1."""
    if not 0.0 < q <= 1.0:
        raise MinPOutOfRange(q)
