"""What differs between two traces of one suite, record by record.

Records are aligned by key, never by line number. This file says what differs, exactly and without tolerance; whether a
difference matters is for a judge.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter

from cai_conformance.trace.format import escape
from cai_conformance.trace.grammar import FieldRule, Grammar
from cai_conformance.trace.records import Record, Trace, float_of_bits, list_items, shortened
from cai_conformance.verdicts import Difference, Problem
from cai_reference.arithmetic.bits import ulp_distance

ENVELOPE_FIELDS = ("suite", "suite_version", "profile", "arithmetic", "vectors")
"""The fields of TRACE that two comparable traces share."""


KEPT = 1000
"""So many differences of one kind of record are told one by one, in each class; the rest are counted."""

_APART = ("TRACE", "CONVENTION", "END")
"""What is not compared as one record among others."""


def compare(expected: Trace, found: Trace, grammar: Grammar) -> tuple[Difference, ...]:
    """Every difference, the most telling kind first.

    Order: CONVENTION; TRACE (`ENVELOPE_FIELDS` only, where both have one); records that are missing, extra, reordered;
    then the fields of the records in the order of `expected`. END is never compared. Of more than `KEPT` a last one
    says how many are not told.

    Both traces have been read by `grammar`, whole or as a body (then give the body of the other one too). A printed
    real whose exact bits stand elsewhere in both traces (`FieldRule.exact`) carries its distance in ULP.
    """
    fields = _Fields(expected, found, grammar)
    pairs = _pairs(expected, found)
    return (
        *_opening(expected, found, fields),
        *_unpaired(expected, (mine for mine, _ in pairs), Problem.MISSING),
        *_unpaired(found, (theirs for _, theirs in pairs), Problem.EXTRA),
        *_reordered(pairs, found),
        *_bounded(
            difference
            for mine, theirs in pairs
            for difference in fields.differences(expected.records[mine], found.records[theirs])
        ),
    )


def _opening(expected: Trace, found: Trace, fields: _Fields) -> Iterator[Difference]:
    """The differences of CONVENTION and TRACE."""
    mine, theirs = expected.find("CONVENTION"), found.find("CONVENTION")
    if mine and theirs:
        yield from fields.differences(mine, theirs)
    elif mine or theirs:
        yield Difference(Problem.MISSING if mine else Problem.EXTRA, "CONVENTION")
    mine, theirs = expected.find("TRACE"), found.find("TRACE")
    if mine and theirs:
        yield from fields.differences(_envelope(mine), _envelope(theirs))


def _envelope(opening: Record) -> Record:
    return Record("TRACE", tuple((name, text) for name, text in opening.fields if name in ENVELOPE_FIELDS))


def _pairs(expected: Trace, found: Trace) -> list[tuple[int, int]]:
    """The places of each record that both have, by its key, in the order of `expected`."""
    pairs = []
    for place, record in enumerate(expected.records):
        if record.kind not in _APART:
            other = found.placed(record.key)
            if other is not None:
                pairs.append((place, other))
    return pairs


def _unpaired(trace: Trace, paired: Iterable[int], problem: Problem) -> Iterator[Difference]:
    """The records of a trace but those at the places `paired`."""
    found = bytearray(len(trace.records))
    for place in paired:
        found[place] = True
    for kind, places in trace.places.items():
        if kind in _APART:
            continue
        alone = [place for place in places if not found[place]]
        for place in alone[:KEPT]:
            yield Difference(problem, trace.records[place].label)
        if len(alone) > KEPT:
            yield Difference(problem, kind, found=_rest(len(alone) - KEPT))


def _reordered(pairs: list[tuple[int, int]], found: Trace) -> Iterator[Difference]:
    """The fewest records whose move explains the order of the common ones, in the order of `found`."""
    if all(earlier[1] < later[1] for earlier, later in pairwise(pairs)):
        return
    common = sorted(pairs, key=itemgetter(1))
    kept = longest_ascending([mine for mine, _ in common])
    moved = (place for place in range(len(common)) if place not in kept)
    yield from _bounded(
        Difference(
            Problem.REORDERED,
            found.records[common[place][1]].label,
            found=f"after {found.records[common[place - 1][1]].label}" if place else "first",
        )
        for place in moved
    )


def _bounded(differences: Iterable[Difference]) -> Iterator[Difference]:
    """The first differences of each kind of record, then how many more there are."""
    told: Counter[str] = Counter()
    more: dict[str, tuple[Problem, int]] = {}
    for difference in differences:
        kind = difference.record.partition(" ")[0]
        told[kind] += 1
        if told[kind] <= KEPT:
            yield difference
        else:
            more[kind] = difference.problem, told[kind] - KEPT
    for kind, (problem, count) in more.items():
        yield Difference(problem, kind, expected="…", found=_rest(count))


def _rest(count: int) -> str:
    return f"… and {count} more"


def longest_ascending(values: Sequence[int]) -> set[int]:
    """The indices of one longest strictly ascending subsequence."""
    tails: list[int] = []
    indices: list[int] = []
    before: list[int] = []
    for index, value in enumerate(values):
        place = bisect_left(tails, value)
        before.append(indices[place - 1] if place else -1)
        tails[place : place + 1] = [value]
        indices[place : place + 1] = [index]
    kept: set[int] = set()
    index = indices[-1] if indices else -1
    while index >= 0:
        kept.add(index)
        index = before[index]
    return kept


class _Fields:
    """Compares records of one key, with the two traces at hand for exact bits."""

    def __init__(self, expected: Trace, found: Trace, grammar: Grammar) -> None:
        self._expected = expected
        self._found = found
        self._rules = {rule.kind: rule for rules in reversed(tuple(grammar.profiles.values())) for rule in rules}

    def differences(self, mine: Record, theirs: Record) -> Iterator[Difference]:
        """The differing fields, in the order of `mine`, then what only `theirs` has."""
        if mine == theirs:
            return
        other = dict(theirs.fields)
        for name, text in mine.fields:
            if name not in other:
                yield Difference(Problem.MISSING, mine.label, name, expected=shortened(escape(text)))
            elif other[name] != text:
                yield from self._field(mine, theirs, name, text, other[name])
        for name, text in theirs.fields:
            if not mine.has(name):
                yield Difference(Problem.EXTRA, mine.label, name, found=shortened(escape(text)))

    def _field(self, mine: Record, theirs: Record, name: str, left: str, right: str) -> Iterator[Difference]:
        record_rule = self._rules.get(mine.kind)
        rule = record_rule.field_of(mine, name) if record_rule else None
        if rule is None or not (rule.type.is_list or rule.type.is_real or rule.type.is_bits):
            yield Difference(Problem.VALUE, mine.label, name, None, shortened(escape(left)), shortened(escape(right)))
            return
        expected, found = (list_items(left), list_items(right)) if rule.type.is_list else ([left], [right])
        if len(expected) != len(found):
            yield Difference(Problem.SHAPE, mine.label, name, None, f"length {len(expected)}", f"length {len(found)}")
            return
        exact = self._exact(rule, mine, theirs, expected, found)
        for index, (one, two) in enumerate(zip(expected, found, strict=True)):
            if one != two:
                pair = exact[index] if exact and index < len(exact) else None
                yield _item(mine.label, name, index if rule.type.is_list else None, one, two, rule, pair)

    def _exact(
        self, rule: FieldRule, mine: Record, theirs: Record, expected: list[str], found: list[str]
    ) -> list[tuple[float, float]] | None:
        """Both exact values of each item, as far as both traces carry them."""
        if rule.type.is_bits:
            return [(float_of_bits(one), float_of_bits(two)) for one, two in zip(expected, found, strict=True)]
        if rule.exact is None:
            return None
        ours, other = rule.exact.look_up(self._expected, mine), rule.exact.look_up(self._found, theirs)
        return list(zip(ours, other, strict=False)) if ours is not None and other is not None else None


def _item(
    label: str, name: str, index: int | None, one: str, two: str, rule: FieldRule, pair: tuple[float, float] | None
) -> Difference:
    not_numbers = "nan" in (one, two) or (pair is not None and any(map(math.isnan, pair)))
    problem = Problem.NAN if not_numbers else Problem.VALUE
    if pair is None:
        return Difference(problem, label, name, index, one, two)
    ulp = ulp_distance(*pair) if all(map(math.isfinite, pair)) else None
    if rule.type.is_bits:
        one, two = (f"{text} ({value!r})" for text, value in zip((one, two), pair, strict=True))
    return Difference(problem, label, name, index, one, two, ulp)
