"""What can go wrong while a net is made or run."""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.nets.errors import NetError


@dataclass(eq=False)
class GraphError(NetError):
    """A net cannot be made of a file, or run."""


@dataclass(eq=False)
class NetTokenOutOfRange(GraphError):
    """An id that the embedding has no row for, or that is no number."""

    template = "position {position}: id {token} is not below the {vocabulary} of the embedding"
    position: int
    token: float
    vocabulary: int


@dataclass(eq=False)
class LearnedDoesNotFit(GraphError):
    """Arrays of other shapes than the structure of a layer calls for: of its weights, then of its biases."""

    template = "layer {layer} ({kind}) learns arrays of shapes {expected}, and was given {given}"
    layer: int
    kind: str
    expected: tuple[tuple[int, ...], ...]
    given: tuple[tuple[int, ...], ...]


@dataclass(eq=False)
class WrongInput(GraphError):
    """Ids or values of another shape than the net can read."""

    template = "the net reads [examples, 1 to {context} tokens, {depth}], and was given {shape}"
    context: int
    depth: int
    shape: tuple[int, ...]


@dataclass(eq=False)
class FixedLength(GraphError):
    """A net in which tokens become channels, given fewer of them than its sizes speak of."""

    template = "the net reads {context} tokens and no fewer, since they become channels; it was given {tokens}"
    tokens: int
    context: int


@dataclass(eq=False)
class WrongGradient(GraphError):
    """A gradient that does not have the shape of the output."""

    template = "a gradient of shape {given} is not one of an output of shape {expected}"
    given: tuple[int, ...]
    expected: tuple[int, ...]


@dataclass(eq=False)
class NonFiniteOutput(GraphError):
    """A layer's output left the range of binary64."""

    template = "layer {layer} ({kind}) gives numbers that are not finite"
    layer: int
    kind: str


@dataclass(eq=False)
class NetSessionError(NetError):
    """A streaming session on a net was asked for what it cannot do."""


@dataclass(eq=False)
class NotStreamable(NetSessionError):
    """A layer looks at the whole sequence at once."""

    template = "layer {layer} ({kind}) needs the whole sequence, so the net cannot be streamed"
    layer: int
    kind: str


@dataclass(eq=False)
class NoCapacity(NetSessionError):
    """A session that could hold nothing. The library prints a line and streams without caches."""

    template = "a session needs room for a token at least, not {capacity}"
    capacity: int


@dataclass(eq=False)
class NothingFed(NetSessionError):
    """A step without tokens, or a question about the newest step before there was any."""

    template = "no token was fed"


@dataclass(eq=False)
class CacheOverflow(NetSessionError):
    """The caches are full. The library prints a line, and the stale output of the step before flows on."""

    template = "the caches hold {length} of {capacity} tokens, {tokens} more do not fit"
    length: int
    tokens: int
    capacity: int


@dataclass(eq=False)
class CutOutOfRange(NetSessionError):
    """Caches cannot be cut to a length that they do not have."""

    template = "caches of {length} tokens cannot be cut to {wanted}"
    wanted: int
    length: int


@dataclass(eq=False)
class RecurrenceStays(NetSessionError):
    """A layer that keeps one state cannot be cut back. The library cuts the caches alone."""

    template = "layer {layer} ({kind}) keeps one state, which cannot be cut back to {wanted} tokens; restore a snapshot"
    layer: int
    kind: str
    wanted: int


@dataclass(eq=False)
class EvictionRefused(NetSessionError):
    """Caches cannot keep so many sinks and recent tokens."""

    template = "{sinks} sinks and {recent} recent tokens: {reason}"
    sinks: int
    recent: int
    reason: str


@dataclass(eq=False)
class QuantisationRefused(NetSessionError):
    """Caches change their format only while they are empty, and 8-bit caches are not copied."""

    template = "{reason}"
    reason: str


@dataclass(eq=False)
class ForeignSnapshot(NetSessionError):
    """A snapshot of a session of another kind."""

    template = "the snapshot holds {what} of widths {given}, the session of widths {expected}"
    what: str
    given: tuple[int, ...]
    expected: tuple[int, ...]


@dataclass(eq=False)
class SnapshotTooLong(NetSessionError):
    """A snapshot that the caches have no room for."""

    template = "the snapshot needs room for {needed} tokens, the caches have room for {capacity}"
    needed: int
    capacity: int
