"""From the bytes of a trace to its records: lines, envelope, records, order, count, digest.

Every failure is a TraceFault with line, record and field; no input raises anything else. What the values should be is
for `cai_conformance.trace.compare` and the judges.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Lines

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
    opening, grammar = read_opening(lines, grammar_of)
    profile = opening.get("profile")
    sequence = Sequence(rules_of(grammar, profile))
    inner = _read_inner(lines[1:-1], 2, grammar, profile, sequence, end_line=len(lines))
    end = read_record(lines[-1], len(lines), END)
    trace = Trace((opening, *inner, end))
    check_end(trace, end, lambda: _digest(data))
    return trace


def parse_body(data: bytes | str, grammar: Grammar, profile: str) -> Trace:
    """The records of a text without TRACE and END, such as the published n-gram trace.

    CONVENTION and BITS may be absent, everything else is checked as in `parse`.
    """
    lines = lines_of(data)
    sequence = Sequence(rules_of(grammar, profile), optional=OUTSIDE_BODY)
    return Trace(_read_inner(lines, 1, grammar, profile, sequence, end_line=0))


def kind_of(line: str) -> str:
    """The text of a line before the first bar."""
    bar = line.find("|")
    return line if bar < 0 else line[:bar]


def read_opening(lines: Lines[str], grammar_of: GrammarOf) -> tuple[Record, Grammar]:
    """The TRACE record of some lines, and the grammar of its suite; a TraceFault where there is none, or no END."""
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
    opening = read_record(lines[0], 1, TRACE)
    grammar = grammar_of(opening.get("suite"))
    if grammar is None:
        raise UnknownSuite(1, "TRACE", "suite", shortened(opening.get("suite")))
    return opening, grammar


def rules_of(grammar: Grammar, profile: str) -> tuple[RecordRule, ...]:
    """The rules of a profile; UnknownProfile where the suite has none of this name."""
    rules = grammar.profiles.get(profile)
    if rules is None:
        raise UnknownProfile(1, "TRACE", "profile", shortened(profile), ", ".join(grammar.profiles))
    return rules


def rule_for(line: str, number: int, rules: Mapping[str, RecordRule], profile: str) -> RecordRule:
    """The rule for the kind of a line; UnknownRecord where the profile has none."""
    kind = kind_of(line)
    rule = rules.get(kind)
    if rule is None:
        raise UnknownRecord(number, label_of(line), "", f"'{shortened(kind)}'", profile)
    return rule


def check_end(trace: Trace, end: Record, digest: Callable[[], str]) -> None:
    """Hold the END record against the number of records, and then against the digest of the bytes before it."""
    line, counted = len(trace.records), len(trace.records) - 2
    if end.integer("records") != counted:
        raise WrongRecordCount(line, "END", "records", end.integer("records"), counted)
    computed, stated = digest(), end.get("digest")
    if stated != computed:
        raise DigestMismatch(line, "END", "digest", stated, computed, trace)


class LaterKinds:
    """The kinds of the lines from one line on, found only when somebody asks."""

    def __init__(self, lines: Callable[[int], Iterable[str]]) -> None:
        self._lines = lines
        self.start = 0

    def __contains__(self, kind: object) -> bool:
        return any(kind_of(line) == kind for line in self._lines(self.start))


def _read_inner(
    lines: list[str], first: int, grammar: Grammar, profile: str, sequence: Sequence, *, end_line: int
) -> tuple[Record, ...]:
    by_kind = {rule.kind: rule for rule in grammar.profiles[profile]}
    later = LaterKinds(lambda start: lines[start:])
    records = []
    for number, line in enumerate(lines, first):
        rule = rule_for(line, number, by_kind, profile)
        record = read_record(line, number, rule, negative_zero=grammar.negative_zero)
        later.start = number - first + 1
        sequence.take(record, number, later)
        records.append(record)
    sequence.finish(end_line)
    return tuple(records)


def _digest(data: bytes | str) -> str:
    raw = data.encode("utf-8") if isinstance(data, str) else data
    hasher = hashlib.sha256(memoryview(raw)[: raw.rindex(b"\nEND|") + 1])
    return f"sha256:{hasher.hexdigest()}"
