"""Sums and matrix products: ascending order, rounded products, independence of layout and batch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.exceptions import AxisError

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic import ascending as ascending_module
from cai_reference.arithmetic.bits import hex_bits, little_endian_bytes
from cai_reference.arithmetic.instances import FAST, LIBM, STRICT
from cai_reference.errors import ArithmeticFault
from support_refusals import refuses

reals = st.floats(min_value=-1e6, max_value=1e6)


def one_by_one(terms: list[float]) -> float:
    """Add in order from +0.0, the slow way."""
    total = 0.0
    for term in terms:
        total = total + term
    return total


def random(*shape: int, seed: int = 1) -> Array:
    """Reals of many magnitudes, so that the order of additions shows in the bits."""
    generator = np.random.Generator(np.random.PCG64(seed))
    return np.ldexp(generator.uniform(-1.0, 1.0, shape), generator.integers(-12, 12, shape))


@given(st.lists(reals, max_size=60))
def test_sum_is_the_loop(terms: list[float]) -> None:
    """A sum has the bits of a plain loop, for one sum and for one of many."""
    expected = hex_bits(one_by_one(terms))
    assert expected == hex_bits(STRICT.sum(np.array(terms)).item())
    many = np.repeat(np.array(terms)[None, :], 300, axis=0)
    assert {expected} == {hex_bits(total) for total in STRICT.sum(many, axis=1).tolist()}


def test_sum_starts_at_positive_zero() -> None:
    """No terms, one -0.0 and many -0.0 all sum to +0.0, on both ways of computing."""
    for terms in (0, 1, 5):
        assert hex_bits(0.0) == hex_bits(STRICT.sum(np.full(terms, -0.0)).item())
        assert hex_bits(0.0) == hex_bits(STRICT.sum(np.full((terms, 400), -0.0), axis=0)[7].item())


def test_hand_worked_order() -> None:
    """1 plus three times half its last place stays 1; the three first make 1.5 places, a tie that goes up to 2."""
    half = 2.0**-53
    assert 1.0 == STRICT.sum(np.array([1.0, half, half, half])).item()
    assert 1.0 + 2.0**-51 == STRICT.sum(np.array([half, half, half, 1.0])).item()


def test_several_axes_are_one_row_major_sum() -> None:
    """Axes are summed together in row-major order, in whatever order they are named."""
    x = random(3, 4, 5)
    expected = [one_by_one(x[:, k, :].ravel().tolist()) for k in range(4)]
    assert expected == STRICT.sum(x, axis=(0, 2)).tolist()
    assert expected == STRICT.sum(x, axis=(-1, 0)).tolist()
    assert one_by_one(x.ravel().tolist()) == STRICT.sum(x).item()


@pytest.mark.parametrize("arithmetic", [STRICT, LIBM, FAST], ids=lambda arithmetic: arithmetic.identifier)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1), (1, 2), (0, 1, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 0, 4), (40, 3, 50)])
def test_sum_shapes(
    arithmetic: Arithmetic, axis: int | tuple[int, ...] | None, keepdims: bool, shape: tuple[int, ...]
) -> None:
    """Results have the shape that NumPy's sum gives them, and are arrays even without axes."""
    x = np.ones(shape)
    expected = np.asarray(np.sum(x, axis=axis, keepdims=keepdims))
    found = arithmetic.sum(x, axis=axis, keepdims=keepdims)
    assert (np.ndarray, expected.shape, expected.tolist()) == (type(found), found.shape, found.tolist())


def test_sum_of_a_number_is_that_number() -> None:
    """A number has no axes to sum over."""
    assert (2.5, ()) == (STRICT.sum(2.5).item(), STRICT.sum(2.5).shape)


def test_sum_refuses_axes_that_do_not_exist() -> None:
    """A missing axis and a repeated axis are errors."""
    with pytest.raises(AxisError):
        STRICT.sum(np.ones((2, 2)), axis=2)
    with pytest.raises(ValueError, match="repeated axis"):
        STRICT.sum(np.ones((2, 2)), axis=(0, -2))


@pytest.mark.parametrize("shape", [(6, 7), (30, 40)])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sum_does_not_depend_on_layout(shape: tuple[int, int], axis: int | None) -> None:
    """Row-major, column-major, sliced and reversed-and-reversed arrays give the same bits."""
    x = random(*shape)
    expected = little_endian_bytes(STRICT.sum(x, axis=axis))
    assert expected == little_endian_bytes(STRICT.sum(np.asfortranarray(x), axis=axis))
    assert expected == little_endian_bytes(STRICT.sum(np.repeat(x, 3, axis=1)[:, ::3], axis=axis))
    assert expected == little_endian_bytes(STRICT.sum(x[::-1].copy()[::-1], axis=axis))


@pytest.mark.parametrize(("n", "k", "m"), [(1, 7, 1), (3, 5, 4), (1, 40, 30), (20, 9, 30), (300, 3, 1), (1, 3, 300)])
def test_matmul_is_the_triple_loop(n: int, k: int, m: int) -> None:
    """Every element has the bits of a loop over rounded products."""
    a, b = random(n, k), random(k, m, seed=2)
    expected = [[one_by_one([a[i, p].item() * b[p, j].item() for p in range(k)]) for j in range(m)] for i in range(n)]
    assert expected == STRICT.matmul(a, b).tolist()


def test_matmul_rounds_each_product() -> None:
    """-(1 + 2e) + (1 + e)**2 is 0 when the square is rounded; a fused multiply-add would leave e**2."""
    e = 2.0**-30
    a, b = np.array([[-1.0, 1.0 + e]]), np.array([[1.0 + 2.0 * e], [1.0 + e]])
    assert [[0.0]] == STRICT.matmul(a, b).tolist()
    assert np.all(STRICT.matmul(np.repeat(a, 300, axis=0), b) == 0.0)


@pytest.mark.parametrize("arithmetic", [STRICT, LIBM], ids=lambda arithmetic: arithmetic.identifier)
def test_row_alone_is_row_in_batch(arithmetic: Arithmetic) -> None:
    """A row multiplied alone has the bits that it has in the batch, and so has a matrix in a stack of matrices."""
    a, b = random(50, 33), random(33, 21, seed=2)
    batch = arithmetic.matmul(a, b)
    assert little_endian_bytes(batch) == b"".join(
        little_endian_bytes(arithmetic.matmul(a[i : i + 1], b)) for i in range(50)
    )
    assert little_endian_bytes(batch) == little_endian_bytes(arithmetic.matmul(a[:, None, :], b))
    assert little_endian_bytes(batch) == little_endian_bytes(arithmetic.matmul(np.asfortranarray(a), b.T.copy().T))


def test_transposed_product_has_the_same_bits() -> None:
    """(a b) transposed equals b transposed times a transposed: products commute and the order stays."""
    a, b = random(30, 12), random(12, 25, seed=2)
    assert little_endian_bytes(STRICT.matmul(a, b).T) == little_endian_bytes(STRICT.matmul(b.T, a.T))


def test_masked_terms_may_be_zero_or_left_out() -> None:
    """Products of zero weights behind the real ones change no bit."""
    a, b = random(4, 10), random(10, 3, seed=2)
    padded = np.concatenate([a, np.zeros((4, 6))], axis=1)
    long = np.concatenate([b, random(6, 3, seed=3)], axis=0)
    assert little_endian_bytes(STRICT.matmul(a, b)) == little_endian_bytes(STRICT.matmul(padded, long))


def test_many_products_use_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product whose terms would need much room is computed by the loop, to the same bits."""
    a, b = random(2, 50), random(50, 3, seed=2)
    expected = little_endian_bytes(STRICT.matmul(a, b))
    monkeypatch.setattr(ascending_module, "_MANY_PRODUCTS", 10)
    assert expected == little_endian_bytes(STRICT.matmul(a, b))


@pytest.mark.parametrize("arithmetic", [STRICT, LIBM, FAST], ids=lambda arithmetic: arithmetic.identifier)
@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((2, 3), (3, 4), (2, 4)),
        ((5, 2, 3), (3, 4), (5, 2, 4)),
        ((5, 1, 2, 3), (6, 3, 4), (5, 6, 2, 4)),
        ((2, 0), (0, 4), (2, 4)),
        ((0, 3), (3, 4), (0, 4)),
        ((7, 20, 3), (7, 3, 40), (7, 20, 40)),
    ],
)
def test_matmul_shapes(
    arithmetic: Arithmetic, left: tuple[int, ...], right: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """Leading axes broadcast by trailing alignment; no terms give zeros."""
    product = arithmetic.matmul(np.ones(left), np.ones(right))
    assert (expected, [float(left[-1])] * product.size) == (product.shape, product.ravel().tolist())


@pytest.mark.parametrize("arithmetic", [STRICT, LIBM, FAST], ids=lambda arithmetic: arithmetic.identifier)
@pytest.mark.parametrize(
    ("left", "right"), [((3,), (3, 4)), ((2, 3), (3,)), ((2, 3), (4, 5)), ((2, 2, 3), (3, 3, 4)), ((), ())]
)
def test_matmul_refuses_other_shapes(arithmetic: Arithmetic, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """Vectors, unequal inner axes and leading axes that don't broadcast are refused with both shapes."""
    with refuses(ArithmeticFault, "matmul-shapes") as refusal:
        arithmetic.matmul(np.ones(left), np.ones(right))
    assert (left, right) == (refusal.value.fields["left"], refusal.value.fields["right"])
    assert f"cannot multiply shapes {left} and {right}" in str(refusal.value)


def test_infinities_and_overflow_do_not_warn() -> None:
    """Overflow, inf - inf and 0 * inf give IEEE results without a warning."""
    for arithmetic, copies in itertools.product((STRICT, LIBM, FAST), (1, 300)):
        x = np.repeat(np.array([[1.7976931348623157e308, 1.7976931348623157e308, -np.inf]]), copies, axis=0)
        assert np.all(np.isnan(arithmetic.sum(x, axis=1)))
        assert np.all(np.isnan(arithmetic.matmul(x, np.array([[1.0], [1.0], [0.0]]))))
