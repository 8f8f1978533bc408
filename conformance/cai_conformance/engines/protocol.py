"""What is asked of an engine.

A *slot* holds one sequence. Its first position may be any number, so that a sequence can start late; from then on its
positions follow one another. Rows of logits are asked for by their place among the tokens of a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from cai_conformance.engines.description import Description
from cai_reference.arithmetic import Array


@dataclass(frozen=True)
class Loaded:
    """What an engine made of a model folder.

    Attributes:
        conventions: what it says it follows, by the names of the CONVENTION record; empty if it says nothing.
        context: how many tokens a slot can hold; None if it does not say.
        claimed: sizes that it reports about itself and that nobody can count from outside, such as `cache_bytes`.
    """

    conventions: Mapping[str, str] = field(default_factory=dict)
    context: int | None = None
    claimed: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Piece:
    """Tokens for one slot in a call.

    Attributes:
        slot: which sequence they belong to.
        position: of the first of them; behind the slot's newest one, or any where the slot is empty.
        tokens: at least one.
        wanted: the places among them, ascending, behind which logits are wanted.
    """

    slot: int
    position: int
    tokens: tuple[int, ...]
    wanted: tuple[int, ...]


@dataclass(frozen=True)
class Evaluated:
    """The answer to one piece.

    Attributes:
        logits: float64 [heads, wanted, vocabulary], widened from whatever the engine computes in.
        stages: what was computed on the way, by the reference's names of stages, in the order of computing and without
            a batch axis. Empty where none were asked for.
    """

    logits: Array
    stages: Mapping[str, Array] = field(default_factory=dict)


class Engine(Protocol):
    """An implementation that is driven call by call. A call that raises leaves all slots as they were.

    Every method may raise `EngineError`: `Refused` where it will not do this one thing, `EngineBroken` where nothing
    more can be asked of it.
    """

    @property
    def description(self) -> Description:
        """Who it is, and what it can do; known before anything is loaded."""
        ...

    def load(self, folder: Path, precision: str | None = None) -> Loaded:
        """Load a model folder in a format of `Description.precisions`, its own if None; all slots are empty then."""
        ...

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Evaluate pieces of different slots in one call, and remember their tokens."""
        ...

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        ...

    def close(self) -> None:
        """Let go of everything; nothing is asked afterwards."""
        ...


@runtime_checkable
class DroppingEngine(Protocol):
    """Feature `drop`."""

    def drop(self, slot: int, first: int, last: int | None = None) -> None:
        """Forget positions first … last − 1 of a slot, up to its newest one if `last` is None.

        Raises:
            Refused: what would be needed afterwards is gone, or the range is not at the end and it cannot do that.
        """
        ...


@runtime_checkable
class CopyingEngine(Protocol):
    """Feature `copy`."""

    def copy(self, source: int, target: int) -> None:
        """Make a slot hold what another one holds; they are independent afterwards."""
        ...


@dataclass(frozen=True)
class GenerationOrder:
    """A generation by the engine's own loop.

    Attributes:
        prompt: ids.
        new_tokens: how many at most.
        arm: by which of `Description.arms`.
        stop: an id that ends it, and is part of what is generated; None for none.
        top: for how many of the likeliest ids log-probabilities are wanted for each new token.
    """

    prompt: tuple[int, ...]
    new_tokens: int
    arm: str = "cached"
    stop: int | None = None
    top: int = 0


@dataclass(frozen=True)
class Generated:
    """What an engine generated: ids, and for each of them the likeliest ids with their log-probabilities."""

    ids: tuple[int, ...]
    top: tuple[tuple[tuple[int, float], ...], ...] = ()


@runtime_checkable
class GeneratingEngine(Protocol):
    """Feature `generate`."""

    def generate(self, order: GenerationOrder) -> Generated:
        """Generate greedily from an empty slot of its own."""
        ...


@runtime_checkable
class PoisonableEngine(Protocol):
    """Feature `poison`."""

    def poison(self, value: float) -> None:
        """Fill all memory for cached rows and states that no position owns with a value, which may be NaN."""
        ...


@runtime_checkable
class FailingEngine(Protocol):
    """Feature `fail-after`."""

    def fail_after(self, layers: int) -> None:
        """Raise `Refused` in the next call of `evaluate`, behind so many blocks."""
        ...
