"""Faults of latent attention: which part is turned, what is cached, and what the absorbed path folds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from cai_conformance.faults.fault import FORWARD, Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import given, run
from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.decoding import latent_states
from cai_reference.decoding.latent_states import LatentState, Projected
from cai_reference.decoding.layer_states import apply, turn_heads
from cai_reference.layers import latent_attention
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.observation import Observe, ignore
from cai_reference.layers.projection import Dense
from cai_reference.layers.rope import Frequencies, Rope, RopeLayout, rotate

SESSION: Final = frozenset({Place.SESSION})
SUITE: Final = "cai.latent-attention"


@dataclass(frozen=True)
class _TurnedLatent:
    """A map to latents that are turned by their positions."""

    latent: Dense
    start: int
    base: float

    def parameters(self) -> Iterator[Parameter]:
        yield from self.latent.parameters()

    def __call__(self, tape: Tape, x: Variable) -> Variable:
        return rotate(tape, self.latent(tape, x), self.start, self.base)


def _latent_turned(planting: Planting) -> None:
    call, projected = LatentAttention.__call__, latent_states.projected

    def wrong(mixer: LatentAttention, tape: Tape, x: Variable, start: int = 0, observe: Observe = ignore) -> Variable:
        turned = cast("Dense", _TurnedLatent(mixer.latent, start, mixer.rope_base))
        return call(replace(mixer, latent=turned), tape, x, start, observe)

    def wrong_projected(tape: Tape, mixer: LatentAttention, x: Array, position: int) -> Projected:
        right = projected(tape, mixer, x, position)
        latent = turn_heads(tape, right.latent, 1, position, Rope(mixer.rope_base))[:, 0, :]
        return Projected(right.query, latent, right.rope_key)

    planting.method(LatentAttention, "__call__", wrong)
    planting.function(projected, wrong_projected)


def _cached_unturned(planting: Planting) -> None:
    projected = latent_states.projected

    def wrong(tape: Tape, mixer: LatentAttention, x: Array, position: int) -> Projected:
        right = projected(tape, mixer, x, position)
        return Projected(right.query, right.latent, apply(tape, mixer.rope_key, x))

    planting.function(projected, wrong)


def _never_turned(planting: Planting) -> None:
    _cached_unturned(planting)

    def wrong(
        tape: Tape,
        x: Variable,
        start: int,
        base: float,
        layout: RopeLayout = RopeLayout.ADJACENT,
        frequencies: Frequencies = Frequencies.EXPONENTIAL,
    ) -> Variable:
        # The shared key has no axis of heads.
        return x if len(x.shape) == 3 else rotate(tape, x, start, base, layout, frequencies)

    planting.name(latent_attention, "rotate", wrong)


def _without_bias(dense: Dense) -> Dense:
    return replace(dense, bias=Parameter(dense.bias.name, np.zeros(dense.bias.shape)))


def _folded_without_value_bias(planting: Planting) -> None:
    absorbed = LatentState._attend_absorbed

    def wrong(state: LatentState, tape: Tape, query: Array, latents: Array, rope_keys: Array) -> Array:
        mixer = replace(state.mixer, value=_without_bias(state.mixer.value))
        return absorbed(replace(state, mixer=mixer), tape, query, latents, rope_keys)

    planting.method(LatentState, "_attend_absorbed", wrong)


def _folded_without_key_bias(planting: Planting) -> None:
    absorbed = LatentState._attend_absorbed

    def wrong(state: LatentState, tape: Tape, query: Array, latents: Array, rope_keys: Array) -> Array:
        mixer = replace(state.mixer, key=_without_bias(state.mixer.key))
        return absorbed(replace(state, mixer=mixer), tape, query, latents, rope_keys)

    planting.method(LatentState, "_attend_absorbed", wrong)


LATENT: Final = (
    Fault(
        "mla.latent-turned",
        "the latent is turned by its position",
        "Positions belong to the shared key alone; here keys and values are made from a latent that was turned.",
        "onnxruntime/mobius#548",
        FORWARD,
        _latent_turned,
        kinds=("M03",),
        vehicles=given(SUITE),
        expected=("fwd.oracle",),
    ),
    Fault(
        "mla.key-never-turned",
        "the shared key is not turned",
        "Queries are turned, the key that all heads share is not. Position 0 hides it.",
        "onnxruntime/mobius#548",
        FORWARD,
        _never_turned,
        kinds=("M04",),
        vehicles=given(SUITE),
        expected=("fwd.oracle", "rope.shift"),
    ),
    Fault(
        "mla.key-cached-unturned",
        "the shared key is cached before it is turned",
        "The batch path is right, and the cache holds the key as it was projected.",
        "onnxruntime/mobius#548",
        SESSION,
        _cached_unturned,
        kinds=("M04",),
        vehicles=given(SUITE, "cai.hybrid"),
        expected=("kv.split", "kv.steps"),
    ),
    Fault(
        "mla.folded-without-value-bias",
        "the absorbed path forgets the bias of the values",
        "Weights are folded into the output and the bias is not. A fresh model, whose biases are 0, hides it.",
        "",
        SESSION,
        _folded_without_value_bias,
        vehicles=(*given(SUITE), *run(SUITE)),
        expected=("gen.given", "mla.absorb"),
    ),
    Fault(
        "mla.folded-without-key-bias",
        "the absorbed path forgets the bias of the keys",
        "q·(c W + b) is taken for (W q)·c.",
        "",
        SESSION,
        _folded_without_key_bias,
        vehicles=given(SUITE),
        equivalent="q·b is the same number for every key, and softmax forgets what all scores have in common",
    ),
)
"""What is wrong with latent attention; its scales are among the faults of attention."""
