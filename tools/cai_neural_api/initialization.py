"""Initial weights, bit for bit those that the library draws.

All numbers come from u = (Random(10000) - 5000) / 5000, rounded to single precision: ten thousand values from -1 to
0.9998. Layers draw in the order of their creation:

============================= ================================== =====================================================
class                         weights                            draws
============================= ================================== =====================================================
embedding                     u · scale                          one a weight
convolution                   u · √(3 / inputs)                  one a weight, neuron after neuron
grouped convolution           u · √(3 / inputs of a group)       one a neuron that is thrown away, then one a weight
token shift                   ½                                  2 + width that are thrown away
norm (γ, β, α)                1, 0, 1                            none
recurrence (a_raw, b, c, e)   0, 1, 1, 1                         none
============================= ================================== =====================================================

Factors are rounded to single precision, and so is each product; biases start as 0 (CAI NEURAL API, `InitDefault` of
each class). The variance of a convolution's weights is thus 1 / inputs, although the library names the rule after He.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from cai_neural_api.format import NetFile, Neuron
from cai_neural_api.format.data_line import Volumes, layer_volumes
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.net.structure import LayerSpec, layer_shapes
from cai_reference.arithmetic import Array

LEVELS: Final = 10000
CONSTANTS: Final = {"TNNetDyT": (1.0, 0.0, 1.0), "TNNetDiagonalSSM": (0.0, 1.0, 1.0, 1.0), "TNNetTokenShift": (0.5,)}
"""What fills each neuron of the classes that draw no weights."""


def initialize(specs: Sequence[LayerSpec], generator: MersenneTwister) -> NetFile:
    """Return a net of these layers as the library would have created it.

    Args:
        specs: the layers, in the order of their creation.
        generator: the process-wide generator as it stands; it moves on.

    Raises:
        NetError: the layers do not fit together.
    """
    specs = tuple(specs)
    volumes = layer_volumes(specs, layer_shapes(specs))
    return NetFile(specs, tuple(_layer(spec, own, generator) for spec, own in zip(specs, volumes, strict=True)))


def _layer(spec: LayerSpec, volumes: Sequence[Volumes], generator: MersenneTwister) -> tuple[Neuron, ...]:
    sizes = [volume for volume in volumes for _ in range(volume.count)]
    constants = CONSTANTS.get(spec.kind)
    if constants is not None:
        if spec.kind == "TNNetTokenShift":
            generator.below_many(LEVELS, 2 + sizes[0].weights)
        filled = zip(sizes, constants, strict=True)
        return tuple(Neuron(0.0, np.full(size.weights, value), size.shape) for size, value in filled)
    if not sizes:
        return ()
    inputs = sizes[0].weights
    if spec.kind == "TNNetEmbedding":
        factor = spec.floats[0]
    else:
        factor = float(np.sqrt(3.0 / inputs))
        if spec.kind == "TNNetGroupedPointwiseConvLinear":
            generator.below_many(LEVELS, len(sizes))
    rows = _draw(len(sizes) * inputs, factor, generator).reshape(len(sizes), inputs)
    return tuple(Neuron(0.0, row, size.shape) for row, size in zip(rows, sizes, strict=True))


def _draw(count: int, factor: float, generator: MersenneTwister) -> Array:
    """Return `count` products in single precision, as doubles."""
    half = LEVELS // 2
    uniform = ((generator.below_many(LEVELS, count) - half) / half).astype(np.float32)
    return (uniform * np.float32(factor)).astype(np.float64)
