"""Initial values, embedding, linear map, SwiGLU: published numbers, hand numbers, which error comes first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import LIBM, STRICT
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.errors import CaiReferenceError, LayerError
from cai_reference.layers.matrices import check_name, check_unique_names, embedding, xavier_limit, xavier_uniform
from cai_reference.layers.projection import LinearError, linear
from cai_reference.layers.swiglu import SwiGluError, swiglu
from cai_reference.splitmix import INCREMENT, SplitMix64
from support_refusals import raises, refuses

TAPE = Tape(STRICT)


def zeros(*shape: int) -> Variable:
    """Return a constant of zeros."""
    return TAPE.constant(np.zeros(shape))


def matrix(rows: list[list[float]]) -> Variable:
    """Return a constant matrix."""
    return TAPE.constant(np.array(rows))


@pytest.mark.parametrize(
    ("fan_in", "fan_out", "limit"),
    [(266, 4, 0.14907119849998599), (8, 8, 0.6123724356957945), (8, 266, 0.14797908710009702), (3, 3, 1.0)],
)
def test_the_limit_is_the_published_one(fan_in: int, fan_out: int, limit: float) -> None:
    """sqrt(6 / (in + out)), rounded once for the quotient and once for the root."""
    assert limit == xavier_limit(fan_in, fan_out)


def test_a_matrix_is_drawn_row_by_row() -> None:
    """Limit · (2u − 1), one word an element; seed 23 gives the published first row."""
    generator = SplitMix64(23)
    table = xavier_uniform("ngram.embedding.weight", 266, 4, generator)
    assert [0.12210232056346292, 0.02937052877164861, -0.1440928858622607, 0.1263200298264403] == table.value[
        0
    ].tolist()
    assert (23 + 1064 * INCREMENT) % 2**64 == generator.state
    assert np.abs(table.value).max() <= xavier_limit(266, 4)


def test_the_affine_form_would_have_other_bits() -> None:
    """Low + u · (high − low) is the same number on paper, but not in half of the published table."""
    units, limit = SplitMix64(23), xavier_limit(266, 4)
    affine = np.array([-limit + units.unit() * (limit - -limit) for _ in range(1064)]).reshape(266, 4)
    table = xavier_uniform("table", 266, 4, SplitMix64(23)).value
    assert 534 == int((affine != table).sum())
    np.testing.assert_allclose(affine, table, atol=1e-16)


@pytest.mark.parametrize("name", ["a", "ngram.ffn.gate.weight", "0.1_2", "_", "a.b.c"])
def test_these_are_names(name: str) -> None:
    """Segments of lower-case letters, digits and underscores, joined by dots."""
    check_name(name)


NAMES: dict[str, tuple[str, CaiReferenceError]] = {
    "empty": ("", LayerError("empty-name")),
    "leading dot": (".a", LayerError("empty-name-segment", index=0)),
    "two dots": ("ab..c", LayerError("empty-name-segment", index=3)),
    "trailing dot": ("ab.", LayerError("empty-name-segment", index=3)),
    "upper case": ("aB.", LayerError("invalid-name-character", index=1, byte=0x42)),
    "hyphen": ("a-b", LayerError("invalid-name-character", index=1, byte=0x2D)),
    "bytes, not characters": ("aé", LayerError("invalid-name-character", index=1, byte=0xC3)),
}


@pytest.mark.parametrize(("name", "expected"), NAMES.values(), ids=NAMES)
def test_a_bad_name_draws_nothing(name: str, expected: CaiReferenceError) -> None:
    """Names are looked at before widths, and the generator stays where it was."""
    generator = SplitMix64(7)
    with raises(expected):
        xavier_uniform(name, 0, 0, generator)
    assert 7 == generator.state


@pytest.mark.parametrize(
    ("fan_in", "fan_out", "expected"), [(0, 0, LayerError("zero-fan-in")), (1, 0, LayerError("zero-fan-out"))]
)
def test_a_bad_width_draws_nothing(fan_in: int, fan_out: int, expected: CaiReferenceError) -> None:
    """Inputs are looked at before outputs."""
    generator = SplitMix64(7)
    with raises(expected):
        xavier_uniform("w", fan_in, fan_out, generator)
    assert 7 == generator.state


def test_a_registry_names_nothing_twice() -> None:
    """The error tells both positions of the first repetition."""
    check_unique_names(["a", "b"])
    with raises(LayerError("duplicate-name", name="b", first=1, repeated=3)):
        check_unique_names(["a", "b", "c", "b", "a"])


def test_embedding_looks_rows_up() -> None:
    """Any layout of ids, also none."""
    table = matrix([[1.0, 2.0], [3.0, 4.0]])
    assert [[[3.0, 4.0], [1.0, 2.0]]] == embedding(TAPE, table, [1, 0], (1, 2)).value.tolist()
    assert (0, 3, 2) == embedding(TAPE, table, [], (0, 3)).shape
    assert [3.0, 4.0] == embedding(TAPE, table, [1], ()).value.tolist()


def test_linear_adds_the_bias_after_the_whole_sum() -> None:
    """(2^-53 + 2^-53) + 1 keeps the small terms; a sum that starts at the bias, 1, would lose both."""
    tiny = 2.0**-53
    x, weight, bias = matrix([[1.0, 1.0]]), matrix([[tiny], [tiny]]), TAPE.constant(np.array([1.0]))
    assert [[1.0 + 2.0**-52]] == linear(TAPE, x, weight, bias).value.tolist()
    assert [[2.0 * tiny]] == linear(TAPE, x, weight).value.tolist()


def test_linear_keeps_leading_axes() -> None:
    """Every vector along the last axis is mapped."""
    assert (2, 3, 5) == linear(TAPE, zeros(2, 3, 4), zeros(4, 5)).shape


def test_swiglu_by_hand() -> None:
    """One unit: (SiLU(0.2) · 0.3) · 2."""
    tape = Tape(LIBM)
    x = matrix([[0.2, 0.3]])
    (row,) = swiglu(tape, x, matrix([[1.0], [0.0]]), matrix([[0.0], [1.0]]), matrix([[2.0]])).value.tolist()
    assert [((0.2 * (1.0 / (1.0 + math.exp(-0.2)))) * 0.3) * 2.0] == row


def test_swiglu_gates_the_first_branch() -> None:
    """With gate and up exchanged the result is another."""
    x, one, two, down = matrix([[1.0]]), matrix([[1.0]]), matrix([[2.0]]), matrix([[1.0]])
    assert swiglu(TAPE, x, one, two, down).value != swiglu(TAPE, x, two, one, down).value


ERRORS: dict[str, tuple[Callable[[], object], CaiReferenceError]] = {
    "table rank": (lambda: embedding(TAPE, zeros(0), [9], (-1,)), LayerError("table-rank", rank=1)),
    "table rows": (lambda: embedding(TAPE, zeros(0, 0), [9], (-1,)), LayerError("empty-embedding-vocabulary")),
    "table columns": (lambda: embedding(TAPE, zeros(2, 0), [9], (-1,)), LayerError("zero-table-width")),
    "token shape": (lambda: embedding(TAPE, zeros(2, 2), [9], (3, -1)), LayerError("token-shape", shape=(3, -1))),
    "token count": (
        lambda: embedding(TAPE, zeros(2, 2), [9], (1, 2)),
        LayerError("token-count-mismatch", expected=2, actual=1),
    ),
    "token id": (
        lambda: embedding(TAPE, zeros(2, 2), [1, 2, 9], (3,)),
        LayerError("token-id-out-of-bounds", position=1, token_id=2, vocabulary_size=2),
    ),
    "negative token id": (
        lambda: embedding(TAPE, zeros(2, 2), [-1], (1,)),
        LayerError("token-id-out-of-bounds", position=0, token_id=-1, vocabulary_size=2),
    ),
    "weight rank": (lambda: linear(TAPE, zeros(3), zeros(0), zeros(1, 1)), LinearError("weight-rank", rank=1)),
    "weight inputs": (lambda: linear(TAPE, zeros(3), zeros(0, 0), zeros(1, 1)), LinearError("zero-input-width")),
    "weight outputs": (lambda: linear(TAPE, zeros(3), zeros(2, 0), zeros(1, 1)), LinearError("zero-output-width")),
    "bias rank": (lambda: linear(TAPE, zeros(3), zeros(2, 2), zeros(1, 1)), LinearError("bias-rank", rank=2)),
    "bias width": (
        lambda: linear(TAPE, zeros(3), zeros(2, 2), zeros(3)),
        LinearError("bias-width-mismatch", expected=2, actual=3),
    ),
    "input rank": (lambda: linear(TAPE, zeros(3), zeros(2, 2), zeros(2)), LinearError("input-rank", rank=1)),
    "input width": (
        lambda: linear(TAPE, zeros(1, 3), zeros(2, 2), zeros(2)),
        LinearError("input-width-mismatch", expected=2, actual=3),
    ),
    "branch inputs": (
        lambda: swiglu(TAPE, zeros(1, 9), zeros(2, 3), zeros(3, 4), zeros(5, 1)),
        SwiGluError("branch-input-width-mismatch", gate=2, up=3),
    ),
    "branch widths": (
        lambda: swiglu(TAPE, zeros(1, 9), zeros(2, 3), zeros(2, 4), zeros(5, 1)),
        SwiGluError("branch-hidden-width-mismatch", gate=3, up=4),
    ),
    "down inputs": (
        lambda: swiglu(TAPE, zeros(1, 9), zeros(2, 3), zeros(2, 3), zeros(5, 1)),
        SwiGluError("down-input-width-mismatch", hidden=3, down=5),
    ),
}


@pytest.mark.parametrize(("operation", "expected"), ERRORS.values(), ids=ERRORS)
def test_the_first_failure_wins(operation: Callable[[], object], expected: CaiReferenceError) -> None:
    """Each call breaks its own check and the later ones, as far as one shape can."""
    with raises(expected):
        operation()


@pytest.mark.parametrize(
    ("shapes", "projection", "inner"),
    [
        (((1, 9), (2, 3), (2, 3), (3, 1)), "gate", LinearError("input-width-mismatch", expected=2, actual=9)),
        (((1, 2), (2, 3), (2, 3, 1), (3, 1)), "up", LinearError("weight-rank", rank=3)),
        (((1, 2), (2, 3), (2, 3), (3,)), "down", LinearError("weight-rank", rank=1)),
    ],
)
def test_a_failing_projection_is_named(
    shapes: tuple[tuple[int, ...], ...], projection: str, inner: CaiReferenceError
) -> None:
    """The error carries the inner text, and the inner error is its cause."""
    with refuses(SwiGluError, "projection-failed") as caught:
        swiglu(TAPE, *(zeros(*shape) for shape in shapes))
    assert (projection, str(inner)) == (caught.value.fields["projection"], caught.value.fields["inner"])
    assert type(inner) is type(caught.value.__cause__)


def test_an_overflowing_projection_is_named() -> None:
    """Numbers out of range fail where they arise."""
    x = matrix([[1e200, 0.0]])
    with refuses(SwiGluError, "projection-failed"):
        swiglu(TAPE, x, matrix([[1.0], [1.0]]), matrix([[1e200], [1.0]]), matrix([[1.0]]))


def test_an_overflowing_gate_is_named() -> None:
    """The product of the branches is the elementwise gate."""
    x, weight = matrix([[1e200]]), matrix([[1.0]])
    with refuses(SwiGluError, "gate-failed") as caught:
        swiglu(TAPE, x, weight, weight, weight)
    assert ("elementwise gate", "multiply: the result at flat index 0 is inf") == (
        caught.value.fields["operation"],
        caught.value.fields["inner"],
    )


def test_an_arithmetic_without_a_working_exp_fails_at_the_silu_gate() -> None:
    """A caller's own arithmetic may return NaN; the place is told."""

    def broken(x: Array | float, /) -> Array:
        return np.full(np.shape(x), np.nan)

    tape = Tape(replace(STRICT, exp=broken))
    weight = Parameter("w", np.ones((1, 1)))
    with refuses(SwiGluError, "gate-failed"):
        swiglu(tape, matrix([[1.0]]), weight, weight, weight)
