"""The noise floor of a backend: how far two results lie apart that differ by rounding alone.

Measured on rows of given weights, where the backend can be driven: against its own run in a finer format, against runs
whose sums are taken in another order, and against sequences that start a little later, which rotary positions must not
notice. Where it cannot be driven, the floor is estimated by the reference, whose stages are rounded to the backend's
format; where that is the reference's own, by its fast arithmetic beside the strict one.

Rows that start far away have a floor of their own: an angle of thousands of radians has lost digits.

A backend whose own fault moves rows when channels change places or sequences start later would measure that fault as
rounding. So what is measured counts up to `MOST_ESTIMATES` times what is estimated for its format, and no further.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from cai_conformance.backends.engine.answers import answer_case
from cai_conformance.backends.engine.given_model import GivenModel, OpenedModel
from cai_conformance.checks.tolerance.distance import distance_between
from cai_conformance.checks.tolerance.reordering import can_reorder, reordered
from cai_conformance.engine import MANTISSA_BITS, PRECISIONS
from cai_conformance.fixtures.vectors import VectorCase
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.autograd import Tape, Variable
from cai_reference.splitmix import FIRST_MULTIPLIER, INCREMENT, SECOND_MULTIPLIER

ORDERS: Final = 4
"""In how many orders sums are taken."""
SHIFTS: Final = (1, 2, 5)
"""By how many positions sequences are moved."""
ROW_OPERATIONS: Final = frozenset({"decoder.logits", "decoder.session-logits"})
LEAST_ULPS: Final = 1.0
"""No floor is below the half unit by which either of two rows was rounded."""
MOST_ESTIMATES: Final = 16.0
"""How many estimated floors a measured one may be; honest backends in three formats measured from 0.6 to 4."""

Rows: TypeAlias = Mapping[str, Array]


@dataclass(frozen=True)
class FloorSource:
    """One way in which a floor was found: in words, the largest distance, and the largest divergence."""

    name: str
    ulps: float
    divergence: float


@dataclass(frozen=True)
class NoiseLevel:
    """A floor: the largest of what was found in several ways.

    Attributes:
        sources: at least one.
        most_ulps, most_divergence: beyond which a difference is no matter of rounding.
    """

    sources: tuple[FloorSource, ...]
    most_ulps: float = math.inf
    most_divergence: float = math.inf

    @property
    def ulps(self) -> float:
        """In units in the last place of a row's largest magnitude."""
        return min(max(LEAST_ULPS, *(source.ulps for source in self.sources)), self.most_ulps)

    @property
    def divergence(self) -> float:
        """Of KL(right ‖ found), in nats."""
        return min(max(source.divergence for source in self.sources), self.most_divergence)

    def bounded_by(self, estimate: NoiseLevel) -> NoiseLevel:
        """Return the same floor, which counts up to `MOST_ESTIMATES` of an estimated one."""
        # The divergence grows with the square of what moves the logits.
        return replace(
            self,
            most_ulps=MOST_ESTIMATES * estimate.ulps,
            most_divergence=MOST_ESTIMATES * MOST_ESTIMATES * estimate.divergence,
        )

    def __str__(self) -> str:
        found = "; ".join(f"{source.name} {source.ulps:.3g}" for source in self.sources)
        beyond = any(source.ulps > self.most_ulps for source in self.sources)
        return f"{self.ulps:.3g} ULP ({found}{'; more than rounding gives' if beyond else ''})"


@dataclass(frozen=True)
class NoiseFloor:
    """What rounding does to rows of logits.

    Attributes:
        precision: the format whose units are counted.
        near, far: of rows whose sequence starts at position 0, and far away.
        measured: whether the backend itself was measured, and not the reference in its place.
    """

    precision: str
    near: NoiseLevel
    far: NoiseLevel
    measured: bool

    def level(self, case: VectorCase) -> NoiseLevel:
        """Return the floor that belongs to a case."""
        return self.far if case.input.get("start") else self.near

    def __str__(self) -> str:
        kind = "measured" if self.measured else "estimated"
        return f"{kind} floor in {self.precision}: {self.near}, far from position 0 {self.far}"


def measured_floor(opened: OpenedModel, cases: tuple[VectorCase, ...]) -> NoiseFloor:
    """Measure an engine on the rows that a suite asks for.

    Raises:
        EngineError: the engine failed.
    """
    description = opened.description
    precision = description.precision.coarsest
    base = _asked(opened, cases)
    found: list[tuple[str, list[Rows]]] = []
    finer = [name for name in description.precisions if MANTISSA_BITS[name] > MANTISSA_BITS[precision]]
    if finer:
        best = max(finer, key=lambda name: MANTISSA_BITS[name])
        with opened.changed("plain", None, best):
            found.append((f"its own {best} run", [_asked(opened, cases)]))
    if can_reorder(opened.given.tensors):
        runs: list[Rows] = []
        for seed in range(ORDERS):
            with opened.changed(f"reordered-{seed}", reordered(opened.given.tensors, seed)):
                runs.append(_asked(opened, cases))
        found.append((f"{ORDERS} orders of summation", runs))
    found.append(("later starts", [_asked(opened, _later(cases, shift)) for shift in SHIFTS]))
    floor, estimate = (
        _floor(cases, base, found, precision, measured=True),
        estimated_floor(opened.given, cases, precision),
    )
    return replace(floor, near=floor.near.bounded_by(estimate.near), far=floor.far.bounded_by(estimate.far))


def estimated_floor(given: GivenModel, cases: tuple[VectorCase, ...], precision: str) -> NoiseFloor:
    """Estimate the floor of a backend that cannot be driven, by the reference in its place."""
    right = _computed(given, cases, STRICT, _untouched)
    if precision == PRECISIONS[0]:
        found = [("the reference in fast", [_computed(given, cases, FAST, _untouched)])]
    else:
        runs = [_computed(given, cases, FAST, _rounding(precision, seed)) for seed in range(ORDERS)]
        found = [(f"the reference with stages in {precision}", runs)]
    shifted = [_computed(given, _later(cases, shift), FAST, _untouched) for shift in SHIFTS]
    return _floor(cases, right, [*found, ("later starts", shifted)], precision, measured=False)


def row_cases(cases: tuple[VectorCase, ...]) -> Iterator[VectorCase]:
    """Yield the cases whose answers are rows of logits."""
    return (case for case in cases if case.operation in ROW_OPERATIONS)


def _later(cases: tuple[VectorCase, ...], shift: int) -> tuple[VectorCase, ...]:
    """Return the cases with sequences that start later; their rows are the same but for rounding."""
    return tuple(
        replace(case, input={**case.input, "start": int(str(case.input["start"])) + shift}) for case in row_cases(cases)
    )


def _asked(opened: OpenedModel, cases: tuple[VectorCase, ...]) -> Rows:
    answers = ((case.identifier, answer_case(case, opened)) for case in row_cases(cases))
    return {name: np.array(answer.values) for name, answer in answers if answer is not None}


def _floor(
    cases: tuple[VectorCase, ...],
    base: Rows,
    found: Sequence[tuple[str, Sequence[Rows]]],
    precision: str,
    *,
    measured: bool,
) -> NoiseFloor:
    far = {case.identifier for case in row_cases(cases) if case.input["start"]}
    near_rows = {name: row for name, row in base.items() if name not in far}
    far_rows = {name: row for name, row in base.items() if name in far}
    near, far_away = (
        NoiseLevel(tuple(_source(name, rows, runs, precision) for name, runs in found))
        for rows in (near_rows, far_rows)
    )
    return NoiseFloor(precision, near, far_away, measured)


def _source(name: str, base: Rows, runs: Sequence[Rows], precision: str) -> FloorSource:
    distances = [
        distance_between(row, run[case], precision) for run in runs for case, row in base.items() if case in run
    ]
    return FloorSource(
        name,
        max((found.ulps for found in distances), default=0.0),
        max((found.divergence for found in distances), default=0.0),
    )


Touch: TypeAlias = Callable[[str, Variable], None]


def _computed(given: GivenModel, cases: tuple[VectorCase, ...], arithmetic: Arithmetic, touch: Touch) -> Rows:
    rows: dict[str, Array] = {}
    for case in row_cases(cases):
        ids, start, head = case.input["ids"], case.input["start"], case.input["head"]
        assert isinstance(ids, list) and isinstance(start, int) and isinstance(head, int)
        tape = Tape(arithmetic, recording=False)
        heads = given.model.forward(tape, [int(str(token)) for token in ids], 1, start, touch)
        row = case.input.get("row", len(ids) - 1)
        rows[case.identifier] = heads[head].value[0, int(str(row))]
    return rows


def _untouched(name: str, value: Variable) -> None:
    """Leave a stage as it is."""


def _rounding(precision: str, seed: int) -> Touch:
    """Return what rounds every stage to a format: up or down by chance, weighted so that the mean stays."""
    bits, drawn = MANTISSA_BITS[precision], 0

    def touch(name: str, value: Variable) -> None:
        nonlocal drawn
        mantissa, exponent = np.frexp(value.value)
        scaled = np.ldexp(mantissa, bits + 1)
        chance = _units(seed, drawn, scaled.size).reshape(scaled.shape)
        drawn += scaled.size
        value.value = np.ldexp(np.floor(scaled + chance), exponent - (bits + 1))

    return touch


def _units(seed: int, first: int, count: int) -> Array:
    """Return `count` of SplitMix64's doubles in [0, 1), from the one with number `first` on."""
    # The generator's state is a counter, so that all of them are had at once; sums and products wrap around.
    numbers = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    mixed = np.uint64(seed) + numbers * np.uint64(INCREMENT)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(FIRST_MULTIPLIER)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(SECOND_MULTIPLIER)
    mixed ^= mixed >> np.uint64(31)
    units: Array = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return units
