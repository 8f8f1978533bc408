"""Faults of latent attention: which part is turned, what is cached, and what the absorbed path folds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Final, cast

import numpy as np

from cai_conformance.faults.fault import FORWARD, SESSION, Family
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import given, run
from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.decoding import latent_states
from cai_reference.decoding.latent_states import LatentState, Projected
from cai_reference.decoding.layer_states import apply, turn_heads
from cai_reference.layers import Observe, ignore
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.projection import Dense
from cai_reference.layers.rope import Rope, rotate

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
        return rotate(tape, self.latent(tape, x), self.start, Rope(self.base))


def _cached_unturned(patch: Patch) -> None:
    projected = latent_states.projected

    def wrong(tape: Tape, mixer: LatentAttention, x: Array, position: int) -> Projected:
        right = projected(tape, mixer, x, position)
        return Projected(right.query, right.latent, apply(tape, mixer.rope_key, x))

    patch.replace(projected, wrong)


def _without_bias(dense: Dense) -> Dense:
    return replace(dense, bias=Parameter(dense.bias.name, np.zeros(dense.bias.shape)))


def _absorbed_by(patch: Patch, changed: Callable[[LatentAttention], LatentAttention]) -> None:
    """Let the absorbed path use another layer."""

    def wrong(call: SimpleNamespace) -> LatentState:
        state: LatentState = call.self
        return replace(state, mixer=changed(state.mixer))

    patch.arguments((LatentState, "_attend_absorbed"), self=wrong)


_latent = Family(SESSION, given(SUITE))


@_latent(
    "mla.latent-turned",
    "the latent is turned by its position",
    "fwd.oracle",
    seen_in="onnxruntime/mobius#548",
    kinds="M03",
    places=FORWARD,
)
def _latent_turned(patch: Patch) -> None:
    """Positions belong to the shared key alone; here keys and values are made from a latent that was turned."""
    call, projected = LatentAttention.__call__, latent_states.projected

    def wrong(mixer: LatentAttention, tape: Tape, x: Variable, start: int = 0, observe: Observe = ignore) -> Variable:
        turned = cast("Dense", _TurnedLatent(mixer.latent, start, mixer.rope_base))
        return call(replace(mixer, latent=turned), tape, x, start, observe)

    def wrong_projected(tape: Tape, mixer: LatentAttention, x: Array, position: int) -> Projected:
        right = projected(tape, mixer, x, position)
        latent = turn_heads(tape, right.latent, 1, position, Rope(mixer.rope_base))[:, 0, :]
        return Projected(right.query, latent, right.rope_key)

    patch.replace((LatentAttention, "__call__"), wrong)
    patch.replace(projected, wrong_projected)


@_latent(
    "mla.key-never-turned",
    "the shared key is not turned",
    "fwd.oracle rope.shift",
    seen_in="onnxruntime/mobius#548",
    kinds="M04",
    places=FORWARD,
)
def _never_turned(patch: Patch) -> None:
    """Queries are turned, the key that all heads share is not. Position 0 hides it."""
    _cached_unturned(patch)
    # The shared key has no axis of heads; nothing else that is turned lacks one.
    patch.around(rotate, lambda right, tape, x, *rest: x if len(x.shape) == 3 else right(tape, x, *rest))


@_latent(
    "mla.key-cached-unturned",
    "the shared key is cached before it is turned",
    "kv.split kv.steps",
    seen_in="onnxruntime/mobius#548",
    kinds="M04",
    workloads=given(SUITE, "cai.hybrid"),
)
def _key_cached_unturned(patch: Patch) -> None:
    """The batch path is right, and the cache holds the key as it was projected."""
    _cached_unturned(patch)


@_latent(
    "mla.folded-without-value-bias",
    "the absorbed path forgets the bias of the values",
    "gen.given mla.absorb",
    workloads=(*given(SUITE), *run(SUITE)),
)
def _folded_without_value_bias(patch: Patch) -> None:
    """Weights are folded into the output and the bias is not. A fresh model, whose biases are 0, hides it."""
    _absorbed_by(patch, lambda mixer: replace(mixer, value=_without_bias(mixer.value)))


@_latent(
    "mla.folded-without-key-bias",
    "the absorbed path forgets the bias of the keys",
    equivalent="q·b is the same number for every key, and softmax forgets what all scores have in common",
)
def _folded_without_key_bias(patch: Patch) -> None:
    """q·(c W + b) is taken for (W q)·c."""
    _absorbed_by(patch, lambda mixer: replace(mixer, key=_without_bias(mixer.key)))


LATENT: Final = tuple(_latent)
"""What is wrong with latent attention; its scales are among the faults of attention."""
