"""Attention: rotary positions, scaled dot-product attention, and the two parts of the library's own attention.

The library's transformer block "CAI" has no softmax and no scale: it multiplies two layers (`DotProducts`), and
multiplies the result with a transposed third (`TransposeXD`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cai_neural_api.net.layers.layer import GradientRules, LayerGradients, Saved, Weightless
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.layers.rope import rotation


@dataclass(frozen=True)
class Rotary(Weightless):
    """TNNetRotaryEmbedding: turns adjacent channels by position · base^(−2k/depth)."""

    base: float

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Turn every token by its position, the first one standing at 0."""
        return self.turned(arithmetic, inputs[0], 0), ()

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """Turn back."""
        cosines, sines, partners = _turning(arithmetic, 0, *gradient.shape[1:], self.base)
        return ((gradient * cosines - gradient.take(partners, axis=2) * sines) + 0.0,), None

    def turned(self, arithmetic: Arithmetic, x: Array, position: int) -> Array:
        """Turn [batch, tokens, depth], the first token standing at `position`."""
        cosines, sines, partners = _turning(arithmetic, position, *x.shape[1:], self.base)
        return (x * cosines + x.take(partners, axis=2) * sines) + 0.0


@lru_cache(maxsize=1024)
def _turning(
    arithmetic: Arithmetic, position: int, tokens: int, depth: int, base: float
) -> tuple[Array, Array, NDArray[np.intp]]:
    """Return c, s and k such that channel i of token t turns into x[t,i] · c[t,i] + x[t,k[i]] · s[t,i].

    Written for one channel instead of a pair, a turn is three operations on whole rows. Its bits are those of the
    pair's formula, since a sine only changes its sign: (l, r) → (l cos − r sin, r cos + l sin).
    """
    table = rotation(arithmetic, position, tokens, depth, base)
    cosines = np.repeat(table.cosines, 2, axis=1)
    sines = np.stack((-table.sines, table.sines), axis=2).reshape(tokens, depth)
    partners = np.arange(depth) ^ 1
    cosines.flags.writeable = sines.flags.writeable = partners.flags.writeable = False
    return cosines, sines, partners


@dataclass(frozen=True)
class DotProductAttention(Weightless):
    """TNNetScaledDotProductAttention on Q | K | V, each `width` wide.

    y[i] = Σ_j p[i,j] V[j], with p the softmax of Q[i] · K[j] / √width over what is visible: j ≤ i if causal, and in a
    window the `window` newest of those, i included.
    """

    width: int
    causal: bool
    window: int | None = None

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Attend within each example."""
        query, key, value = (inputs[0][..., part * self.width : (part + 1) * self.width] for part in range(3))
        scores = arithmetic.matmul(query, np.swapaxes(key, 1, 2)) * (1.0 / math.sqrt(self.width))
        np.copyto(scores, -np.inf, where=self._hidden(scores.shape[1]))
        p = arithmetic.exp(scores - np.max(scores, axis=2, keepdims=True))
        p /= arithmetic.sum(p, axis=2, keepdims=True)
        return arithmetic.matmul(p, value), (query, key, value, p)

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """With dS = p · (g Vᵀ − Σ p g Vᵀ): dQ = dS K / √width, dK = dSᵀ Q / √width, dV = pᵀ g."""
        query, key, value, p = saved
        toward = arithmetic.matmul(gradient, np.swapaxes(value, 1, 2))
        scores = p * (toward - arithmetic.sum(p * toward, axis=2, keepdims=True)) * (1.0 / math.sqrt(self.width))
        parts = (
            arithmetic.matmul(scores, key),
            arithmetic.matmul(np.swapaxes(scores, 1, 2), query),
            arithmetic.matmul(np.swapaxes(p, 1, 2), gradient),
        )
        return (np.concatenate(parts, axis=2),), None

    def _hidden(self, tokens: int) -> NDArray[np.bool_]:
        query, key = np.arange(tokens)[:, None], np.arange(tokens)[None, :]
        hidden = (key > query) & self.causal
        return hidden if self.window is None else hidden | (query - key >= self.window)


@dataclass(frozen=True)
class DotProducts(Weightless):
    """TNNetDotProducts of layers A and B: y[b,a] = A[a] · B[b]; masked, 0 where a > b."""

    masked: bool

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Map A [batch, a, depth] and B [batch, b, depth] to [batch, b, a]."""
        first, second = inputs
        products = arithmetic.matmul(second, np.swapaxes(first, 1, 2))
        return (np.tril(products) if self.masked else products), (first, second)

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """Return dA = gᵀ B, dB = g A."""
        first, second = saved
        passed = np.tril(gradient) if self.masked else gradient
        return (arithmetic.matmul(np.swapaxes(passed, 1, 2), second), arithmetic.matmul(passed, first)), None


class TransposeXD(Weightless):
    """TNNetTransposeXD: tokens become channels and channels tokens."""

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Transpose each example."""
        return np.swapaxes(inputs[0], 1, 2), ()

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """Transpose back."""
        return (np.swapaxes(gradient, 1, 2),), None


WHOLE_SEQUENCE: Final = (DotProducts, TransposeXD)
"""Classes that turn tokens into channels, and so need all of them at once."""
