"""Arithmetic with defined bits: the object through which every layer computes, and the array type that all share.

A layer receives an `Arithmetic` and never asks which one it is; the three that there are stand in `instances`.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Arithmetic:
    """A named set of operations on float64 arrays; elementwise +, -, *, / and square root are IEEE 754 everywhere.

    `identifier` is `strict/1`, `libm/1` or `fast`. The six elementary functions take a number or an array of any shape.
    `matmul` takes `[..., n, k]` and `[..., k, m]`; `sum` takes `(x, axis=None, keepdims=False)`.
    """

    identifier: str
    exp: Elementwise
    log: Elementwise
    log1p: Elementwise
    tanh: Elementwise
    sin: Elementwise
    cos: Elementwise
    matmul: Product
    sum: Summation

    @property
    def bitwise(self) -> bool:
        """Whether the bits of a result are defined, so that a digest of them means something."""
        return self.identifier != "fast"
