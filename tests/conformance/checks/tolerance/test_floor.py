"""Noise floors: what is measured on an engine, what is estimated in its place, and what is no rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from cai_conformance.checks.tolerance.floor import (
    MOST_ESTIMATES,
    FloorSource,
    NoiseLevel,
    estimated_floor,
    measured_floor,
    row_cases,
)
from cai_conformance.engine import EngineBroken, Evaluated, Loaded, Piece, Precision, Refused
from cai_conformance.faults import fault_named
from cai_conformance.fixtures.vectors import VectorCase
from cai_reference.arithmetic import Array
from support_engines import NATIVE, SUITE, Planted, Wrapped, floor_of, level_of, opened_in, vector_case
from support_foreign_engines import given

LAST, FAR, TOKENS = "fwd.oracle.last", "fwd.oracle.far", "gen.given.cached"


def cases(suite: str = SUITE) -> tuple[VectorCase, ...]:
    """Return a row from position 0, one from far away, and what is no row."""
    return vector_case(suite, LAST), vector_case(suite, FAR), vector_case(suite, TOKENS)


class Coarse(Wrapped):
    """An engine that rounds its logits to float32 and can be asked for float64."""

    def __init__(self, *, refuses: bool = False) -> None:
        super().__init__(
            arithmetic="float32", precision=Precision.uniform("float32"), precisions=("float64", "float32")
        )
        self._refuses = refuses
        self._rounds = True

    def load(self, folder: Path, precision: str | None = None) -> Loaded:
        """Load in the format."""
        if self._refuses and precision is not None:
            raise Refused("coarse", f"the format {precision}", "there is no memory")
        self._rounds = precision != "float64"
        return super().load(folder)

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Round what is answered."""
        answers = super().evaluate(pieces, observe=observe)
        return tuple(map(self._rounded, answers)) if self._rounds else answers

    @staticmethod
    def _rounded(answer: Evaluated) -> Evaluated:
        return replace(answer, logits=answer.logits.astype(np.float32).astype(np.float64))


class TestLevel:
    """A floor as a number."""

    def test_it_is_the_largest_of_what_was_found(self) -> None:
        """In units, and of divergences by themselves."""
        level = NoiseLevel((FloorSource("one", 3.0, 0.5), FloorSource("other", 7.0, 0.25)))
        assert (7.0, 0.5) == (level.ulps, level.divergence)
        assert "7 ULP (one 3; other 7)" == str(level)

    def test_it_is_never_below_one_unit(self) -> None:
        """Either of two rows was rounded by half of one."""
        assert 1.0 == level_of(0.25).ulps
        assert 1.0 == level_of(0.0).ulps

    def test_an_estimate_bounds_it(self) -> None:
        """What moves by more is a fault, and the report says so; the divergence is bounded by the square."""
        level = level_of(1e12, 0.75).bounded_by(level_of(2.0, 1e-4))
        assert (2.0 * MOST_ESTIMATES, 1e-4 * MOST_ESTIMATES**2) == (level.ulps, level.divergence)
        assert "32 ULP (chosen 1e+12; more than rounding gives)" == str(level)
        assert 32.0 == level_of(math.inf).bounded_by(level_of(2.0)).ulps

    def test_a_case_has_the_floor_of_where_it_starts(self) -> None:
        """A generation starts at position 0."""
        floor = floor_of(2.0, 9.0)
        assert [2.0, 9.0, 2.0] == [floor.level(case).ulps for case in cases()]


class TestMeasured:
    """On an engine."""

    def test_it_is_measured_in_every_way_that_the_engine_allows(self) -> None:
        """A double that is summed in other orders moves by a few units."""
        engine = Wrapped()
        floor = measured_floor(opened_in(engine), cases())
        assert ("float64", True) == (floor.precision, floor.measured)
        for level in (floor.near, floor.far):
            assert ["4 orders of summation", "later starts"] == [source.name for source in level.sources]
            assert all(0.0 < source.ulps < 64.0 for source in level.sources)
            assert all(source.divergence < 1e-14 for source in level.sources)
        assert str(floor).startswith("measured floor in float64: ")
        assert engine.loads == 6

    @pytest.mark.exhaustive
    def test_a_finer_run_of_its_own_is_another_way(self) -> None:
        """Rounding a logit to float32 is half a unit of it, at most."""
        floor = measured_floor(opened_in(Coarse()), cases())
        assert "float32" == floor.precision
        assert "its own float64 run" == floor.near.sources[0].name
        assert 0.0 < floor.near.sources[0].ulps <= 0.5

    @pytest.mark.exhaustive
    def test_a_format_that_is_refused_tells_nothing(self) -> None:
        """The others do."""
        floor = measured_floor(opened_in(Coarse(refuses=True)), cases())
        assert 0.0 == floor.near.sources[0].ulps
        assert floor.near.ulps >= 1.0

    @pytest.mark.exhaustive
    def test_channels_in_groups_are_not_reordered(self) -> None:
        """Later starts remain."""
        floor = measured_floor(opened_in(Wrapped(), NATIVE), cases(NATIVE))
        assert ["later starts"] == [source.name for source in floor.near.sources]

    @pytest.mark.parametrize(
        ("slug", "source"),
        [
            ("attention.keys-unrotated", 1),
            pytest.param("projection.square-transposed", 0, marks=pytest.mark.exhaustive),
        ],
    )
    def test_a_fault_does_not_measure_itself_as_rounding(self, slug: str, source: int) -> None:
        """Rows that hang on where they start, or on the order of channels, move by far more than rounding gives."""
        suite = "llama.dense"
        floor = measured_floor(opened_in(Planted(fault_named(slug)), suite), cases(suite))
        estimate = estimated_floor(given(suite), cases(suite), "float64")
        assert floor.near.sources[source].ulps > 1e14
        assert floor.near.ulps == MOST_ESTIMATES * estimate.near.ulps < 1e3

    @pytest.mark.exhaustive
    def test_what_is_no_number_bounds_nothing(self) -> None:
        """An engine whose later runs overflow has a finite floor."""

        class Overflowing(Wrapped):
            def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
                answers = super().evaluate(pieces, observe=observe)
                if self.loads == 1:
                    return answers
                return tuple(replace(answer, logits=np.full_like(answer.logits, np.nan)) for answer in answers)

        floor = measured_floor(opened_in(Overflowing()), cases())
        assert math.inf == floor.near.sources[0].ulps
        assert math.isfinite(floor.near.ulps)
        assert math.isfinite(floor.far.divergence)

    def test_an_engine_that_breaks_leaves_the_plain_model_wanted(self) -> None:
        """In the middle of another order; the next load is of the suite's own."""

        class Breaking(Wrapped):
            def load(self, folder: Path, precision: str | None = None) -> Loaded:
                if self.loads == 2:
                    self.loads += 1
                    raise EngineBroken("breaking", "crashed")
                return super().load(folder, precision)

        opened = opened_in(Breaking())
        with pytest.raises(EngineBroken):
            measured_floor(opened, cases())
        opened.load()
        row = opened.engine.evaluate([Piece(0, 0, (0, 5), (1,))])[0].logits
        plain = opened_in(Wrapped())
        plain.load()
        assert np.array_equal(row, plain.engine.evaluate([Piece(0, 0, (0, 5), (1,))])[0].logits)


class TestEstimated:
    """By the reference, where a backend cannot be driven."""

    def test_a_double_is_held_against_the_strict_arithmetic(self) -> None:
        """They differ by their orders of summation."""
        floor = estimated_floor(given(SUITE), cases(), "float64")
        assert not floor.measured
        assert ["the reference in fast", "later starts"] == [source.name for source in floor.near.sources]
        assert str(floor).startswith("estimated floor in float64: ")

    @pytest.mark.parametrize(
        "precision",
        ["float32", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("bfloat16", "float16"))],
    )
    def test_stages_are_rounded_to_a_coarse_format(self, precision: str) -> None:
        """So that a row is a few units of that format off, and no two runs are the same one."""
        floor = estimated_floor(given(SUITE), cases(), precision)
        assert f"the reference with stages in {precision}" == floor.near.sources[0].name
        assert 0.25 < floor.near.sources[0].ulps < 32.0
        assert 0.25 < floor.far.sources[0].ulps < 32.0

    def test_what_is_no_row_is_left_out(self) -> None:
        """Tokens have no distance."""
        assert [LAST, FAR] == [case.identifier for case in row_cases(cases())]


KINDS: Final = {"float16": np.float16, "float32": np.float32}


def nearest(value: Array, precision: str) -> Array:
    """Return the nearest numbers of a format, by NumPy."""
    return value.astype(KINDS[precision]).astype(np.float64)


@pytest.mark.exhaustive
def test_an_engine_in_a_coarse_format_measures_what_is_estimated() -> None:
    """Rounding the weights to float16 alone moves rows by no more than some estimated floors."""
    model = given(SUITE)
    assert all(np.array_equal(value, nearest(value, "float16")) for value in model.tensors.values())

    class Half(Wrapped):
        def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
            answers = super().evaluate(pieces, observe=observe)
            return tuple(replace(answer, logits=nearest(answer.logits, "float16")) for answer in answers)

    engine = Half(arithmetic="float16", precision=Precision.uniform("float16"))
    floor, estimate = measured_floor(opened_in(engine), cases()), estimated_floor(model, cases(), "float16")
    assert floor.near.ulps <= MOST_ESTIMATES * estimate.near.ulps
    assert "more than rounding gives" not in str(floor)
