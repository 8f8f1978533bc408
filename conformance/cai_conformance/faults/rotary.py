"""Faults of rotary positions: which features are paired, how fast they turn, and from which position."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from cai_conformance.faults.fault import FORWARD, Fault
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import COURSE, DENSE, WINDOWED, given, run
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable
from cai_reference.decoding import layer_states
from cai_reference.layers import rope
from cai_reference.layers.rope import Frequencies, Rope, RopeLayout, Rotation


def _layout(planting: Planting, layout: RopeLayout) -> None:
    turn = rope.turn

    def wrong(x: Array, cosines: Array, sines: Array, _layout: RopeLayout = RopeLayout.ADJACENT) -> Array:
        return turn(x, cosines, sines, layout)

    planting.function(turn, wrong)


def _clockwise(planting: Planting) -> None:
    turn = rope.turn

    def wrong(x: Array, cosines: Array, sines: Array, layout: RopeLayout = RopeLayout.ADJACENT) -> Array:
        return turn(x, cosines, -sines, layout)

    planting.function(turn, wrong)


def _unturned(planting: Planting) -> None:
    def wrong(x: Array, cosines: Array, sines: Array, layout: RopeLayout = RopeLayout.ADJACENT) -> Array:
        return x + 0.0

    planting.function(rope.turn, wrong)


def _tables(planting: Planting, base: float | None = None, ahead: int = 0, narrow: bool = False) -> None:
    """Make the tables of another base or start, or of angles in half precision."""
    rotation = rope.rotation

    def wrong(
        arithmetic: Arithmetic,
        start: int,
        positions: int,
        width: int,
        right_base: float,
        frequencies: Frequencies = Frequencies.EXPONENTIAL,
    ) -> Rotation:
        used = right_base if base is None else base
        if not narrow:
            return rotation(arithmetic, start + ahead, positions, width, used, frequencies)
        exponents = (-2.0 * np.arange(width // 2, dtype=np.float64)) / float(width)
        thetas = arithmetic.exp(exponents * arithmetic.log(used))
        angles = np.arange(start, start + positions, dtype=np.float64)[:, None] * thetas
        rounded = angles.astype(np.float16).astype(np.float64)
        return Rotation(arithmetic.cos(rounded), arithmetic.sin(rounded))

    planting.function(rotation, wrong)


def _queries_only(planting: Planting) -> None:
    """Leave keys as they are. In every mixer, in both paths, queries are turned first and keys second."""
    rotate, turn_heads = rope.rotate, layer_states.turn_heads
    calls = 0

    def of_query() -> bool:
        nonlocal calls
        calls += 1
        return calls % 2 == 1

    def wrong(
        tape: Tape,
        x: Variable,
        start: int,
        base: float,
        layout: RopeLayout = RopeLayout.ADJACENT,
        frequencies: Frequencies = Frequencies.EXPONENTIAL,
    ) -> Variable:
        return rotate(tape, x, start, base, layout, frequencies) if of_query() else x

    def wrong_heads(tape: Tape, rows: Array, heads: int, position: int, turning: Rope) -> Array:
        if of_query():
            return turn_heads(tape, rows, heads, position, turning)
        return rows.reshape(rows.shape[0], heads, -1)

    planting.function(rotate, wrong)
    planting.function(turn_heads, wrong_heads)


ROTARY: Final = (
    Fault(
        "rope.half-split",
        "rotary pairs half-split instead of adjacent",
        "Features j and j + width/2 are turned together where 2j and 2j + 1 should be. Position 0 and heads two wide"
        " hide it, and so does every comparison of the backend with itself.",
        "huggingface/transformers#25199; NeuraLegion/shainet#111",
        FORWARD,
        partial(_layout, layout=RopeLayout.HALF_SPLIT),
        "rope layout",
        kinds=("A01",),
        vehicles=given(COURSE, "cai.kv-cache"),
        expected=("fwd.oracle",),
    ),
    Fault(
        "rope.adjacent",
        "rotary pairs adjacent instead of half-split",
        "Features 2j and 2j + 1 are turned together where j and j + width/2 should be.",
        "huggingface/transformers#25199; jmaczan/tiny-vllm#4",
        FORWARD,
        partial(_layout, layout=RopeLayout.ADJACENT),
        "rope layout",
        kinds=("A01",),
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
    *(
        Fault(
            f"rope.base-{base}",
            f"rotary base {base}",
            "A usual base is used instead of the one that the model states; short prompts show it least.",
            "rasbt/LLMs-from-scratch#838; huggingface/transformers#40462",
            FORWARD,
            partial(_tables, base=float(base)),
            "rope base",
            vehicles=given(suite),
            expected=("fwd.oracle",),
        )
        for base, suite in ((10000, DENSE), (500000, WINDOWED), (1000000, DENSE))
    ),
    Fault(
        "rope.start-plus-one",
        "positions start at 1",
        "Every token is turned as if it stood one place later. Scores depend on distances only, so that logits hide it;"
        " queries and keys show it.",
        "karpathy/nanochat#264",
        FORWARD,
        partial(_tables, ahead=1),
        "rope start",
        vehicles=run(DENSE),
        expected=("fwd.stage",),
    ),
    Fault(
        "rope.start-minus-one",
        "positions start at −1",
        "Every token is turned as if it stood one place earlier; only queries and keys show it.",
        "",
        FORWARD,
        partial(_tables, ahead=-1),
        "rope start",
        vehicles=run(DENSE),
        expected=("fwd.stage",),
    ),
    Fault(
        "rope.clockwise",
        "rotary pairs turned the other way",
        "Angles have the wrong sign, so that a key looks as far ahead as it lies behind.",
        "huggingface/transformers#39687",
        FORWARD,
        _clockwise,
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
    Fault(
        "rope.none",
        "nothing is turned",
        "Queries and keys have no positions.",
        "",
        FORWARD,
        _unturned,
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
    Fault(
        "rope.angles-in-half-precision",
        "angles in half precision",
        "Angles are rounded to float16 before sine and cosine. Near position 0 nothing shows; at 3000 everything does.",
        "huggingface/transformers#29285; huggingface/candle#3698",
        FORWARD,
        partial(_tables, narrow=True),
        kinds=("A05",),
        vehicles=given(DENSE),
        expected=("fwd.oracle", "rope.shift"),
    ),
    Fault(
        "attention.keys-unrotated",
        "only queries are turned",
        "Keys are cached and scored without their positions.",
        "huggingface/transformers#25199; onnxruntime/mobius#548",
        FORWARD,
        _queries_only,
        kinds=("A04",),
        vehicles=given(DENSE, "cai.kv-cache"),
        expected=("fwd.oracle", "rope.shift"),
    ),
)
"""What is wrong with positions in a forward pass; positions of sessions are among the faults of caches."""
