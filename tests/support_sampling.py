"""What sampling is tested with: given draws, exact weights, tables instead of models, and laws by enumeration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.splitmix import SplitMix64

Outcome = TypeVar("Outcome", bound=Hashable)
Law = dict[Outcome, Fraction]


def power_of_two(x: Array | float, /) -> Array:
    """Return 2**x of whole numbers, exactly, where an arithmetic has exp(x)."""
    return np.asarray(np.ldexp(1.0, np.asarray(x).astype(np.int64)))


EXACT = replace(STRICT, exp=power_of_two)
"""Whole logits give weights that are powers of two, so that probabilities can be written down."""


class Given(SplitMix64):
    """Yields given units, and counts them by its state."""

    def __init__(self, *units: float) -> None:
        super().__init__(0)
        self.units = units

    def unit(self) -> float:
        """Return the next unit."""
        self.state += 1
        return self.units[self.state - 1]


# ── laws ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Undecided(float):
    """A uniform number in [0, 1) of which only those comparisons are known that a program has made.

    A comparison that is open asks `decide` with its probability, and narrows the number to the answer. As a number it
    is NaN, so that a program that does anything else with it than `unit < bound` gives nonsense.
    """

    low: Fraction
    high: Fraction
    decide: Callable[[Fraction], bool]

    def __new__(cls, decide: Callable[[Fraction], bool]) -> Undecided:
        """Start between 0 and 1."""
        number = super().__new__(cls, "nan")
        number.low, number.high, number.decide = Fraction(0), Fraction(1), decide
        return number

    def __lt__(self, bound: float) -> bool:
        """Answer whether the number is below a bound."""
        place = Fraction(float(bound))
        if not self.low < place < self.high:
            return self.high <= place
        below = self.decide((place - self.low) / (self.high - self.low))
        self.low, self.high = (self.low, place) if below else (place, self.high)
        return below


class Enumerated(SplitMix64):
    """Draws undecided numbers, following a path of decisions and then always the lower side."""

    def __init__(self, decisions: Sequence[bool]) -> None:
        super().__init__(0)
        self.planned = decisions
        self.made: list[bool] = []
        self.weight = Fraction(1)
        self.draws = 0

    def unit(self) -> float:
        """Return a number that nothing is known of yet."""
        self.draws += 1
        return Undecided(self._decide)

    def _decide(self, probability: Fraction) -> bool:
        place = len(self.made)
        below = self.planned[place] if place < len(self.planned) else True
        self.made.append(below)
        self.weight *= probability if below else 1 - probability
        return below


def law_of(procedure: Callable[[SplitMix64], Outcome]) -> Law[Outcome]:
    """Return the exact law of what a procedure returns that compares draws with bounds: every path, weighed."""
    law: defaultdict[Outcome, Fraction] = defaultdict(Fraction)
    pending: list[list[bool]] = [[]]
    while pending:
        decisions = pending.pop()
        generator = Enumerated(decisions)
        law[procedure(generator)] += generator.weight
        pending += [[*generator.made[:place], False] for place in range(len(decisions), len(generator.made))]
    assert sum(law.values()) == 1
    return dict(law)


def distance(first: Mapping[Outcome, Fraction], second: Mapping[Outcome, Fraction]) -> Fraction:
    """Return the total variation between two laws."""
    outcomes = {*first, *second}
    return sum((abs(first.get(key, Fraction(0)) - second.get(key, Fraction(0))) for key in outcomes), Fraction(0)) / 2


# ── tables instead of models ─────────────────────────────────────────────────────────────────────────────────────────

IMPOSSIBLE = -5000.0
"""A logit whose weight underflows to 0."""


@dataclass
class TablePath:
    """A path whose logits [vocabulary] are a row of a table: that of the last token."""

    rows: Sequence[Sequence[float]]
    forwards: int = 0
    fed: int = 0

    def prefill(self, ids: Sequence[int]) -> None:
        """Remember the length, as a session would."""
        self.forwards += bool(ids)
        self.fed = len(ids)

    def after(self, ids: Sequence[int], newest: int) -> list[Array]:
        """Return the rows of the last tokens, which must not have been fed yet."""
        assert 0 < newest <= len(ids) - self.fed
        self.forwards += 1
        self.fed = len(ids)
        return [np.array([self.rows[token] for token in ids[-newest:]], dtype=np.float64)]

    def keep(self, length: int) -> None:
        """Forget what is behind."""
        assert 0 <= length <= self.fed
        self.fed = length


def probabilities_of(row: Sequence[float]) -> list[Fraction]:
    """Return the law of a row of whole logits under `EXACT`, by fractions."""
    weights = [Fraction(2) ** int(logit) if logit > IMPOSSIBLE else Fraction(0) for logit in row]
    return [weight / sum(weights) for weight in weights]


def chain_law(rows: Sequence[Sequence[float]], last: int, length: int, eos: int | None = None) -> Law[tuple[int, ...]]:
    """Return the law of `length` tokens behind `last`, fewer where EOS ends them: products of probabilities."""
    law: Law[tuple[int, ...]] = {(): Fraction(1)}
    for _ in range(length):
        longer: Law[tuple[int, ...]] = {}
        for ids, weight in law.items():
            if ids and ids[-1] == eos:
                longer[ids] = weight
                continue
            for token, probability in enumerate(probabilities_of(rows[ids[-1] if ids else last])):
                if probability:
                    longer[(*ids, token)] = weight * probability
        law = longer
    return law
