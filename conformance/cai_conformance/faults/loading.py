"""Faults of files of weights: what is read, and what is tied again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from cai_conformance.backends.decoder import given as given_weights
from cai_conformance.backends.decoder import hugging_face
from cai_conformance.backends.decoder.given import Tensors
from cai_conformance.backends.decoder.phases import DecodePhase
from cai_conformance.backends.decoder.weights_layout import WeightsLayout
from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import DENSE, WINDOWED, given
from cai_reference.arithmetic import Array
from cai_reference.autograd import Tape, Variable, swap_axes
from cai_reference.layers import bias_free
from cai_reference.layers.bias_free import TiedOutput


def _untied(planting: Planting) -> None:
    """Read the output from a copy of the table that was made when it was first used."""
    copies: dict[int, tuple[Variable, Array]] = {}

    def wrong(output: TiedOutput, tape: Tape, x: Variable) -> Variable:
        # The table is kept beside its copy, so that its identity is not used again.
        _, copy = copies.setdefault(id(output.table), (output.table, output.table.value.copy()))
        return bias_free._product(tape, x, swap_axes(tape, tape.constant(copy), 0, 1))

    planting.method(TiedOutput, "__call__", wrong)


def _read(planting: Planting, changed: Callable[[Tensors], Tensors]) -> None:
    """Change what is read of a file, by the backend and by its engine."""
    native, foreign = given_weights.native_values, hugging_face.read_tensors

    def wrong(phase: DecodePhase, weights: bytes) -> Tensors:
        # Of a folder of engines the other function reads the file.
        values = native(phase, weights)
        return changed(values) if phase.weights_layout is WeightsLayout.NATIVE else values

    def wrong_foreign(data: bytes) -> Tensors:
        return changed(foreign(data))

    planting.function(native, wrong)
    planting.function(foreign, wrong_foreign)


def _half(planting: Planting) -> None:
    def rounded(values: Tensors) -> Tensors:
        return {name: value.astype(np.float16).astype(np.float64) for name, value in values.items()}

    _read(planting, rounded)


def _coarse(planting: Planting) -> None:
    def rounded(values: Tensors) -> Tensors:
        return {name: np.round(value, 3) for name, value in values.items()}

    _read(planting, rounded)


def _blocks_exchanged(planting: Planting) -> None:
    def exchanged(values: Tensors) -> Tensors:
        names = {name: name.replace("blocks.0.", "blocks.?.").replace("blocks.1.", "blocks.0.") for name in values}
        return {names[name].replace("blocks.?.", "blocks.1."): value for name, value in values.items()}

    _read(planting, exchanged)


LOADING: Final = (
    Fault(
        "loading.head-untied",
        "a tied head is untied by loading",
        "Output and table are equal after loading, and only one of them is trained.",
        "NVIDIA-NeMo/Automodel#2511; vec2text/vec2text#94",
        frozenset({Place.TRAINING}),
        _untied,
        kinds=("C05",),
        vehicles=given(WINDOWED),
        expected=("grad.given", "opt.given", "grad.fd"),
    ),
    Fault(
        "loading.half-precision",
        "weights read in half precision",
        "What is read is rounded to float16. Given weights are exact there and hide it; weights that were moved a"
        " little do not.",
        "facebookresearch/metaseq#254",
        frozenset({Place.LOADING}),
        _half,
        kinds=("C03",),
        vehicles=given(DENSE),
        expected=("grad.fd",),
    ),
    Fault(
        "loading.three-digits",
        "weights read with three decimals",
        "A text file holds fewer digits than the weights have.",
        "joaopauloschuler/neural-api#22",
        frozenset({Place.LOADING}),
        _coarse,
        kinds=("C03",),
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
    Fault(
        "loading.blocks-exchanged",
        "blocks read in another order",
        "Names are sorted as text, or from the end; every shape fits.",
        "",
        frozenset({Place.LOADING}),
        _blocks_exchanged,
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
)
"""What is wrong with a model that was read."""
