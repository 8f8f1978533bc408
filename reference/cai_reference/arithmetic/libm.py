"""The elementary functions of `libm/1`: the C library's, called for one number at a time through `math`.

Python's `math` raises where the C library returns an infinity or NaN; here those cases return what IEEE 754 asks for.
The results are as good as the C library of the machine: see `c_library_selftest`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cai_reference.arithmetic import Array, Elementwise


def _mapped(function: Callable[[float], float]) -> Elementwise:
    def apply(x: Array | float, /) -> Array:
        values = np.asarray(x, dtype=np.float64)
        return np.array(list(map(function, values.ravel().tolist())), dtype=np.float64).reshape(values.shape)

    return apply


def _exp(x: float) -> float:
    try:
        # Python raises where the C library returns infinity
        return math.exp(x)
    except OverflowError:
        return math.inf


def _log(x: float) -> float:
    if x > 0.0:
        return math.log(x)
    return -math.inf if x == 0.0 else math.nan


def _log1p(x: float) -> float:
    if x > -1.0:
        return math.log1p(x)
    return -math.inf if x == -1.0 else math.nan


def _sin(x: float) -> float:
    return math.sin(x) if math.isfinite(x) else math.nan


def _cos(x: float) -> float:
    return math.cos(x) if math.isfinite(x) else math.nan


exp = _mapped(_exp)
log = _mapped(_log)
log1p = _mapped(_log1p)
tanh = _mapped(math.tanh)
sin = _mapped(_sin)
cos = _mapped(_cos)
