"""Faults of arithmetic: the right formula, and other last bits. Whoever computes in `strict/1` is held to every bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from cai_conformance.faults.fault import Family, Place
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import NGRAM, Sight, exact, run
from cai_reference.arithmetic import Arithmetic, Array, Elementwise, Product, instances
from cai_reference.arithmetic.instances import FAST, LIBM, STRICT


def _strict(patch: Patch, wrong: Arithmetic) -> None:
    """Answer with another arithmetic where `strict/1` is asked for."""
    right = instances.named

    def named(identifier: str) -> Arithmetic:
        found = right(identifier)
        return wrong if found is STRICT else found

    patch.replace(right, named)


def _squared_half(x: float | Array) -> Array:
    """Return exp(x/2)², which is exp(x) but for rounding."""
    half = np.asarray(STRICT.exp(np.asarray(x) * 0.5))
    squared: Array = half * half
    return squared


def _backwards(x: Array | float, /, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Sum from the last to the first."""
    return STRICT.sum(np.flip(np.asarray(x), axis), axis, keepdims)


def _products_backwards(left: Array, right: Array) -> Array:
    return STRICT.matmul(np.flip(left, -1), np.flip(right, -2))


Order = Callable[[Array], Array]
"""Sums `[..., terms]` over its last axis."""


def pairwise(rows: Array) -> Array:
    """Halve until one term is left, and add the halves."""
    terms = rows.shape[-1]
    if terms <= 1:
        return STRICT.sum(rows, axis=-1)
    return np.asarray(pairwise(rows[..., : terms // 2]) + pairwise(rows[..., terms // 2 :]))


def _from_the_end(rows: Array) -> Array:
    return STRICT.sum(rows[..., ::-1], axis=-1)


def exactly(rows: Array) -> Array:
    """Add without rounding, and round once; what overflows on the way is infinite."""

    def total(terms: list[float]) -> float:
        try:
            return math.fsum(terms)
        except OverflowError:
            return math.inf

    flat = rows.reshape(-1, rows.shape[-1])
    return np.array([total(row) for row in flat.tolist()]).reshape(rows.shape[:-1])


def _product_pairwise(a: Array, b: Array) -> Array:
    half = a.shape[1] // 2
    if half == 0:
        return a * b + 0.0
    return _product_pairwise(a[:, :half], b[:half]) + _product_pairwise(a[:, half:], b[half:])


def _product_in_lanes(a: Array, b: Array) -> Array:
    lanes = [STRICT.matmul(a[:, lane::4], b[lane::4]) for lane in range(4)]
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])


def fused(a: Array, b: Array) -> Array:
    """Add each product unrounded: the error of the product (Veltkamp) and of the sum (Knuth) go in before rounding."""

    def halves(x: Array) -> tuple[Array, Array]:
        scaled = 134217729.0 * x
        upper = scaled - (scaled - x)
        return upper, x - upper

    total = np.zeros((a.shape[0], b.shape[1]))
    (a_high, a_low), (b_high, b_low) = halves(a), halves(b)
    for k in range(a.shape[1]):
        left, high, low = a[:, k, None], a_high[:, k, None], a_low[:, k, None]
        product = left * b[k]
        lost = ((high * b_high[k] - product) + high * b_low[k] + low * b_high[k]) + low * b_low[k]
        added = total + product
        virtual = added - total
        total = added + (((total - (added - virtual)) + (product - virtual)) + lost)
    return total


def single(a: Array, b: Array) -> Array:
    """Multiply and add in float32."""
    left, right = a.astype(np.float32), b.astype(np.float32)
    total = np.zeros((a.shape[0], b.shape[1]), dtype=np.float32)
    for k in range(a.shape[1]):
        total += left[:, k, None] * right[None, k, :]
    return total.astype(np.float64)


def from_the_first(a: Array, b: Array) -> Array:
    """Start each sum at its first product instead of at +0.0."""
    total = a[:, 0, None] * b[None, 0, :]
    for k in range(1, a.shape[1]):
        total = total + a[:, k, None] * b[None, k, :]
    return total


def _sums(*, tails: Order | None = None, totals: Order | None = None) -> Arithmetic:
    """Return `strict/1` with one order along an axis (the tail of a row), or another over everything (a batch)."""

    def total(x: Array | float, /, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
        values = np.asarray(x)
        if axis is None and totals is not None:
            return totals(values.ravel())
        if axis == -1 and tails is not None:
            found = tails(values)
            return found[..., None] if keepdims else found
        return STRICT.sum(values, axis=axis, keepdims=keepdims)

    return replace(STRICT, sum=total)


def _flushed(x: Array | float, /) -> Array:
    value = STRICT.exp(x)
    return np.where(value < 2.0**-1022, 0.0, value)


def _log_of_one_plus(x: Array | float, /) -> Array:
    return STRICT.log(1.0 + np.asarray(x))


def _seen(slug: str, title: str, cases: str, how: str, wrong: Arithmetic, *, library: bool = False) -> None:
    _arithmetic.seen(slug, title, cases, how, library=library)(partial(_strict, wrong=wrong))


def _of_library(name: str, title: str, function: Elementwise) -> None:
    how = "arguments at which the function of strict/1 is not the correctly rounded one"
    elementary = name.partition(".")[0]
    wrong = replace(STRICT, exp=function) if elementary == "exp" else replace(STRICT, log1p=function)
    _seen(name, title, f"num.elementary[{elementary}-hard]", how, wrong, library=True)


def _product(slug: str, title: str, matmul: Product, more: str = "", *, library: bool = False) -> None:
    cases = f"fwd.oracle[hidden] fwd.oracle[logits] {more}"
    how = "inner sums of eight terms, bit for bit"
    _seen(f"product.{slug}", title, cases, how, replace(STRICT, matmul=matmul), library=library)


def _tail(slug: str, title: str, order: Order) -> None:
    how = "63 terms beside a target that is the maximum"
    _seen(f"tail.{slug}", title, "loss.weights[tail]", how, _sums(tails=order))


def _total(slug: str, title: str, order: Order) -> None:
    how = "36 row losses of different sizes"
    _seen(f"total.{slug}", title, "loss.weights[rows]", how, _sums(totals=order))


_arithmetic = Family(frozenset({Place.ARITHMETIC}), (*exact(NGRAM), *run(NGRAM)))


@_arithmetic(
    "arithmetic.exponential-squared", "an exponential with other last bits", "num.elementary", workloads=exact(NGRAM)
)
def _exponential_squared(patch: Patch) -> None:
    """exp(x/2)² is the same number; libraries differ by as much."""
    _strict(patch, wrong=replace(STRICT, exp=_squared_half))


@_arithmetic("arithmetic.sums-backwards", "sums taken from the end", "loss.weights")
def _sums_backwards(patch: Patch) -> None:
    """The same terms in another order."""
    _strict(patch, wrong=replace(STRICT, sum=_backwards))


@_arithmetic(
    "arithmetic.products-backwards",
    "products summed from the end",
    "fwd.oracle",
    sight=Sight(("fwd.oracle[hidden]", "fwd.oracle[logits]"), "inner sums of eight terms, bit for bit"),
)
def _products_backwards_arithmetic(patch: Patch) -> None:
    """The same products in another order."""
    _strict(patch, wrong=replace(STRICT, matmul=_products_backwards))


_of_library("exp.numpy", "exp is NumPy's", FAST.exp)
_of_library("exp.c-library", "exp is the C library's", LIBM.exp)
_of_library("log1p.numpy", "log1p is NumPy's", FAST.log1p)
_of_library("log1p.c-library", "log1p is the C library's", LIBM.log1p)
_seen(
    "exp.flushed",
    "exp gives 0 instead of a subnormal number",
    "num.elementary[exp]",
    "exp(−745) is the smallest positive double",
    replace(STRICT, exp=_flushed),
)
_seen(
    "log1p.log-of-sum",
    "log1p(tail) is log(1 + tail)",
    "loss.weights[dominated] num.elementary[log1p]",
    "a tail of 1e-26 vanishes beside 1",
    replace(STRICT, log1p=_log_of_one_plus),
)
_product("pairwise", "inner sums are pairwise", _product_pairwise)
_product("lanes", "inner sums run in four lanes", _product_in_lanes)
_product("fused", "products are added unrounded (FMA)", fused)
_product("blas", "matrix products are BLAS's", FAST.matmul, library=True)
_product("single", "products are float32", single, "fwd.oracle[given]")
_seen(
    "product.einsum",
    "matrix products are einsum's",
    "grad.golden[embedding]",
    "sums of six terms, bit for bit",
    replace(STRICT, matmul=lambda a, b: np.asarray(np.einsum("nk,km->nm", a, b))),
    library=True,
)
_seen(
    "product.from-the-first",
    "a sum starts at its first product, not at +0.0",
    "fwd.oracle[zeros]",
    "products that are all −0.0",
    replace(STRICT, matmul=from_the_first),
)
_tail("pairwise", "the softmax tail is summed pairwise", pairwise)
_tail("backwards", "the softmax tail is summed backwards", _from_the_end)
_tail("exact", "the softmax tail is summed exactly", exactly)
_total("pairwise", "row losses are summed pairwise (np.sum)", pairwise)
_total("backwards", "row losses are summed backwards", _from_the_end)
_total("exact", "row losses are summed exactly (fsum)", exactly)

ARITHMETIC: Final = tuple(_arithmetic)
"""What is wrong with numbers whose formula is right."""
