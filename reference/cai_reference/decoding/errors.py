"""Errors of the decoding room: sessions, caches, arms. A session that raises one is as it was before the call."""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.errors import CaiReferenceError


class DecodingError(CaiReferenceError):
    """A sequence cannot be decoded as asked."""


class SessionError(DecodingError):
    """A streaming session refuses a call."""


@dataclass(eq=False)
class NothingToFeed(SessionError):
    """A feed needs at least one token."""

    template = "a session is fed at least one token"


@dataclass(eq=False)
class TokenOutOfRange(SessionError):
    """An id is beyond the vocabulary. `index` counts within the fed tokens."""

    template = "token {token} at index {index} is not in a vocabulary of {vocabulary}"
    index: int
    token: int
    vocabulary: int


@dataclass(eq=False)
class CapacityExceeded(SessionError):
    """More tokens than the caches can hold."""

    template = "{length} cached tokens and {count} new ones do not fit into a capacity of {capacity}"
    length: int
    count: int
    capacity: int


@dataclass(eq=False)
class InvalidCapacity(SessionError):
    """A session holds at least one token and starts at a position that is not negative."""

    template = "a session cannot start at position {start} with capacity {capacity} and slack {slack}"
    start: int
    capacity: int
    slack: int


@dataclass(eq=False)
class TruncationOutOfRange(SessionError):
    """A session can only be cut to a length between 0 and its own."""

    template = "a session of {length} tokens cannot be cut to {requested}"
    requested: int
    length: int


@dataclass(eq=False)
class TruncationRefused(SessionError):
    """What the layer needs after the cut has been dropped: rows of a ring, or states of a recurrence."""

    template = "layer {layer} cannot be cut to {requested} tokens: it can go back to {earliest} and no further"
    layer: int
    requested: int
    earliest: int


@dataclass(eq=False)
class SnapshotOfAnotherModel(SessionError):
    """A snapshot belongs to another model, another arithmetic, or a session with other caches."""

    template = "the snapshot was taken of another {what}"
    what: str


@dataclass(eq=False)
class NonFiniteScore(SessionError):
    """A score of attention is not finite. `key` counts within the visible ones, oldest first."""

    template = "head {head} scores visible key {key} with {value}"
    head: int
    key: int
    value: float


class ArmError(DecodingError):
    """A decode arm cannot start."""


@dataclass(eq=False)
class EmptyPrompt(ArmError):
    """A prompt has no tokens."""

    template = "a prompt needs at least one token"


@dataclass(eq=False)
class PromptTooLong(ArmError):
    """A prompt leaves no room in the context."""

    template = "a prompt of {length} tokens leaves no room in a context of {context}"
    length: int
    context: int
