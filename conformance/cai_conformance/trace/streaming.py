"""Reading a trace that may be larger than memory: twice over its bytes, and no record is kept.

The first time finds the lines (`cai_conformance.trace.survey`). The second time finds out whether the lines are records
in order: many lines at once by one expression, and by the parser's own steps where that does not match, so that a fault
has the parser's words. What is kept of a line is where it begins, and a hash of its key.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from cai_conformance.trace.errors import DuplicateRecord, TraceFault
from cai_conformance.trace.formatting import escape
from cai_conformance.trace.grammars.common import END, TRACE
from cai_conformance.trace.parser import (
    GrammarOf,
    LaterKinds,
    check_end,
    kind_of,
    parse,
    parse_body,
    read_opening,
    rule_for,
    rules_of,
)
from cai_conformance.trace.patterns import LineReader, line_reader
from cai_conformance.trace.reading import read_record
from cai_conformance.trace.records import OUTSIDE_BODY, Record, Trace
from cai_conformance.trace.schema import Grammar, RecordRule
from cai_conformance.trace.sequence import Sequence
from cai_conformance.trace.source import IN_MEMORY, Source
from cai_conformance.trace.stored import Integers, StoredKind, StoredLines, StoredRecords, key_hash
from cai_conformance.trace.survey import digest_before, survey


def parse_source(source: Source, grammar_of: GrammarOf, *, in_memory: int = IN_MEMORY) -> Trace:
    """The trace that a source holds; beyond `in_memory` bytes its records stay there until they are asked for.

    Raises:
        TraceFault: as `parse` does.
        InputUnreadable: the source cannot be read.
    """
    if source.size <= in_memory:
        return parse(source.whole(), grammar_of)
    lines = StoredLines(source, survey(source))
    opening, grammar = read_opening(lines, grammar_of)
    last = len(lines) - 1
    profile = opening.get("profile")
    keys = _Keys(lines, negative_zero=grammar.negative_zero)
    sequence = Sequence(rules_of(grammar, profile), seen=keys)
    kinds = _Reading(lines, range(1, last), grammar, profile, sequence, keys).kinds(end_line=last + 1)
    end = read_record(lines[last], last + 1, END)
    envelope = StoredKind(TRACE, range(1)), StoredKind(END, range(last, last + 1))
    records = StoredRecords(lines, [envelope[0], *kinds, envelope[1]], negative_zero=grammar.negative_zero)
    trace = Trace(records)
    check_end(trace, end, lambda: digest_before(source, int(lines.offsets[last])))
    return trace


def parse_body_source(source: Source, grammar: Grammar, profile: str, *, in_memory: int = IN_MEMORY) -> Trace:
    """The records of a text without TRACE and END, as `parse_body` reads them."""
    if source.size <= in_memory:
        return parse_body(source.whole(), grammar, profile)
    lines = StoredLines(source, survey(source))
    keys = _Keys(lines, negative_zero=grammar.negative_zero)
    sequence = Sequence(rules_of(grammar, profile), optional=OUTSIDE_BODY, seen=keys)
    kinds = _Reading(lines, range(len(lines)), grammar, profile, sequence, keys).kinds(end_line=0)
    return Trace(StoredRecords(lines, kinds, negative_zero=grammar.negative_zero))


class _Reading:
    """Reading the records of some lines."""

    def __init__(
        self, lines: StoredLines, between: range, grammar: Grammar, profile: str, sequence: Sequence, keys: _Keys
    ) -> None:
        self._lines = lines
        self._between = between
        self._grammar = grammar
        self._profile = profile
        self._rules = {rule.kind: rule for rule in grammar.profiles[profile]}
        self._sequence = sequence
        self._keys = keys
        self._later = LaterKinds(lambda start: lines.of(range(start, between.stop)))

    def kinds(self, *, end_line: int) -> list[StoredKind]:
        """Read all lines, and return the kinds that occur; raise the fault of the first line that is not in order."""
        try:
            for lines, text in self._lines.pieces(self._between):
                self._read(lines, text)
            self._sequence.finish(end_line)
        except TraceFault as fault:
            # A key is found to stand twice only now, and may have done so on an earlier line.
            raise self._keys.first_duplicate() or fault from None
        duplicate = self._keys.first_duplicate()
        if duplicate is not None:
            raise duplicate
        return self._keys.kinds()

    def _read(self, lines: range, text: str) -> None:
        line, place, end = lines.start, 0, len(text)
        while place < end:
            one = text[place : text.index("\n", place)]
            kind = kind_of(one)
            reader = self._reader(kind)
            keys: list[tuple[str, ...]] = []
            taken = 0
            if reader is not None:
                keys = reader.rows(text, place, end)
                behind = end
                if len(keys) < lines.stop - line:  # another kind begins in this piece, or a line is not in order
                    behind = reader.run(text, place, end)
                    keys = reader.rows(text, place, behind)
            if keys:
                taken = self._sequence.take_rest(keys)
                self._keys.take_rest(kind, keys[:taken])
                place = behind if taken == len(keys) else _after(text, place, taken)
                line += taken
            if taken == 0:
                self._take(one, line)
                place += len(one) + 1
                line += 1

    def _take(self, text: str, line: int) -> None:
        """Read one line as the parser does."""
        rule = rule_for(text, line + 1, self._rules, self._profile)
        record = read_record(text, line + 1, rule, negative_zero=self._grammar.negative_zero)
        self._later.start = line + 1
        self._keys.reading(rule, line)
        self._sequence.take(record, line + 1, self._later)

    def _reader(self, kind: str) -> LineReader | None:
        """Return the reader of the keys of the lines of a kind, if any number of them may stand here."""
        if not self._sequence.takes_more(kind):
            return None
        rule = self._rules[kind]
        required = all(field.required for field in rule.fields_of(None) if field.name in rule.key)
        if not rule.key or not required:
            return None
        return line_reader(rule, rule.key, negative_zero=self._grammar.negative_zero, exact=True)


def _after(text: str, place: int, lines: int) -> int:
    """Return where the line begins that follows so many others."""
    for _ in range(lines):
        place = text.index("\n", place) + 1
    return place


@dataclass
class _KeysOfKind:
    """The rule of a kind, the line on which its first record stands, and the hash of each key."""

    rule: RecordRule
    start: int
    hashes: array[int] = field(default_factory=lambda: array("q"))

    @property
    def integers(self) -> Integers:
        """The hashes."""
        return np.frombuffer(self.hashes, np.int64)


class _Keys:
    """The keys so far, as hashes. Whether one of them stands twice is found out at last, for all of them together."""

    def __init__(self, lines: StoredLines, *, negative_zero: bool) -> None:
        self._lines = lines
        self._negative_zero = negative_zero
        self._kinds: dict[str, _KeysOfKind] = {}
        self._last: tuple[str, int] = "", -1

    def reading(self, rule: RecordRule, line: int) -> None:
        """Learn of which rule the record on a line is, the first line being 0."""
        self._kinds.setdefault(rule.kind, _KeysOfKind(rule, line))

    def first_line(self, record: Record, line: int) -> int:
        """Keep a key, and take it for a new one."""
        kind = self._kinds[record.kind]
        kind.hashes.append(key_hash(escape(record.get(name)) for name in kind.rule.key if record.has(name)))
        self._last = record.kind, line - 1
        return line

    def take_rest(self, kind: str, keys: list[tuple[str, ...]]) -> None:
        """Keep the keys of the next records of a kind, as they stand in their lines."""
        self._kinds[kind].hashes.extend(map(hash, keys))
        self._last = "", -1

    def kinds(self) -> list[StoredKind]:
        """Return the kinds with their lines, in file order."""
        return [
            StoredKind(kind.rule, range(kind.start, kind.start + len(kind.hashes)), kind.integers)
            for kind in self._kinds.values()
        ]

    def first_duplicate(self) -> DuplicateRecord | None:
        """Return the fault of the first record whose key stands on an earlier line."""
        found = [pair for kind in self._kinds.values() for pair in self._duplicates(kind)]
        if not found:
            return None
        line, first, record = min(found, key=itemgetter(0))
        return DuplicateRecord(line + 1, record.label, "", first + 1)

    def _duplicates(self, kind: _KeysOfKind) -> Iterator[tuple[int, int, Record]]:
        """Yield the first record of a kind whose key stands on an earlier line, with both lines."""
        hashes = kind.integers
        ordered = np.sort(hashes)
        if not np.any(ordered[1:] == ordered[:-1]):
            return
        order = np.argsort(hashes, kind="stable")
        again = order[1:][hashes[order[1:]] == hashes[order[:-1]]]
        for place in np.sort(again).tolist():
            record = self._record(kind, place)
            for earlier in np.flatnonzero(hashes[:place] == hashes[place]).tolist():
                if self._record(kind, earlier).key == record.key:
                    yield self._line(kind, place), self._line(kind, earlier), record
                    return

    def _line(self, kind: _KeysOfKind, place: int) -> int:
        """Return the line of a record, which stand one after the other; only the last one read may stand elsewhere."""
        last_kind, last_line = self._last
        if last_kind == kind.rule.kind and place == len(kind.hashes) - 1:
            return last_line
        return kind.start + place

    def _record(self, kind: _KeysOfKind, place: int) -> Record:
        line = self._line(kind, place)
        return read_record(self._lines[line], line + 1, kind.rule, negative_zero=self._negative_zero)
