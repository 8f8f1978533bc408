"""The given weights of a suite: what was trained, rounded to values that every precision holds, and read back.

The values are exact in bfloat16, float16 and float32, so that nobody has to train to be judged, in any of these.
"""

from __future__ import annotations

import numpy as np
from safetensors.numpy import save

from cai_conformance.backends.decoder import hugging_face
from cai_conformance.backends.decoder.phases import DecodePhase
from cai_conformance.backends.decoder.sizes import Sizes
from cai_conformance.backends.decoder.weights_layout import WeightsLayout
from cai_conformance.backends.tensor_file import read_tensor_file
from cai_conformance.errors import InputUnreadable
from cai_reference.arithmetic import Array
from cai_reference.models.stack import DecoderStack
from cai_reference.splitmix import SplitMix64

Tensors = dict[str, Array]


def write_given(phase: DecodePhase, values: Tensors) -> bytes:
    """Return the file of a suite's weights, single precision, of values by the reference's names."""
    if phase.weights_layout is WeightsLayout.HUGGING_FACE:
        return hugging_face.write_tensors(values)
    return native_file(values)


def native_file(values: Tensors) -> bytes:
    """Return a file of weights in single precision, by the reference's names."""
    # The writer takes the memory as it lies, so that an array in another order has to be copied.
    return save({name: np.ascontiguousarray(value, dtype=np.float32) for name, value in values.items()})


def read_given(phase: DecodePhase, sizes: Sizes, weights: bytes, *, tied: bool = False) -> DecoderStack:
    """Build the suite's model of its weights; if `tied`, what gives logits comes in equal pairs: 2i + 1 is as 2i.

    Raises:
        InputUnreadable: a tensor is damaged, missing, or of another size.
        CaiReferenceError: there is no model of this vocabulary, or a value is not finite.
    """
    values = native_values(phase, weights)
    file = phase.weights_layout.file
    model = phase.initialized(sizes, _vocabulary(values, file), SplitMix64(0))
    for parameter in model.parameters:
        found = values.get(parameter.name)
        if found is None:
            raise InputUnreadable(file, f"it lacks the tensor {parameter.name!r}")
        if found.size != parameter.value.size:
            problem = f"the tensor {parameter.name!r} has the shape {list(found.shape)}, not {list(parameter.shape)}"
            raise InputUnreadable(file, problem)
        value, axis = found.reshape(parameter.shape), phase.output_axis(parameter)
        parameter.assign(in_pairs(value, axis) if tied and axis is not None else value)
    return model


def native_values(phase: DecodePhase, weights: bytes) -> Tensors:
    """Return the values of a suite's weights in double precision, by the reference's names.

    Raises:
        InputUnreadable: the file is damaged, or has tensors of another model.
    """
    if phase.weights_layout is WeightsLayout.HUGGING_FACE:
        return hugging_face.read_tensors(weights)
    return read_tensor_file(weights, WeightsLayout.NATIVE.file)


def in_pairs(values: Array, axis: int) -> Array:
    """Make an axis come in equal pairs: place 2i + 1 is as place 2i."""
    moved = np.moveaxis(values, axis, -1)
    paired = moved.copy()
    even = moved[..., 0::2]
    paired[..., 1::2] = even[..., : paired[..., 1::2].shape[-1]]
    return np.moveaxis(paired, -1, axis)


def _vocabulary(values: Tensors, file: str) -> int:
    table = next((value for name, value in values.items() if "embedding" in name), None)
    # A table without columns may claim any number of rows.
    if table is None or not table.size:
        raise InputUnreadable(file, "it has no table of embeddings")
    return len(np.atleast_1d(table))
