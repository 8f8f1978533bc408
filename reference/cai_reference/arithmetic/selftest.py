"""Self-tests: does this machine compute `strict/1`, and is its C library the one behind the digests of `libm/1`?

Both compare bits with shipped vectors; any NaN equals any NaN. Nothing here decides what follows from a failure.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array, Elementwise
from cai_reference.arithmetic.bits import hex_bits
from cai_reference.arithmetic.instances import LIBM, STRICT
from cai_reference.arithmetic.vectors import (
    FunctionVectors,
    ProductVector,
    SumVector,
    c_library_vectors,
    strict_vectors,
)

_SHOWN_FAILURES = 5

# So many copies side by side make sums and products take their other way of computing.
_COPIES = 256


@dataclass(frozen=True)
class SelfTestResult:
    """What one group of vectors showed: its name, how many cases it has, and the first few failures in words."""

    name: str
    cases: int
    failures: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether no case failed."""
        return not self.failures


@dataclass(frozen=True)
class CLibrarySelfTest:
    """How the C library of this machine compares with glibc on x86-64 with FMA.

    `library` describes the machine's; `results` has one entry a function; `differing` names the functions that differ.
    """

    library: str
    results: tuple[SelfTestResult, ...]

    @property
    def cases(self) -> int:
        """How many arguments were tried, over all functions."""
        return sum(result.cases for result in self.results)

    @property
    def differing(self) -> tuple[str, ...]:
        """The functions that gave other bits, in the order of the vectors."""
        return tuple(result.name for result in self.results if not result.passed)

    @property
    def passed(self) -> bool:
        """Whether every function agreed."""
        return not self.differing

    def agrees_on(self, functions: Iterable[str]) -> bool:
        """Whether each of these functions agreed: a digest needs only the functions behind it."""
        return not set(functions) & set(self.differing)


def run_selftest() -> tuple[SelfTestResult, ...]:
    """Compare `strict/1` with its shipped vectors: six functions, then sums, then matrix products."""
    vectors = strict_vectors()
    return (
        *(_function_result(STRICT, group) for group in vectors.functions),
        _result("sum", len(vectors.sums), [failure for vector in vectors.sums for failure in _sum_failures(vector)]),
        _result(
            "matmul",
            len(vectors.products),
            [failure for vector in vectors.products for failure in _product_failures(vector)],
        ),
    )


def c_library_selftest() -> CLibrarySelfTest:
    """Compare the C library with glibc on x86-64 with FMA, on arguments that tell it from others."""
    return CLibrarySelfTest(
        library=_c_library(), results=tuple(_function_result(LIBM, group) for group in c_library_vectors())
    )


def _function_result(arithmetic: Arithmetic, group: FunctionVectors) -> SelfTestResult:
    """Try all arguments as one array, then each as a number."""
    function: Elementwise = getattr(arithmetic, group.function)
    together = function(group.arguments)
    failures = []
    for argument, expected, found in zip(
        group.arguments.tolist(), group.results.tolist(), together.tolist(), strict=True
    ):
        call = f"{group.function}({hex_bits(argument)})"
        if not _same(expected, found):
            failures.append(f"{call} is {hex_bits(found)}, expected {hex_bits(expected)}")
        elif not _same(found, alone := float(function(argument))):
            failures.append(f"{call} is {hex_bits(alone)} for a number, {hex_bits(found)} in an array")
    return _result(group.function, group.arguments.size, failures)


def _sum_failures(vector: SumVector) -> list[str]:
    """Sum alone, then as one of many."""
    # so many results make the sum loop over terms instead of accumulating along them
    many = np.broadcast_to(vector.terms, (_COPIES, *vector.terms.shape))
    axis = tuple(range(vector.terms.ndim)) if vector.axis is None else vector.axis
    return [
        *_array_failures(f"sum {vector.name}", vector.sums, STRICT.sum(vector.terms, axis=vector.axis)),
        *_array_failures(
            f"sum {vector.name} among many", vector.sums, STRICT.sum(many, axis=tuple(k + 1 for k in axis))[-1]
        ),
    ]


def _product_failures(vector: ProductVector) -> list[str]:
    """Multiply alone, then as one of many."""
    leading = (_COPIES, *(1,) * (vector.product.ndim - vector.left.ndim), *vector.left.shape)
    many = np.broadcast_to(vector.left.reshape(leading[1:]), leading)
    return [
        *_array_failures(f"matmul {vector.name}", vector.product, STRICT.matmul(vector.left, vector.right)),
        *_array_failures(f"matmul {vector.name} among many", vector.product, STRICT.matmul(many, vector.right)[-1]),
    ]


def _array_failures(what: str, expected: Array, found: Array) -> list[str]:
    return [
        f"{what} [{index}] is {hex_bits(right)}, expected {hex_bits(left)}"
        for index, (left, right) in enumerate(zip(expected.ravel().tolist(), found.ravel().tolist(), strict=True))
        if not _same(left, right)
    ]


def _same(a: float, b: float) -> bool:
    return hex_bits(a) == hex_bits(b) or (a != a and b != b)


def _result(name: str, cases: int, failures: list[str]) -> SelfTestResult:
    return SelfTestResult(name, cases, tuple(failures[:_SHOWN_FAILURES]))


def _c_library() -> str:
    """Name the C library and the machine, as in `glibc 2.36 on Linux x86_64`."""
    name, version = platform.libc_ver()
    library = f"{name} {version}".strip() or "a C library without a name"
    return f"{library} on {platform.system()} {platform.machine()}"
