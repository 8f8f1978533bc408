"""Layers with a vector a channel to learn: the dynamic tanh, the token shift, the diagonal recurrence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import sigmoid
from cai_reference.nets.graph.layers.layer import GradientRules, InputGradient, Learned, Saved


@dataclass(frozen=True)
class DynamicTanh:
    """TNNetDyT: y = γ · tanh(α x) + β. Weights: γ [depth], β [depth], α [1]."""

    learned: Learned

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Squash and scale each channel."""
        (x,) = inputs
        gamma, beta, alpha = self.learned.weights
        squashed = arithmetic.tanh(alpha * x)
        return (gamma * squashed) + beta, (x, squashed)

    def backward(
        self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules
    ) -> tuple[tuple[InputGradient, ...], Learned | None]:
        """dγ = Σ g t, dβ = Σ g, dα = Σ g γ x (1 − t²), dx = g γ α (1 − t²), with t = tanh(α x)."""
        x, squashed = saved
        gamma, _, alpha = self.learned.weights
        steep = gradient * gamma * (1.0 - squashed * squashed)
        total = arithmetic.sum
        learned = (
            total(gradient * squashed, axis=(0, 1)),
            total(gradient, axis=(0, 1)),
            total(steep * x).reshape(1),
        )
        return (steep * alpha,), Learned(learned, np.zeros(3))


@dataclass(frozen=True)
class TokenShift:
    """TNNetTokenShift: y[t] = m · x[t] + (1 − m) · x[t−1], with x[−1] = 0. Weights: m [depth]."""

    learned: Learned

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Mix each token with the one before it."""
        (x,) = inputs
        (mix,) = self.learned.weights
        before = np.zeros(x.shape)
        before[:, 1:] = x[:, :-1]
        return (mix * x) + ((1.0 - mix) * before), (x, before)

    def backward(
        self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules
    ) -> tuple[tuple[InputGradient, ...], Learned | None]:
        """Return dm = Σ g[t] (x[t] − x[t−1]); dx[t] = g[t] m + g[t+1] (1 − m)."""
        x, before = saved
        (mix,) = self.learned.weights
        later = np.zeros(x.shape)
        later[:, :-1] = gradient[:, 1:]
        weights = arithmetic.sum(gradient * (x - before), axis=(0, 1))
        return ((gradient * mix) + (later * (1.0 - mix)),), Learned((weights,), np.zeros(1))


@dataclass(frozen=True)
class DiagonalSsm:
    """TNNetDiagonalSSM: h[t] = a · h[t−1] + b · x[t] with h[−1] = 0; y[t] = c · h[t] + e · x[t]; a = σ(a_raw).

    Weights: a_raw, b, c, e, each [depth].
    """

    learned: Learned

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Run the recurrence over the tokens."""
        (x,) = inputs
        a_raw, b, c, e = self.learned.weights
        a = sigmoid(arithmetic, a_raw)
        states = np.empty(x.shape)
        state = np.zeros((x.shape[0], x.shape[2]))
        for token in range(x.shape[1]):
            state = (a * state) + (b * x[:, token])
            states[:, token] = state
        return (c * states) + (e * x), (x, states)

    def backward(
        self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules
    ) -> tuple[tuple[InputGradient, ...], Learned | None]:
        """Backwards through time: gh[t] = c · g[t] + a · gh[t+1]; dx = b · gh + e · g; da_raw = da · a (1 − a)."""
        x, states = saved
        a_raw, b, c, e = self.learned.weights
        a = sigmoid(arithmetic, a_raw)
        toward = np.empty(x.shape)
        later = np.zeros((x.shape[0], x.shape[2]))
        for token in reversed(range(x.shape[1])):
            later = (c * gradient[:, token]) + (a * later)
            toward[:, token] = later
        before = np.zeros(x.shape)
        before[:, 1:] = states[:, :-1]
        total = arithmetic.sum
        learned = (
            total(toward * before, axis=(0, 1)) * (a * (1.0 - a)),
            total(toward * x, axis=(0, 1)),
            total(gradient * states, axis=(0, 1)),
            total(gradient * x, axis=(0, 1)),
        )
        return ((b * toward) + (e * gradient),), Learned(learned, np.zeros(4))
