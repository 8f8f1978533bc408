"""The cache of one attention layer, as chapter 37 has it: one token a call, and only for the layer it was made for.

The keys, the values and the attention itself are the streaming session's own. What this adds is what the course asks
of a cache: that it refuses whatever it was not made for and stays as it was.

The cache of a whole decoder, as chapters 38 and 39 have it: a prompt first, then a token a call, for one model only.

The forward pass is the streaming session's own. What this adds is what the course asks of a cache, and counters:
tokens, rows appended, rows projected, scores computed. Scores are counted as rows that attention has seen, times heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cai_course.errors import CourseError, Refusal
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable
from cai_reference.decoding.attend import weights_of
from cai_reference.decoding.layer_states import GroupedQueryState, apply, by_head, turn_heads
from cai_reference.decoding.session import Session
from cai_reference.errors import CaiReferenceError
from cai_reference.layers.attention import GroupedQueryAttention
from cai_reference.models.llama import Llama, LlamaConfiguration


@dataclass(frozen=True)
class PositionedAttention:
    """An attention layer with as many heads of keys as of queries, for so many positions."""

    mixer: GroupedQueryAttention
    positions: int

    @property
    def width(self) -> int:
        """The model width."""
        return self.mixer.query.weight.shape[0]


@dataclass(frozen=True)
class CachedStep:
    """One token through the layer.

    Attributes:
        output: shape [width].
        keys: of all tokens, rotated, shape [heads, tokens, w].
        values: shape [heads, tokens, w].
        weights: of the new token on all of them, shape [heads, tokens].
    """

    output: Array
    keys: Array
    values: Array
    weights: Array


class CourseLayerCache:
    """Keys and values of one layer, for at most `capacity` tokens."""

    def __init__(self, layer: PositionedAttention, capacity: int, arithmetic: Arithmetic) -> None:
        self.state = GroupedQueryState.empty(layer.mixer, capacity, 0)
        self._layer = layer
        self._capacity = capacity
        self._tape = Tape(arithmetic, recording=False)

    @property
    def length(self) -> int:
        """How many tokens are remembered."""
        return self.state.keys.length

    def remembered(self) -> tuple[int, bytes, bytes]:
        """Return the length and the bits of keys and values; what an unused place holds does not count."""
        return self.length, self.state.keys.rows().tobytes(), self.state.values.rows().tobytes()

    def step(self, layer: PositionedAttention, rows: Array) -> CachedStep:
        """Feed one row [1, width] at the next position.

        Raises:
            CourseError (cache-refused): more than one row, another layer than the cache's own, or no place left.
            `non-finite-score`, AutogradError: a number left the range of binary64.
        """
        self._check(layer, rows)
        mixer, position = layer.mixer, self.length
        with np.errstate(over="ignore", invalid="ignore"):
            output, after = self.state.feed(self._tape, rows, position)
            query = turn_heads(self._tape, apply(self._tape, mixer.query, rows), mixer.heads, position, mixer.rope)
        if not isinstance(after, GroupedQueryState):
            raise TypeError(type(after).__name__)
        self.state = after
        keys, values = (by_head(store.rows(), mixer.heads) for store in (after.keys, after.values))
        return CachedStep(output[0], keys, values, self._weights(query[0], keys))

    def reset(self) -> None:
        """Forget all tokens; the storage stays as it is."""
        self.state = self.state.truncated(0)

    def _weights(self, query: Array, keys: Array) -> Array:
        """Return the weights [heads, tokens] of one query [heads, w], which attention computes and does not keep."""
        arithmetic = self._tape.arithmetic
        scores = arithmetic.matmul(query[:, None, :], np.swapaxes(keys, 1, 2))[:, 0, :]
        return weights_of(arithmetic, scores * (1.0 / math.sqrt(query.shape[1])))

    def _check(self, layer: PositionedAttention, rows: Array) -> None:
        own, mixer = self._layer.mixer, layer.mixer
        same_weights = all(one is other for one, other in zip(own.parameters(), mixer.parameters(), strict=True))
        for refused, refusal in (
            (rows.shape[0] != 1, Refusal.TOKENS),
            (rows.shape[1] != self._layer.width or layer.width != self._layer.width, Refusal.WIDTH),
            (mixer.heads != own.heads, Refusal.HEADS),
            (mixer.rope != own.rope, Refusal.ROPE),
            (layer.positions != self._layer.positions, Refusal.POSITIONS),
            (not same_weights, Refusal.WEIGHTS),
            (self.length >= min(self._capacity, layer.positions), Refusal.FULL),
        ):
            if refused:
                raise CourseError("cache-refused", refusal=refusal)


PROJECTIONS = ("query", "key", "value")
"""What is projected of each new token in each layer."""


@dataclass(frozen=True)
class CacheWork:
    """What a cache has done since it was empty."""

    prefill_tokens: int = 0
    decode_tokens: int = 0
    appends: int = 0
    projected_rows: int = 0
    scores: int = 0


class OpenSession(Session):
    """A session whose layers can be looked at."""

    @property
    def layers(self) -> tuple[GroupedQueryState, ...]:
        """The state of every layer, as it is: not a copy."""
        return tuple(state for state in self._states if isinstance(state, GroupedQueryState))


class DecoderCache:
    """Keys and values of all layers of one model."""

    def __init__(self, model: Llama, arithmetic: Arithmetic) -> None:
        self.session = OpenSession(model, arithmetic)
        self.work = CacheWork()
        self._model = model
        self._revisions = [parameter.revision for parameter in model.parameters]

    @property
    def length(self) -> int:
        """How many tokens are remembered."""
        return self.session.length

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Batch, heads, tokens and head width of a layer's keys."""
        sizes = self._model.configuration
        return 1, sizes.groups, self.session.layers[0].keys.held, sizes.features

    @property
    def layer_lengths(self) -> list[int]:
        """How many tokens each layer remembers."""
        return [state.keys.length for state in self.session.layers]

    def storages(self) -> list[Array]:
        """Return the arrays that hold keys and values, layer by layer: not copies."""
        return [store.storage for state in self.session.layers for store in (state.keys, state.values)]

    def remembered(self) -> tuple[object, ...]:
        """Return length, counters, and the bits of all keys and values; what an unused place holds does not count."""
        rows = [store.rows().tobytes() for state in self.session.layers for store in (state.keys, state.values)]
        return self.length, self.work, rows

    def prefill(self, model: Llama, prompt: Sequence[int]) -> Array:
        """Feed a prompt, one token after the other; return the logits [vocabulary] after its last.

        Raises:
            CourseError (cache-refused): another model, tokens are there already, or the prompt is longer than the
                cache.
            SessionError, AutogradError: as `Session.feed`.
        """
        self._check_model(model)
        if self.length:
            raise CourseError("cache-refused", refusal=Refusal.FILLED)
        if len(prompt) > self.session.capacity:
            raise CourseError("cache-refused", refusal=Refusal.FULL)
        work = self.work
        try:
            rows = [self._fed(token) for token in prompt]
        except CaiReferenceError:
            # It was empty.
            self.session.truncate(0)
            self.work = work
            raise
        self.work = replace(self.work, prefill_tokens=self.work.prefill_tokens + len(prompt))
        return rows[-1]

    def decode(self, model: Llama, token: int) -> Array:
        """Feed one more token; return the logits [vocabulary] after it.

        Raises:
            CourseError (cache-refused): another model, there was no prompt, or the cache is full.
            SessionError, AutogradError: as `Session.feed`.
        """
        self._check_model(model)
        if not self.length:
            raise CourseError("cache-refused", refusal=Refusal.EMPTY)
        if self.length >= self.session.capacity:
            raise CourseError("cache-refused", refusal=Refusal.FULL)
        logits = self._fed(token)
        self.work = replace(self.work, decode_tokens=self.work.decode_tokens + 1)
        return logits

    def reset(self) -> None:
        """Forget all tokens and counters; the storage stays as it is."""
        self.session.truncate(0)
        self.work = CacheWork()

    def _fed(self, token: int) -> Array:
        before = self.layer_lengths
        (rows,) = self.session.feed([token])
        appends = sum(after - earlier for after, earlier in zip(self.layer_lengths, before, strict=True))
        scores = sum(state.mixer.heads * state.keys.visible for state in self.session.layers)
        self.work = replace(
            self.work,
            appends=self.work.appends + appends,
            projected_rows=self.work.projected_rows + len(PROJECTIONS) * appends,
            scores=self.work.scores + scores,
        )
        logits: Array = rows[0]
        return logits

    def _check_model(self, model: Llama) -> None:
        own, other = self._model.parameters, model.parameters
        if len(own) != len(other) or not all(one is two for one, two in zip(own, other, strict=True)):
            raise CourseError("cache-refused", refusal=Refusal.MODEL)
        if model.configuration != self._model.configuration:
            raise CourseError("cache-refused", refusal=Refusal.CONFIGURATION)
        if self._revisions != [parameter.revision for parameter in own]:
            raise CourseError("cache-refused", refusal=Refusal.CHANGED)


class CachedPath:
    """A path of generation through a cache; it notes how long the sequence was at each call."""

    def __init__(self, model: Llama, arithmetic: Arithmetic) -> None:
        self.forwards = 0
        self.prefixes: list[int] = []
        self.cache = DecoderCache(model, arithmetic)
        self._model = model

    def prefill(self, ids: Sequence[int]) -> None:
        """Nothing yet: the cache takes a prompt as a whole, with its last token."""

    def after(self, ids: Sequence[int], newest: int) -> list[Array]:
        """Feed the prompt, or the one token that is new; return the logits [1, vocabulary] after it."""
        self.forwards += 1
        self.prefixes.append(len(ids))
        cache = self.cache
        logits = cache.decode(self._model, ids[-1]) if cache.length else cache.prefill(self._model, ids)
        return [logits[None, :]]

    def keep(self, length: int) -> None:
        """Forget what was fed behind the first `length` tokens."""
        self.cache.session.truncate(length)


@dataclass(frozen=True)
class CompletePrefix:
    """A whole prefix through the model: the logits [vocabulary] after it, and how many scores attention computed."""

    logits: Array
    scores: int


def complete_prefix(model: Llama, ids: Sequence[int], arithmetic: Arithmetic) -> CompletePrefix:
    """Encode a prefix, and count its scores, masked ones included."""
    grids: list[int] = []

    def observe(name: str, value: Variable) -> None:
        if name.endswith(".weights"):
            grids.append(value.value.size)

    (logits,) = model.forward(Tape(arithmetic, recording=False), ids, 1, observe=observe, newest=1)
    return CompletePrefix(logits.value[0, -1], sum(grids))


def complete_scores(sizes: LlamaConfiguration, lengths: Sequence[int]) -> int:
    """Return how many scores the whole prefixes of these lengths take: n² a layer and head."""
    return sizes.layers * sizes.heads * sum(length * length for length in lengths)
