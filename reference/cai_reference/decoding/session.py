"""The streaming session: a decoder that is fed tokens a few at a time and remembers what it needs.

In `strict/1` its logits have the same bits as the batch path's, however the tokens are chunked, cut back and fed again.
A call that raises leaves the session as it was; a cut is exact or refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape
from cai_reference.decoding.errors import SessionError
from cai_reference.decoding.latent_states import HeadsState, LatentCache, LatentState
from cai_reference.decoding.layer_states import Accounting, AttentionState, GroupedQueryState, LayerState, SsmState
from cai_reference.layers.attention import GroupedQueryAttention
from cai_reference.layers.diagonal_ssm import DiagonalSsm
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.matrices import embedding
from cai_reference.layers.multi_head_attention import Attention
from cai_reference.models.stack import Block, DecoderStack, Norm, TokenLayer


@dataclass(frozen=True)
class SessionOptions:
    """How a session is opened.

    Attributes:
        start: the position of the first token.
        capacity: how many tokens the caches can hold; None for the model's context.
        slack: how many tokens a windowed or recurrent layer can always be cut back.
        latent: what latent attention caches.
    """

    start: int = 0
    capacity: int | None = None
    slack: int = 0
    latent: LatentCache = LatentCache.HEADS


@dataclass(frozen=True)
class Snapshot:
    """A copy of everything that a session remembers; it restores to the same bits."""

    model: DecoderStack
    arithmetic: Arithmetic
    options: SessionOptions
    states: tuple[LayerState, ...]
    length: int


class Session:
    """One sequence being decoded.

    Raises:
        SessionError (invalid-capacity): start or slack is negative, or the capacity below 1.
    """

    def __init__(self, model: DecoderStack, arithmetic: Arithmetic, options: SessionOptions | None = None) -> None:
        self.model = model
        self.arithmetic = arithmetic
        self.options = options or SessionOptions()
        self.capacity = model.configuration.context if self.options.capacity is None else self.options.capacity
        if self.options.start < 0 or self.capacity < 1 or self.options.slack < 0:
            raise SessionError(
                "invalid-capacity", start=self.options.start, capacity=self.capacity, slack=self.options.slack
            )
        self._tape = Tape(arithmetic, recording=False)
        self.reset()

    @property
    def length(self) -> int:
        """How many tokens are remembered."""
        return self._length

    def reset(self) -> None:
        """Forget everything."""
        self._states = tuple(self._empty(block) for block in self.model.blocks)
        self._length = 0

    def feed(self, ids: Sequence[int]) -> list[Array]:
        """Feed tokens and return, for each head, the logits [tokens, vocabulary] after each of them.

        Raises:
            SessionError (nothing-to-feed, token-out-of-range, capacity-exceeded): before anything is computed.
            `non-finite-score`, AutogradError: a number left the range of binary64.
            LayerError (zero-energy-row): a norm without an epsilon met a row of zeros.
        """
        self._check(ids)
        # Overflow is an error with a place, raised by tape and attention, not a warning without one.
        with np.errstate(over="ignore", invalid="ignore"):
            logits, states = self._computed(ids)
        # only now: a call that raises has changed nothing
        self._states, self._length = states, self._length + len(ids)
        return logits

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens, exactly as if the rest had never been fed.

        Raises:
            SessionError (truncation-out-of-range): the session is shorter, or `length` is negative.
            SessionError (truncation-refused): a layer has dropped what it would need.
        """
        if not 0 <= length <= self._length:
            raise SessionError("truncation-out-of-range", requested=length, length=self._length)
        if length == self._length:
            return
        for layer, state in enumerate(self._states):
            # all layers are asked before any is cut
            if length < state.earliest():
                raise SessionError("truncation-refused", layer=layer, requested=length, earliest=state.earliest())
        self._states = tuple(state.truncated(length) for state in self._states)
        self._length = length

    def earliest(self) -> int:
        """Return the smallest length to which the session can be cut."""
        return max((state.earliest() for state in self._states), default=0)

    def snapshot(self) -> Snapshot:
        """Copy everything that is remembered."""
        states = tuple(state.copy() for state in self._states)
        return Snapshot(self.model, self.arithmetic, self.options, states, self._length)

    def restore(self, snapshot: Snapshot) -> None:
        """Return to a snapshot, which stays usable.

        Raises:
            SessionError (snapshot-of-another-model): it was taken of another model, in another arithmetic, or of a
                session opened in
                another way.
        """
        if snapshot.model is not self.model:
            raise SessionError("snapshot-of-another-model", what="model")
        if snapshot.arithmetic != self.arithmetic:
            raise SessionError("snapshot-of-another-model", what="arithmetic")
        if snapshot.options != self.options:
            raise SessionError("snapshot-of-another-model", what="kind of session")
        self._states = tuple(state.copy() for state in snapshot.states)
        self._length = snapshot.length

    def accounting(self) -> tuple[Accounting, ...]:
        """Count the floats of each layer's cache."""
        return tuple(state.accounting() for state in self._states)

    def _check(self, ids: Sequence[int]) -> None:
        if not ids:
            raise SessionError("nothing-to-feed")
        vocabulary = self.model.configuration.vocabulary
        for index, token in enumerate(ids):
            if not 0 <= token < vocabulary:
                raise SessionError("token-out-of-range", index=index, token=token, vocabulary=vocabulary)
        if self._length + len(ids) > self.capacity:
            raise SessionError("capacity-exceeded", length=self._length, count=len(ids), capacity=self.capacity)

    def _computed(self, ids: Sequence[int]) -> tuple[list[Array], tuple[LayerState, ...]]:
        """Return the logits of each head and the states after the tokens; the session's own states stay readable."""
        tape, position = self._tape, self.options.start + self._length
        x = embedding(tape, self.model.table, ids, (len(ids),), zero_id=self.model.zero_id).value
        states: list[LayerState] = []
        for block, state in zip(self.model.blocks, self._states, strict=True):
            x, after = self._through(block, state, x, position)
            states.append(after)
        return [logits.value for logits in self.model.head(tape, tape.constant(x))], tuple(states)

    def _through(
        self, block: Block[Norm, TokenLayer], state: LayerState, x: Array, position: int
    ) -> tuple[Array, LayerState]:
        """Run one block on rows [tokens, width]."""
        normed = self._normed(block.norm1, x)
        mixed, after = state.feed(self._tape, normed, position)
        if block.norm2 is None:
            # the order of the batch path, or the bits would differ
            return (x + mixed) + self._fed(block.feed_forward, normed), after
        residual = mixed + x
        return self._fed(block.feed_forward, self._normed(block.norm2, residual)) + residual, after

    def _normed(self, norm: Norm, x: Array) -> Array:
        return norm(self._tape, self._tape.constant(x)).value

    def _fed(self, feed_forward: TokenLayer, x: Array) -> Array:
        return feed_forward(self._tape, self._tape.constant(x)).value

    def _empty(self, block: Block[Norm, TokenLayer]) -> LayerState:
        mixer, width = block.mixer, self.model.table.shape[1]
        if isinstance(mixer, Attention):
            return AttentionState.empty(mixer, width, self.capacity, self.options.slack)
        if isinstance(mixer, GroupedQueryAttention):
            return GroupedQueryState.empty(mixer, self.capacity, self.options.slack)
        if isinstance(mixer, DiagonalSsm):
            return SsmState.empty(mixer, width, self.options.slack)
        if not isinstance(mixer, LatentAttention):
            raise TypeError(f"{type(mixer).__name__} has no streaming state")
        if self.options.latent is LatentCache.HEADS:
            return HeadsState.empty(mixer, width, self.capacity)
        return LatentState.empty(mixer, self.capacity, absorbed=self.options.latent is LatentCache.ABSORBED)
