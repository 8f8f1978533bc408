"""Layers that only move channels about, add them or change their sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.nets.graph.layers.layer import (
    Channels,
    GradientRules,
    InputGradient,
    Learned,
    Saved,
    SomeChannels,
    limited,
)


@dataclass(frozen=True)
class Sum:
    """TNNetSum: the elementwise sum of its inputs, in the order of the list."""

    inputs: int
    learned: None = None

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Add from the left."""
        total = inputs[0]
        for other in inputs[1:]:
            total = total + other
        return total, ()

    def backward(
        self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules
    ) -> tuple[tuple[InputGradient, ...], Learned | None]:
        """Every input takes the whole gradient, limited."""
        return (limited(gradient, rules.limit),) * self.inputs, None


@dataclass(frozen=True)
class Concatenation:
    """TNNetDeepConcat: its inputs side by side along the depth."""

    learned: None = None

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Concatenate."""
        return np.concatenate(inputs, axis=2), tuple(inputs)

    def backward(
        self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules
    ) -> tuple[tuple[InputGradient, ...], Learned | None]:
        """Each input takes its part."""
        ends = accumulate((part.shape[2] for part in saved), initial=0)
        return tuple(gradient[..., first:last] for first, last in pairwise(ends)), None


@dataclass(frozen=True)
class ChannelChoice:
    """TNNetSplitChannels: some channels, in the order of the list; TNNetInterleaveChannels: all of them, permuted.

    Attributes:
        channels: channel i of the output is the i-th of these of the input.
        repeats: whether one of them is picked twice.
    """

    channels: Channels
    repeats: bool
    learned: None = None

    @classmethod
    def of(cls, sources: Sequence[int]) -> ChannelChoice:
        """Pick `sources`; neighbours are a slice, of which NumPy makes a view instead of a copy."""
        first, count = sources[0], len(sources)
        if list(sources) == list(range(first, first + count)):
            return cls(slice(first, first + count), repeats=False)
        return cls(np.array(sources, np.intp), repeats=len(set(sources)) < count)

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Pick."""
        return inputs[0][..., self.channels], (inputs[0],)

    def backward(
        self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules
    ) -> tuple[tuple[InputGradient, ...], Learned | None]:
        """Put back; a channel that was picked twice takes both gradients, one that was not takes none."""
        (x,) = saved
        if isinstance(self.channels, slice) or not self.repeats:
            return (SomeChannels(self.channels, gradient, x.shape[2]),), None
        back = np.zeros(x.shape)
        np.add.at(np.moveaxis(back, 2, 0), self.channels, np.moveaxis(gradient, 2, 0))
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
    ) -> tuple[tuple[InputGradient, ...], Learned | None]:
        """Change it back."""
        return (-gradient,), None
