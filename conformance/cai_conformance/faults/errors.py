"""What can go wrong with seeded faults.

::

    ConformanceError
    └── FaultError
        ├── FaultAlreadyPlanted  one is planted while another one is, and nobody said that this is meant
        ├── FaultNotJudged       a process that was to judge one failed, or ended
        └── UnknownFault         no fault has this slug
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.errors import ConformanceError


@dataclass(eq=False)
class FaultError(ConformanceError):
    """A seeded fault cannot be used as asked."""


@dataclass(eq=False)
class FaultAlreadyPlanted(FaultError):
    """A fault was to be planted on top of another one without `nested`."""

    template = "{slug} cannot be planted: {planted} is"
    slug: str
    planted: str


@dataclass(eq=False)
class FaultNotJudged(FaultError):
    """The process that was to judge a fault failed, or ended."""

    template = "{slug} could not be judged in {vehicle}: {problem}"
    slug: str
    vehicle: str
    problem: str


@dataclass(eq=False)
class UnknownFault(FaultError):
    """No fault has this slug."""

    template = "there is no fault {slug!r}"
    slug: str
