"""What the course's checkpoint holds: tokenizer, model, optimiser, selected step, generator (chapter 35).

It holds no cache, no gradient, no schedule, no place in the data, and nothing that says which corpus it was. The
learning rate in it is the optimiser's own one, whatever a schedule made of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from cai_reference.arithmetic import Array
from cai_reference.autograd.graph import first_non_finite
from cai_reference.checkpoints.course.errors import (
    EmptyLiteralToken,
    NoLiteralTokens,
    NotTheCourseDecoder,
    ParameterCount,
    ParameterExtent,
    ParameterName,
    ParameterNotFinite,
    RepeatedLiteralToken,
    SelectedStep,
    TokenizerVocabulary,
)
from cai_reference.layers.rms_norm import InverseForm
from cai_reference.layers.rope import Frequencies, RopeLayout
from cai_reference.models.llama import Llama
from cai_reference.models.llama_configuration import LlamaConfiguration
from cai_reference.splitmix import SplitMix64
from cai_reference.text import BpeTokenizer
from cai_reference.text.bpe import Pair
from cai_reference.training.adamw import AdamW, AdamWConfiguration, AdamWState, ParameterGroups
from cai_reference.training.copies import assign_all
from cai_reference.training.errors import Shape
from cai_reference.training.optimizer_state import check_optimizer_state

PARAMETERS_OUTSIDE_LAYERS: Final = 2
PARAMETERS_PER_LAYER: Final = 9


@dataclass(frozen=True)
class LiteralTokens:
    """A tokenizer that is a list of byte strings: the one at place i is id i.

    Raises:
        NoLiteralTokens, EmptyLiteralToken, RepeatedLiteralToken: otherwise.
    """

    pieces: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if not self.pieces:
            raise NoLiteralTokens
        seen: set[bytes] = set()
        for token, piece in enumerate(self.pieces):
            if not piece:
                raise EmptyLiteralToken(token)
            if piece in seen:
                raise RepeatedLiteralToken(token)
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
        NotTheCourseDecoder, ParameterCount, ParameterName, ParameterExtent, ParameterNotFinite, TokenizerVocabulary,
            SelectedStep, OptimizerStateError: looked at in this order.
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
            raise TokenizerVocabulary(self.tokenizer.vocabulary, self.configuration.vocabulary)
        if self.selected_step != self.state.step:
            raise SelectedStep(self.selected_step, self.state.step)
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
        NotTheCourseDecoder: with the first field that differs.
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
            raise NotTheCourseDecoder(field, str(getattr(sizes, field)))


def check_registry(sizes: LlamaConfiguration, parameters: tuple[NamedValues, ...]) -> None:
    """Compare parameters with those of a configuration, before a model of its sizes is made.

    Raises:
        ParameterCount, ParameterName, ParameterExtent, ParameterNotFinite: otherwise.
    """
    expected = PARAMETERS_OUTSIDE_LAYERS + PARAMETERS_PER_LAYER * sizes.layers
    if len(parameters) != expected:
        raise ParameterCount(expected, len(parameters))
    for index, ((name, shape), parameter) in enumerate(zip(course_registry(sizes), parameters, strict=True)):
        if parameter.name != name:
            raise ParameterName(index, name, parameter.name)
        if parameter.values.shape != shape:
            raise ParameterExtent(name, shape, parameter.values.shape)
        place = first_non_finite(parameter.values)
        if place is not None:
            raise ParameterNotFinite(name, place, float(parameter.values.flat[place]))


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
