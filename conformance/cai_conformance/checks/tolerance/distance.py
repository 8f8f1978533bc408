"""How far a row of logits lies from the right one.

Logits of one row are compared with each other by whoever chooses, so the unit is that of the row: one unit in the last
place, in the backend's format, of the row's largest magnitude. What it means for a choice is told by the divergence of
the two distributions, KL(right ‖ found) in nats, and by whether the largest logit is the same one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_conformance.engine import MANTISSA_BITS
from cai_reference.arithmetic import Array

SMALLEST_EXPONENT: Final = {"float64": -1022, "float32": -126, "bfloat16": -126, "float16": -14}


@dataclass(frozen=True)
class RowDistance:
    """The distance of two rows.

    Attributes:
        absolute: the largest difference of two logits; infinite where one of them is no number.
        ulps: the same in units in the last place of the row's largest magnitude.
        divergence: KL(right ‖ found) in nats; never below 0.
        same_choice: whether the first of the largest logits is at the same place.
        index: where the difference is largest.
    """

    absolute: float
    ulps: float
    divergence: float
    same_choice: bool
    index: int


def unit_in_last_place(value: float, precision: str) -> float:
    """Return the distance of neighbouring numbers of a format at a magnitude."""
    exponent = math.frexp(abs(value))[1] - 1 if value else SMALLEST_EXPONENT[precision]
    return math.ldexp(1.0, max(exponent, SMALLEST_EXPONENT[precision]) - MANTISSA_BITS[precision])


def distance_between(right: Array, found: Array, precision: str) -> RowDistance:
    """Compare a row [vocabulary] with the right one; a row with what is no number is infinitely far from any."""
    for row in (found, right):
        if not np.isfinite(row).all():
            return RowDistance(math.inf, math.inf, math.inf, False, int(np.argmin(np.isfinite(row))))
    # Two finite numbers may lie further apart than the largest one.
    with np.errstate(over="ignore"):
        differences = np.abs(right - found)
    index = int(np.argmax(differences))
    absolute = float(differences[index])
    unit = unit_in_last_place(float(np.max(np.abs(right))), precision)
    same = int(np.argmax(right)) == int(np.argmax(found))
    return RowDistance(absolute, absolute / unit, _divergence(right, found), same, index)


def _divergence(right: Array, found: Array) -> float:
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        logs = _log_softmax(right), _log_softmax(found)
        weights = np.exp(logs[0])
        # What has no weight adds nothing, even where its logarithm is infinite.
        terms = np.where(weights > 0.0, weights * (logs[0] - logs[1]), 0.0)
        # Rounding may leave the smallest divergences a little below zero.
        return max(0.0, float(np.sum(terms)))


def _log_softmax(row: Array) -> Array:
    shifted = row - np.max(row)
    logs: Array = shifted - np.log(np.sum(np.exp(shifted)))
    return logs
