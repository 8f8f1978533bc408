"""The object through which every layer computes, and its three instances.

A layer receives an `Arithmetic` and never asks which one it is. What is defined here is only the choice of operations:
the order of sums is in `ascending`, the elementary functions are in `elementary`, `libm` and `fast`.
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.arithmetic import elementary, fast, libm
from cai_reference.arithmetic.ascending import ascending_matmul, ascending_sum
from cai_reference.arithmetic.errors import UnknownArithmetic
from cai_reference.arithmetic.types import Elementwise, Product, Summation


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


STRICT = Arithmetic(
    identifier="strict/1",
    exp=elementary.exp,
    log=elementary.log,
    log1p=elementary.log1p,
    tanh=elementary.tanh,
    sin=elementary.sin,
    cos=elementary.cos,
    matmul=ascending_matmul,
    sum=ascending_sum,
)

LIBM = Arithmetic(
    identifier="libm/1",
    exp=libm.exp,
    log=libm.log,
    log1p=libm.log1p,
    tanh=libm.tanh,
    sin=libm.sin,
    cos=libm.cos,
    matmul=ascending_matmul,
    sum=ascending_sum,
)

FAST = Arithmetic(
    identifier="fast",
    exp=fast.exp,
    log=fast.log,
    log1p=fast.log1p,
    tanh=fast.tanh,
    sin=fast.sin,
    cos=fast.cos,
    matmul=fast.matmul,
    sum=fast.sum_,
)

_ALL = (STRICT, LIBM, FAST)


def named(identifier: str) -> Arithmetic:
    """Return the arithmetic with this identifier; the version may be left out, so `strict` means `strict/1`.

    Raises: UnknownArithmetic.
    """
    for arithmetic in _ALL:
        if identifier in (arithmetic.identifier, arithmetic.identifier.partition("/")[0]):
            return arithmetic
    raise UnknownArithmetic(identifier, tuple(arithmetic.identifier for arithmetic in _ALL))
