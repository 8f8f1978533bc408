"""Pointwise convolutions: a linear map of each token, dense or in groups, with or without a ReLU.

Dense: y[t,f] = Σ_d W[f,d] · x[t,d] + b[f]. In G groups, output f belongs to group f div (n/G) and reads only the
contiguous inputs of its group. A suppressed bias is stored but not added, so that its exact gradient is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.nets.graph.layers.layer import GradientRules, InputGradient, Learned, Saved, limited


@dataclass(frozen=True)
class PointwiseConvolution:
    """TNNetPointwiseConvLinear, and TNNetPointwiseConvReLU where `rectified`. Weights [outputs, inputs]."""

    learned: Learned
    biased: bool = True
    rectified: bool = False

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Map [batch, tokens, inputs] to [batch, tokens, outputs]."""
        (x,) = inputs
        weight = self.learned.weights[0]
        raw = arithmetic.matmul(x.reshape(-1, x.shape[2]), weight.T).reshape(*x.shape[:2], weight.shape[0])
        if self.biased:
            raw += self.learned.biases
        return (np.maximum(raw, 0.0), (x, raw)) if self.rectified else (raw, (x,))

    def backward(
        self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules
    ) -> tuple[tuple[InputGradient, ...], Learned | None]:
        """Return dx = g W, dW = gᵀ x, db = Σ g; the rectified layer passes where its sum is not negative."""
        x = saved[0]
        passed = limited(gradient, rules.limit)
        if self.rectified:
            passed = np.where(saved[1] >= 0.0, passed, 0.0)
        weight = self.learned.weights[0]
        rows = passed.reshape(-1, weight.shape[0])
        weights = arithmetic.matmul(rows.T, x.reshape(-1, x.shape[2]))
        biases = arithmetic.sum(rows, axis=0) if self.biased or rules.suppressed else np.zeros(weight.shape[0])
        return (arithmetic.matmul(rows, weight).reshape(x.shape),), Learned((weights,), biases)


@dataclass(frozen=True)
class GroupedConvolution:
    """TNNetGroupedPointwiseConvLinear: weights [outputs, inputs / groups]. Its gradient is never limited."""

    learned: Learned
    groups: int
    biased: bool = True

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Map [batch, tokens, inputs] to [batch, tokens, outputs], group by group."""
        (x,) = inputs
        weight = self._by_group()
        split = self._split(x)
        mapped = arithmetic.matmul(split, np.swapaxes(weight, 1, 2))
        y = np.swapaxes(mapped, 0, 1).reshape(*x.shape[:2], -1)
        if self.biased:
            y += self.learned.biases
        return y, (x,)

    def backward(
        self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules
    ) -> tuple[tuple[InputGradient, ...], Learned | None]:
        """Each group's gradients are those of a dense map of its own."""
        (x,) = saved
        weight = self._by_group()
        split, passed = self._split(x), self._split(gradient)
        weights = arithmetic.matmul(np.swapaxes(passed, 1, 2), split).reshape(self.learned.weights[0].shape)
        inputs = np.swapaxes(arithmetic.matmul(passed, weight), 0, 1).reshape(x.shape)
        outputs = self.learned.biases.size
        moves = self.biased or rules.suppressed
        biases = arithmetic.sum(gradient.reshape(-1, outputs), axis=0) if moves else np.zeros(outputs)
        return (inputs,), Learned((weights,), biases)

    def _by_group(self) -> Array:
        weight = self.learned.weights[0]
        return weight.reshape(self.groups, -1, weight.shape[1])

    def _split(self, x: Array) -> Array:
        """Turn [batch, tokens, depth] into [groups, batch · tokens, depth / groups]."""
        return np.swapaxes(x.reshape(x.shape[0] * x.shape[1], self.groups, -1), 0, 1)
