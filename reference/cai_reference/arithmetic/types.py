"""The array type that every room of the reference shares.

This file holds names only. It does not check anything.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]


class Elementwise(Protocol):
    """A function of one real, applied to each element of an array; a number gives an array without axes."""

    def __call__(self, x: Array | float, /) -> Array:
        """Return an array of the shape of `x`."""
        ...


class Product(Protocol):
    """A matrix product: `[..., n, k]` times `[..., k, m]` gives `[..., n, m]`."""

    def __call__(self, a: Array, b: Array, /) -> Array:
        """Return the product; leading axes broadcast by trailing alignment."""
        ...


class Summation(Protocol):
    """A sum over one axis, several axes, or all of them."""

    def __call__(self, x: Array | float, /, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
        """Return `x` summed over `axis`; None sums over every axis."""
        ...
