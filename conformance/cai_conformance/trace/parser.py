"""From the bytes of a trace to its records: lines, envelope, records, order, count, digest.

Every failure is a TraceFault with line, record and field; no input raises anything else. What the values should be is
for `cai_conformance.trace.compare` and the judges.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from cai_conformance.trace.errors import (
    AfterEnd,
    CutOff,
    DigestMismatch,
    NoTraceLine,
    UnknownGrammar,
    UnknownProfile,
    UnknownRecord,
    UnknownSuite,
    WrongRecordCount,
)
from cai_conformance.trace.grammars.common import END, TRACE
from cai_conformance.trace.lines import lines_of
from cai_conformance.trace.reading import label_of, read_record
from cai_conformance.trace.records import GRAMMAR, OUTSIDE_BODY, Record, Trace, shortened
from cai_conformance.trace.schema import Grammar, RecordRule
from cai_conformance.trace.sequence import Sequence

GrammarOf = Callable[[str], Grammar | None]
"""From the name of a suite to its grammar, or None where the suite is unknown."""


def parse(data: bytes | str, grammar_of: GrammarOf) -> Trace:
    """The trace whose whole text is `data`.

    Raises a TraceFault that names line, record and field. DigestMismatch comes last of all and carries the trace.
    """
    lines = lines_of(data)
    opening = _read_opening(lines)
    grammar = grammar_of(opening.get("suite"))
    if grammar is None:
        raise UnknownSuite(1, "TRACE", "suite", shortened(opening.get("suite")))
    profile = opening.get("profile")
    sequence = Sequence(_rules_of(grammar, profile))
    inner = _read_inner(lines[1:-1], 2, grammar, profile, sequence, end_line=len(lines))
    end = read_record(lines[-1], len(lines), END)
    trace = Trace((opening, *inner, end))
    _check_end(data, end, trace, len(lines))
    return trace


def parse_body(data: bytes | str, grammar: Grammar, profile: str) -> Trace:
    """The records of a text without TRACE and END, such as the published n-gram trace.

    CONVENTION and BITS may be absent, everything else is checked as in `parse`.
    """
    lines = lines_of(data)
    sequence = Sequence(_rules_of(grammar, profile), optional=OUTSIDE_BODY)
    return Trace(_read_inner(lines, 1, grammar, profile, sequence, end_line=0))


def kind_of(line: str) -> str:
    """The text of a line before the first bar."""
    bar = line.find("|")
    return line if bar < 0 else line[:bar]


def _read_opening(lines: list[str]) -> Record:
    if kind_of(lines[0]) != "TRACE":
        raise NoTraceLine(1, label_of(lines[0]), "")
    if kind_of(lines[-1]) != "END" or len(lines) == 1:
        for number, line in enumerate(lines, 1):
            if kind_of(line) == "END":
                raise AfterEnd(number + 1, label_of(lines[number]), "", number)
        raise CutOff(len(lines), label_of(lines[-1]), "", "there is no END record")
    # The version comes before all else: in another major version the other fields may mean anything.
    version = next((piece for piece in lines[0].split("|") if piece.startswith("grammar=")), "")
    found = version.partition("=")[2]
    if version and found.partition(".")[0] != GRAMMAR:
        raise UnknownGrammar(1, "TRACE", "grammar", shortened(found), GRAMMAR)
    return read_record(lines[0], 1, TRACE)


def _rules_of(grammar: Grammar, profile: str) -> tuple[RecordRule, ...]:
    rules = grammar.profiles.get(profile)
    if rules is None:
        raise UnknownProfile(1, "TRACE", "profile", shortened(profile), ", ".join(grammar.profiles))
    return rules


class _LaterKinds:
    """The kinds of the lines behind one line, found only when somebody asks."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.start = 0

    def __contains__(self, kind: object) -> bool:
        return any(kind_of(line) == kind for line in self._lines[self.start :])


def _read_inner(
    lines: list[str], first: int, grammar: Grammar, profile: str, sequence: Sequence, *, end_line: int
) -> tuple[Record, ...]:
    by_kind = {rule.kind: rule for rule in grammar.profiles[profile]}
    later = _LaterKinds(lines)
    records = []
    for number, line in enumerate(lines, first):
        kind = kind_of(line)
        rule = by_kind.get(kind)
        if rule is None:
            raise UnknownRecord(number, label_of(line), "", f"'{shortened(kind)}'", profile)
        record = read_record(line, number, rule, negative_zero=grammar.negative_zero)
        later.start = number - first + 1
        sequence.take(record, number, later)
        records.append(record)
    sequence.finish(end_line)
    return tuple(records)


def _check_end(data: bytes | str, end: Record, trace: Trace, line: int) -> None:
    counted = len(trace.records) - 2
    if end.integer("records") != counted:
        raise WrongRecordCount(line, "END", "records", end.integer("records"), counted)
    raw = data.encode("utf-8") if isinstance(data, str) else data
    hasher = hashlib.sha256(memoryview(raw)[: raw.rindex(b"\nEND|") + 1])
    computed = f"sha256:{hasher.hexdigest()}"
    stated = end.get("digest")
    if stated != computed:
        raise DigestMismatch(line, "END", "digest", stated, computed, trace)
