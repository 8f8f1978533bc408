"""How many neurons each layer has, and of which sizes: what the structure line says about the data line.

Source: CAI NEURAL API, the learnable layer classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cai_reference.nets.shapes import Shape
from cai_reference.nets.structure import LayerSpec


@dataclass(frozen=True)
class Volumes:
    """Neurons in a row that have one shape: how many, and SizeX, SizeY, Depth of each."""

    count: int
    shape: tuple[int, int, int]

    @property
    def weights(self) -> int:
        """How many weights each neuron has."""
        size_x, size_y, depth = self.shape
        return size_x * size_y * depth


def layer_volumes(specs: Sequence[LayerSpec], shapes: Sequence[Shape]) -> tuple[tuple[Volumes, ...], ...]:
    """Return the neurons of every layer, those of one shape taken together.

    Args:
        specs: the layers of a net.
        shapes: their output shapes, as `layer_shapes` derives them.
    """
    return tuple(
        volumes_of(spec, shapes[spec.previous].depth if spec.previous >= 0 else 0, shape.depth)
        for spec, shape in zip(specs, shapes, strict=True)
    )


def volumes_of(spec: LayerSpec, width: int, depth: int) -> tuple[Volumes, ...]:
    """Return the neurons of one layer that reads `width` channels and gives `depth`."""
    match spec.kind:
        case "TNNetEmbedding":
            return (Volumes(1, (spec.integers[0], 1, depth)),)
        case "TNNetPointwiseConvLinear" | "TNNetPointwiseConvReLU":
            return (Volumes(depth, (1, 1, width)),)
        case "TNNetGroupedPointwiseConvLinear":
            return (Volumes(depth, (1, 1, width // spec.integers[5])),)
        case "TNNetDyT":
            return (Volumes(2, (1, 1, depth)), Volumes(1, (1, 1, 1)))
        case "TNNetDiagonalSSM":
            return (Volumes(4, (1, 1, depth)),)
        case "TNNetTokenShift":
            return (Volumes(1, (1, 1, depth)),)
        case _:
            return ()
