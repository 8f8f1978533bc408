"""When training ends: behind a time, behind a number of steps, or because somebody asked for it.

It is asked after each step, so that the step in progress is always completed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from cai_conformance.timing import Clock

INTERRUPTED: Final = "interrupted"


class Limit(Protocol):
    """Says when training ends."""

    def reached(self, steps: int) -> str:
        """Return why training ends behind so many steps, or an empty string if it goes on."""
        ...


class TimeBox:
    """Ends training behind the step in which the time is over; the time starts now."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._clock = clock
        self._seconds = seconds
        self._end = clock() + seconds

    def reached(self, steps: int) -> str:
        """Return a reason once the time is over."""
        return f"time box of {self._seconds:g} s" if self._clock() >= self._end else ""


@dataclass(frozen=True)
class StepCount:
    """Ends training behind a number of steps, so that the same run can be made again."""

    steps: int

    def reached(self, steps: int) -> str:
        """Return a reason once so many steps were taken."""
        return f"{self.steps} steps" if steps >= self.steps else ""


@dataclass(frozen=True)
class Interruptible:
    """Ends training as another limit does, or as soon as somebody asks for it."""

    limit: Limit
    stopped: Callable[[], bool]

    def reached(self, steps: int) -> str:
        """Return the reason of the other limit, or that training was interrupted."""
        return INTERRUPTED if self.stopped() else self.limit.reached(steps)
