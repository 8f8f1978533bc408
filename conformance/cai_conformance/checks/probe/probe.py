"""A model under probe: its engine, what is known of it, what rounding may do, and rows that checks share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol, TypeVar

from cai_conformance.backends.engine.session import evaluate_one, full_logits
from cai_conformance.checks.probe.facts import ModelFacts
from cai_conformance.checks.tolerance.floor import FloorSource, NoiseFloor, NoiseLevel
from cai_conformance.checks.tolerance.policy import Policy
from cai_conformance.engine import Description, Engine, Loaded, Piece
from cai_conformance.fixtures.given_weights import Tensors
from cai_reference.arithmetic import Array
from cai_reference.splitmix import SplitMix64, below

Value = TypeVar("Value")

LONGEST: Final = 48
"""How many tokens the sequence has that most judges share, where the model takes as many."""
FIRST_CONTENT: Final = 2
"""The first id that is drawn: in many vocabularies lower ones open and close sequences."""
SEED: Final = 401
REPEATS: Final = ((6, 2), (9, 4), (10, 5), (21, 11))
"""Places of the shared sequence, and earlier ones whose ids they repeat."""


class ProbedModel(Protocol):
    """A model in an engine, whoever gave it."""

    @property
    def engine(self) -> Engine:
        """What is driven."""
        ...

    @property
    def description(self) -> Description:
        """Who the engine is; after a load, in the format of the model."""
        ...

    @property
    def tensors(self) -> Tensors:
        """The values of the model, by names that `changed` and `by_name` share; empty where they cannot be changed."""
        ...

    def load(self) -> Loaded:
        """Have the model loaded unless it is the one that the engine holds; all slots are empty after a load."""
        ...

    def forget(self) -> None:
        """Load anew at the next call, whatever the engine holds: its weights were trained."""
        ...

    def changed(
        self, name: str, values: Tensors | None = None, precision: str | None = None
    ) -> AbstractContextManager[None]:
        """Let `load` mean a changed model for a while: other values, another format, or both."""
        ...

    def by_name(self, found: Tensors) -> Tensors:
        """Return tensors that the engine named as the model's file does, as `tensors` has them.

        Raises:
            EngineError (answer-out-of-shape): some are missing, unknown or of another shape.
        """
        ...


class ProbeMemory(Protocol):
    """Keeps what several judges share."""

    def remembered(self, name: str, compute: Callable[[], Value]) -> Value:
        """Return what was computed under a name, or compute it now."""
        ...


@dataclass(frozen=True)
class Rounding:
    """What rounding alone may do.

    Attributes:
        of_calls: to rows of the same sequence, evaluated by other calls.
        of_starts: to rows of a sequence that starts elsewhere. Bits are never equal there, in no arithmetic.
        used: the floor that was measured, if any judge asked for it.
    """

    of_calls: Callable[[], NoiseFloor]
    of_starts: Callable[[], NoiseFloor]
    used: Callable[[], NoiseFloor | None]


@dataclass(frozen=True)
class Probe:
    """What the judges of self-consistency look at.

    Attributes:
        model: in its engine.
        facts: what is known of it.
        policy: what may differ.
        rounding: what differs by itself.
        memory: of what judges share.
    """

    model: ProbedModel
    facts: ModelFacts
    policy: Policy
    rounding: Rounding
    memory: ProbeMemory

    @property
    def engine(self) -> Engine:
        """What is driven."""
        return self.model.engine

    @property
    def description(self) -> Description:
        """Who the engine is; after a load, in the format of the model."""
        return self.model.description

    @cached_property
    def vocabulary(self) -> int:
        """How many ids there are: as many as a row of logits has places.

        Raises:
            EngineError: the engine failed.
        """
        if self.facts.vocabulary is not None:
            return self.facts.vocabulary
        self.model.load()
        self.engine.clear(0)
        row = evaluate_one(self.engine, Piece(0, 0, (0,), (0,))).logits
        self.engine.clear(0)
        return int(row.shape[2])

    @cached_property
    def capacity(self) -> int | None:
        """How many tokens a slot can hold; None where the engine does not say.

        Raises:
            EngineError: the engine failed.
        """
        return self.model.load().context

    @cached_property
    def length(self) -> int:
        """How many tokens the shared sequence has."""
        limits = (LONGEST, self.capacity, self.facts.positions)
        return min(limit for limit in limits if limit is not None)

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """The shared sequence: 0, then drawn ids, some of which come again."""
        ids = list(self.drawn(SEED, self.length))
        for place, earlier in REPEATS:
            if place < len(ids):
                ids[place] = ids[earlier]
        return tuple(ids)

    def drawn(self, seed: int, count: int) -> tuple[int, ...]:
        """Return id 0 and drawn ids, `count` in all."""
        generator, first = SplitMix64(seed), min(FIRST_CONTENT, self.vocabulary - 1)
        return (0, *(first + below(generator, self.vocabulary - first) for _ in range(count - 1)))

    def others(self, first: int, count: int) -> tuple[int, ...]:
        """Return ids that stand nowhere where the shared sequence, from place `first` on, has them."""
        return other_ids([self.ids[(first + place) % len(self.ids)] for place in range(count)], self.vocabulary)

    def rows(self) -> Array:
        """Return the logits [heads, tokens, vocabulary] of the shared sequence, evaluated in one call.

        Raises:
            `answer-out-of-shape`, EngineError: the engine failed.
        """
        return self.memory.remembered("rows", lambda: full_logits(self.engine, self.ids))


def other_ids(ids: Sequence[int], vocabulary: int) -> tuple[int, ...]:
    """Return for each id another one."""
    return tuple((token + vocabulary // 2 + 1) % vocabulary for token in ids)


FAR_START: Final = 3000
"""Where a sequence starts late enough that an angle has lost digits."""
NEAR_UNITS, FAR_UNITS = 16.0, 128.0
"""Units of float64. The reference measured up to 7 and 29 on the models of all suites.

Angles in half precision give more than a thousand million."""


def bounded_starts(precision: str) -> NoiseFloor:
    """Return the floor of rows that start elsewhere."""
    near, far = (NoiseLevel((FloorSource("a bound of angles", units, 0.0),)) for units in (NEAR_UNITS, FAR_UNITS))
    return NoiseFloor(precision, near, far, measured=False)
