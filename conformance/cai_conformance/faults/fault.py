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
from cai_conformance.faults.vehicle import Vehicle

Plant = Callable[[Planting], None]
"""Replaces parts of the reference."""


class Place(StrEnum):
    """Where a fault acts."""

    BATCH = "batch path"
    SESSION = "session"
    LOOP = "decoding loop"
    SAMPLER = "sampler"
    TRAINING = "training"
    TOKENIZER = "tokenizer"
    DATA = "data"
    INITIAL = "initial weights"
    SPECULATION = "speculation"
    EVALUATION = "evaluation"
    SELECTION = "selection"
    LOADING = "loading"
    CHECKPOINT = "checkpoint"
    TRACE = "trace"
    ARITHMETIC = "arithmetic"


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
        kinds: which kinds of faults that are known in public it stands for, by their names in `kinds`.
        vehicles: the suites in which it shows, with what is asked of them.
        expected: names of checks, at least one of which must fail in one of the vehicles.
        equivalent: why no answer of our models changes; empty where one does.
    """

    slug: str
    title: str
    story: str
    precedent: str
    places: frozenset[Place]
    plant: Plant
    knob: str = ""
    kinds: tuple[str, ...] = ()
    vehicles: tuple[Vehicle, ...] = ()
    expected: tuple[str, ...] = ()
    equivalent: str = ""

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
        with HeldFault(self).active(nested=nested):
            yield


class HeldFault:
    """A fault that is planted again and again, and remembers what it remembers: a backend that is wrong all along.

    A judge computes with the reference as well. So the fault is in place while the backend answers, and at no other
    time.
    """

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self._planting: Planting | None = None
        self._depth = 0

    @contextmanager
    def active(self, *, nested: bool = False) -> Iterator[None]:
        """Make the reference wrong for the length of a `with`, as `Fault.planted` does; within another one, nothing.

        Raises:
            FaultAlreadyPlanted: another fault is planted, and `nested` was not said.
        """
        with _LOCK:
            if self._depth:
                yield
                return
            if _PLANTED and not nested:
                raise FaultAlreadyPlanted(self.fault.slug, _PLANTED[-1])
            _PLANTED.append(self.fault.slug)
            self._depth = 1
            try:
                self._plant()
                forget_what_was_computed()
                yield
            finally:
                self._depth = 0
                if self._planting is not None:
                    self._planting.suspend()
                forget_what_was_computed()
                _PLANTED.pop()

    def _plant(self) -> None:
        if self._planting is None:
            self._planting = Planting()
            self.fault.plant(self._planting)
        else:
            self._planting.resume()


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
