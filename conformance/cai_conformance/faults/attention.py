"""Faults of attention: scale, sharing of heads, and what a query sees."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Final

import numpy as np

from cai_conformance.faults.fault import FORWARD, SESSION, Family, Place
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import DENSE, WINDOWED, given, run
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Parameter, Tape, Variable, probability
from cai_reference.autograd.features import channels, concatenate, softmax
from cai_reference.autograd.operations import add, reshape, scale
from cai_reference.decoding import attend as streaming
from cai_reference.decoding import latent_states
from cai_reference.decoding.latent_states import LatentState, Projected
from cai_reference.decoding.layer_states import AttentionState, GroupedQueryState, LayerState
from cai_reference.layers import Observe, attention, ignore
from cai_reference.layers.attention import GroupedQueryAttention
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.matrices import Projection
from cai_reference.layers.multi_head_attention import Attention

HIDDEN: Final = -1e30
"""A score that weighs nothing."""


def _scaled(patch: Patch, factor: Callable[[int, int], float]) -> None:
    """Multiply every score by a factor that depends on the number of heads and their width."""
    patch.arguments(
        attention.attend,
        query=lambda call: scale(call.tape, call.query, factor(call.query.shape[1], call.query.shape[-1])),
    )
    patch.arguments(streaming.attend_one, scale=lambda call: call.scale * factor(*call.query.shape))


def _by_model_width(heads: int, width: int) -> float:
    return 1.0 / math.sqrt(heads)


def _unscaled(heads: int, width: int) -> float:
    return math.sqrt(width)


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


_attention = Family(FORWARD, given(DENSE))


@_attention(
    "attention.scale-model-width",
    "scores scaled by the model's width",
    "fwd.oracle",
    seen_in="NVIDIA/Megatron-LM#1501; AI-Hypercomputer/maxtext#1370",
    knob="attention scale",
    kinds="A06",
)
def _scale_model_width(patch: Patch) -> None:
    """The scale is 1/√D of the whole model instead of 1/√w of a head."""
    _scaled(patch, factor=_by_model_width)


@_attention("attention.unscaled", "scores not scaled", "fwd.oracle", knob="attention scale", kinds="A06")
def _unscaled_attention(patch: Patch) -> None:
    """The factor 1/√w is left out."""
    _scaled(patch, factor=_unscaled)


@_attention(
    "attention.groups-strided",
    "shared heads tiled instead of repeated",
    "fwd.oracle",
    seen_in="onnx/onnx#7274; ekzhang/jax-js#180",
    knob="shared heads",
    kinds="A07",
    workloads=given(WINDOWED),
)
def _tiled(patch: Patch) -> None:
    """Query head h reads keys and values of head h mod G, where it should read h div (H/G).

    One shared head, or as many as query heads, hide it.
    """
    # Give query head h the keys of head h mod G, in both paths.
    attend_one = streaming.attend_one

    def wrong(tape: Tape, x: Variable, times: int) -> Variable:
        batch, heads, tokens, width = x.shape

        def pullback(adjoint: Array) -> tuple[Array]:
            return (tape.arithmetic.sum(adjoint.reshape(batch, times, heads, tokens, width), axis=1),)

        return tape.record("tile heads", np.tile(x.value, (1, times, 1, 1)), (x,), pullback)

    def wrong_one(arithmetic: Arithmetic, query: Array, keys: Array, values: Array, factor: float) -> Array:
        times = query.shape[0] // keys.shape[0]
        return attend_one(arithmetic, query, np.tile(keys, (times, 1, 1)), np.tile(values, (times, 1, 1)), factor)

    patch.replace(attention.repeat_heads, wrong)
    patch.replace(attend_one, wrong_one)


@_attention(
    "attention.future-token",
    "one future token is seen",
    "causal.flip",
    seen_in="huggingface/transformers#48745; paiml/entrenar#310",
    kinds="A09",
    places=frozenset({Place.BATCH}),
)
def _future(patch: Patch) -> None:
    """The mask is shifted by one, so that training looks wonderful and decoding does not."""

    # Let a query see the token behind its own.
    def wrong(tape: Tape, scores: Variable, window: int | None = None) -> Variable:
        tokens = scores.shape[-1]
        distance = np.arange(tokens)[:, None] - np.arange(tokens)
        visible = (distance >= -1) & (distance < (tokens if window is None else window))
        weights = probability.normalize_rows(tape.arithmetic, scores.value, visible).probabilities()

        def pullback(adjoint: Array) -> tuple[Array]:
            inner = tape.arithmetic.sum(adjoint * weights, axis=-1, keepdims=True)
            return (weights * (adjoint - inner),)

        return tape.record("causal softmax", weights, (scores,), pullback)

    patch.replace(probability.causal_softmax, wrong)


@_attention(
    "attention.softmax-over-queries",
    "softmax over the wrong axis",
    "causal.flip",
    seen_in="PetrochukM/PyTorch-NLP#2",
    kinds="F01",
    places=frozenset({Place.BATCH}),
)
def _over_queries(patch: Patch) -> None:
    """Weights sum to 1 over queries instead of keys."""

    # Normalise over the queries that see a key.
    def wrong(tape: Tape, scores: Variable, window: int | None = None) -> Variable:
        distance = np.arange(scores.shape[-1])[:, None] - np.arange(scores.shape[-1])
        visible = (distance >= 0) & (distance < (scores.shape[-1] if window is None else window))
        hidden = add(tape, scores, tape.constant(np.where(visible, 0.0, HIDDEN)))
        return softmax(tape, hidden, len(scores.shape) - 2)

    patch.replace(probability.causal_softmax, wrong)


@_attention("attention.keys-and-values-exchanged", "keys and values exchanged", "fwd.oracle")
def _exchanged(patch: Patch) -> None:
    """A slab is cut in the order Q, V, K, or two matrices of one shape change places when they are read."""
    # Take values for keys and keys for values, in both paths.
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

    patch.replace((Attention, "__call__"), call)
    patch.replace((GroupedQueryAttention, "__call__"), call_grouped)
    patch.replace((AttentionState, "feed"), feed)
    patch.replace((GroupedQueryState, "feed"), feed_grouped)


@_attention(
    "attention.heads-unmerged",
    "heads not brought back beside each other",
    "fwd.oracle",
    places=frozenset({Place.BATCH}),
)
def _heads_unmerged(patch: Patch) -> None:
    """The transpose before the reshape is missing, so that tokens are mixed up."""

    # Lay head by head out where tokens should follow each other.
    def wrong(tape: Tape, x: Variable) -> Variable:
        batch, heads, tokens, width = x.shape
        return reshape(tape, x, (batch, tokens, heads * width))

    patch.replace(attention.merge_heads, wrong)


@_attention(
    "mla.scale-nope",
    "latent attention scaled by the content part alone",
    "fwd.oracle",
    seen_in="ollama/ollama#13893; vllm-project/vllm#48658",
    knob="latent scale",
    kinds="M01",
    workloads=given("cai.latent-attention"),
)
def _scaled_by_content(patch: Patch) -> None:
    """The scale is 1/√w where head and rotary part together make 1/√(w + r)."""
    # Scale latent attention by the width of its content part, and leave the rotary part out.
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

    # Elsewhere queries are as wide as values, and the factor is 1.
    patch.replace(attend, wrong)
    patch.replace(projected, wrong_projected)


@_attention(
    "mla.absorbed-scale-latent",
    "absorbed latent attention scaled by the latent's width",
    "mla.absorb run.decode",
    seen_in="vllm-project/vllm#48658",
    kinds="M02",
    places=SESSION,
    workloads=run("cai.latent-attention"),
)
def _absorbed_by_latent(patch: Patch) -> None:
    """The absorbed path divides by √(latent + r), the width of what it multiplies; the other paths are right."""

    # Scale the absorbed path by the width that it multiplies, latent and rotary.
    def scaled(call: SimpleNamespace) -> Array:
        factor = math.sqrt(call.query.shape[1] / (call.latents.shape[1] + call.rope_keys.shape[1]))
        query: Array = call.query * factor
        return query

    patch.arguments((LatentState, "_attend_absorbed"), query=scaled)


ATTENTION: Final = tuple(_attention)
"""What is wrong with attention; windows have a family of their own."""
