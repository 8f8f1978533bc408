"""Clipping by the global norm, in one pass that neither overflows nor underflows (course, chapter 33).

The norm of all gradients together is held as m · r, with m the largest absolute gradient and r = √Σ (g/m)². In registry
order, row-major, zeros left out, starting from m = 0 and q = 1::

    m < |g|      q ← 1 + q·(m/|g|)·(m/|g|), then m ← |g|
    otherwise    q ← q + (|g|/m)·(|g|/m)

With r = √q, nothing is clipped where m ≤ max / r. Otherwise every gradient is multiplied by (max / m) / r, or, where
that factor underflows to 0, becomes (g / m) · (max / r). The norm afterwards is `max` by definition.

`cai_reference.training.decoder_training.gradient_norm` adds plain squares and compares the norm with the limit, as most
programs do: the same number but for rounding, and infinite for gradients beyond 1e154.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cai_reference.autograd import Parameter
from cai_reference.training.adamw import GradientNormalization, GradientScale, GradientTransform
from cai_reference.training.errors import TrainingError

LARGEST: Final = sys.float_info.max


@dataclass(frozen=True)
class GlobalNorm:
    """The norm m · r of all gradients together.

    Attributes:
        scale: m, the largest absolute gradient; 0.0 where all are zero.
        root: r, between 1 and the root of the number of gradients.
    """

    scale: float
    root: float

    @property
    def value(self) -> float:
        """The norm as one number; the largest double where it is beyond that."""
        product = self.scale * self.root
        return product if math.isfinite(product) else LARGEST


@dataclass(frozen=True)
class Clip:
    """What clipping does to the gradients of one step.

    Attributes:
        before: the norm of the stored gradients.
        after: the norm of what the optimiser is given; `maximum` itself where it was clipped.
        transform: what is done to every gradient; None where nothing is.
    """

    before: float
    after: float
    transform: GradientTransform | None

    @property
    def clipped(self) -> bool:
        """Whether the gradients are scaled down."""
        return self.transform is not None


def global_norm(parameters: Sequence[Parameter]) -> GlobalNorm:
    """Return the norm of all stored gradients.

    Raises:
        TrainingError (non-finite-stored-gradient): with its place.
    """
    scale, squares = 0.0, 1.0
    for parameter in parameters:
        for index, gradient in enumerate(parameter.gradient.ravel().tolist()):
            size = abs(gradient)
            if not math.isfinite(size):
                raise TrainingError("non-finite-stored-gradient", name=parameter.name, index=index, value=gradient)
            if size == 0.0:
                continue
            if scale < size:
                ratio = scale / size
                # a new maximum: rescale the old sum, the new term is 1
                squares = 1.0 + squares * ratio * ratio
                scale = size
            else:
                ratio = size / scale
                squares += ratio * ratio
    return GlobalNorm(scale, math.sqrt(squares))


def check_maximum_norm(maximum: float) -> None:
    """Refuse a limit that is not finite and positive.

    Raises:
        TrainingError (invalid-maximum-norm): with its value.
    """
    if not (math.isfinite(maximum) and maximum > 0.0):
        raise TrainingError("invalid-maximum-norm", value=maximum)


def clip_to(parameters: Sequence[Parameter], maximum: float) -> Clip:
    """Return how the stored gradients are brought down to a global norm; they are not touched.

    Raises:
        TrainingError (invalid-maximum-norm): the limit is not finite and positive.
        TrainingError (non-finite-stored-gradient): a gradient is not finite.
        TrainingError (unrepresentable-gradient-clip): the limit is so small that max / r is 0.
    """
    check_maximum_norm(maximum)
    norm = global_norm(parameters)
    before = norm.value
    # compared with m instead of m·r, which could overflow
    allowed = maximum / norm.root
    if norm.scale <= allowed:
        return Clip(before, before, None)
    if allowed == 0.0:
        raise TrainingError("unrepresentable-gradient-clip", maximum=maximum, root=norm.root)
    factor = (maximum / norm.scale) / norm.root
    if factor > 0.0:
        return Clip(before, maximum, GradientScale(factor))
    return Clip(before, maximum, GradientNormalization(norm.scale, allowed))
