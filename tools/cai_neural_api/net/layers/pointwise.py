"""Activations, none of which has anything to learn: ReLU, signed square root, SwiGLU, softmax.

Layers that only move channels about, add them or change their sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

import numpy as np

from cai_neural_api.net.layers.layer import (
    Channels,
    GradientRules,
    LayerGradients,
    Saved,
    SomeChannels,
    Weightless,
    limited,
)
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd.operations import sigmoid

EXPONENT_LIMIT: Final = 4000.0
"""Softmax clips its exponents to ±4000; above 0 there are none."""


class Relu(Weightless):
    """TNNetReLU: y = max(0, x); the derivative is 1 for x ≥ 0, exactly 0 included."""

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Rectify."""
        return np.maximum(inputs[0], 0.0), (inputs[0],)

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """Pass where x ≥ 0."""
        return (np.where(saved[0] >= 0.0, gradient, 0.0),), None


class SignedSquareRoot(Weightless):
    """TNNetSignedSquareRoot1: y = x for |x| ≤ 1, sign(x) · √|x| beyond."""

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Take the root of what is larger than 1."""
        (x,) = inputs
        size = np.abs(x)
        return np.where(size <= 1.0, x, np.copysign(np.sqrt(size), x)), (x,)

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """The derivative is 1 within ±1, and 1 / (2 √|x|) beyond."""
        size = np.maximum(np.abs(saved[0]), 1.0)
        return (np.where(size <= 1.0, gradient, gradient / (2.0 * np.sqrt(size))),), None


class SwiGlu(Weightless):
    """TNNetSwiGLU: halves the depth; y = a · (b · σ(b)), with the second half b as the gate."""

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Map [batch, tokens, 2 · depth] to [batch, tokens, depth]."""
        (x,) = inputs
        half = x.shape[2] // 2
        value, gate = x[..., :half], x[..., half:]
        opened = sigmoid(arithmetic, gate)
        silu = gate * opened
        return value * silu, (value, silu, opened)

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """Return da = g · silu(b), db = g · a · (silu(b) + σ(b) (1 − silu(b)))."""
        value, silu, opened = saved
        half = silu.shape[2]
        result = np.empty((*gradient.shape[:2], 2 * half))
        np.multiply(gradient, silu, out=result[..., :half])
        np.multiply(gradient * value, silu + opened * (1.0 - silu), out=result[..., half:])
        return (result,), None


@dataclass(frozen=True)
class Softmax(Weightless):
    """TNNetPointwiseSoftMax over the depth; a depth of 1 passes unchanged.

    `straight` passes the gradient as it comes: with the gradient p − y at a net's end, this is softmax and
    cross-entropy together. Without it the full Jacobian is taken, so that p − y minimises ½ ‖p − y‖². `masked` lets row
    t see its first t + 1 channels only, as a causal map of attention does; what lies beyond is 0.
    """

    straight: bool
    masked: bool = False

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Normalise what each row sees: exp(max(x − max x, −4000)) / Σ."""
        (x,) = inputs
        if x.shape[2] == 1:
            return x, ()
        hidden = np.triu(np.ones(x.shape[1:], bool), 1) if self.masked else None
        seen = x if hidden is None else np.where(hidden, -np.inf, x)
        shifted = seen - np.max(seen, axis=2, keepdims=True)
        p = arithmetic.exp(np.maximum(shifted, -EXPONENT_LIMIT, out=shifted))
        if hidden is not None:
            p[:, hidden] = 0.0
        p /= arithmetic.sum(p, axis=2, keepdims=True)
        return p, (p,)

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """Return p · (g − Σ p g), or g as it is."""
        if self.straight or not saved:
            return (gradient,), None
        (p,) = saved
        return (p * (gradient - arithmetic.sum(p * gradient, axis=2, keepdims=True)),), None


@dataclass(frozen=True)
class Sum(Weightless):
    """TNNetSum: the elementwise sum of its inputs, in the order of the list."""

    inputs: int

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Add from the left."""
        total = inputs[0]
        for other in inputs[1:]:
            total = total + other
        return total, ()

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """Every input takes the whole gradient, limited."""
        return (limited(gradient, rules.limit),) * self.inputs, None


class Concatenation(Weightless):
    """TNNetDeepConcat: its inputs side by side along the depth."""

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Concatenate."""
        return np.concatenate(inputs, axis=2), tuple(inputs)

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """Each input takes its part."""
        ends = accumulate((part.shape[2] for part in saved), initial=0)
        return tuple(gradient[..., first:last] for first, last in pairwise(ends)), None


@dataclass(frozen=True)
class ChannelChoice(Weightless):
    """TNNetSplitChannels: some channels, in the order of the list; TNNetInterleaveChannels: all of them, permuted.

    Attributes:
        channels: channel i of the output is the i-th of these of the input.
        repeats: whether one of them is picked twice.
    """

    channels: Channels
    repeats: bool

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

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """Put back; a channel that was picked twice takes both gradients, one that was not takes none."""
        (x,) = saved
        if isinstance(self.channels, slice) or not self.repeats:
            return (SomeChannels(self.channels, gradient, x.shape[2]),), None
        back = np.zeros(x.shape)
        np.add.at(np.moveaxis(back, 2, 0), self.channels, np.moveaxis(gradient, 2, 0))
        return (back,), None


class Negate(Weightless):
    """TNNetNegate: y = −x."""

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Change the sign."""
        return -inputs[0], ()

    def backward(self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules) -> LayerGradients:
        """Change it back."""
        return (-gradient,), None
