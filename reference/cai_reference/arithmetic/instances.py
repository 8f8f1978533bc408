"""The three arithmetics: `strict/1`, `libm/1` and `fast`.

What is defined here is only the choice of operations: the order of sums is in `ascending`, the elementary functions are
in `elementary`, `libm` and `fast`.
"""

from __future__ import annotations

from cai_reference.arithmetic import Arithmetic, elementary, fast, libm
from cai_reference.arithmetic.ascending import ascending_matmul, ascending_sum
from cai_reference.errors import ArithmeticFault

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

    Raises: `unknown-arithmetic`.
    """
    for arithmetic in _ALL:
        if identifier in (arithmetic.identifier, arithmetic.identifier.partition("/")[0]):
            return arithmetic
    raise ArithmeticFault(
        "unknown-arithmetic", name=identifier, known=", ".join(tuple(arithmetic.identifier for arithmetic in _ALL))
    )
