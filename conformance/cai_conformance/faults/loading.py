"""Faults of files of weights: what is read, and what is tied again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from cai_conformance.backends.engine import files
from cai_conformance.faults.fault import TRAINING, Family, Place
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import DENSE, WINDOWED, given
from cai_conformance.fixtures.given_weights import Tensors
from cai_reference.arithmetic import Array
from cai_reference.autograd import Tape, Variable
from cai_reference.autograd.operations import swap_axes
from cai_reference.layers import matrices
from cai_reference.layers.matrices import TiedOutput


def _read(patch: Patch, changed: Callable[[Tensors], Tensors]) -> None:
    """Change what an engine reads of a file. What the suite reads to write a file of its own stays right."""
    patch.arguments(files._filled, values=lambda call: changed(call.values))


_loading = Family(frozenset({Place.LOADING}), given(DENSE))


@_loading(
    "loading.head-untied",
    "a tied head is untied by loading",
    "grad.given opt.given grad.fd",
    seen_in="NVIDIA-NeMo/Automodel#2511; vec2text/vec2text#94",
    kinds="C05",
    places=TRAINING,
    workloads=given(WINDOWED),
)
def _untied(patch: Patch) -> None:
    """Output and table are equal after loading, and only one of them is trained."""
    # Read the output from a copy of the table that was made when it was first used.
    copies: dict[int, tuple[Variable, Array]] = {}

    def wrong(output: TiedOutput, tape: Tape, x: Variable) -> Variable:
        # The table is kept beside its copy, so that its identity is not used again.
        _, copy = copies.setdefault(id(output.table), (output.table, output.table.value.copy()))
        return matrices._product(tape, x, swap_axes(tape, tape.constant(copy), 0, 1))

    patch.replace((TiedOutput, "__call__"), wrong)


@_loading(
    "loading.half-precision",
    "weights read in half precision",
    "grad.fd",
    seen_in="facebookresearch/metaseq#254",
    kinds="C03",
)
def _half(patch: Patch) -> None:
    """What is read is rounded to float16.

    Given weights are exact there and hide it; weights that were moved a little do not.
    """

    def rounded(values: Tensors) -> Tensors:
        return {name: value.astype(np.float16).astype(np.float64) for name, value in values.items()}

    _read(patch, rounded)


@_loading(
    "loading.three-digits",
    "weights read with three decimals",
    "fwd.oracle",
    seen_in="joaopauloschuler/neural-api#22",
    kinds="C03",
)
def _coarse(patch: Patch) -> None:
    """A text file holds fewer digits than the weights have."""

    def rounded(values: Tensors) -> Tensors:
        return {name: np.round(value, 3) for name, value in values.items()}

    _read(patch, rounded)


@_loading("loading.blocks-exchanged", "blocks read in another order", "fwd.oracle")
def _blocks_exchanged(patch: Patch) -> None:
    """Names are sorted as text, or from the end; every shape fits."""

    def exchanged(values: Tensors) -> Tensors:
        names = {name: name.replace("blocks.0.", "blocks.?.").replace("blocks.1.", "blocks.0.") for name in values}
        return {names[name].replace("blocks.?.", "blocks.1."): value for name, value in values.items()}

    _read(patch, exchanged)


LOADING: Final = tuple(_loading)
"""What is wrong with a model that was read."""
