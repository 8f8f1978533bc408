"""The vector cases about samplers and speculation by chance, which need no model.

One suite asks them, `course.decoder`, because the course has the sampler (chapter 36); a program answers them the same
way whatever its model. Laws are exact doubles; kept sets, choices and counts are ids, and no choice hangs on rounding
but where a case is about a border that every precision meets exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from cai_conformance.suites.decoder.sampling_inputs import doubles, settings
from cai_conformance.vectors import Json, VectorCase

TENTHS = [math.log(weight) for weight in (0.1, 0.4, 0.2, 0.3)]
"""Probabilities .1 .4 .2 .3, by ids."""
EVEN = [0.5] * 4
"""Probabilities of exactly a quarter, in every arithmetic."""
COURSE_LOGITS = [0.0, 1.0, 1.0, 2.0]
"""Those of chapter 36."""
SMALLEST_NORMAL = 2.0**-1022
LAST_UNIT = 1.0 - 2.0**-53
"""The largest double below 1."""

TARGET = [0.4, 0.35, 0.2, 0.05]
DRAFT = [0.1, 0.15, 0.5, 0.25]
"""A draft that likes what the target does not; every ratio and residual is a multiple of a twentieth."""


def sampler_cases() -> tuple[VectorCase, ...]:
    """Return all cases, in the order in which they are answered."""
    return (*_laws(), *_supports(), *_edges(), *_ties(), *_draws(), *_speculation())


def _laws() -> Iterator[VectorCase]:
    def case(name: str, logits: list[float], chosen: dict[str, Json], sees: str) -> VectorCase:
        return VectorCase(name, "smp.law", "sampling.distribution", {"logits": doubles(logits), **chosen}, sees)

    yield case("cold", COURSE_LOGITS, settings(0.5, 2), "logits are multiplied by the temperature")
    yield case("plain", COURSE_LOGITS, settings(1.0, 3), "kept ids are not renormalised")
    yield case("warm", COURSE_LOGITS, settings(2.0, 4), "above 1 the difference is divided, not the logits")
    yield case("third", [0.3, -1.1, 2.9, 0.7, -0.2], settings(0.3), "weights are summed by id, or without compensation")
    yield case("all", TENTHS, settings(1.3, 3, 0.75, 0.1), "a stage sees the mass before the one in front of it")
    yield case("huge", [1e308, -1e308, 1e308], settings(0.25), "the gap overflows to NaN")
    yield case("huge-warm", [1.5e308, -1.5e308, 1.4e308], settings(4.0), "the difference overflows")
    underflow = "a kept id whose weight is 0 gets a probability"
    yield case("underflow", [2.0, 2.0, 1.0], settings(SMALLEST_NORMAL, 3), underflow)
    yield case("greedy", [0.5, 2.0, 1.0], settings(0.0, 2, 0.5), "a temperature of 0 divides")


def _supports() -> Iterator[VectorCase]:
    def case(name: str, logits: list[float], chosen: dict[str, Json], sees: str) -> VectorCase:
        return VectorCase(name, "smp.support", "sampling.kept", {"logits": doubles(logits), **chosen}, sees)

    yield case("top-p-crossing", TENTHS, settings(top_p=0.8), "the id that crosses the mass is dropped")
    yield case("top-p-exact", EVEN, settings(top_p=0.75), "where the mass is met exactly, one id more is kept")
    yield case("top-p-tiny", TENTHS, settings(top_p=0.001), "a mass below the first probability keeps nothing")
    yield case("top-p-one", [0.0, -800.0, -1.0], settings(), "a mass of 1 drops ids whose weight is lost in the sum")
    yield case("top-k", TENTHS, settings(top_k=2), "ids are kept in the order of their numbers")
    exact = "an id at exactly min-p times the largest is dropped"
    yield case("min-p-exact", [2.0, 1.0, 2.0, 0.0], settings(min_p=1.0), exact)
    yield case("min-p", TENTHS, settings(min_p=0.6), "min-p is a probability, not a part of the largest one")
    order = "top-p is a part of the mass that top-k was given, not of what it kept"
    yield case("top-k-then-top-p", TENTHS, settings(top_k=3, top_p=0.75), order)
    yield case("temperature-first", TENTHS, settings(2.0, top_p=0.65), "top-p acts before the temperature")
    yield case("min-p-after-temperature", TENTHS, settings(0.5, min_p=0.3), "min-p acts before the temperature")
    yield case("top-p-then-min-p", TENTHS, settings(top_p=0.55, min_p=0.6), "min-p acts before top-p")


def _edges() -> Iterator[VectorCase]:
    def choose(name: str, logits: list[float], units: list[float], sees: str) -> VectorCase:
        given: dict[str, Json] = {"logits": doubles(logits), "units": doubles(units), **settings()}
        return VectorCase(name, "smp.edge", "sampling.choose", given, sees)

    def draws(name: str, rows: Sequence[list[float]], chosen: dict[str, Json], sees: str) -> VectorCase:
        given: dict[str, Json] = {"rows": [doubles(row) for row in rows], "seed": 36, **chosen}
        return VectorCase(name, "smp.edge", "sampling.draws", given, sees)

    yield choose("first", [-900.0, 1.0, 1.0], [0.0], "a draw of 0 takes an id of probability 0")
    yield choose("last", [1.0, 0.3, -0.4, -900.0], [LAST_UNIT], "the largest draw takes no id, or one of probability 0")
    yield choose("border", EVEN, [0.25, 0.5, 0.75], "a draw at the end of an interval belongs to it")
    greedy = "a temperature of 0 divides, or takes a draw"
    yield draws("zero-temperature", [[0.5, 2.0, 1.0], [3.0, 2.0, 1.0]], settings(0.0), greedy)
    good = [0.0, 0.5, 1.0, 0.25]
    bad = [[0.0, math.nan, 1.0, 0.0], [math.inf, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, -math.inf]]
    refused = "NaN or infinity becomes a token, or a refusal takes a draw"
    yield draws("not-finite", [good, *bad, good], settings(), refused)
    yield draws("not-finite-greedy", [good, *bad, good], settings(0.0), "NaN passes for a maximum, or for none")


def _ties() -> Iterator[VectorCase]:
    def kept(name: str, logits: list[float], chosen: dict[str, Json], sees: str) -> VectorCase:
        return VectorCase(name, "smp.tie", "sampling.kept", {"logits": doubles(logits), **chosen}, sees)

    tied = [1.0, 2.0, 1.0, 2.0, 1.0]
    yield kept("top-k-border", tied, settings(top_k=3), "all ties at the border are kept, or the higher ids")
    yield kept("top-k-all-tied", [0.5] * 5, settings(top_k=2), "an unstable sort decides")
    yield kept("top-p-border", EVEN, settings(top_p=0.5), "of tied ids the higher ones reach the mass first")
    yield kept("greedy", tied, settings(0.0), "of equal maxima the last is taken")
    yield kept("zeros", [-1.0, -0.0, 0.0], settings(0.0), "+0.0 counts as larger than −0.0")


def _draws() -> Iterator[VectorCase]:
    given: dict[str, Json] = {"rows": [doubles(COURSE_LOGITS)] * 12, "seed": 36, **settings(1.0, 3)}
    sees = "a unit is made of other bits of a draw, or ids are walked by rank"
    yield VectorCase("course", "smp.seed", "sampling.draws", given, sees)
    certain: dict[str, Json] = {"rows": [doubles([0.0, 5.0]), doubles(COURSE_LOGITS)], "seed": 7, **settings(top_k=1)}
    yield VectorCase("certain", "smp.seed", "sampling.draws", certain, "where only one id can come, no draw is taken")


def _speculation() -> Iterator[VectorCase]:
    laws: dict[str, Json] = {"target": doubles(TARGET), "law": doubles(DRAFT)}
    ratio = "the ratio is upside down, or not cut at 1"
    yield VectorCase("acceptance", "spec.law", "speculation.acceptance", laws, ratio)
    residual = "the residual goes through softmax, is not renormalised, or is the target itself"
    yield VectorCase("residual", "spec.law", "speculation.residual", laws, residual)
    same: dict[str, Json] = {"target": doubles(TARGET), "law": doubles(TARGET)}
    yield VectorCase("no-residual", "spec.law", "speculation.residual", same, "a residual of no mass divides by zero")
    counted = (
        "a rejected place is drawn from the target, or weighed by another law: what comes out is no longer its law"
    )
    yield VectorCase("output", "spec.law", "speculation.law", {**laws, "grid": 20}, counted)
    yield from _passes()


def _passes() -> Iterator[VectorCase]:
    def case(
        name: str, guesses: list[Json], laws: Sequence[list[float]], units: list[float], sees: str, last: list[float]
    ) -> VectorCase:
        targets: list[Json] = [*(doubles(TARGET) for _ in guesses), doubles(last)]
        given: dict[str, Json] = {"guesses": guesses, "targets": targets, "laws": [doubles(law) for law in laws]}
        return VectorCase(name, "spec.law", "speculation.pass", {**given, "units": doubles(units)}, sees)

    bonus = [0.0, 0.5, 0.25, 0.25]
    yield case(
        "all-accepted",
        [0, 2, 3],
        [DRAFT] * 3,
        [0.9, 0.3, 0.1, 0.8],
        "no bonus behind an accepted block, or one from the law of an earlier place",
        bonus,
    )
    yield case(
        "first-rejected",
        [2, 0, 0],
        [DRAFT] * 3,
        [0.7, 0.5],
        "later guesses count behind a rejected one, or the draw of the test is used again",
        bonus,
    )
    yield case("second-rejected", [1, 3, 0], [DRAFT] * 3, [0.9, 0.45, 0.65], "a rejected guess is committed", bonus)
    never = [0.0, 0.5, 0.5, 0.0]
    yield case("none-guessed", [], [], [0.6], "without guesses nothing is drawn", bonus)
    excluded = "a guess of probability 0 under the target is accepted by a draw of 0"
    given: dict[str, Json] = {
        "guesses": [3],
        "targets": [doubles(never), doubles(bonus)],
        "laws": [doubles([0.25] * 4)],
        "units": doubles([0.0, 0.25]),
    }
    yield VectorCase("excluded", "spec.law", "speculation.pass", given, excluded)
    border: dict[str, Json] = {
        "guesses": [1],
        "targets": [doubles([0.75, 0.25]), doubles([0.5, 0.5])],
        "laws": [doubles([0.5, 0.5])],
        "units": doubles([0.5, 0.0]),
    }
    yield VectorCase("border", "spec.law", "speculation.pass", border, "a draw equal to the ratio is accepted")
