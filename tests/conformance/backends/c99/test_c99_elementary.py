"""The elementary functions of the example in C: the bits that the vectors of strict/1 prescribe."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from cai_reference.arithmetic.vectors import FUNCTIONS, strict_vectors
from support_c99 import SOURCES, STRICT, compiled, compiler


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The file of the functions as a shared library."""
    if compiler() is None:
        pytest.skip("no C compiler (cc, gcc or clang) on the path")
    target: Path = tmp_path_factory.mktemp("elementary") / "elementary.so"
    assert compiled(target, [*STRICT, "-shared", "-fPIC"], [SOURCES / "elementary.c"]) == ""
    return ctypes.CDLL(str(target))


class TestElementaryFunctions:
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_every_vector_has_the_prescribed_bits(self, name: str, library: ctypes.CDLL) -> None:
        """exp, log, log1p, tanh, sin and cos agree with the vectors that ship with the arithmetic."""
        function = library[f"strict_{name}"]
        function.argtypes, function.restype = [ctypes.c_double], ctypes.c_double
        (group,) = (group for group in strict_vectors().functions if group.function == name)
        found = np.array([function(argument) for argument in group.arguments.tolist()])
        assert found.view(np.int64).tolist() == group.results.view(np.int64).tolist()


class TestLibraries:
    @pytest.mark.exhaustive
    def test_nothing_of_libm_is_used_but_the_root(self, tmp_path: Path) -> None:
        """Where the root is one instruction, the program links without the mathematical library."""
        if compiler() is None:
            pytest.skip("no C compiler (cc, gcc or clang) on the path")
        probe = tmp_path / "root.c"
        probe.write_text("#include <math.h>\nint main(int n, char **a) { (void)a; return (int)sqrt((double)n); }\n")
        options = [*STRICT, "-fno-math-errno"]
        if compiled(tmp_path / "root", options, [probe], libraries=()):
            pytest.skip("this compiler calls a function for the square root")
        assert compiled(tmp_path / "whole", options, libraries=()) == ""
