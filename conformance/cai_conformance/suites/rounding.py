"""Given weights: trained values, rounded to what every precision holds exactly."""

from __future__ import annotations

import numpy as np

from cai_reference.arithmetic import Array


def exact_everywhere(values: Array) -> Array:
    """Round to values that bfloat16, float16 and float32 all hold exactly.

    bfloat16 keeps 8 significant bits; float16 has no bit below 2^-24. Values are assumed below 65504 in magnitude.
    """
    _, exponent = np.frexp(values)
    quantum = np.exp2(np.maximum(exponent - 8, -24).astype(np.float64))
    rounded: Array = np.rint(values / quantum) * quantum
    return rounded
