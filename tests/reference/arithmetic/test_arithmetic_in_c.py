"""The elementary functions against their rendering in C: the same bits on a million arguments each."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.arithmetic.vectors import FUNCTIONS, strict_vectors

Arguments = Callable[[str, int], Array]
Compiled = Callable[[str, Array], Array]

SOURCE = Path(__file__).with_name("elementary.c")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """The C file, compiled without contraction, as a function of a name and an array."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc or clang) on the path")
    library = tmp_path_factory.mktemp("elementary") / "elementary.so"
    options = ["-O2", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, "-o", str(library), str(SOURCE)], check=True)
    functions = ctypes.CDLL(str(library))
    doubles = ctypes.POINTER(ctypes.c_double)

    def call(function: str, x: Array) -> Array:
        y = np.empty_like(x)
        length = ctypes.c_int64(x.size)
        functions[f"{function}_array"](x.ctypes.data_as(doubles), y.ctypes.data_as(doubles), length)
        return y

    return call


@pytest.mark.parametrize("function", FUNCTIONS)
def test_c_gives_the_same_bits(function: str, compiled: Compiled, arguments: Arguments) -> None:
    """A million arguments, NaN included, give equal bit patterns in C and in Python."""
    x = arguments(function, 10**6)
    assert x.size == 10**6
    expected = compiled(function, x).view(np.int64)
    assert np.flatnonzero(expected != getattr(STRICT, function)(x).view(np.int64)).tolist() == []


@pytest.mark.parametrize("function", FUNCTIONS)
def test_c_gives_the_shipped_bits(function: str, compiled: Compiled) -> None:
    """The shipped vectors are what the C file computes."""
    (group,) = (group for group in strict_vectors().functions if group.function == function)
    expected = compiled(function, group.arguments).view(np.int64)
    assert expected.tolist() == group.results.view(np.int64).tolist()
