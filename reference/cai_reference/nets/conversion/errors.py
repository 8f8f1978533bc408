"""What can go wrong between a net and a decoder.

::

    NetError
    └── ConversionError          a net is no decoder of the family, or a decoder does not fit into a net
        ├── NotADecoder          no layer of a class without which there is none
        ├── LayerDiffers         a layer is not the one that a decoder of these sizes has there
        ├── NeuronsDiffer        a layer has other neurons than its class and sizes ask for
        ├── UnusedBias           a bias that no formula reads is not 0
        └── WeightBeyondSingle   a weight is too large for single precision
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.nets.errors import NetError


class ConversionError(NetError):
    """A net is no decoder of the family, or a decoder does not fit into a net."""


@dataclass(eq=False)
class NotADecoder(ConversionError):
    """The net lacks a layer that every decoder of the family has."""

    template = "the net has no {missing}, so it is no decoder or draft of the known family"
    missing: str


@dataclass(eq=False)
class LayerDiffers(ConversionError):
    """The first layer that is not the one that a decoder of the net's sizes has at this place; `aspect` says how."""

    template = "layer {layer}: the {aspect} is {found}, but a decoder of these sizes has {expected} there"
    layer: int
    aspect: str
    expected: str
    found: str


@dataclass(eq=False)
class NeuronsDiffer(ConversionError):
    """A layer has another number of neurons, or a neuron of another size."""

    template = "layer {layer} ({kind}): expected {expected}, found {found}"
    layer: int
    kind: str
    expected: str
    found: str


@dataclass(eq=False)
class UnusedBias(ConversionError):
    """A neuron of a layer that has no biases carries one, which the decoder could not keep."""

    template = "layer {layer} ({kind}): neuron {neuron} has the bias {bias}, but this class has none"
    layer: int
    kind: str
    neuron: int
    bias: float


@dataclass(eq=False)
class WeightBeyondSingle(ConversionError):
    """A weight would become infinite in single precision."""

    template = "{parameter}: {value} is too large for single precision"
    parameter: str
    value: float
