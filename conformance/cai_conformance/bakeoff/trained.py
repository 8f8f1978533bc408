"""What a training leaves behind, whoever trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from cai_reference.nets.format import NetFile

Log: TypeAlias = Callable[[str], None]
"""Takes a line that is worth keeping."""

LOG_EVERY: Final = 25
"""Steps from one line of the log to the next, as published."""


@dataclass(frozen=True)
class Course:
    """How a training went.

    Attributes:
        ending: why it ended.
        seconds: how long it took, validation included.
        steps, kept: the steps that were taken, and the one whose weights are kept.
        examples: those of all steps.
        first_loss: of the first batch, before anything was learned.
        logged_loss: of the batch of step 25, the first that the published program logs; None of a shorter training.
        loss: of the last batch, as published: of weights that are thrown away where `kept` is less than `steps`.
        kept_loss: of the batch of step `kept`.
        accuracy: the best of all validations; None where there was none.
    """

    ending: str
    seconds: float
    steps: int
    kept: int
    examples: int
    first_loss: float
    logged_loss: float | None
    loss: float
    kept_loss: float
    accuracy: float | None

    @property
    def thrown_away(self) -> int:
        """The steps whose weights are lost."""
        return self.steps - self.kept

    @property
    def throughput(self) -> float:
        """Examples a second."""
        return self.examples / max(self.seconds, 1e-9)

    @property
    def sentence(self) -> str:
        """What is kept and what is lost, in words."""
        ended = f"ended behind step {self.steps} ({self.ending}), loss of its batch {self.loss:.4f}"
        if not self.thrown_away:
            return f"{ended}; the weights after it are kept"
        lost = "the last step is" if self.thrown_away == 1 else f"the last {self.thrown_away} steps are"
        return (
            f"{ended}; {lost} thrown away with that loss, "
            f"the weights of step {self.kept} are kept, loss of its batch {self.kept_loss:.4f}"
        )


@dataclass(frozen=True)
class Trained:
    """A net in single precision, and how it came to be."""

    net: NetFile
    course: Course
