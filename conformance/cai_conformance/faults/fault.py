"""A seeded fault: what a wrong implementation does, and how the reference is made to do it for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from threading import RLock
from typing import Final

from cai_conformance.faults.errors import FaultAlreadyPlanted
from cai_conformance.faults.planting import Planting, forget_what_was_computed

Plant = Callable[[Planting], None]
"""Replaces parts of the reference."""


class Place(StrEnum):
    """Where a fault acts."""

    BATCH = "batch path"
    SESSION = "session"
    LOOP = "decoding loop"
    SAMPLER = "sampler"
    TRAINING = "training"


FORWARD: Final = frozenset({Place.BATCH, Place.SESSION})
"""Both ways to get logits: a fault that comparing them with each other does not show."""


@dataclass(frozen=True)
class Fault:
    """One way to be wrong.

    Attributes:
        slug: its name for good, `family.what`.
        title: a few words for a report.
        story: what the wrong implementation does, and what hides it.
        precedent: where it was seen in public; empty where it is here for completeness.
        places: where it acts. What trains runs the batch path; TRAINING stands only where that path is right.
        plant: replaces parts of the reference.
        knob: the setting that is wrong, such as `rope base`; faults of one knob exclude each other, those of
            different knobs are tried together. Empty for what is no setting.
    """

    slug: str
    title: str
    story: str
    precedent: str
    places: frozenset[Place]
    plant: Plant
    knob: str = ""

    @property
    def family(self) -> str:
        """The part of the slug before the dot."""
        return self.slug.partition(".")[0]

    @contextmanager
    def planted(self, *, nested: bool = False) -> Iterator[None]:
        """Make the reference wrong for the length of a `with`; whatever happens within, it is right again afterwards.

        Another thread that plants waits. One that computes meanwhile computes wrongly: nobody else may use the
        reference in this process.

        Args:
            nested: allows another fault to be planted already.

        Raises:
            FaultAlreadyPlanted: one is, and `nested` was not said.
        """
        with _LOCK:
            if _PLANTED and not nested:
                raise FaultAlreadyPlanted(self.slug, _PLANTED[-1])
            planting = Planting()
            _PLANTED.append(self.slug)
            try:
                self.plant(planting)
                forget_what_was_computed()
                yield
            finally:
                planting.restore()
                forget_what_was_computed()
                _PLANTED.pop()


@contextmanager
def planted_together(faults: Iterable[Fault]) -> Iterator[None]:
    """Plant several faults at once, on purpose; none is the reference as it is.

    Raises:
        FaultAlreadyPlanted: another one is planted already.
    """
    with ExitStack() as stack:
        for place, fault in enumerate(faults):
            stack.enter_context(fault.planted(nested=place > 0))
        yield


_LOCK: Final = RLock()
_PLANTED: Final[list[str]] = []
