"""What the course's checkpoint holds: tokenizer, model, optimiser, selected step, generator (chapter 35).

It holds no cache, no gradient, no schedule, no place in the data, and nothing that says which corpus it was. The
learning rate in it is the optimiser's own one, whatever a schedule made of it.

Records: what stands in the payload, and the table in the header that describes it (course, chapter 35).

Every record has a role, a name that is unique in its role, numbers of one kind, and a shape. The table gives the place
of its bytes from the start of the file; the payload has no gaps and the order of the table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import Final, TypeAlias

import numpy as np

from cai_course.errors import CourseCheckpointError
from cai_reference.arithmetic import Array
from cai_reference.autograd import first_non_finite
from cai_reference.layers.rms_norm import InverseForm
from cai_reference.layers.rope import Frequencies, RopeLayout
from cai_reference.models.llama import Llama, LlamaConfiguration
from cai_reference.splitmix import SplitMix64
from cai_reference.text.bpe import Pair
from cai_reference.text.tokenizer import BpeTokenizer
from cai_reference.training.adamw import AdamW, AdamWConfiguration, AdamWState, ParameterGroups
from cai_reference.training.errors import Shape
from cai_reference.training.model_kinds import assign_all
from cai_reference.training.state import check_optimizer_state

TRAINING_PAIRS: Final = "training-pairs"


class Role(IntEnum):
    """What a record is for."""

    LITERAL_TOKEN = 1
    BPE_PAIRS = 2
    PARAMETER = 3
    FIRST_MOMENT = 4
    SECOND_MOMENT = 5


class NumberKind(IntEnum):
    """What a record's numbers are."""

    BYTE = 1
    UNSIGNED = 2
    DOUBLE = 3

    @property
    def width(self) -> int:
        """How many bytes a number has."""
        return {NumberKind.BYTE: 1, NumberKind.UNSIGNED: 4, NumberKind.DOUBLE: 8}[self]


@dataclass(frozen=True)
class CheckpointRecord:
    """One record with its bytes."""

    role: Role
    name: str
    kind: NumberKind
    shape: Shape
    data: bytes


@dataclass(frozen=True)
class Descriptor:
    """One line of the table: a record without its bytes, and where they are."""

    role: Role
    name: str
    kind: NumberKind
    shape: Shape
    offset: int
    length: int

    @property
    def expected_length(self) -> int:
        """How many bytes the shape takes."""
        return prod(self.shape) * self.kind.width


def records_of(checkpoint: CourseCheckpoint) -> Iterator[CheckpointRecord]:
    """Yield all records in order: tokenizer; parameters; first and second moment of each name, names sorted."""
    if isinstance(checkpoint.tokenizer, ByteBpe):
        pairs = checkpoint.tokenizer.pairs
        numbers = [number for pair in pairs for number in pair]
        data = struct.pack(f"<{len(numbers)}I", *numbers)
        yield CheckpointRecord(Role.BPE_PAIRS, TRAINING_PAIRS, NumberKind.UNSIGNED, (len(pairs), 2), data)
    else:
        for token, piece in enumerate(checkpoint.tokenizer.pieces):
            yield CheckpointRecord(Role.LITERAL_TOKEN, str(token), NumberKind.BYTE, (len(piece),), piece)
    for parameter in checkpoint.parameters:
        yield _doubles(Role.PARAMETER, parameter.name, parameter.values)
    for name in sorted_bytewise(checkpoint.state.moments):
        moments = checkpoint.state.moments[name]
        yield _doubles(Role.FIRST_MOMENT, name, moments.first)
        yield _doubles(Role.SECOND_MOMENT, name, moments.second)


def sorted_bytewise(names: Iterable[str]) -> list[str]:
    """Return names in the order of their UTF-8 bytes."""
    return sorted(names, key=str.encode)


def _doubles(role: Role, name: str, values: Array) -> CheckpointRecord:
    return CheckpointRecord(role, name, NumberKind.DOUBLE, values.shape, np.ascontiguousarray(values, "<f8").tobytes())


PARAMETERS_OUTSIDE_LAYERS: Final = 2
PARAMETERS_PER_LAYER: Final = 9


@dataclass(frozen=True)
class LiteralTokens:
    """A tokenizer that is a list of byte strings: the one at place i is id i.

    Raises:
        CourseCheckpointError (no-literal-tokens, empty-literal-token, repeated-literal-token): otherwise.
    """

    pieces: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if not self.pieces:
            raise CourseCheckpointError("no-literal-tokens")
        seen: set[bytes] = set()
        for token, piece in enumerate(self.pieces):
            if not piece:
                raise CourseCheckpointError("empty-literal-token", token=token)
            if piece in seen:
                raise CourseCheckpointError("repeated-literal-token", token=token)
            seen.add(piece)

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
        return len(self.pieces)


@dataclass(frozen=True)
class ByteBpe:
    """A byte-pair tokenizer, as its merges in training tokens.

    Raises:
        BpeTokenizerError: a merge is not valid.
    """

    pairs: tuple[Pair, ...]

    def __post_init__(self) -> None:
        self.tokenizer()

    def tokenizer(self) -> BpeTokenizer:
        """Return the tokenizer itself."""
        return BpeTokenizer(self.pairs)

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
        return self.tokenizer().vocabulary_size


CourseTokenizer: TypeAlias = LiteralTokens | ByteBpe


@dataclass(frozen=True)
class NamedValues:
    """A parameter's name and values."""

    name: str
    values: Array


@dataclass(frozen=True)
class CourseCheckpoint:
    """The content of one checkpoint.

    Attributes:
        tokenizer: gives every id of the model its meaning.
        configuration: of the model, which has to be the course's decoder.
        parameters: in registry order.
        optimizer: the hyperparameters.
        groups: what decays; None for everything.
        state: of the optimiser.
        selected_step: the optimiser's.
        generator: the state of the generator that samples, 64 bits.

    Raises:
        `not-the-course-decoder`, `parameter-count`, `parameter-name`, `parameter-extent`, `parameter-not-finite`,
        `tokenizer-vocabulary`,
            CourseCheckpointError (selected-step), TrainingError: looked at in this order.
    """

    tokenizer: CourseTokenizer
    configuration: LlamaConfiguration
    parameters: tuple[NamedValues, ...]
    optimizer: AdamWConfiguration
    groups: ParameterGroups | None
    state: AdamWState
    selected_step: int
    generator: int

    def __post_init__(self) -> None:
        check_course_decoder(self.configuration)
        check_registry(self.configuration, self.parameters)
        if self.tokenizer.vocabulary != self.configuration.vocabulary:
            raise CourseCheckpointError(
                "tokenizer-vocabulary", tokenizer=self.tokenizer.vocabulary, decoder=self.configuration.vocabulary
            )
        if self.selected_step != self.state.step:
            raise CourseCheckpointError("selected-step", selected=self.selected_step, optimizer=self.state.step)
        shapes = {parameter.name: parameter.values.shape for parameter in self.parameters}
        check_optimizer_state(self.state, self.groups, shapes)

    @classmethod
    def of(
        cls,
        tokenizer: CourseTokenizer,
        model: Llama,
        optimizer: AdamW,
        generator: SplitMix64,
        groups: ParameterGroups | None,
    ) -> CourseCheckpoint:
        """Return the checkpoint of a model with its optimiser; `groups` None leaves them out of it."""
        return cls(
            tokenizer,
            model.configuration,
            tuple(NamedValues(parameter.name, parameter.value) for parameter in model.parameters),
            optimizer.configuration,
            groups,
            optimizer.state,
            optimizer.state.step,
            generator.state,
        )

    def model(self) -> Llama:
        """Return a new model with these values."""
        model = Llama.initialize(self.configuration, SplitMix64(0))
        assign_all(model.parameters, [parameter.values for parameter in self.parameters])
        return model

    def adamw(self) -> AdamW:
        """Return a new optimiser that goes on from this state."""
        groups = self.groups
        if groups is None:
            groups = ParameterGroups(tuple(parameter.name for parameter in self.parameters))
        optimizer = AdamW(self.optimizer, groups)
        optimizer.state = self.state
        return optimizer

    def sampling(self) -> SplitMix64:
        """Return a generator that goes on from this state."""
        return SplitMix64(self.generator)


def course_configuration(
    vocabulary: int,
    width: int,
    heads: int,
    feed_forward: int,
    layers: int,
    positions: int,
    rope_base: float,
    epsilon: float,
) -> LlamaConfiguration:
    """Return the course's decoder of these sizes; the rest is fixed (chapters 25 to 32).

    Raises:
        As `LlamaConfiguration`.
    """
    return LlamaConfiguration(
        vocabulary,
        positions,
        width,
        heads,
        feed_forward,
        layers,
        tied=True,
        rope_base=rope_base,
        rope_layout=RopeLayout.ADJACENT,
        rope_frequencies=Frequencies.NEAREST,
        epsilon=epsilon,
        norm=InverseForm.EXPONENTIAL,
    )


def check_course_decoder(sizes: LlamaConfiguration) -> None:
    """Refuse a configuration that differs from the course's in what the file does not say.

    Raises:
        CourseCheckpointError (not-the-course-decoder): with the first field that differs.
    """
    fixed = {
        "tied": (sizes.tied, True),
        "key_value_heads": (sizes.groups, sizes.heads),
        "head_width": (sizes.features * sizes.heads, sizes.width),
        "window": (sizes.window, None),
        "rope_layout": (sizes.rope_layout, RopeLayout.ADJACENT),
        "rope_frequencies": (sizes.rope_frequencies, Frequencies.NEAREST),
        "norm": (sizes.norm, InverseForm.EXPONENTIAL),
    }
    for field, (found, expected) in fixed.items():
        if found != expected:
            raise CourseCheckpointError("not-the-course-decoder", field=field, value=str(getattr(sizes, field)))


def check_registry(sizes: LlamaConfiguration, parameters: tuple[NamedValues, ...]) -> None:
    """Compare parameters with those of a configuration, before a model of its sizes is made.

    Raises:
        CourseCheckpointError (parameter-count, parameter-name, parameter-extent, parameter-not-finite): otherwise.
    """
    expected = PARAMETERS_OUTSIDE_LAYERS + PARAMETERS_PER_LAYER * sizes.layers
    if len(parameters) != expected:
        raise CourseCheckpointError("parameter-count", expected=expected, actual=len(parameters))
    for index, ((name, shape), parameter) in enumerate(zip(course_registry(sizes), parameters, strict=True)):
        if parameter.name != name:
            raise CourseCheckpointError("parameter-name", index=index, expected=name, actual=parameter.name)
        if parameter.values.shape != shape:
            raise CourseCheckpointError("parameter-extent", name=name, expected=shape, actual=parameter.values.shape)
        place = first_non_finite(parameter.values)
        if place is not None:
            raise CourseCheckpointError(
                "parameter-not-finite", name=name, index=place, value=float(parameter.values.flat[place])
            )


def course_registry(sizes: LlamaConfiguration) -> Iterator[tuple[str, Shape]]:
    """Yield name and shape of every parameter of the course's decoder, in registry order."""
    width, inner = sizes.width, sizes.feed_forward
    yield "token_embedding.weight", (sizes.vocabulary, width)
    for layer in range(sizes.layers):
        yield f"blocks.{layer}.attention_norm.gain", (width,)
        for role in ("query", "key", "value", "output"):
            yield f"blocks.{layer}.attention.{role}.weight", (width, width)
        yield f"blocks.{layer}.ffn_norm.gain", (width,)
        for role, shape in (("gate", (width, inner)), ("up", (width, inner)), ("down", (inner, width))):
            yield f"blocks.{layer}.ffn.{role}.weight", shape
    yield "final_norm.gain", (width,)
