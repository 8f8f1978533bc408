"""How the decoder of the course is trained, as data: windows, one rate after the other, checkpoints that select.

Source: course, chapter 33.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from cai_reference.training.schedules import SteppedRate


@dataclass(frozen=True)
class CourseTraining:
    """The loop of chapter 33 at another size.

    Attributes:
        rates: one after the other, each for an equal part of the updates.
        stride: from one window of a training story to the next.
        evaluation_stride: the same where losses are computed.
        measured: into how many parts checkpoints divide the updates.
    """

    rates: tuple[float, ...]
    stride: int
    evaluation_stride: int
    measured: int

    def schedule(self, steps: int) -> SteppedRate:
        """Return the rate of each update; of fewer updates than rates some rates have none."""
        borders = parts(steps, len(self.rates))
        lengths = [later - earlier for earlier, later in pairwise(borders)]
        return SteppedRate(tuple((rate, length) for rate, length in zip(self.rates, lengths, strict=True) if length))

    def checkpoints(self, steps: int) -> tuple[int, ...]:
        """Return the steps at which losses are computed, first and last step among them."""
        return tuple(sorted(set(parts(steps, self.measured))))


def parts(steps: int, count: int) -> list[int]:
    """Return the borders of parts of the steps, as equal as whole numbers can be.

    parts(8, 4)  →  [0, 2, 4, 6, 8]
    """
    return [steps * part // count for part in range(count + 1)]
