"""The arithmetic object: its instances, how they are found, and what they promise."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import FAST, LIBM, STRICT, named
from cai_reference.errors import ArithmeticFault, CaiReferenceError
from support_refusals import refuses


@pytest.mark.parametrize(
    ("name", "expected"), [("strict", STRICT), ("strict/1", STRICT), ("libm", LIBM), ("libm/1", LIBM), ("fast", FAST)]
)
def test_names(name: str, expected: Arithmetic) -> None:
    """An arithmetic is found by its identifier, with or without the version."""
    assert expected is named(name)


@pytest.mark.parametrize("name", ["", "strict/2", "Strict", "numpy", "fast/1"])
def test_unknown_names(name: str) -> None:
    """Any other name raises an error that lists the known ones and survives pickling."""
    with refuses(ArithmeticFault, "unknown-arithmetic") as refusal:
        named(name)
    assert f"unknown arithmetic {name!r}; known are strict/1, libm/1, fast" == str(refusal.value)
    assert str(refusal.value) == str(pickle.loads(pickle.dumps(refusal.value)))


def test_errors_share_one_branch() -> None:
    """Every error of the room is an ArithmeticFault, which is an error of the reference."""
    assert issubclass(ArithmeticFault, CaiReferenceError)
    assert {"unknown-arithmetic", "not-hex-bits", "matmul-shapes"} <= set(ArithmeticFault.templates)


def test_only_fast_has_no_defined_bits() -> None:
    """Digests mean something in strict/1 and libm/1."""
    assert [True, True, False] == [arithmetic.bitwise for arithmetic in (STRICT, LIBM, FAST)]


def test_libm_is_the_math_module() -> None:
    """libm/1 gives what the C library gives, number by number."""
    x = np.linspace(-3.0, 3.0, 101)
    for name in ("exp", "tanh", "sin", "cos"):
        assert [getattr(math, name)(v) for v in x.tolist()] == getattr(LIBM, name)(x).tolist()
    assert [math.log(v) for v in (x + 4.0).tolist()] == LIBM.log(x + 4.0).tolist()
    assert [math.log1p(v) for v in (x + 3.5).tolist()] == LIBM.log1p(x + 3.5).tolist()
