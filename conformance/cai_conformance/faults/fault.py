"""A seeded fault: what a wrong implementation does, and how the reference is made to do it for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from threading import RLock
from typing import Any, Final

from cai_conformance.faults.errors import FaultError
from cai_conformance.faults.patch import Patch, forget_what_was_computed
from cai_conformance.faults.workload import NGRAM, Sight, Workload, exact, run

Plant = Callable[[Patch], None]
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
SESSION: Final = frozenset({Place.SESSION})
TRAINING: Final = frozenset({Place.TRAINING})


@dataclass(frozen=True)
class Fault:
    """One way to be wrong.

    Attributes:
        slug: its name for good, `family.what`.
        title: a few words for a report.
        story: what the wrong implementation does, and what hides it.
        precedent: where it was seen in public; empty where it is here for completeness.
        places: where it acts. What trains runs the batch path; TRAINING stands only where that path is right.
        plant: changes settings of the reference's description, or replaces parts of it.
        knob: the setting that is wrong, such as `rope base`; faults of one knob exclude each other, those of
            different knobs are tried together. Empty for what is no setting.
        kinds: which kinds of faults that are known in public it stands for, by their names in `kinds`.
        workloads: the suites in which it shows, with what is asked of them.
        expected: names of checks, at least one of which must fail in one of the workloads.
        equivalent: why no answer of our models changes; empty where one does.
        unseen: why no check asks for what changes; empty where one does.
        sight: how the n-gram's suite sees it; None where it does not, or was not tried.
        library: whether it computes with code whose bits are not defined, so that it may be right by accident.
        guessed: whether an explanation may name it. What changes last bits, or the n-gram alone, is no guess.
    """

    slug: str
    title: str
    story: str
    precedent: str
    places: frozenset[Place]
    plant: Plant
    knob: str = ""
    kinds: tuple[str, ...] = ()
    workloads: tuple[Workload, ...] = ()
    expected: tuple[str, ...] = ()
    equivalent: str = ""
    unseen: str = ""
    sight: Sight | None = None
    library: bool = False
    guessed: bool = True

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
            FaultError (fault-already-planted): one is, and `nested` was not said.
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
        self._patch: Patch | None = None
        self._depth = 0

    @contextmanager
    def active(self, *, nested: bool = False) -> Iterator[None]:
        """Make the reference wrong for the length of a `with`, as `Fault.planted` does; within another one, nothing.

        Raises:
            FaultError (fault-already-planted): another fault is planted, and `nested` was not said.
        """
        with _LOCK:
            if self._depth:
                yield
                return
            if _PLANTED and not nested:
                raise FaultError("fault-already-planted", slug=self.fault.slug, planted=_PLANTED[-1])
            _PLANTED.append(self.fault.slug)
            self._depth = 1
            try:
                self._plant()
                forget_what_was_computed()
                yield
            finally:
                self._depth = 0
                if self._patch is not None:
                    self._patch.suspend()
                forget_what_was_computed()
                _PLANTED.pop()

    def _plant(self) -> None:
        if self._patch is None:
            self._patch = Patch()
            self.fault.plant(self._patch)
        else:
            self._patch.resume()


class Family:
    """Faults of one topic in the order in which they are declared, and the decorator that declares them.

    What is decorated plants the fault; its docstring is the story.

    Args:
        places: where its faults act, unless they say otherwise.
        workloads: where they show, unless they say otherwise.
    """

    def __init__(self, places: frozenset[Place], workloads: tuple[Workload, ...]) -> None:
        self._places, self._workloads = places, workloads
        self._faults: list[Fault] = []

    def __iter__(self) -> Iterator[Fault]:
        """Return the faults declared so far, in order."""
        return iter(self._faults)

    def __call__(
        self,
        slug: str,
        title: str,
        expected: str = "",
        *,
        story: str = "",
        seen_in: str = "",
        places: frozenset[Place] = frozenset(),
        knob: str = "",
        kinds: str = "",
        workloads: tuple[Workload, ...] = (),
        **more: Any,
    ) -> Callable[[Plant], Plant]:
        """Declare a fault as `Fault` does; names of checks and kinds are separated by spaces."""

        def declared(plant: Plant) -> Plant:
            fault = Fault(
                slug,
                title,
                story or " ".join((plant.__doc__ or "").split()),
                seen_in,
                places or self._places,
                plant,
                knob,
                tuple(kinds.split()),
                workloads or self._workloads,
                tuple(expected.split()),
                **more,
            )
            self._faults.append(fault)
            return plant

        return declared

    def seen(
        self, slug: str, title: str, cases: str, how: str, *, printed: str = "", **more: Any
    ) -> Callable[[Plant], Plant]:
        """Declare a fault that the n-gram's suite asks for by cases of its own, which `Sight` describes."""
        sight = Sight(tuple(cases.split()), how, printed)
        expected = " ".join(dict.fromkeys(case.partition("[")[0] for case in sight.cases))
        more.setdefault("workloads", exact(NGRAM))
        return self(slug, title, expected, story=f"What shows it: {how}.", sight=sight, guessed=False, **more)

    def unseen(
        self, slug: str, title: str, *, equivalent: str = "", not_asked: str = "", **more: Any
    ) -> Callable[[Plant], Plant]:
        """Declare a change of the n-gram that nothing shows: no bit changes, or none that is asked for."""
        return self(
            slug,
            title,
            story=f"Nothing shows it: {equivalent or not_asked}.",
            workloads=(*exact(NGRAM), *run(NGRAM)),
            equivalent=equivalent,
            unseen=not_asked,
            guessed=False,
            **more,
        )


@contextmanager
def planted_together(faults: Iterable[Fault]) -> Iterator[None]:
    """Plant several faults at once, on purpose; none is the reference as it is.

    Raises:
        FaultError (fault-already-planted): another one is planted already.
    """
    with ExitStack() as stack:
        for place, fault in enumerate(faults):
            stack.enter_context(fault.planted(nested=place > 0))
        yield


_LOCK: Final = RLock()
_PLANTED: Final[list[str]] = []
