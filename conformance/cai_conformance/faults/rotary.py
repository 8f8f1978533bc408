"""Faults of rotary positions: which features are paired, how fast they turn, and from which position."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from cai_conformance.faults.fault import FORWARD, Family
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import COURSE, DENSE, WINDOWED, given, run
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable
from cai_reference.decoding import layer_states
from cai_reference.layers import rope
from cai_reference.layers.latent_attention import LatentAttention
from cai_reference.layers.multi_head_attention import Attention
from cai_reference.layers.rope import Frequencies, Rope, RopeLayout, Rotation


def _base(patch: Patch, used: float) -> None:
    """Let every mixer read another base."""
    patch.setting(Rope, "base", used)
    patch.setting(Attention, "rope_base", used)
    patch.setting(LatentAttention, "rope_base", used)


def _started(patch: Patch, ahead: int) -> None:
    patch.arguments(rope.rotation, start=lambda call: call.start + ahead)


def _rounded_angles(
    arithmetic: Arithmetic,
    start: int,
    positions: int,
    width: int,
    base: float,
    frequencies: Frequencies = Frequencies.EXPONENTIAL,
) -> Rotation:
    """Make tables of angles in half precision."""
    exponents = (-2.0 * np.arange(width // 2, dtype=np.float64)) / float(width)
    thetas = arithmetic.exp(exponents * arithmetic.log(base))
    angles = np.arange(start, start + positions, dtype=np.float64)[:, None] * thetas
    rounded = angles.astype(np.float16).astype(np.float64)
    return Rotation(arithmetic.cos(rounded), arithmetic.sin(rounded))


_rotary = Family(FORWARD, given(DENSE))


@_rotary(
    "rope.half-split",
    "rotary pairs half-split instead of adjacent",
    "fwd.oracle",
    seen_in="huggingface/transformers#25199; NeuraLegion/shainet#111",
    knob="rope layout",
    kinds="A01",
    workloads=given(COURSE, "cai.kv-cache"),
)
def _half_split(patch: Patch) -> None:
    """Features j and j + width/2 are turned together where 2j and 2j + 1 should be.

    Position 0 and heads two wide hide it, and so does every comparison of the backend with itself.
    """
    patch.arguments(rope.turn, layout=RopeLayout.HALF_SPLIT)


@_rotary(
    "rope.adjacent",
    "rotary pairs adjacent instead of half-split",
    "fwd.oracle",
    seen_in="huggingface/transformers#25199; jmaczan/tiny-vllm#4",
    knob="rope layout",
    kinds="A01",
)
def _adjacent(patch: Patch) -> None:
    """Features 2j and 2j + 1 are turned together where j and j + width/2 should be."""
    patch.arguments(rope.turn, layout=RopeLayout.ADJACENT)


for _used, _suite in ((10000, DENSE), (500000, WINDOWED), (1000000, DENSE)):
    _rotary(
        f"rope.base-{_used}",
        f"rotary base {_used}",
        "fwd.oracle",
        story="A usual base is used instead of the one that the model states; short prompts show it least.",
        seen_in="rasbt/LLMs-from-scratch#838; huggingface/transformers#40462",
        knob="rope base",
        workloads=given(_suite),
    )(partial(_base, used=float(_used)))


@_rotary(
    "rope.start-plus-one",
    "positions start at 1",
    "fwd.stage",
    seen_in="karpathy/nanochat#264",
    knob="rope start",
    workloads=run(DENSE),
)
def _start_plus_one(patch: Patch) -> None:
    """Every token is turned as if it stood one place later.

    Scores depend on distances only, so that logits hide it; queries and keys show it.
    """
    _started(patch, 1)


@_rotary("rope.start-minus-one", "positions start at −1", "fwd.stage", knob="rope start", workloads=run(DENSE))
def _start_minus_one(patch: Patch) -> None:
    """Every token is turned as if it stood one place earlier; only queries and keys show it."""
    _started(patch, -1)


@_rotary("rope.clockwise", "rotary pairs turned the other way", "fwd.oracle", seen_in="huggingface/transformers#39687")
def _clockwise(patch: Patch) -> None:
    """Angles have the wrong sign, so that a key looks as far ahead as it lies behind."""
    turn = rope.turn

    def wrong(x: Array, cosines: Array, sines: Array, layout: RopeLayout = RopeLayout.ADJACENT) -> Array:
        return turn(x, cosines, -sines, layout)

    patch.replace(turn, wrong)


@_rotary("rope.none", "nothing is turned", "fwd.oracle")
def _unturned(patch: Patch) -> None:
    """Queries and keys have no positions."""

    def wrong(x: Array, cosines: Array, sines: Array, layout: RopeLayout = RopeLayout.ADJACENT) -> Array:
        return x + 0.0

    patch.replace(rope.turn, wrong)


@_rotary(
    "rope.angles-in-half-precision",
    "angles in half precision",
    "fwd.oracle rope.shift",
    seen_in="huggingface/transformers#29285; huggingface/candle#3698",
    kinds="A05",
)
def _angles_in_half_precision(patch: Patch) -> None:
    """Angles are rounded to float16 before sine and cosine. Near position 0 nothing shows; at 3000 everything does."""
    patch.replace(rope.rotation, _rounded_angles)


@_rotary(
    "attention.keys-unrotated",
    "only queries are turned",
    "fwd.oracle rope.shift",
    seen_in="huggingface/transformers#25199; onnxruntime/mobius#548",
    kinds="A04",
    workloads=given(DENSE, "cai.kv-cache"),
)
def _queries_only(patch: Patch) -> None:
    """Keys are cached and scored without their positions."""
    # Leave keys as they are. In every mixer, in both paths, queries are turned first and keys second.
    rotate, turn_heads = rope.rotate, layer_states.turn_heads
    calls = 0

    def of_query() -> bool:
        nonlocal calls
        calls += 1
        return calls % 2 == 1

    def wrong(tape: Tape, x: Variable, start: int, turning: Rope) -> Variable:
        return rotate(tape, x, start, turning) if of_query() else x

    def wrong_heads(tape: Tape, rows: Array, heads: int, position: int, turning: Rope) -> Array:
        if of_query():
            return turn_heads(tape, rows, heads, position, turning)
        return rows.reshape(rows.shape[0], heads, -1)

    patch.replace(rotate, wrong)
    patch.replace(turn_heads, wrong_heads)


ROTARY: Final = tuple(_rotary)
"""What is wrong with positions in a forward pass; positions of sessions are among the faults of caches."""
