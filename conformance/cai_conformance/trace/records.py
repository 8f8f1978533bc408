"""A record and a trace as data: what the parser returns and the formatter takes.

Values are kept as their unescaped text; the typed views (`integer`, `reals`, `bits`, ...) read that text on demand.
This file knows the record keys of grammar version 1 and nothing about suites, order or the text of a line.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import TypeVar, overload

from cai_conformance.trace.errors import NoTraceLine, TraceFault

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
        """The unescaped text of a field; `field-absent` if there is none."""
        for found, text in self.fields:
            if found == name:
                return text
        raise TraceFault("field-absent", 0, self.label, name)

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
            raise TraceFault("not-of-type", 0, self.label, name, value=shortened(text), expected=expected) from None


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


def kind_of(line: str) -> str:
    """The text of a line before the first bar."""
    return line.partition("|")[0]


class WrittenRecords(Sequence[Record]):
    """Records that are read from their lines when they are asked for.

    `places` are the places of their lines; all of them, in file order, if none are given.
    """

    def __init__(
        self, lines: Sequence[str], read: Callable[[str], Record], places: Sequence[int] | None = None
    ) -> None:
        self._lines = lines
        self._read = read
        self._places = range(len(lines)) if places is None else places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Record]: ...
    def __getitem__(self, place: int | slice) -> Record | Sequence[Record]:
        if isinstance(place, slice):
            return WrittenRecords(self._lines, self._read, self._places[place])
        return self._read(self._lines[self._places[place]])

    def __iter__(self) -> Iterator[Record]:
        return map(self._read, self._texts())

    def kinds(self) -> Iterator[str]:
        """The kind of each record, without reading the rest of its line."""
        return map(kind_of, self._texts())

    def _texts(self) -> Iterator[str]:
        if self._places == range(len(self._lines)):  # one walk is faster than many look-ups
            return iter(self._lines)
        return (self._lines[place] for place in self._places)

    def at(self, places: Sequence[int]) -> WrittenRecords:
        """The records at some places among these."""
        return WrittenRecords(self._lines, self._read, array("q", (self._places[place] for place in places)))


class KeyPlaces:
    """The place at which each key stands first, in some hundred bytes a key.

    Only the hash of a key is kept, and `key_at` gives the key at a place, so that equal hashes are no equal keys.
    """

    def __init__(self, key_at: Callable[[int], RecordKey]) -> None:
        self._key_at = key_at
        self._places: dict[int | RecordKey, int] = {}

    def add(self, key: RecordKey, place: int) -> int:
        """Keep the place of a key, unless an earlier one is known; return the first one."""
        first = self._places.setdefault(hash(key), place)
        if first == place or self._key_at(first) == key:
            return first
        return self._places.setdefault(key, place)

    def first(self, key: RecordKey) -> int | None:
        """The first place of a key, or None."""
        first = self._places.get(hash(key))
        return first if first is None or self._key_at(first) == key else self._places.get(key)


@dataclass(frozen=True)
class Trace:
    """The records of one trace in file order, TRACE and END included; a bare body has neither."""

    records: Sequence[Record]

    def __getstate__(self) -> dict[str, Sequence[Record]]:
        """Leave out the indices, which are made anew where they are needed."""
        return {"records": self.records}

    @property
    def envelope(self) -> Envelope:
        """The fields of the TRACE record; NoTraceLine if the trace is a bare body."""
        if not self.records or self.records[0].kind != "TRACE":
            raise NoTraceLine(0, "", "")
        return Envelope(**dict(self.records[0].fields))

    @cached_property
    def places(self) -> Mapping[str, Sequence[int]]:
        """The places in `records` of each kind, both in file order."""
        records = self.records
        kinds = records.kinds() if isinstance(records, WrittenRecords) else (record.kind for record in records)
        found: dict[str, array[int]] = {}
        for place, kind in enumerate(kinds):
            if kind not in found:
                found[kind] = array("q")
            found[kind].append(place)
        return found

    @property
    def body(self) -> Sequence[Record]:
        """The records without TRACE, CONVENTION, BITS and END."""
        return self._at(sorted(chain.from_iterable(self.places[kind] for kind in self.places.keys() - OUTSIDE_BODY)))

    @property
    def inner(self) -> Sequence[Record]:
        """The records between TRACE and END."""
        return self.records[len(self.all("TRACE")) : len(self.records) - len(self.all("END"))]

    @cached_property
    def _of_kind(self) -> dict[str, Sequence[Record]]:
        return {kind: self._at(places) for kind, places in self.places.items()}

    def all(self, kind: str) -> Sequence[Record]:
        """All records of one kind, in order."""
        return self._of_kind.get(kind, ())

    def rows(self, kind: str, *names: str) -> Iterator[tuple[str, ...]]:
        """The texts of some fields of each record of a kind, in order.

        An absent field gives an empty text, so ask in this way only for fields that cannot be empty, or must stand.
        """
        return (record.texts(names) for record in self.all(kind))

    def batches(self, kind: str, *names: str) -> Iterator[list[tuple[str, ...]]]:
        """The same rows, some thousands at a time; no batch is empty."""
        rows = self.rows(kind, *names)
        return iter(lambda: list(islice(rows, 4096)), [])

    def find(self, kind: str, **fields: str | int) -> Record | None:
        """The first record of `kind` whose named fields have these values, or None."""
        place = self._first(kind, tuple(fields), tuple(map(str, fields.values())))
        return None if place is None else self.records[place]

    def placed(self, key: RecordKey) -> int | None:
        """The place in `records` of the record that has a key, or None."""
        parts = [part.partition("=") for part in key[1:]]
        place = self._first(key[0], tuple(name for name, _, _ in parts), tuple(text for _, _, text in parts))
        return place if place is not None and self.records[place].key == key else None

    @cached_property
    def _indices(self) -> dict[tuple[str, ...], KeyPlaces]:
        return {}

    def _first(self, kind: str, names: tuple[str, ...], texts: tuple[str, ...]) -> int | None:
        """The place of the first record of a kind whose fields have these texts."""
        index = self._indices.get((kind, *names))
        if index is None:
            index = self._indices[kind, *names] = KeyPlaces(lambda place: self.records[place].texts(names))
            for place, record in zip(self.places.get(kind, ()), self.all(kind), strict=True):
                if all(map(record.has, names)):
                    index.add(record.texts(names), place)
        return index.first(texts)

    def _at(self, places: Sequence[int]) -> Sequence[Record]:
        records = self.records
        return records.at(places) if isinstance(records, WrittenRecords) else tuple([records[one] for one in places])
