"""What an engine is: all that an adapter needs, and all that is asked of one.

An engine loads a model folder, evaluates tokens in slots, and forgets. A *slot* holds one sequence. Its first position
may be any number, so that a sequence can start late; from then on its positions follow one another. Rows of logits are
asked for by their place among the tokens of a call. Everything else is a feature, which an engine lists and has the
methods of.

::

    BackendError
    └── EngineError
        ├── Refused           the engine will not do this one thing, and is as it was before
        └── EngineBroken      it crashed, hung or broke the protocol; nothing more can be asked of it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from cai_conformance.errors import BackendError
from cai_reference.arithmetic import Array
from cai_reference.text.story_batches import StoryBatch

PRECISIONS: Final = ("float64", "float32", "bfloat16", "float16")
"""The formats of numbers that are judged, from fine to coarse."""

MANTISSA_BITS: Final = {"float64": 52, "float32": 23, "bfloat16": 7, "float16": 10}
"""Stored bits of the significand."""


class Feature(StrEnum):
    """What an engine can do besides loading a model and evaluating tokens. What it lacks is skipped, never passed."""

    DROP = "drop"
    """Forget the newest positions of a slot, or a range of them."""
    COPY = "copy"
    """Copy a slot into another one."""
    OBSERVE = "observe"
    """Show the stages of a forward pass."""
    GENERATE = "generate"
    """Generate by a loop of its own."""
    TRAIN = "train"
    """Take optimiser steps, and show loss, gradients, moments and weights."""
    CHECKPOINT = "checkpoint"
    """Write a training to a directory, and go on from there."""
    POISON = "poison"
    """Fill memory that no position owns with a value."""
    FAIL_AFTER = "fail-after"
    """Raise in the middle of a call, to show that nothing is lost."""


class Nondeterminism(StrEnum):
    """What an engine says that its bits may depend on; each includes the ones before it."""

    NONE = "none"
    """On nothing but the model and the tokens of a slot."""
    SHAPE = "shape"
    """On how many tokens and slots are evaluated in one call."""
    BATCH = "batch"
    """On what the other slots of a call hold."""
    RUN = "run"
    """On chance: two runs may differ."""


@dataclass(frozen=True)
class Precision:
    """In which format an engine keeps what; each is one of `PRECISIONS`."""

    weights: str
    activations: str
    cache: str
    accumulation: str
    logits: str

    @classmethod
    def uniform(cls, name: str) -> Precision:
        """Return one format for everything."""
        return cls(name, name, name, name, name)

    @property
    def coarsest(self) -> str:
        """The coarsest of the five formats."""
        used = (self.weights, self.activations, self.cache, self.accumulation, self.logits)
        return min(used, key=lambda name: MANTISSA_BITS[name])


@dataclass(frozen=True)
class Description:
    """Who an engine is, and what it can do.

    Attributes:
        name: what reports call it.
        version: its own.
        arithmetic: `strict/1` or another arithmetic whose bits are defined, or the coarsest of its formats.
        precision: the formats it computes in.
        precisions: the formats it can be asked to load a model in, finest first; empty if it has no choice.
        nondeterminism: what its bits may depend on.
        features: what it can do.
        arms: the decode arms that it runs by a loop of its own, such as `cached`; empty without `generate`.
        slots: how many sequences it can hold at once.
    """

    name: str
    version: str
    arithmetic: str
    precision: Precision
    precisions: tuple[str, ...] = ()
    nondeterminism: Nondeterminism = Nondeterminism.NONE
    features: frozenset[Feature] = frozenset()
    arms: frozenset[str] = frozenset()
    slots: int = 1


ENGINE_TEMPLATES: Final[Mapping[str, str]] = {
    # An engine will not do one thing, and says why; it is as it was before the call.
    "refused": "{engine} refuses {what}: {reason}",
    # An engine crashed, hung, or broke the protocol.
    "engine-broken": "{engine} {problem}",
    # An answer has another shape than what was asked for, or holds what is no number where one is needed.
    "answer-out-of-shape": "{engine} answered {found} where {wanted} was asked for",
}


class EngineError(BackendError):
    """An engine did not do what was asked."""

    templates = ENGINE_TEMPLATES


class Refused(EngineError):
    """An engine will not do one thing, and says why; it is as it was before the call."""

    def __init__(self, engine: str, what: str, reason: str) -> None:
        super().__init__("refused", engine=engine, what=what, reason=reason)
        self.engine = engine
        self.what = what
        self.reason = reason


class EngineBroken(EngineError):
    """An engine crashed, hung, or broke the protocol."""

    def __init__(self, engine: str, problem: str) -> None:
        super().__init__("engine-broken", engine=engine, problem=problem)
        self.engine = engine
        self.problem = problem


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


@dataclass(frozen=True)
class TrainingSettings:
    """AdamW with decoupled decay and clipping by one norm.

    Attributes:
        learning_rate, beta1, beta2, epsilon, weight_decay: of AdamW; epsilon stands outside the root.
        clip: the largest norm of all gradients together; None for no limit.
        decayed: the tensors that decay, by the names of the model folder's file.
    """

    learning_rate: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    clip: float | None
    decayed: tuple[str, ...]


@dataclass(frozen=True)
class TrainingBatch:
    """Sequences to train on.

    Attributes:
        inputs: ids [rows][width], padded with 0 on the right.
        targets: ids [heads][rows][width]; −1 where nothing is to be predicted.
    """

    inputs: tuple[tuple[int, ...], ...]
    targets: tuple[tuple[tuple[int, ...], ...], ...]

    @classmethod
    def of(cls, batch: StoryBatch, heads: int = 1) -> TrainingBatch:
        """Return a batch of stories as rows."""
        width, ids = batch.width, batch.flat_ids
        targets: list[tuple[tuple[int, ...], ...]] = []
        for head in range(heads):
            flat = [-1] * len(ids)
            for place, target in zip(*batch.targets(head), strict=True):
                flat[place] = target
            targets.append(_rows(flat, width))
        return cls(_rows(ids, width), tuple(targets))


@dataclass(frozen=True)
class LossAndGradients:
    """The loss in nats, and the gradient of each tensor by its name in the model folder's file, before clipping."""

    loss: float
    gradients: Mapping[str, Array]


@dataclass(frozen=True)
class OptimizerState:
    """Weights and moments after a step, by the names of the model folder's file, in the shapes of that file."""

    weights: Mapping[str, Array]
    first_moments: Mapping[str, Array]
    second_moments: Mapping[str, Array]


@runtime_checkable
class TrainingEngine(Protocol):
    """Feature `train`. The loss is the mean over real targets; of several heads, the mean of the heads' means."""

    def gradients(self, batch: TrainingBatch) -> LossAndGradients:
        """Return loss and gradients on the present weights; nothing changes."""
        ...

    def start_training(self, settings: TrainingSettings) -> None:
        """Begin with fresh moments on the weights that were loaded last."""
        ...

    def train_step(self, batch: TrainingBatch) -> float:
        """Take one step, and return the loss before it."""
        ...

    def training_state(self) -> OptimizerState:
        """Return what the last step left."""
        ...


def _rows(flat: list[int], width: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(flat[first : first + width]) for first in range(0, len(flat), width))


@dataclass(frozen=True)
class SavedTraining:
    """What an engine says of a checkpoint that it wrote.

    Attributes:
        checksums: whether it notices any byte of it that was changed.
    """

    checksums: bool = False


@runtime_checkable
class CheckpointingEngine(Protocol):
    """Feature `checkpoint`, of an engine that has `train`."""

    def save_training(self, directory: Path) -> SavedTraining:
        """Write all that later steps depend on, but for their batches, into an empty directory; nothing else changes.

        Weights, moments, the number of steps and the settings are written as plain files, which may be read from
        another place.

        Raises:
            Refused: no training has begun.
        """
        ...

    def resume_training(self, directory: Path) -> None:
        """Go on from what was written, whether a training had begun or not; the model of the same folder is loaded.

        Raises:
            Refused: it is not a whole checkpoint, or one of another model. Weights, moments, settings and slots are
                as they were.
        """
        ...
