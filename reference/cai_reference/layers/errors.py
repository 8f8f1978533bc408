"""Errors of the layer room: initial values, embeddings, linear maps, SwiGLU, RMSNorm, token mixers.

Sources: course, chapters 17–20 and 25, for all but the mixers.
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.errors import CaiReferenceError


class LayerError(CaiReferenceError):
    """A layer cannot be made or applied."""


# ── names and initial values ─────────────────────────────────────────────────────────────────────────────────────────


class InitializationError(LayerError):
    """A parameter cannot be named or initialised."""


@dataclass(eq=False)
class EmptyName(InitializationError):
    """A parameter needs a name."""

    template = "a parameter name is empty"


@dataclass(eq=False)
class EmptyNameSegment(InitializationError):
    """Two dots meet, or a name starts or ends with one."""

    template = "the parameter name has an empty segment at byte {index}"
    index: int


@dataclass(eq=False)
class InvalidNameCharacter(InitializationError):
    """A name holds something else than a–z, 0–9, underscore and dot."""

    template = "the parameter name has byte 0x{byte:02x} at byte {index}; only [a-z0-9_.] are allowed"
    index: int
    byte: int


@dataclass(eq=False)
class ZeroFanIn(InitializationError):
    """A matrix has no inputs."""

    template = "the fan-in must be at least 1"


@dataclass(eq=False)
class ZeroFanOut(InitializationError):
    """A matrix has no outputs."""

    template = "the fan-out must be at least 1"


@dataclass(eq=False)
class DuplicateName(InitializationError):
    """Two parameters share a name."""

    template = "parameter {name!r} stands at positions {first} and {repeated}"
    name: str
    first: int
    repeated: int


# ── embedding ────────────────────────────────────────────────────────────────────────────────────────────────────────


class EmbeddingError(LayerError):
    """A table cannot be looked up."""


@dataclass(eq=False)
class TableRank(EmbeddingError):
    """A table has a vocabulary axis and a width axis."""

    template = "an embedding table has 2 axes, found {rank}"
    rank: int


@dataclass(eq=False)
class EmptyEmbeddingVocabulary(EmbeddingError):
    """A table has no rows."""

    template = "an embedding table needs at least one row"


@dataclass(eq=False)
class ZeroTableWidth(EmbeddingError):
    """A table has no columns."""

    template = "an embedding table needs at least one column"


@dataclass(eq=False)
class TokenShape(EmbeddingError):
    """A token shape has a negative length."""

    template = "token shape {shape} has a negative length"
    shape: tuple[int, ...]


@dataclass(eq=False)
class TokenCountMismatch(EmbeddingError):
    """There are not as many ids as the token shape holds."""

    template = "expected {expected} token ids, found {actual}"
    expected: int
    actual: int


@dataclass(eq=False)
class TokenIdOutOfBounds(EmbeddingError):
    """An id is beyond the table. `position` counts row-major through the token shape."""

    template = "token id {token_id} at position {position} is not in a vocabulary of {vocabulary_size}"
    position: int
    token_id: int
    vocabulary_size: int


# ── linear ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class LinearError(LayerError):
    """A linear map cannot be applied."""


@dataclass(eq=False)
class WeightRank(LinearError):
    """A weight has an input axis and an output axis."""

    template = "a linear weight has 2 axes, found {rank}"
    rank: int


@dataclass(eq=False)
class ZeroInputWidth(LinearError):
    """A weight has no inputs."""

    template = "a linear weight needs at least one input"


@dataclass(eq=False)
class ZeroOutputWidth(LinearError):
    """A weight has no outputs."""

    template = "a linear weight needs at least one output"


@dataclass(eq=False)
class BiasRank(LinearError):
    """A bias has one axis."""

    template = "a bias has 1 axis, found {rank}"
    rank: int


@dataclass(eq=False)
class BiasWidthMismatch(LinearError):
    """A bias has another width than the output."""

    template = "expected a bias of width {expected}, found {actual}"
    expected: int
    actual: int


@dataclass(eq=False)
class InputRank(LinearError):
    """An input needs at least the feature axis and one before it."""

    template = "a linear input has at least 2 axes, found {rank}"
    rank: int


@dataclass(eq=False)
class InputWidthMismatch(LinearError):
    """An input has another width than the weight takes."""

    template = "expected an input of width {expected}, found {actual}"
    expected: int
    actual: int


# ── SwiGLU ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class SwiGluError(LayerError):
    """A SwiGLU layer cannot be applied."""


@dataclass(eq=False)
class ProjectionFailed(SwiGluError):
    """One of the three linear maps failed; the inner error is the cause."""

    template = "{projection} projection: {inner}"
    projection: str
    inner: str


@dataclass(eq=False)
class GateFailed(SwiGluError):
    """The `SiLU gate` or the `elementwise gate` failed; the inner error is the cause."""

    template = "{operation}: {inner}"
    operation: str
    inner: str


@dataclass(eq=False)
class BranchInputWidthMismatch(SwiGluError):
    """Gate and up take different inputs."""

    template = "gate takes {gate} inputs, up takes {up}"
    gate: int
    up: int


@dataclass(eq=False)
class BranchHiddenWidthMismatch(SwiGluError):
    """Gate and up have different outputs."""

    template = "gate has {gate} outputs, up has {up}"
    gate: int
    up: int


@dataclass(eq=False)
class DownInputWidthMismatch(SwiGluError):
    """Down does not take what gate and up make."""

    template = "the hidden width is {hidden}, down takes {down} inputs"
    hidden: int
    down: int


# ── RMSNorm ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class RmsNormError(LayerError):
    """An RMSNorm cannot be made or applied."""


@dataclass(eq=False)
class InvalidNormEpsilon(RmsNormError):
    """An epsilon is finite and not negative."""

    template = "the epsilon of a norm must be finite and not negative, found {epsilon}"
    epsilon: float


@dataclass(eq=False)
class GainShapeMismatch(RmsNormError):
    """A gain is a vector as wide as the rows."""

    template = "expected a gain of shape ({width},), found {shape}"
    width: int
    shape: tuple[int, ...]


@dataclass(eq=False)
class ZeroEnergyRow(RmsNormError):
    """Without an epsilon, a row of zeros (or of numbers whose squares vanish) has no direction to keep.

    `row` counts the rows row-major.
    """

    template = "row {row} has a mean square of zero, and epsilon is zero"
    row: int


# ── attention and recurrence ─────────────────────────────────────────────────────────────────────────────────────────


class MixerError(LayerError):
    """A token mixer is misconfigured."""


@dataclass(eq=False)
class HeadsDoNotDivide(MixerError):
    """The width cannot be split into heads."""

    template = "a width of {width} cannot be split into {heads} heads"
    width: int
    heads: int


@dataclass(eq=False)
class OddRopeWidth(MixerError):
    """Rotary embedding pairs features, so it needs an even number of them."""

    template = "rotary embedding needs an even width, found {width}"
    width: int


@dataclass(eq=False)
class WindowTooSmall(MixerError):
    """A window holds at least the current token; no window at all is None."""

    template = "a window must hold at least 1 token, found {window}"
    window: int


@dataclass(eq=False)
class KeyValueHeadsDoNotDivide(MixerError):
    """Query heads cannot be shared out evenly among the heads of keys and values."""

    template = "{heads} query heads cannot share {key_value_heads} heads of keys and values"
    heads: int
    key_value_heads: int


@dataclass(eq=False)
class InvalidRopeBase(MixerError):
    """Rotary frequencies are powers of a positive finite number."""

    template = "the base of rotary frequencies must be finite and above 0, found {base}"
    base: float
