"""Errors of the model room: the neural n-gram, decoders and drafts.

Sources: course, chapter 23 (the error variants of the n-gram and what their texts carry).
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.errors import CaiReferenceError

Shape = tuple[int, ...]


class ModelError(CaiReferenceError):
    """A model cannot be made or applied."""


class NeuralNgramError(ModelError):
    """The neural n-gram cannot be made or applied."""


@dataclass(eq=False)
class EmptyVocabulary(NeuralNgramError):
    """The vocabulary has no tokens."""

    template = "the vocabulary must hold at least 1 token"


@dataclass(eq=False)
class ZeroContext(NeuralNgramError):
    """The context has no tokens."""

    template = "the context length must be at least 1"


@dataclass(eq=False)
class ZeroEmbeddingWidth(NeuralNgramError):
    """The embedding has no columns."""

    template = "the embedding width must be at least 1"


@dataclass(eq=False)
class ZeroHiddenWidth(NeuralNgramError):
    """The hidden layer has no units."""

    template = "the hidden width must be at least 1"


@dataclass(eq=False)
class EmptyBatch(NeuralNgramError):
    """A batch has no rows."""

    template = "a batch needs at least one row"


@dataclass(eq=False)
class ContextTokenCountMismatch(NeuralNgramError):
    """There are not as many context ids as rows times context length."""

    template = "expected {expected} context tokens, found {actual}"
    expected: int
    actual: int


@dataclass(eq=False)
class BatchContextLengthMismatch(NeuralNgramError):
    """A window is of another length than the model's context."""

    template = "expected windows of {expected} tokens, found {actual}"
    expected: int
    actual: int


@dataclass(eq=False)
class ParameterCountMismatch(NeuralNgramError):
    """A registry holds another number of parameters."""

    template = "expected {expected} parameters, found {actual}"
    expected: int
    actual: int


@dataclass(eq=False)
class ParameterNameMismatch(NeuralNgramError):
    """A parameter of another name stands in the registry. Names are looked at before shapes, index by index."""

    template = "parameter {index}: expected {expected!r}, found {actual!r}"
    index: int
    expected: str
    actual: str


@dataclass(eq=False)
class ParameterShapeMismatch(NeuralNgramError):
    """A parameter has another shape than the configuration asks for."""

    template = "parameter {name!r}: expected shape {expected}, found {actual}"
    name: str
    expected: Shape
    actual: Shape


@dataclass(eq=False)
class MissingTargetRow(NeuralNgramError):
    """There are fewer targets than rows."""

    template = "row {row} has no target"
    row: int


@dataclass(eq=False)
class TargetIdOutOfBounds(NeuralNgramError):
    """A target is beyond the vocabulary. All rows are looked at before the forward pass."""

    template = "row {row}: target {token_id} is not in a vocabulary of {vocabulary_size}"
    row: int
    token_id: int
    vocabulary_size: int


@dataclass(eq=False)
class MaskedTokenOutOfBounds(NeuralNgramError):
    """A mask names an id beyond the vocabulary. Looked at before the forward pass."""

    template = "masked token {token_id} is not in a vocabulary of {vocabulary_size}"
    token_id: int
    vocabulary_size: int


@dataclass(eq=False)
class NoUnmaskedToken(NeuralNgramError):
    """A mask leaves nothing to choose from."""

    template = "every token is masked"


@dataclass(eq=False)
class NonFiniteLogit(NeuralNgramError):
    """A logit is NaN or infinite, masked or not."""

    template = "the logit of token {token_id} is {value}"
    token_id: int
    value: float


class DecoderError(ModelError):
    """A decoder cannot be made or applied."""


@dataclass(eq=False)
class EmptyDecoder(DecoderError):
    """A decoder has no blocks."""

    template = "a decoder needs at least one block"


@dataclass(eq=False)
class SizeTooSmall(DecoderError):
    """A size is below 1."""

    template = "{name} must be at least 1, found {size}"
    name: str
    size: int


@dataclass(eq=False)
class NegativeLayers(DecoderError):
    """A model has any number of layers, also none, but not fewer."""

    template = "there must be at least 0 layers, found {layers}"
    layers: int


@dataclass(eq=False)
class EmptySequence(DecoderError):
    """A forward pass was asked for over no tokens."""

    template = "a sequence needs at least one token"


@dataclass(eq=False)
class SequenceTooLong(DecoderError):
    """A sequence does not fit into the context."""

    template = "{length} tokens do not fit into a context of {context}"
    length: int
    context: int


@dataclass(eq=False)
class NoTargets(DecoderError):
    """A batch has no real target: every row is padding."""

    template = "the batch has no targets"
