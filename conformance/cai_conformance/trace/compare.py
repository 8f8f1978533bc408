"""What differs between two traces of one suite, record by record.

Records are aligned by key, never by line number. This file says what differs, exactly and without tolerance; whether a
difference matters is for a judge.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from cai_conformance.trace.formatting import escape
from cai_conformance.trace.records import Record, RecordKey, Trace, float_of_bits, list_items, shortened
from cai_conformance.trace.schema import FieldRule, Grammar
from cai_conformance.verdicts import Difference, Problem
from cai_reference.arithmetic.bits import ulp_distance

ENVELOPE_FIELDS = ("suite", "suite_version", "profile", "arithmetic", "vectors")
"""The fields of TRACE that two comparable traces share."""


def compare(expected: Trace, found: Trace, grammar: Grammar) -> tuple[Difference, ...]:
    """Every difference, the most telling kind first.

    Order: CONVENTION; TRACE (`ENVELOPE_FIELDS` only, where both have one); records that are missing, extra, reordered;
    then the fields of the records in the order of `expected`. END is never compared.

    Both traces have been read by `grammar`, whole or as a body (then give the body of the other one too). A printed
    real whose exact bits stand elsewhere in both traces (`FieldRule.exact`) carries its distance in ULP.
    """
    left, right = _comparable(expected), _comparable(found)
    fields = _Fields(expected, found, grammar)
    first: list[Difference] = []
    for key in (("CONVENTION",), ("TRACE",)):
        mine, theirs = left.pop(key, None), right.pop(key, None)
        if mine and theirs:
            first += fields.differences(mine, theirs)
        elif key == ("CONVENTION",) and (mine or theirs):
            first.append(Difference(Problem.MISSING if mine else Problem.EXTRA, "CONVENTION"))
    return (
        *first,
        *(Difference(Problem.MISSING, record.label) for key, record in left.items() if key not in right),
        *(Difference(Problem.EXTRA, record.label) for key, record in right.items() if key not in left),
        *_reordered(left, right),
        *(
            difference
            for key, record in left.items()
            if key in right
            for difference in fields.differences(record, right[key])
        ),
    )


def _comparable(trace: Trace) -> dict[RecordKey, Record]:
    keyed = trace.keyed()
    keyed.pop(("END",), None)
    opening = keyed.get(("TRACE",))
    if opening:
        kept = tuple((name, text) for name, text in opening.fields if name in ENVELOPE_FIELDS)
        keyed["TRACE",] = Record("TRACE", kept)
    return keyed


def _reordered(left: dict[RecordKey, Record], right: dict[RecordKey, Record]) -> Iterator[Difference]:
    """The fewest records whose move explains the order of the common ones, in the order of `right`."""
    places = {key: place for place, key in enumerate(left)}
    common = [key for key in right if key in places]
    kept = longest_ascending([places[key] for key in common])
    for place, key in enumerate(common):
        if place not in kept:
            where = f"after {right[common[place - 1]].label}" if place else "first"
            yield Difference(Problem.REORDERED, right[key].label, found=where)


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
