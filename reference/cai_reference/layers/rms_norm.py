"""RMSNorm: x over the root of its mean square, times a gain (Zhang and Sennrich, 2019).

For a row of width d, with the mean square m = (Σ x·x) / d, the sum ascending, and v = m + ε::

    INVERSE_ROOT   i = 1 / √v                  as in files of Llama models
    EXPONENTIAL    i = exp(log(v) · (−½))      course, chapter 25
    y = (x · i) · gain

Both give the same number but for rounding. ε stands inside the root. Backwards, with g the adjoint of y and n = x · i::

    gain   Σ g·n over all rows, row-major
    i̅      Σ (g·gain)·x over the row, ascending
    m̅      ((i̅ · i) · (−½)) / v
    x      (g·gain)·i, then (m̅ / d)·x twice, once for each factor of the square: three terms, added in this order

A row is normalised by itself, so a token alone gives what it gives in a sequence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Parameter, Tape, Variable, first_non_finite
from cai_reference.errors import AutogradError, LayerError


class InverseForm(StrEnum):
    """How the inverse of the root is computed: the same number in two orders of operations."""

    INVERSE_ROOT = "inverse-root"
    EXPONENTIAL = "exponential"


@dataclass(frozen=True)
class RmsNorm:
    """The gain, of shape [width], starts as ones and draws nothing.

    Raises:
        LayerError (invalid-norm-epsilon): ε is negative or not finite.
    """

    gain: Parameter
    epsilon: float
    form: InverseForm

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @classmethod
    def initialize(cls, name: str, width: int, epsilon: float, form: InverseForm) -> RmsNorm:
        """Return the norm that scales by nothing else."""
        return cls(Parameter(f"{name}.gain", np.ones(width)), epsilon, form)

    def parameters(self) -> Iterator[Parameter]:
        """Yield the gain."""
        yield self.gain

    def __call__(self, tape: Tape, x: Variable) -> Variable:
        """Map [..., width] to [..., width].

        Raises:
            As `rms_norm`.
        """
        return rms_norm(tape, x, self.gain, self.epsilon, self.form)


def rms_norm(tape: Tape, x: Variable, gain: Variable, epsilon: float, form: InverseForm) -> Variable:
    """Normalise every row of [..., width] and multiply by a gain [width].

    Raises:
        AutogradError (empty-mean-axis): rows have no features.
        LayerError (gain-shape-mismatch): the gain is not a vector of the rows' width.
        LayerError (zero-energy-row): ε is 0 and the mean square of a row is, too.
        AutogradError (non-finite-forward): a mean square or a result is beyond binary64.
    """
    width, arithmetic = x.shape[-1], tape.arithmetic
    if width == 0:
        raise AutogradError("empty-mean-axis", axis=len(x.shape) - 1)
    if gain.shape != (width,):
        raise LayerError("gain-shape-mismatch", width=width, shape=gain.shape)
    # ε is inside the root
    shifted = _mean_squares(arithmetic, x.value) + epsilon
    if (shifted == 0.0).any():
        raise LayerError("zero-energy-row", row=int(np.argmax(shifted == 0.0)))
    inverse = _inverse_root(arithmetic, shifted, form)
    # Overflow is reported by the tape as an error with a place, not as a warning without one.
    with np.errstate(over="ignore"):
        normalized = x.value * inverse
        value = normalized * gain.value

    def pullback(adjoint: Array) -> tuple[Array, Array, Array, Array]:
        toward_normalized = adjoint * gain.value
        toward_inverse = arithmetic.sum(toward_normalized * x.value, axis=-1, keepdims=True)
        # d(v^−½)/dv = −½ · v^−½ / v
        toward_mean = ((toward_inverse * inverse) * -0.5) / shifted
        through_square = (toward_mean / width) * x.value
        toward_gain = arithmetic.sum(adjoint * normalized, axis=tuple(range(x.value.ndim - 1)))
        # x is an operand three times: the factor of the square counts twice
        return toward_normalized * inverse, through_square, through_square, toward_gain

    return tape.record("rms norm", value, (x, x, x, gain), pullback)


def check_epsilon(epsilon: float) -> None:
    """Refuse an ε that is negative or not finite.

    Raises:
        LayerError (invalid-norm-epsilon): with its value.
    """
    if not (math.isfinite(epsilon) and epsilon >= 0.0):
        raise LayerError("invalid-norm-epsilon", epsilon=epsilon)


def _mean_squares(arithmetic: Arithmetic, x: Array) -> Array:
    """Return the mean square of every row, the last axis kept with length 1."""
    # An infinite mean square would make a row of zeros, which no one would notice.
    with np.errstate(over="ignore"):
        means: Array = arithmetic.sum(x * x, axis=-1, keepdims=True) / x.shape[-1]
    index = first_non_finite(means)
    if index is not None:
        raise AutogradError("non-finite-forward", operation="mean square", index=index, value=float(means.flat[index]))
    return means


def _inverse_root(arithmetic: Arithmetic, shifted: Array, form: InverseForm) -> Array:
    if form is InverseForm.INVERSE_ROOT:
        inverse: Array = 1.0 / np.sqrt(shifted)
        return inverse
    # a power without pow, whose last bits differ between libraries
    return arithmetic.exp(arithmetic.log(shifted) * -0.5)
