"""The self-tests: they pass where they should and fail when anything is damaged."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from cai_reference.arithmetic import Arithmetic, coefficients, selftest
from cai_reference.arithmetic.instances import STRICT
from cai_reference.arithmetic.selftest import c_library_selftest, run_selftest
from cai_reference.arithmetic.vectors import FUNCTIONS, c_library_vectors, strict_vectors

TABLES = ("EXP", "LOG", "SIN", "COS")


def failing() -> set[str]:
    """The names of the groups that fail now."""
    return {result.name for result in run_selftest() if not result.passed}


def test_selftest_passes() -> None:
    """All six functions, the sums and the products give the shipped bits, and no group is empty."""
    results = run_selftest()
    assert [*FUNCTIONS, "sum", "matmul"] == [result.name for result in results]
    assert [()] * 8 == [result.failures for result in results]
    assert all(result.cases >= 60 for result in results[:6])
    assert all(result.cases >= 8 for result in results[6:])


@pytest.mark.parametrize(
    ("table", "index"),
    [
        pytest.param(table, index, marks=pytest.mark.exhaustive if index % 4 else ())
        for table in TABLES
        for index in range(len(getattr(coefficients, table)))
    ],
)
def test_every_coefficient_is_watched(table: str, index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving out any one coefficient of any polynomial makes the self-test fail."""
    values = list(getattr(coefficients, table))
    values[index] = 0.0
    monkeypatch.setattr(coefficients, table, tuple(values))
    expected = {"EXP": {"exp"}, "LOG": {"log", "log1p"}, "SIN": {"sin"}, "COS": {"cos"}}[table]
    assert expected <= failing()


@pytest.mark.parametrize("table", TABLES)
def test_leading_coefficients_are_watched_to_the_last_bit(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One unit in the last place of a leading coefficient is noticed."""
    first, *rest = getattr(coefficients, table)
    monkeypatch.setattr(coefficients, table, (math.nextafter(first, math.inf), *rest))
    assert set() != failing()


@pytest.mark.parametrize(
    ("constant", "expected"),
    [
        ("LN2_LOW", {"exp", "log", "log1p", "tanh"}),
        ("HALF_PI_2", {"sin", "cos"}),
        ("HALF_PI_3", {"sin", "cos"}),
        ("HALF_PI_4", {"sin", "cos"}),
    ],
)
def test_low_parts_are_watched(constant: str, expected: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving out a low part of ln 2 or pi/2 makes the functions fail that use it."""
    monkeypatch.setattr(coefficients, constant, 0.0)
    assert expected == failing()


def _with(**operations: object) -> Arithmetic:
    fields = {name: getattr(STRICT, name) for name in STRICT.__dataclass_fields__}
    return Arithmetic(**{**fields, **operations})


def test_sums_and_products_of_numpy_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairwise sums and BLAS products are noticed, with the first failures in words."""
    monkeypatch.setattr(selftest, "STRICT", _with(sum=np.sum, matmul=np.matmul))
    with np.errstate(all="ignore"):
        results = {result.name: result for result in run_selftest()}
    assert not results["sum"].passed
    assert results["sum"].failures[0].startswith("sum ")
    assert ", expected " in results["sum"].failures[0]


def test_function_that_depends_on_the_array_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that is right for arrays and wrong for numbers is noticed."""
    monkeypatch.setattr(
        selftest, "STRICT", _with(exp=lambda x: STRICT.exp(x) if np.ndim(x) else STRICT.exp(x) * (1.0 + 2.0**-52))
    )
    (result,) = (result for result in run_selftest() if result.name == "exp")
    assert "for a number" in result.failures[0]
    assert len(result.failures) <= 5


def test_c_library_is_described() -> None:
    """The verdict names the library and the machine and counts its cases."""
    verdict = c_library_selftest()
    assert verdict.library.endswith(f"{platform.system()} {platform.machine()}")
    assert sum(group.arguments.size for group in c_library_vectors()) == verdict.cases
    assert list(FUNCTIONS) == [result.name for result in verdict.results]
    assert (verdict.differing == ()) == verdict.passed


def test_another_library_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The project's own functions, correctly rounded more often than the C library's, are not taken for it."""
    monkeypatch.setattr(selftest, "LIBM", STRICT)
    verdict = c_library_selftest()
    assert (False, FUNCTIONS) == (verdict.passed, verdict.differing)
    assert not verdict.agrees_on(["exp"])


def test_agreement_can_be_asked_for_some_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A digest needs only the functions behind it."""
    exact = {group.function: group for group in c_library_vectors()}
    recorded = {
        name: (lambda x, g=group: g.results if np.ndim(x) else g.results[g.arguments == x][0])
        for name, group in exact.items()
    }
    monkeypatch.setattr(selftest, "LIBM", _with(**{**recorded, "tanh": STRICT.tanh}))
    verdict = c_library_selftest()
    assert ("tanh",) == verdict.differing
    assert verdict.agrees_on(["exp", "log1p"])
    assert not verdict.agrees_on(["exp", "tanh"])


@pytest.mark.exhaustive
def test_hidden_fma_is_noticed() -> None:
    """Where the C library passes, hiding FMA from it makes exp and log1p fail, and strict/1 doesn't change."""
    if not c_library_selftest().passed:
        pytest.skip("the C library of this machine is not glibc on x86-64 with FMA, or not a version with its bits")
    program = (
        "from cai_reference.arithmetic.selftest import c_library_selftest, run_selftest\n"
        "print(*c_library_selftest().differing, all(result.passed for result in run_selftest()))"
    )
    environment = {**os.environ, "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    *differing, strict = done.stdout.split()
    assert {"exp", "log1p"} <= set(differing)
    assert "True" == strict


def test_vectors_are_distinct() -> None:
    """No argument appears twice in a group: the counts are honest."""
    for group in (*strict_vectors().functions, *c_library_vectors()):
        patterns = group.arguments.view(np.int64).tolist()
        assert len(set(patterns)) == len(patterns)
