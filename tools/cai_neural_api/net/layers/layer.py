"""What every layer of a graph is: a formula forwards, a formula backwards, and what it has learned.

Values have shape [batch, tokens, depth]. A layer keeps nothing between calls; what its gradient needs is handed back by
`forward`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cai_reference.arithmetic import Arithmetic, Array

Saved: TypeAlias = tuple[Array, ...]
"""What a layer's gradient needs of its forward pass."""

Channels: TypeAlias = slice | NDArray[np.intp]
"""Some channels of a value: a range of them, or a list."""


@dataclass
class Learned:
    """What a layer has learned, or the gradient of it.

    Attributes:
        weights: one array [neurons, size] where all neurons are alike, as in a convolution; otherwise a vector a
            neuron.
        biases: one a neuron, used or not.
    """

    weights: tuple[Array, ...]
    biases: Array

    def like(self) -> Learned:
        """Return zeros of the same shapes."""
        return Learned(tuple(np.zeros(array.shape) for array in self.weights), np.zeros(self.biases.shape))

    def copy(self) -> Learned:
        """Return a copy that shares nothing."""
        return Learned(tuple(array.copy() for array in self.weights), self.biases.copy())

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Weights, then biases."""
        return (*self.weights, self.biases)


@dataclass(frozen=True)
class GradientRules:
    """What the library does to gradients beside their formulas; left out, gradients are exact.

    Attributes:
        limit: the largest magnitude of the gradient that enters a convolution or a sum: beyond it, all entries of the
            example are scaled down. The library's is 100.
        rows: [batch, tokens]: the row of the embedding table that takes the gradient of each place, 0 for none. The
            library remembers ids where it should have forgotten them.
        suppressed: whether biases that are not added take the gradient that they would have if they were; the
            library's do.
    """

    limit: float | None = None
    rows: NDArray[np.intp] | None = None
    suppressed: bool = False


EXACT: Final = GradientRules()


@dataclass(frozen=True)
class SomeChannels:
    """The gradient of an input of which only some channels were read; that of the others is zero.

    Attributes:
        channels: which ones; none stands there twice.
        gradient: [batch, tokens, channels].
        depth: how many channels the input has.
    """

    channels: Channels
    gradient: Array
    depth: int


InputGradient: TypeAlias = Array | SomeChannels
LayerGradients: TypeAlias = tuple[tuple[InputGradient, ...], Learned | None]
"""The gradient of each input, and that of what was learned, summed over the batch."""


class Layer(Protocol):
    """A layer."""

    @property
    def learned(self) -> Learned | None:
        """What it has learned, which an optimiser changes in place; None if there is nothing."""
        ...

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Return the output [batch, tokens, depth], and what the gradient needs; neither is written to later."""
        ...

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """Return the gradients, given that of the output."""
        ...


class Weightless:
    """A layer that has nothing to learn."""

    learned: None = None


def limited(gradient: Array, limit: float | None) -> Array:
    """Scale each example [tokens, depth] down so that no entry is larger than the limit."""
    if limit is None:
        return gradient
    # Two passes that allocate nothing are faster than one over magnitudes.
    largest = np.maximum(np.max(gradient, axis=(1, 2)), -np.min(gradient, axis=(1, 2)))
    if not np.any(largest > limit):
        return gradient
    factors: Array = limit / np.maximum(largest, limit)
    return gradient * factors[:, None, None]
