"""Projections without bias: a matrix of one's own, or the embedding table transposed.

Both add the gradient of their matrix in two steps: over the rows of each sequence, then over the sequences of a batch,
each sum ascending (course, chapters 26 to 39). `Dense` adds over all rows of a batch at once. The values are the same;
the gradients differ by rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cai_reference.autograd import Parameter, Tape, Variable, matmul, reshape, swap_axes
from cai_reference.layers.initialization import xavier_uniform
from cai_reference.splitmix import SplitMix64


@dataclass(frozen=True)
class BiasFree:
    """y = x W, with W [inputs, outputs]."""

    weight: Parameter

    @classmethod
    def initialize(cls, name: str, inputs: int, outputs: int, generator: SplitMix64) -> BiasFree:
        """Draw W by Xavier's rule."""
        return cls(xavier_uniform(f"{name}.weight", inputs, outputs, generator))

    def parameters(self) -> Iterator[Parameter]:
        """Yield W."""
        yield self.weight

    def __call__(self, tape: Tape, x: Variable) -> Variable:
        """Map [..., inputs] to [..., outputs]."""
        return _product(tape, x, self.weight)


@dataclass(frozen=True)
class TiedOutput:
    """y = x Eᵀ, with the embedding table E [vocabulary, width]: a logit is the product with a token's own embedding.

    The table is one parameter in two roles, whose gradients add up. It stands at the front of the registry, so it is
    not listed here again (Press and Wolf, "Using the output embedding to improve language models", 2017).
    """

    table: Parameter

    def parameters(self) -> Iterator[Parameter]:
        """Yield nothing."""
        yield from ()

    def __call__(self, tape: Tape, x: Variable) -> Variable:
        """Map [..., width] to [..., vocabulary]."""
        return _product(tape, x, swap_axes(tape, self.table, 0, 1))


def _product(tape: Tape, x: Variable, matrix: Variable) -> Variable:
    """Multiply rows with a matrix that is repeated for every sequence, so that each gives a gradient of its own."""
    repeated = (1,) * (len(x.shape) - 2)
    return matmul(tape, x, reshape(tape, matrix, (*repeated, *matrix.shape)))
