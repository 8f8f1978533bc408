"""Wrong arithmetics: elementary functions of a library, sums in another order, products of another precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from cai_reference.arithmetic import FAST, LIBM, STRICT, Array, Elementwise, Product
from support_mutants import Mutant

Order = Callable[[Array], Array]
"""Sums `[..., terms]` over its last axis."""


def pairwise(rows: Array) -> Array:
    """Halve until one term is left, and add the halves."""
    terms = rows.shape[-1]
    if terms <= 1:
        return STRICT.sum(rows, axis=-1)
    return np.asarray(pairwise(rows[..., : terms // 2]) + pairwise(rows[..., terms // 2 :]))


def backwards(rows: Array) -> Array:
    """Add from the last term to the first."""
    return STRICT.sum(rows[..., ::-1], axis=-1)


def exactly(rows: Array) -> Array:
    """Add without rounding, and round once."""
    flat = rows.reshape(-1, rows.shape[-1])
    return np.array([_exact(row) for row in flat.tolist()]).reshape(rows.shape[:-1])


def _exact(terms: list[float]) -> float:
    try:
        return math.fsum(terms)
    except OverflowError:
        return math.inf


def _product_backwards(a: Array, b: Array) -> Array:
    return STRICT.matmul(a[:, ::-1], b[::-1])


def _product_pairwise(a: Array, b: Array) -> Array:
    terms = a.shape[1]
    if terms <= 1:
        return a * b + 0.0
    half = terms // 2
    return _product_pairwise(a[:, :half], b[:half]) + _product_pairwise(a[:, half:], b[half:])


def _product_in_four_lanes(a: Array, b: Array) -> Array:
    lanes = [STRICT.matmul(a[:, lane::4], b[lane::4]) for lane in range(4)]
    return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])


def fused(a: Array, b: Array) -> Array:
    """Add each product unrounded: the error of the product (Veltkamp) and of the sum (Knuth) go in before rounding."""
    total = np.zeros((a.shape[0], b.shape[1]))
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    for k in range(a.shape[1]):
        left, high, low = a[:, k, None], a_high[:, k, None], a_low[:, k, None]
        product = left * b[k]
        lost = ((high * b_high[k] - product) + high * b_low[k] + low * b_high[k]) + low * b_low[k]
        added = total + product
        virtual = added - total
        total = added + (((total - (added - virtual)) + (product - virtual)) + lost)
    return total


def _halves(x: Array) -> tuple[Array, Array]:
    scaled = 134217729.0 * x
    upper = scaled - (scaled - x)
    return upper, x - upper


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


def _einsum(a: Array, b: Array) -> Array:
    return np.asarray(np.einsum("nk,km->nm", a, b))


def _sums(*, tails: Order | None = None, totals: Order | None = None) -> Callable[..., Array]:
    """Return a sum that uses one order along an axis (the tail of a row), another over everything (a batch)."""

    def total(x: Array | float, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
        values = np.asarray(x)
        if axis is None and totals is not None:
            return totals(values.ravel())
        if axis == -1 and tails is not None:
            found = tails(values)
            return found[..., None] if keepdims else found
        return STRICT.sum(values, axis=axis, keepdims=keepdims)

    return total


def _flushed(x: Array | float, /) -> Array:
    value = STRICT.exp(x)
    return np.where(value < 2.0**-1022, 0.0, value)


def _log_of_one_plus(x: Array | float, /) -> Array:
    return STRICT.log(1.0 + np.asarray(x))


def _function(name: str, wrong: str, check: str, how: str, function: Elementwise, *, library: bool = False) -> Mutant:
    is_exp = name.startswith("exp")
    arithmetic = replace(STRICT, exp=function) if is_exp else replace(STRICT, log1p=function)
    return Mutant(name, wrong, (check,), how, arithmetic=arithmetic, library=library)


def _product(name: str, wrong: str, matmul: Product, *checks: str, how: str, library: bool = False) -> Mutant:
    return Mutant(name, wrong, checks, how, arithmetic=replace(STRICT, matmul=matmul), library=library)


def _sum(name: str, wrong: str, check: str, *, tails: Order | None = None, totals: Order | None = None) -> Mutant:
    how = "63 terms beside a target that is the maximum" if tails else "36 row losses of different sizes"
    return Mutant(name, wrong, (check,), how, arithmetic=replace(STRICT, sum=_sums(tails=tails, totals=totals)))


HARD = "arguments at which the function of strict/1 is not the correctly rounded one"
ORDERS = "inner sums of eight terms, bit for bit"
FORWARD = ("fwd.oracle[hidden]", "fwd.oracle[logits]")

ARITHMETIC_MUTANTS: Final = (
    _function("exp.numpy", "exp is NumPy's", "num.elementary[exp-hard]", HARD, FAST.exp, library=True),
    _function("exp.c-library", "exp is the C library's", "num.elementary[exp-hard]", HARD, LIBM.exp, library=True),
    _function("log1p.numpy", "log1p is NumPy's", "num.elementary[log1p-hard]", HARD, FAST.log1p, library=True),
    _function(
        "log1p.c-library", "log1p is the C library's", "num.elementary[log1p-hard]", HARD, LIBM.log1p, library=True
    ),
    _function(
        "exp.flushed",
        "exp gives 0 instead of a subnormal number",
        "num.elementary[exp]",
        "exp(−745) is the smallest positive double",
        _flushed,
    ),
    Mutant(
        "log1p.log-of-sum",
        "log1p(tail) is log(1 + tail)",
        ("loss.weights[dominated]", "num.elementary[log1p]"),
        "a tail of 1e-26 vanishes beside 1",
        arithmetic=replace(STRICT, log1p=_log_of_one_plus),
    ),
    _product("product.backwards", "inner sums run backwards", _product_backwards, *FORWARD, how=ORDERS),
    _product("product.pairwise", "inner sums are pairwise", _product_pairwise, *FORWARD, how=ORDERS),
    _product("product.lanes", "inner sums run in four lanes", _product_in_four_lanes, *FORWARD, how=ORDERS),
    _product("product.fused", "products are added unrounded (FMA)", fused, *FORWARD, how=ORDERS),
    _product("product.blas", "matrix products are BLAS's", FAST.matmul, *FORWARD, how=ORDERS, library=True),
    _product(
        "product.einsum",
        "matrix products are einsum's",
        _einsum,
        "grad.golden[embedding]",
        how="sums of six terms, bit for bit",
        library=True,
    ),
    _product("product.single", "products are float32", single, *FORWARD, "fwd.oracle[given]", how=ORDERS),
    _product(
        "product.from-the-first",
        "a sum starts at its first product, not at +0.0",
        from_the_first,
        "fwd.oracle[zeros]",
        how="products that are all −0.0",
    ),
    _sum("tail.pairwise", "the softmax tail is summed pairwise", "loss.weights[tail]", tails=pairwise),
    _sum("tail.backwards", "the softmax tail is summed backwards", "loss.weights[tail]", tails=backwards),
    _sum("tail.exact", "the softmax tail is summed exactly", "loss.weights[tail]", tails=exactly),
    _sum("total.pairwise", "row losses are summed pairwise (np.sum)", "loss.weights[rows]", totals=pairwise),
    _sum("total.backwards", "row losses are summed backwards", "loss.weights[rows]", totals=backwards),
    _sum("total.exact", "row losses are summed exactly (fsum)", "loss.weights[rows]", totals=exactly),
)
