"""Layers that only move channels about, add them or change their sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.nets.graph.layers.layer import GradientRules, Learned, Saved, limited


@dataclass(frozen=True)
class Sum:
    """TNNetSum: the elementwise sum of its inputs, in the order of the list."""

    learned: None = None

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Add from the left."""
        total = inputs[0]
        for other in inputs[1:]:
            total = total + other
        return total, (np.array(len(inputs), np.float64),)

    def backward(
        self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules
    ) -> tuple[tuple[Array, ...], Learned | None]:
        """Every input takes the whole gradient, limited."""
        return (limited(gradient, rules.limit),) * int(saved[0]), None


@dataclass(frozen=True)
class Concatenation:
    """TNNetDeepConcat: its inputs side by side along the depth."""

    learned: None = None

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Concatenate."""
        return np.concatenate(inputs, axis=2), tuple(inputs)

    def backward(
        self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules
    ) -> tuple[tuple[Array, ...], Learned | None]:
        """Each input takes its part."""
        ends = [0]
        for part in saved:
            ends.append(ends[-1] + part.shape[2])
        return tuple(gradient[..., first:last] for first, last in pairwise(ends)), None


@dataclass(frozen=True)
class ChannelChoice:
    """TNNetSplitChannels: some channels, in the order of the list; TNNetInterleaveChannels: all of them, permuted.

    Channel i of the output is channel `sources[i]` of the input.
    """

    sources: NDArray[np.intp]
    learned: None = None

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Pick."""
        (x,) = inputs
        return x[..., self.sources], (np.array(x.shape[2], np.float64),)

    def backward(
        self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules
    ) -> tuple[tuple[Array, ...], Learned | None]:
        """Put back; a channel that was picked twice takes both gradients, one that was not takes none."""
        back = np.zeros((*gradient.shape[:2], int(saved[0])))
        if np.unique(self.sources).size == self.sources.size:
            back[..., self.sources] = gradient
        else:
            for place, channel in enumerate(self.sources):
                back[..., channel] += gradient[..., place]
        return (back,), None


@dataclass(frozen=True)
class Negate:
    """TNNetNegate: y = −x."""

    learned: None = None

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Change the sign."""
        return -inputs[0], ()

    def backward(
        self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules
    ) -> tuple[tuple[Array, ...], Learned | None]:
        """Change it back."""
        return (-gradient,), None
