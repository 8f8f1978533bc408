"""A record and a trace as data: what the parser returns and the formatter takes.

Values are kept as their unescaped text; the typed views (`integer`, `reals`, `bits`, ...) read that text on demand.
This file knows the record keys of grammar version 1 and nothing about suites, order or the text of a line.
"""

from __future__ import annotations

import re
import struct
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from operator import attrgetter
from typing import TypeVar, overload

from cai_conformance.trace.errors import FieldAbsent, NotOfType, NoTraceLine

GRAMMAR = "1"

RECORD_KEYS: Mapping[str, tuple[str, ...]] = {
    "TRACE": (),
    "CONFIG": (),
    "CONVENTION": (),
    "SPLIT": (),
    "STAGE": ("index",),
    "LOSS": ("step",),
    "BITS": ("step",),
    "RESULT": (),
    "DECODE": ("arm", "prompt"),
    "DRAFT": ("arm", "prompt", "pass"),
    "CACHE": ("layer", "arm", "prefix"),
    "SAMPLE": ("case", "draw"),
    "GENERATE": ("arm", "prompt"),
    "PROOF": (),
    "END": (),
}
"""The fields that identify a record of a kind; a key field that a suite does not use is left out of the key."""

OUTSIDE_BODY = frozenset({"TRACE", "CONVENTION", "BITS", "END"})
"""The kinds that the body of a trace leaves out."""

RecordKey = tuple[str, ...]
"""The kind, then `name=value` for each key field: `("STAGE", "index=3")`."""

Value = TypeVar("Value")

_BITS = re.compile("[0-9a-f]{16}")


def shortened(text: str, limit: int = 60) -> str:
    """`text` for a message: its first `limit` characters or so, each one printable."""
    shown = text if len(text) <= limit else text[: limit - 1] + "…"
    if shown.isprintable():
        return shown
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in shown)


def list_items(text: str) -> list[str]:
    """The items of a list value: `[a, b]` gives `["a", "b"]`, `[]` gives none; ValueError without the brackets."""
    if text[:1] != "[" or text[-1:] != "]":
        raise ValueError(text)
    return text[1:-1].split(", ") if text != "[]" else []


def float_of_bits(text: str) -> float:
    """The double whose sixteen hexadecimal digits, most significant first, are `text`; ValueError if it is not that."""
    if not _BITS.fullmatch(text):
        raise ValueError(text)
    value: float = struct.unpack(">d", bytes.fromhex(text))[0]
    return value


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a trace: its kind and its fields, name and unescaped text, in the order of the line."""

    kind: str
    fields: tuple[tuple[str, str], ...]

    @property
    def key(self) -> RecordKey:
        """The key that is unique in a trace, such as `("STAGE", "index=3")`."""
        names = RECORD_KEYS.get(self.kind, ())
        return (self.kind, *[f"{name}={text}" for name, text in self.fields if name in names])

    @property
    def label(self) -> str:
        """The key in words, such as `STAGE index=3`."""
        return " ".join(shortened(part) for part in self.key)

    def has(self, name: str) -> bool:
        """Whether the record has the field."""
        return any(name == found for found, _ in self.fields)

    def get(self, name: str) -> str:
        """The unescaped text of a field; FieldAbsent if there is none."""
        for found, text in self.fields:
            if found == name:
                return text
        raise FieldAbsent(0, self.label, name)

    def texts(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The unescaped texts of some fields; an empty text stands for an absent field."""
        found = dict(self.fields)
        return tuple([found.get(name, "") for name in names])

    def integer(self, name: str) -> int:
        """A field as an integer."""
        return self._typed(name, int, "an integer")

    def real(self, name: str) -> float:
        """A field as a real, as printed."""
        return self._typed(name, float, "a real")

    def integers(self, name: str) -> list[int]:
        """A field as a list of integers."""
        return self._typed(name, lambda text: [int(item) for item in list_items(text)], "a list of integers")

    def reals(self, name: str) -> list[float]:
        """A field as a list of reals, as printed."""
        return self._typed(name, lambda text: [float(item) for item in list_items(text)], "a list of reals")

    def bits(self, name: str) -> list[float]:
        """A field of exact bits as doubles; a single sixteen-digit value gives a list of one."""
        return self._typed(name, _doubles, "bits of doubles")

    def _typed(self, name: str, read: Callable[[str], Value], expected: str) -> Value:
        text = self.get(name)
        try:
            return read(text)
        except ValueError:
            raise NotOfType(0, self.label, name, shortened(text), expected) from None


def _doubles(text: str) -> list[float]:
    return [float_of_bits(item) for item in (list_items(text) if text[:1] == "[" else [text])]


@dataclass(frozen=True, slots=True)
class Envelope:
    """The fields of the TRACE record: which suite, in which version, profile, arithmetic and against which vectors."""

    suite: str
    suite_version: str
    profile: str
    arithmetic: str
    vectors: str
    grammar: str = GRAMMAR

    @property
    def record(self) -> Record:
        """The TRACE record."""
        names = ("grammar", "suite", "suite_version", "profile", "arithmetic", "vectors")
        return Record("TRACE", tuple((name, getattr(self, name)) for name in names))


class RecordStore(Sequence[Record]):
    """Where the records of a trace lie: in a list, or in a file from which they are read again when asked for.

    Every look-up gives records in file order.
    """

    @abstractmethod
    def of(self, kind: str) -> Sequence[Record]:
        """All records of one kind."""

    @abstractmethod
    def without(self, kinds: Collection[str]) -> Sequence[Record]:
        """All records but those of some kinds."""

    @abstractmethod
    def batches(self, kind: str, names: tuple[str, ...]) -> Iterator[list[tuple[str, ...]]]:
        """The unescaped texts of some fields of each record of a kind, some thousands of records at a time.

        An empty text stands for an absent field. No batch is empty.
        """

    @abstractmethod
    def first(self, kind: str, fields: Mapping[str, str]) -> tuple[int, Record] | None:
        """The first record of a kind whose fields have these texts, with its place; None if there is none."""

    @abstractmethod
    def runs(self) -> Iterator[tuple[str, range]]:
        """The kinds with the places of their records, as long as those stand one after the other."""


class ListedRecords(RecordStore):
    """Records in memory, with the indices that look-ups ask for."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._indices: dict[tuple[str, tuple[str, ...]], dict[tuple[str, ...], int]] = {}

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Record]: ...
    def __getitem__(self, place: int | slice) -> Record | Sequence[Record]:
        return self._records[place]

    @cached_property
    def _by_kind(self) -> dict[str, tuple[Record, ...]]:
        found: dict[str, list[Record]] = {}
        for record in self._records:
            found.setdefault(record.kind, []).append(record)
        return {kind: tuple(records) for kind, records in found.items()}

    def of(self, kind: str) -> tuple[Record, ...]:
        """All records of one kind."""
        return self._by_kind.get(kind, ())

    def without(self, kinds: Collection[str]) -> tuple[Record, ...]:
        """All records but those of some kinds."""
        return tuple(record for record in self._records if record.kind not in kinds)

    def batches(self, kind: str, names: tuple[str, ...]) -> Iterator[list[tuple[str, ...]]]:
        """The unescaped texts of some fields of each record of a kind, all at once."""
        if found := self.of(kind):
            yield [record.texts(names) for record in found]

    def first(self, kind: str, fields: Mapping[str, str]) -> tuple[int, Record] | None:
        """The first record of a kind whose fields have these texts, with its place; None if there is none."""
        names = tuple(fields)
        index = self._indices.get((kind, names))
        if index is None:
            index = self._indices[kind, names] = {}
            for place, record in enumerate(self._records):
                if record.kind == kind and all(map(record.has, names)):
                    index.setdefault(record.texts(names), place)
        found = index.get(tuple(fields.values()))
        return None if found is None else (found, self._records[found])

    def runs(self) -> Iterator[tuple[str, range]]:
        """The kinds with the places of their records, as long as those stand one after the other."""
        start = 0
        for kind, records in groupby(self._records, attrgetter("kind")):
            stop = start + sum(1 for _ in records)
            yield kind, range(start, stop)
            start = stop


@dataclass(frozen=True)
class Trace:
    """The records of one trace in file order, TRACE and END included; a bare body has neither."""

    records: Sequence[Record]

    @cached_property
    def _store(self) -> RecordStore:
        return self.records if isinstance(self.records, RecordStore) else ListedRecords(self.records)

    @property
    def envelope(self) -> Envelope:
        """The fields of the TRACE record; NoTraceLine if the trace is a bare body."""
        if not self.records or self.records[0].kind != "TRACE":
            raise NoTraceLine(0, "", "")
        return Envelope(**dict(self.records[0].fields))

    @property
    def body(self) -> Sequence[Record]:
        """The records without TRACE, CONVENTION, BITS and END."""
        return self._store.without(OUTSIDE_BODY)

    @property
    def inner(self) -> Sequence[Record]:
        """The records between TRACE and END."""
        return self._store.without(("TRACE", "END"))

    def all(self, kind: str) -> Sequence[Record]:
        """All records of one kind, in order."""
        return self._store.of(kind)

    def rows(self, kind: str, *names: str) -> Iterator[tuple[str, ...]]:
        """The texts of some fields of each record of a kind, in order: the cheapest way to walk over many records.

        An absent field gives an empty text, so ask in this way only for fields that cannot be empty, or must stand.
        """
        return chain.from_iterable(self._store.batches(kind, names))

    def batches(self, kind: str, *names: str) -> Iterator[list[tuple[str, ...]]]:
        """The same rows, some thousands at a time."""
        return self._store.batches(kind, names)

    def find(self, kind: str, **fields: str | int) -> Record | None:
        """The first record of `kind` whose named fields have these values, or None."""
        found = self._store.first(kind, {name: str(value) for name, value in fields.items()})
        return found[1] if found is not None else None

    def placed(self, key: RecordKey) -> int | None:
        """The place in `records` of the record that has a key, or None."""
        names_and_texts = (part.partition("=") for part in key[1:])
        found = self._store.first(key[0], {name: text for name, _, text in names_and_texts})
        return found[0] if found is not None and found[1].key == key else None

    def runs(self) -> Iterator[tuple[str, range]]:
        """The kinds with the places of their records, as long as those stand one after the other."""
        return self._store.runs()

    def keyed(self) -> dict[RecordKey, Record]:
        """Every record under its key, in file order."""
        return {record.key: record for record in self.records}
