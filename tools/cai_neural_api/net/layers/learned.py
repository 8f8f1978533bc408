"""Layers with a vector a channel to learn: the dynamic tanh, the token shift, the diagonal recurrence.

The input of a net, and the embedding of its ids.

y[t] = E[id] for id > 0; id 0 embeds to the zero vector unless the layer encodes zero. An id is a number rounded to the
nearest integer, ties to even. Row 0 of a table that does not encode zero is never read, but stored and counted.

Pointwise convolutions: a linear map of each token, dense or in groups, with or without a ReLU.

Dense: y[t,f] = Σ_d W[f,d] · x[t,d] + b[f]. In G groups, output f belongs to group f div (n/G) and reads only the
contiguous inputs of its group. A suppressed bias is stored but not added, so that its exact gradient is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cai_neural_api.errors import NetError
from cai_neural_api.net.layers.layer import GradientRules, LayerGradients, Learned, Saved, Weightless, limited
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd.operations import sigmoid


@dataclass(frozen=True)
class DynamicTanhLayer:
    """TNNetDyT: y = γ · tanh(α x) + β. Weights: γ [depth], β [depth], α [1]."""

    learned: Learned

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Squash and scale each channel."""
        (x,) = inputs
        gamma, beta, alpha = self.learned.weights
        squashed = arithmetic.tanh(alpha * x)
        return (gamma * squashed) + beta, (x, squashed)

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """dγ = Σ g t, dβ = Σ g, dα = Σ g γ x (1 − t²), dx = g γ α (1 − t²), with t = tanh(α x)."""
        x, squashed = saved
        gamma, _, alpha = self.learned.weights
        steep = gradient * gamma * (1.0 - squashed * squashed)
        total = arithmetic.sum
        learned = (total(gradient * squashed, axis=(0, 1)), total(gradient, axis=(0, 1)), total(steep * x).reshape(1))
        return (steep * alpha,), Learned(learned, np.zeros(3))


@dataclass(frozen=True)
class TokenShiftLayer:
    """TNNetTokenShift: y[t] = m · x[t] + (1 − m) · x[t−1], with x[−1] = 0. Weights: m [depth]."""

    learned: Learned

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Mix each token with the one before it."""
        (x,) = inputs
        (mix,) = self.learned.weights
        before = np.zeros(x.shape)
        before[:, 1:] = x[:, :-1]
        return (mix * x) + ((1.0 - mix) * before), (x, before)

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """Return dm = Σ g[t] (x[t] − x[t−1]); dx[t] = g[t] m + g[t+1] (1 − m)."""
        x, before = saved
        (mix,) = self.learned.weights
        later = np.zeros(x.shape)
        later[:, :-1] = gradient[:, 1:]
        weights = arithmetic.sum(gradient * (x - before), axis=(0, 1))
        return ((gradient * mix) + (later * (1.0 - mix)),), Learned((weights,), np.zeros(1))


@dataclass(frozen=True)
class DiagonalSsmLayer:
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

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
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


class Input(Weightless):
    """TNNetInput: the ids as they are, [batch, tokens, 1]."""

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Return the ids."""
        return inputs[0], ()

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """Nothing lies before the input."""
        return (), None


@dataclass(frozen=True)
class Embedding:
    """TNNetEmbedding: weights, the table [vocabulary, width]."""

    learned: Learned
    encodes_zero: bool = False

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Look up [batch, tokens, 1] in the table.

        Raises:
            NetError (net-token-out-of-range): an id has no row. The library prints a line and takes id 0.
        """
        (x,) = inputs
        ids = self._ids(x)
        rows = self.learned.weights[0][np.maximum(ids, 0)]
        return np.where(self._read(ids)[..., None], rows, 0.0), (x,)

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """Each place adds its gradient to its id's row, in the order of batch and tokens."""
        (x,) = saved
        rows = self._ids(x) if rules.rows is None else rules.rows
        read = self._read(rows)
        table = np.zeros(self.learned.weights[0].shape)
        np.add.at(table, rows[read], gradient[read])
        return (np.zeros(x.shape),), Learned((table,), np.zeros(1))

    def _read(self, ids: NDArray[np.intp]) -> NDArray[np.bool_]:
        return ids >= 0 if self.encodes_zero else ids > 0

    def _ids(self, x: Array) -> NDArray[np.intp]:
        vocabulary = self.learned.weights[0].shape[0]
        ids = np.rint(x[..., 0])
        wrong = ~(ids < vocabulary)
        if np.any(wrong):
            example, position = np.argwhere(wrong)[0]
            raise NetError(
                "net-token-out-of-range",
                position=int(position),
                token=float(x[example, position, 0]),
                vocabulary=vocabulary,
            )
        # All ids below 0 are alike, and far ones have no integer.
        return np.maximum(ids, -1.0).astype(np.intp)


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

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
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

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
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
