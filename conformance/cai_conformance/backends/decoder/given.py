"""The given weights of a suite: what was trained, rounded to values that every precision holds, and read back.

The values are exact in bfloat16, float16 and float32, so that nobody has to train to be judged, in any of these.
"""

from __future__ import annotations

import numpy as np
from safetensors.numpy import load, save

from cai_conformance.backends.decoder import hugging_face
from cai_conformance.backends.decoder.phases import DecodePhase
from cai_conformance.backends.decoder.sizes import Sizes
from cai_conformance.backends.decoder.weights_layout import WeightsLayout
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
    """Build the suite's model of its weights; if `tied`, what gives logits comes in equal pairs: 2i + 1 is as 2i."""
    values = native_values(phase, weights)
    model = phase.initialized(sizes, _vocabulary(values), SplitMix64(0))
    for parameter in model.parameters:
        value, axis = values[parameter.name].reshape(parameter.shape), phase.output_axis(parameter)
        parameter.assign(in_pairs(value, axis) if tied and axis is not None else value)
    return model


def native_values(phase: DecodePhase, weights: bytes) -> Tensors:
    """Return the values of a suite's weights in double precision, by the reference's names."""
    if phase.weights_layout is WeightsLayout.HUGGING_FACE:
        return hugging_face.read_tensors(weights)
    return {name: np.asarray(value, dtype=np.float64) for name, value in load(weights).items()}


def in_pairs(values: Array, axis: int) -> Array:
    """Make an axis come in equal pairs: place 2i + 1 is as place 2i."""
    moved = np.moveaxis(values, axis, -1)
    paired = moved.copy()
    even = moved[..., 0::2]
    paired[..., 1::2] = even[..., : paired[..., 1::2].shape[-1]]
    return np.moveaxis(paired, -1, axis)


def _vocabulary(values: Tensors) -> int:
    return len(next(value for name, value in values.items() if "embedding" in name))
