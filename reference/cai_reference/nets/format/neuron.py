"""What a `.nn` file holds, read: layers as they are stated, and the neurons of each."""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.arithmetic import Array
from cai_reference.nets.structure import LayerSpec


@dataclass(frozen=True, eq=False)
class Neuron:
    """One neuron: a bias and a weight volume.

    Attributes:
        bias: a value of float32; layers that use none keep 0.
        weights: [SizeX · SizeY · Depth] in raw order, index ((SizeX · y) + x) · Depth + d, values of float32. Neurons
            of one shape that were read are rows of one array, which cannot be written to.
        shape: SizeX, SizeY, Depth.
    """

    bias: float
    weights: Array
    shape: tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class NetFile:
    """A net as its file states it: a layer of `specs` has the neurons at the same index.

    A convolution has a neuron for each output channel; an embedding one of (V, 1, D); DyT gamma, beta and alpha; the
    diagonal SSM a_raw, b, c and e; the token shift its mix. Every other layer has none.
    """

    specs: tuple[LayerSpec, ...]
    neurons: tuple[tuple[Neuron, ...], ...]
