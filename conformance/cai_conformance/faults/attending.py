"""Faults of attention: scale, sharing of heads, and what a query sees."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from cai_conformance.faults.fault import FORWARD, Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import DENSE, WINDOWED, given, run
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import (
    Parameter,
    Tape,
    Variable,
    add,
    channels,
    concatenate,
    probability,
    reshape,
    scale,
    softmax,
)
from cai_reference.decoding import attend as streaming
from cai_reference.decoding import latent_states
from cai_reference.decoding.latent_states import LatentState, Projected
from cai_reference.decoding.layer_states import AttentionState, GroupedQueryState, LayerState
from cai_reference.layers import attention, grouped_query_attention, latent_attention
from cai_reference.layers.attention import Attention
from cai_reference.layers.grouped_query_attention import GroupedQueryAttention
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.observation import Observe, ignore
from cai_reference.layers.projection import Projection

HIDDEN: Final = -1e30
"""A score that weighs nothing."""


def _scaled(planting: Planting, factor: Callable[[int, int], float]) -> None:
    """Multiply every score by a factor that depends on the number of heads and their width."""
    attend, attend_one = attention.attend, streaming.attend_one

    def wrong(
        tape: Tape, query: Variable, key: Variable, value: Variable, window: int | None, observe: Observe = ignore
    ) -> Variable:
        scaled = scale(tape, query, factor(query.shape[1], query.shape[-1]))
        return attend(tape, scaled, key, value, window, observe)

    def wrong_one(arithmetic: Arithmetic, query: Array, keys: Array, values: Array, right: float) -> Array:
        return attend_one(arithmetic, query, keys, values, right * factor(query.shape[0], query.shape[1]))

    planting.function(attend, wrong)
    planting.function(attend_one, wrong_one)


def _by_model_width(heads: int, width: int) -> float:
    return 1.0 / math.sqrt(heads)


def _unscaled(heads: int, width: int) -> float:
    return math.sqrt(width)


def _tiled(planting: Planting) -> None:
    """Give query head h the keys of head h mod G, in both paths."""
    attend_one = streaming.attend_one

    def wrong(tape: Tape, x: Variable, times: int) -> Variable:
        batch, heads, tokens, width = x.shape

        def pullback(adjoint: Array) -> tuple[Array]:
            return (tape.arithmetic.sum(adjoint.reshape(batch, times, heads, tokens, width), axis=1),)

        return tape.record("tile heads", np.tile(x.value, (1, times, 1, 1)), (x,), pullback)

    def wrong_one(arithmetic: Arithmetic, query: Array, keys: Array, values: Array, factor: float) -> Array:
        times = query.shape[0] // keys.shape[0]
        return attend_one(arithmetic, query, np.tile(keys, (times, 1, 1)), np.tile(values, (times, 1, 1)), factor)

    planting.function(grouped_query_attention.repeat_heads, wrong)
    planting.function(attend_one, wrong_one)


def _future(planting: Planting) -> None:
    """Let a query see the token behind its own."""

    def wrong(tape: Tape, scores: Variable, window: int | None = None) -> Variable:
        tokens = scores.shape[-1]
        distance = np.arange(tokens)[:, None] - np.arange(tokens)
        visible = (distance >= -1) & (distance < (tokens if window is None else window))
        weights = probability.normalize_rows(tape.arithmetic, scores.value, visible).probabilities()

        def pullback(adjoint: Array) -> tuple[Array]:
            inner = tape.arithmetic.sum(adjoint * weights, axis=-1, keepdims=True)
            return (weights * (adjoint - inner),)

        return tape.record("causal softmax", weights, (scores,), pullback)

    planting.function(probability.causal_softmax, wrong)


def _over_queries(planting: Planting) -> None:
    """Normalise over the queries that see a key."""

    def wrong(tape: Tape, scores: Variable, window: int | None = None) -> Variable:
        distance = np.arange(scores.shape[-1])[:, None] - np.arange(scores.shape[-1])
        visible = (distance >= 0) & (distance < (scores.shape[-1] if window is None else window))
        hidden = add(tape, scores, tape.constant(np.where(visible, 0.0, HIDDEN)))
        return softmax(tape, hidden, len(scores.shape) - 2)

    planting.function(probability.causal_softmax, wrong)


def _heads_unmerged(planting: Planting) -> None:
    """Lay head by head out where tokens should follow each other."""

    def wrong(tape: Tape, x: Variable) -> Variable:
        batch, heads, tokens, width = x.shape
        return reshape(tape, x, (batch, tokens, heads * width))

    planting.function(attention.merge_heads, wrong)


@dataclass(frozen=True)
class _ExchangedSlab:
    """A slab whose last two thirds have changed places."""

    slab: Projection

    def parameters(self) -> Iterator[Parameter]:
        yield from self.slab.parameters()

    def __call__(self, tape: Tape, x: Variable) -> Variable:
        slab = self.slab(tape, x)
        third = slab.shape[-1] // 3
        return concatenate(tape, [channels(tape, slab, part * third, (part + 1) * third) for part in (0, 2, 1)])


def _exchanged(planting: Planting) -> None:
    """Take values for keys and keys for values, in both paths."""
    attention_call, grouped_call = Attention.__call__, GroupedQueryAttention.__call__
    attention_feed, grouped_feed = AttentionState.feed, GroupedQueryState.feed

    def of_slab(mixer: Attention) -> Attention:
        return replace(mixer, slab=_ExchangedSlab(mixer.slab))

    def of_matrices(mixer: GroupedQueryAttention) -> GroupedQueryAttention:
        return replace(mixer, key=mixer.value, value=mixer.key)

    def call(mixer: Attention, tape: Tape, x: Variable, start: int = 0, observe: Observe = ignore) -> Variable:
        return attention_call(of_slab(mixer), tape, x, start, observe)

    def call_grouped(
        mixer: GroupedQueryAttention, tape: Tape, x: Variable, start: int = 0, observe: Observe = ignore
    ) -> Variable:
        return grouped_call(of_matrices(mixer), tape, x, start, observe)

    def feed(state: AttentionState, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        mixed, after = attention_feed(replace(state, mixer=of_slab(state.mixer)), tape, x, position)
        assert isinstance(after, AttentionState)
        return mixed, replace(after, mixer=state.mixer)

    def feed_grouped(state: GroupedQueryState, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        mixed, after = grouped_feed(replace(state, mixer=of_matrices(state.mixer)), tape, x, position)
        assert isinstance(after, GroupedQueryState)
        return mixed, replace(after, mixer=state.mixer)

    planting.method(Attention, "__call__", call)
    planting.method(GroupedQueryAttention, "__call__", call_grouped)
    planting.method(AttentionState, "feed", feed)
    planting.method(GroupedQueryState, "feed", feed_grouped)


def _scaled_by_content(planting: Planting) -> None:
    """Scale latent attention by the width of its content part, and leave the rotary part out."""
    attend, projected = attention.attend, latent_states.projected

    def wrong(
        tape: Tape, query: Variable, key: Variable, value: Variable, window: int | None, observe: Observe = ignore
    ) -> Variable:
        scaled = scale(tape, query, math.sqrt(query.shape[-1] / value.shape[-1]))
        return attend(tape, scaled, key, value, window, observe)

    def wrong_projected(tape: Tape, mixer: LatentAttention, x: Array, position: int) -> Projected:
        right = projected(tape, mixer, x, position)
        whole = right.query.shape[2]
        factor = math.sqrt(whole / (whole - mixer.rope_width))
        return Projected(right.query * factor, right.latent, right.rope_key)

    planting.name(latent_attention, "attend", wrong)
    planting.function(projected, wrong_projected)


def _absorbed_by_latent(planting: Planting) -> None:
    """Scale the absorbed path by the width that it multiplies, latent and rotary."""
    absorbed = LatentState._attend_absorbed

    def wrong(state: LatentState, tape: Tape, query: Array, latents: Array, rope_keys: Array) -> Array:
        factor = math.sqrt(query.shape[1] / (latents.shape[1] + rope_keys.shape[1]))
        return absorbed(state, tape, query * factor, latents, rope_keys)

    planting.method(LatentState, "_attend_absorbed", wrong)


ATTENDING: Final = (
    Fault(
        "attention.scale-model-width",
        "scores scaled by the model's width",
        "The scale is 1/√D of the whole model instead of 1/√w of a head.",
        "NVIDIA/Megatron-LM#1501; AI-Hypercomputer/maxtext#1370",
        FORWARD,
        partial(_scaled, factor=_by_model_width),
        "attention scale",
        kinds=("A06",),
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
    Fault(
        "attention.unscaled",
        "scores not scaled",
        "The factor 1/√w is left out.",
        "",
        FORWARD,
        partial(_scaled, factor=_unscaled),
        "attention scale",
        kinds=("A06",),
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
    Fault(
        "attention.groups-strided",
        "shared heads tiled instead of repeated",
        "Query head h reads keys and values of head h mod G, where it should read h div (H/G). One shared head, or as"
        " many as query heads, hide it.",
        "onnx/onnx#7274; ekzhang/jax-js#180",
        FORWARD,
        _tiled,
        "shared heads",
        kinds=("A07",),
        vehicles=given(WINDOWED),
        expected=("fwd.oracle",),
    ),
    Fault(
        "attention.future-token",
        "one future token is seen",
        "The mask is shifted by one, so that training looks wonderful and decoding does not.",
        "huggingface/transformers#48745; paiml/entrenar#310",
        frozenset({Place.BATCH}),
        _future,
        kinds=("A09",),
        vehicles=given(DENSE),
        expected=("causal.flip",),
    ),
    Fault(
        "attention.softmax-over-queries",
        "softmax over the wrong axis",
        "Weights sum to 1 over queries instead of keys.",
        "PetrochukM/PyTorch-NLP#2",
        frozenset({Place.BATCH}),
        _over_queries,
        kinds=("F01",),
        vehicles=given(DENSE),
        expected=("causal.flip",),
    ),
    Fault(
        "attention.keys-and-values-exchanged",
        "keys and values exchanged",
        "A slab is cut in the order Q, V, K, or two matrices of one shape change places when they are read.",
        "",
        FORWARD,
        _exchanged,
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
    Fault(
        "attention.heads-unmerged",
        "heads not brought back beside each other",
        "The transpose before the reshape is missing, so that tokens are mixed up.",
        "",
        frozenset({Place.BATCH}),
        _heads_unmerged,
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
    Fault(
        "mla.scale-nope",
        "latent attention scaled by the content part alone",
        "The scale is 1/√w where head and rotary part together make 1/√(w + r).",
        "ollama/ollama#13893; vllm-project/vllm#48658",
        FORWARD,
        _scaled_by_content,
        "latent scale",
        kinds=("M01",),
        vehicles=given("cai.latent-attention"),
        expected=("fwd.oracle",),
    ),
    Fault(
        "mla.absorbed-scale-latent",
        "absorbed latent attention scaled by the latent's width",
        "The absorbed path divides by √(latent + r), the width of what it multiplies; the other paths are right.",
        "vllm-project/vllm#48658",
        frozenset({Place.SESSION}),
        _absorbed_by_latent,
        kinds=("M02",),
        vehicles=run("cai.latent-attention"),
        expected=("mla.absorb", "run.decode"),
    ),
)
"""What is wrong with attention; windows have a family of their own."""
