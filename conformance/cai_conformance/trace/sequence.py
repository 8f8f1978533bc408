"""The order and number of the records between TRACE and END, checked while they are read."""

from __future__ import annotations

from collections.abc import Container
from operator import le
from typing import Protocol

from cai_conformance.trace.errors import DuplicateRecord, MissingRecord, RecordOutOfOrder, TooManyRecords
from cai_conformance.trace.records import Record, RecordKey
from cai_conformance.trace.schema import RecordRule


class SeenKeys(Protocol):
    """The keys of the records so far."""

    def first_line(self, record: Record, line: int) -> int:
        """Return the line on which the key of a record stands first, `line` if it is new; and keep it."""


class ListedKeys:
    """The keys themselves, in memory."""

    def __init__(self) -> None:
        self._lines: dict[RecordKey, int] = {}

    def first_line(self, record: Record, line: int) -> int:
        """Return the line on which the key of a record stands first, `line` if it is new; and keep it."""
        return self._lines.setdefault(record.key, line)


class Sequence:
    """Where a reader stands in the rules of a profile.

    `optional` kinds may be absent. `later` tells which kinds still come, so that a record in the wrong place is told
    from one that is not there at all.
    """

    def __init__(
        self, rules: tuple[RecordRule, ...], optional: Container[str] = (), seen: SeenKeys | None = None
    ) -> None:
        self._rules = rules
        self._minima = [0 if rule.kind in optional else rule.minimum for rule in rules]
        self._places = {rule.kind: place for place, rule in enumerate(rules)}
        self._place = 0
        self._count = 0
        self._last: int | None = None
        self._seen = ListedKeys() if seen is None else seen

    def take(self, record: Record, line: int, later: Container[str]) -> None:
        """Accept the next record, of a kind that the rules have; raise the TraceFault that says why it cannot stand."""
        first = self._seen.first_line(record, line)
        if first != line:
            raise DuplicateRecord(line, record.label, "", first)
        place = self._places[record.kind]
        if place != self._place:
            self._move(place, record, line, later)
        rule = self._rules[place]
        self._count += 1
        if rule.maximum is not None and self._count > rule.maximum:
            raise TooManyRecords(line, record.label, "", rule.kind, rule.maximum)
        if rule.ascending:
            value = record.integer(rule.key[0])
            if self._last is not None and value < self._last:
                raise RecordOutOfOrder(line, record.label, rule.key[0], f"{self._last} stands before it")
            self._last = value

    def takes_more(self, kind: str) -> bool:
        """Whether any number of records of a kind may stand here, so that `take_rest` can be asked for them."""
        rule = self._rules[self._place]
        return rule.kind == kind and rule.maximum is None and self._count > 0

    def take_rest(self, keys: list[tuple[str, ...]]) -> int:
        """Accept the next records of the kind of the last one, of which only the keys are known, taken for new ones.

        Returns how many are accepted. The next one, if there is one more, has to go through `take`.
        """
        rule = self._rules[self._place]
        taken = len(keys)
        if rule.ascending:
            values = [int(key[0]) for key in keys]
            before = [values[0] if self._last is None else self._last, *values[:-1]]
            if not all(map(le, before, values)):
                taken = next(
                    place for place, (one, other) in enumerate(zip(before, values, strict=True)) if one > other
                )
            self._last = values[taken - 1] if taken else self._last
        self._count += taken
        return taken

    def finish(self, line: int) -> None:
        """Accept the end of the records, of which END stands on `line` (0: there is no END)."""
        self._leave(len(self._rules), line, "END" if line else "", later=())

    def _move(self, place: int, record: Record, line: int, later: Container[str]) -> None:
        if place < self._place:
            before = self._rules[self._place].kind
            raise RecordOutOfOrder(line, record.label, "", f"{record.kind} stands before {before}")
        self._leave(place, line, record.label, later)
        self._place, self._count, self._last = place, 0, None

    def _leave(self, place: int, line: int, label: str, later: Container[str]) -> None:
        """Check that enough records stand of the rules before `place`."""
        for skipped in range(self._place, place):
            kind, minimum = self._rules[skipped].kind, self._minima[skipped]
            count = self._count if skipped == self._place else 0
            if count < minimum and kind in later:
                raise RecordOutOfOrder(line, label, "", f"{kind} comes first")
            if count < minimum:
                raise MissingRecord(line, label, "", kind, minimum, count)
