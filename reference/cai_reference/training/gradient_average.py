"""The mean gradient of a mini-batch, one window at a time.

What a batched backward pass computes at once, a loop over windows gives as well: add each window's loss and gradient,
then divide by their number (course, chapter 21). The divisor is the true number of windows, not the capacity of the
batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from cai_reference.text.errors import (
    ContributionCountMismatch,
    EmptyAccumulator,
    GradientWidthMismatch,
    NonFiniteAccumulation,
    NonFiniteGradient,
    NonFiniteLoss,
    ZeroGradientWidth,
)


@dataclass(frozen=True)
class AverageGradient:
    """The mean loss, in nats, and the mean gradient of a mini-batch."""

    loss: float
    gradient: tuple[float, ...]


class GradientAverage:
    """Adds contributions of one width, ascending from +0.0.

    Raises:
        ZeroGradientWidth: the width is below 1.
    """

    def __init__(self, width: int, contributions: int) -> None:
        if width < 1:
            raise ZeroGradientWidth
        self._expected = contributions
        self._added = 0
        self._loss = 0.0
        self._gradient = [0.0] * width

    def add(self, loss: float, gradient: Sequence[float]) -> None:
        """Add one window's loss and gradient, or raise and change nothing.

        Raises:
            GradientWidthMismatch, NonFiniteLoss, NonFiniteGradient: the contribution is not valid.
            NonFiniteAccumulation: a running sum left the range of binary64.
        """
        if len(gradient) != len(self._gradient):
            raise GradientWidthMismatch(len(self._gradient), len(gradient))
        if not isfinite(loss):
            raise NonFiniteLoss(loss)
        for coordinate, value in enumerate(gradient):
            if not isfinite(value):
                raise NonFiniteGradient(coordinate, value)
        total = self._loss + loss
        if not isfinite(total):
            raise NonFiniteAccumulation("loss", None, total)
        sums = [previous + value for previous, value in zip(self._gradient, gradient, strict=True)]
        for coordinate, value in enumerate(sums):
            if not isfinite(value):
                raise NonFiniteAccumulation("gradient", coordinate, value)
        self._loss, self._gradient, self._added = total, sums, self._added + 1

    def mean(self) -> AverageGradient:
        """Return the averages.

        Raises:
            EmptyAccumulator: nothing was added.
            ContributionCountMismatch: not as many were added as the batch holds.
        """
        if self._added == 0:
            raise EmptyAccumulator
        if self._added != self._expected:
            raise ContributionCountMismatch(self._expected, self._added)
        count = float(self._added)
        return AverageGradient(self._loss / count, tuple(value / count for value in self._gradient))
