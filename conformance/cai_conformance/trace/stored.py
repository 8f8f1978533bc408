"""Records that lie in a file: an index of where they begin, and reading them again when they are asked for.

The file was read once and found in order, so that reading it again finds no fault but that it has been changed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Final, overload

import numpy as np
import numpy.typing as npt

from cai_conformance.trace.errors import TraceFault
from cai_conformance.trace.patterns import line_reader
from cai_conformance.trace.reading import read_record
from cai_conformance.trace.records import Record, RecordStore
from cai_conformance.trace.schema import RecordRule
from cai_conformance.trace.source import BLOCK, Source

Integers = npt.NDArray[np.int64]

READ_AHEAD: Final = 64
"""So many lines are read at once where one record is asked for shortly after another."""


@dataclass(frozen=True)
class StoredLines(Sequence[str]):
    """The lines of a source by their numbers, counted from 0, without their LF.

    Attributes:
        source: where they lie.
        offsets: where each begins, and at last where the text ends.
    """

    source: Source
    offsets: Integers

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, line: int) -> str: ...
    @overload
    def __getitem__(self, line: slice) -> list[str]: ...
    def __getitem__(self, line: int | slice) -> str | list[str]:
        if isinstance(line, slice):
            return [self[one] for one in range(*line.indices(len(self)))]
        one = range(len(self))[line]
        return self._text(one, one + 1)[:-1]

    def __iter__(self) -> Iterator[str]:
        return self.of(range(len(self)))

    def of(self, lines: range) -> Iterator[str]:
        """Yield some lines."""
        for _, text in self.pieces(lines):
            yield from text[:-1].split("\n")

    def pieces(self, lines: range) -> Iterator[tuple[range, str]]:
        """Yield some lines together, with their LF, in pieces of a moderate size."""
        start = lines.start
        while start < lines.stop:
            fitting = int(np.searchsorted(self.offsets, self.offsets[start] + BLOCK, "right")) - 1
            stop = min(max(fitting, start + 1), lines.stop)
            yield range(start, stop), self._text(start, stop)
            start = stop

    def _text(self, start: int, stop: int) -> str:
        try:
            text = self.source.read(int(self.offsets[start]), int(self.offsets[stop])).decode("utf-8")
        except UnicodeDecodeError:
            raise self.source.changed() from None
        if text[-1:] != "\n":
            raise self.source.changed()
        return text


@dataclass(frozen=True)
class StoredKind:
    """The records of one kind: their rule, their lines, and the hash of each key (`key_hash`), if they have keys."""

    rule: RecordRule
    lines: range
    hashes: Integers | None = None


class _View(Sequence[Record]):
    """Records of some kinds, in file order."""

    def __init__(self, lines: StoredLines, kinds: Sequence[StoredKind], *, negative_zero: bool) -> None:
        self._lines = lines
        self._kinds = kinds
        self._negative_zero = negative_zero
        self._ends = list(accumulate(len(kind.lines) for kind in kinds))
        self._ahead: tuple[range, list[str]] = range(0), []
        self._asked = -1

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Record]: ...
    def __getitem__(self, place: int | slice) -> Record | Sequence[Record]:
        if isinstance(place, slice):
            return tuple(self[one] for one in range(*place.indices(len(self))))
        one = range(len(self))[place]
        number = bisect_right(self._ends, one)
        kind = self._kinds[number]
        line = kind.lines[one - self._ends[number] + len(kind.lines)]
        return self._record(kind.rule, line, self._line(line, kind.lines.stop))

    def __iter__(self) -> Iterator[Record]:
        for kind in self._kinds:
            for line, text in enumerate(self._lines.of(kind.lines), kind.lines.start):
                yield self._record(kind.rule, line, text)

    def _line(self, line: int, stop: int) -> str:
        """Return a line; where one is asked for soon after another, the next ones are read with it."""
        lines, texts = self._ahead
        if line in lines:
            return texts[line - lines.start]
        near = 0 <= line - self._asked <= READ_AHEAD
        self._asked = line
        if not near:
            return self._lines[line]
        read, text = next(self._lines.pieces(range(line, min(line + READ_AHEAD, stop))))
        texts = text[:-1].split("\n")
        self._ahead, self._asked = (read, texts), read.stop - 1
        return texts[0]

    def _record(self, rule: RecordRule, line: int, text: str) -> Record:
        try:
            return read_record(text, line + 1, rule, negative_zero=self._negative_zero)
        except TraceFault:
            raise self._lines.source.changed() from None


class StoredRecords(_View, RecordStore):
    """All records of a trace that was found in order."""

    def __init__(self, lines: StoredLines, kinds: Sequence[StoredKind], *, negative_zero: bool) -> None:
        super().__init__(lines, kinds, negative_zero=negative_zero)
        self._by_kind = {kind.rule.kind: kind for kind in kinds}
        self._starts = {kind: places.start for kind, places in self.runs()}
        self._indices: dict[tuple[str, tuple[str, ...]], HashIndex] = {}

    def of(self, kind: str) -> Sequence[Record]:
        """All records of one kind."""
        found = self._by_kind.get(kind)
        return self._view([found]) if found is not None else ()

    def without(self, kinds: Collection[str]) -> Sequence[Record]:
        """All records but those of some kinds."""
        return self._view([kind for kind in self._kinds if kind.rule.kind not in kinds])

    def batches(self, kind: str, names: tuple[str, ...]) -> Iterator[list[tuple[str, ...]]]:
        """The unescaped texts of some fields of each record of a kind, piece by piece of the source."""
        found = self._by_kind.get(kind)
        if found is None:
            return
        reader = line_reader(found.rule, names)
        for lines, text in self._lines.pieces(found.lines):
            rows = reader.plain_rows(text, 0, len(text)) if reader is not None else []
            if len(rows) < len(lines):  # records of a variant, or a file that was changed
                texts = zip(lines, text[:-1].split("\n"), strict=True)
                rows = [self._record(found.rule, line, one).texts(names) for line, one in texts]
            yield rows

    def runs(self) -> Iterator[tuple[str, range]]:
        """The kinds with the places of their records."""
        start = 0
        for kind in self._kinds:
            yield kind.rule.kind, range(start, start := start + len(kind.lines))

    def first(self, kind: str, fields: Mapping[str, str]) -> tuple[int, Record] | None:
        """The first record of a kind whose fields have these texts, with its place; None if there is none."""
        found = self._by_kind.get(kind)
        if found is None:
            return None
        names = tuple(name for name in found.rule.names if name in fields)
        index = self._indices.get((kind, names))
        if index is None:
            index = self._indices[kind, names] = self._index(found, names)
        wanted = set(fields.items())
        for place in index.places(key_hash(fields.get(name, "") for name in names)):
            line = found.lines[place]
            record = self._record(found.rule, line, self._line(line, found.lines.stop))
            if wanted <= set(record.fields):
                return self._starts[kind] + place, record
        return None

    def _index(self, kind: StoredKind, names: tuple[str, ...]) -> HashIndex:
        if kind.hashes is not None and names == kind.rule.key:
            return HashIndex(kind.hashes)
        rows = chain.from_iterable(self.batches(kind.rule.kind, names))
        return HashIndex(np.fromiter(map(key_hash, rows), np.int64, len(kind.lines)))

    def _view(self, kinds: Sequence[StoredKind]) -> Sequence[Record]:
        return _View(self._lines, kinds, negative_zero=self._negative_zero)


class HashIndex:
    """Places by hash, in half a dozen bytes for each."""

    def __init__(self, hashes: Integers) -> None:
        self._places = np.argsort(hashes, kind="stable").astype(np.int32)
        self._sorted = memoryview(hashes[self._places].data)

    def places(self, wanted: int) -> Iterator[int]:
        """Yield the places that have a hash, in ascending order."""
        at = bisect_left(self._sorted, wanted)
        while at < len(self._sorted) and self._sorted[at] == wanted:
            yield int(self._places[at])
            at += 1


def key_hash(texts: Iterable[str]) -> int:
    """Return 64 bits that tell keys apart nearly always; what has one hash is compared as a whole.

    It differs from process to process, so that nobody can write a file of keys with one hash.
    """
    return hash(tuple(texts))
