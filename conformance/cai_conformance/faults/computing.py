"""Faults of arithmetic: the right formula, and other last bits. Whoever computes in `strict/1` is held to every bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import NGRAM, Vehicle, exact, run
from cai_reference import arithmetic
from cai_reference.arithmetic import STRICT, Arithmetic, Array

ARITHMETIC: Final = frozenset({Place.ARITHMETIC})


def _strict(planting: Planting, wrong: Arithmetic) -> None:
    """Answer with another arithmetic where `strict/1` is asked for."""
    right = arithmetic.named

    def named(identifier: str) -> Arithmetic:
        found = right(identifier)
        return wrong if found is STRICT else found

    planting.function(right, named)


def _squared_half(x: float | Array) -> Array:
    """Return exp(x/2)², which is exp(x) but for rounding."""
    half = np.asarray(STRICT.exp(np.asarray(x) * 0.5))
    squared: Array = half * half
    return squared


def _backwards(x: Array | float, /, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Sum from the last to the first."""
    return STRICT.sum(np.flip(np.asarray(x), axis), axis, keepdims)


def _products_backwards(left: Array, right: Array) -> Array:
    return STRICT.matmul(np.flip(left, -1), np.flip(right, -2))


def _fault(slug: str, title: str, story: str, wrong: Arithmetic, expected: str, vehicles: tuple[Vehicle, ...]) -> Fault:
    plant: Callable[[Planting], None] = partial(_strict, wrong=wrong)
    return Fault(f"arithmetic.{slug}", title, story, "", ARITHMETIC, plant, vehicles=vehicles, expected=(expected,))


COMPUTING: Final = (
    _fault(
        "exponential-squared",
        "an exponential with other last bits",
        "exp(x/2)² is the same number; libraries differ by as much.",
        replace(STRICT, exp=_squared_half),
        "num.elementary",
        exact(NGRAM),
    ),
    _fault(
        "sums-backwards",
        "sums taken from the end",
        "The same terms in another order.",
        replace(STRICT, sum=_backwards),
        "loss.weights",
        (*exact(NGRAM), *run(NGRAM)),
    ),
    _fault(
        "products-backwards",
        "products summed from the end",
        "The same products in another order.",
        replace(STRICT, matmul=_products_backwards),
        "fwd.oracle",
        (*exact(NGRAM), *run(NGRAM)),
    ),
)
"""What is wrong with numbers whose formula is right."""
