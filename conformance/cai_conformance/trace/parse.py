"""From the bytes of a trace to its records: lines, envelope, records, order, count, digest.

Lines are read one by one. Of a short trace the records are kept; of a long one where each line ends and some bytes a
key, and a record is read from its line again when somebody asks for it: a file of a million records takes some hundred
megabytes, however long they are.

Every failure is a TraceFault with line, record and field; no input raises anything else. What the values should be is
for `cai_conformance.trace.compare` and the judges.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import SEEK_END, BytesIO
from itertools import islice
from typing import BinaryIO, Final, NoReturn, overload

from cai_conformance.trace.errors import DigestMismatch, NoTraceLine, TraceFault
from cai_conformance.trace.format import FIELD_NAME, KIND, unescape
from cai_conformance.trace.grammar import FieldRule, Grammar, RecordRule, readers_of, usual_line
from cai_conformance.trace.grammars.common import END, TRACE
from cai_conformance.trace.records import (
    GRAMMAR,
    OUTSIDE_BODY,
    RECORD_KEYS,
    KeyPlaces,
    Record,
    Trace,
    WrittenRecords,
    kind_of,
    shortened,
)
from cai_conformance.trace.values import Check, FieldType

LINE_LIMIT: Final = 16 * 2**20
FILE_LIMIT: Final = 2**30

SHORT: Final = 2**20
"""Of a trace of at most so many bytes the records are kept."""

GrammarOf = Callable[[str], Grammar | None]
"""From the name of a suite to its grammar, or None where the suite is unknown."""

Readers = tuple[tuple[FieldRule, str, Check], ...]

_AT_ONCE: Final = 2**20
_CONTROLS = bytes({*range(0x20), 0x7F} - {0x0A})
_FORBIDDEN = re.compile(b"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
_HIGH_CONTROL = re.compile(b"\xc2[\x80-\x9f]")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_PIECE = re.compile(r"(?:[^|\\]++|\\.)*+", re.DOTALL)


def parse(data: bytes | str | BinaryIO, grammar_of: GrammarOf, *, short: int = SHORT) -> Trace:
    """The trace whose whole text is `data`; beyond `short` bytes its records are read again when they are asked for.

    A file stays open and is not to change as long as the trace is used. Raises a TraceFault that names line, record and
    field. DigestMismatch comes last of all and carries the trace.
    """
    lines = lines_of(data)
    opening, grammar = _read_opening(lines, grammar_of)
    profile, count = opening.get("profile"), len(lines)
    reading = _Reading(lines, grammar, profile)
    reading.check(1, count - 1, end_line=count)
    end = read_record(lines[-1], count, END)
    trace = reading.trace(short)
    if end.integer("records") != count - 2:
        raise TraceFault(
            "wrong-record-count", count, "END", "records", stated=end.integer("records"), counted=count - 2
        )
    stated, computed = end.get("digest"), f"sha256:{lines.digest_before(count - 1)}"
    if stated != computed:
        raise DigestMismatch(count, "END", "digest", stated, computed, trace)
    return trace


def parse_body(data: bytes | str | BinaryIO, grammar: Grammar, profile: str, *, short: int = SHORT) -> Trace:
    """The records of a text without TRACE and END, such as the published n-gram trace.

    CONVENTION and BITS may be absent, everything else is checked as in `parse`.
    """
    lines = lines_of(data)
    reading = _Reading(lines, grammar, profile, optional=OUTSIDE_BODY)
    reading.check(0, len(lines), end_line=0)
    return reading.trace(short)


# Bytes and lines


class Lines(Sequence[str]):
    """The lines of a complete text, without their LF: a file that is read again, and where each line ends."""

    def __init__(self, file: BinaryIO, ends: array[int]) -> None:
        self._file, self._ends = file, ends
        self.size = ends[-1] + 1

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        one = range(len(self))[place]
        start = self._ends[one - 1] + 1 if one else 0
        self._file.seek(start)
        return self._file.read(self._ends[one] - start).decode("utf-8")

    def __iter__(self) -> Iterator[str]:
        for _, block in _blocks(self._file):
            yield from (line[:-1].decode("utf-8") for line in BytesIO(block))

    def digest_before(self, place: int) -> str:
        """The SHA-256, in hex digits, of the bytes of all lines before one, which is not the first."""
        stop, digest = self._ends[place - 1] + 1, hashlib.sha256()
        for start, block in _blocks(self._file):
            digest.update(block[: max(0, stop - start)])
        return digest.hexdigest()


def _blocks(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Some whole lines at a time with the place of their first byte, wherever the file is read in between."""
    start = 0
    while True:
        file.seek(start)
        if not (block := b"".join(file.readlines(_AT_ONCE))):
            return
        yield start, block
        start += len(block)


def lines_of(data: bytes | str | BinaryIO, *, line_limit: int = LINE_LIMIT, file_limit: int = FILE_LIMIT) -> Lines:
    """The lines of a complete text: encoding, forbidden characters, line ends and sizes are in order.

    Raises `too-large`, `forbidden-character`, `not-utf8`, `cut-off` (the text is empty, or its last line has no LF),
    `blank-line` or `trailing-space`.
    """
    if isinstance(data, str):
        # A lone surrogate becomes bytes that are no UTF-8, and is found as such.
        data = data.encode("utf-8", "surrogatepass")
    file = BytesIO(data) if isinstance(data, bytes) else data
    size = file.seek(0, SEEK_END)
    if size > file_limit:
        raise TraceFault("too-large", 0, "", "", size=size, limit=file_limit)
    ends = array("q")
    for start, block in _blocks(file):
        if not _in_order(block) or (start == 0 and block.startswith(_BYTE_ORDER_MARK)):
            break
        ends.extend(start + found.start() for found in re.finditer(b"\n", block))
    if not size or not ends or ends[-1] + 1 != size:
        # What is wrong, and where, is told from the whole.
        file.seek(0)
        whole = file.read()
        _refuse(whole)
        return lines_of(whole, line_limit=line_limit, file_limit=file_limit)  # somebody mended the file meanwhile
    lines = Lines(file, ends)
    if size > line_limit:
        for number, line in enumerate(lines, 1):
            if (length := len(line.encode("utf-8"))) > line_limit:
                raise TraceFault("too-large", number, label_of(line[:4096]), "", size=length, limit=line_limit)
    return lines


def _in_order(data: bytes) -> bool:
    """Whether bytes are lines of UTF-8 without a forbidden character, none of them blank or with a space at its end."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    # Deleting is ten times faster than searching, and nearly always enough.
    allowed = len(data.translate(None, _CONTROLS)) == len(data) and not (b"\xc2" in data and _HIGH_CONTROL.search(data))
    blank = data.startswith(b"\n") or b"\n\n" in data
    return allowed and data.endswith(b"\n") and not blank and b" \n" not in data


def _refuse(data: bytes) -> None:
    """Say what is wrong with the bytes of a text whose blocks are not all in order."""
    if data.startswith(_BYTE_ORDER_MARK):
        raise TraceFault("forbidden-character", 1, "", "", column=1, character="the byte order mark")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as fault:
        if fault.reason == "unexpected end of data":  # the file was cut within a character
            raise _cut_off(data[: fault.start]) from None
        line, column, label, field = _place(data, fault.start)
        raise TraceFault("not-utf8", line, label, field, column=column) from None
    if found := _FORBIDDEN.search(data):
        line, column, label, field = _place(data, found.start())
        code = found.group()[-1]
        name = {0: "NUL", 9: "a tab", 13: "a carriage return (lines end with LF alone)"}.get(
            code, "a control character"
        )
        raise TraceFault("forbidden-character", line, label, field, column=column, character=f"U+{code:04X}, {name},")
    if not data.endswith(b"\n"):
        raise _cut_off(data)
    if data.startswith(b"\n") or b"\n\n" in data:
        blank = 0 if data.startswith(b"\n") else data.index(b"\n\n") + 1
        before = data[data.rfind(b"\n", 0, blank - 1) + 1 : blank - 1].decode("utf-8") if blank else ""
        raise TraceFault("blank-line", data.count(b"\n", 0, blank) + 1, label_of(before) if blank else "", "")
    if (space := data.find(b" \n")) >= 0:
        line_text = data[data.rfind(b"\n", 0, space) + 1 : space + 1].decode("utf-8")
        name = line_text.rpartition("|")[2].partition("=")[0]
        field = name if re.fullmatch("[a-z][a-z0-9_]{0,60}", name) else ""
        raise TraceFault("trailing-space", data.count(b"\n", 0, space) + 1, label_of(line_text), field)


def _place(data: bytes, offset: int) -> tuple[int, int, str, str]:
    """The line and column of a byte, counted from 1, and the record and field in which it stands, where they show."""
    start = data.rfind(b"\n", 0, offset) + 1
    end = data.find(b"\n", offset)
    line = data[start : end if end >= 0 else len(data)]
    name, equals, _ = data[start:offset].rpartition(b"|")[2].partition(b"=")
    field = name.decode("ascii", "replace") if equals and re.fullmatch(b"[a-z][a-z0-9_]{0,60}", name) else ""
    label = label_of(line[:4096].decode("utf-8", "replace"))
    return data.count(b"\n", 0, offset) + 1, offset - start + 1, label, field


def _cut_off(data: bytes) -> TraceFault:
    """The fault of bytes that end within a line: it names the last line before that which is not blank."""
    complete = data[: data.rfind(b"\n") + 1]
    last = complete.rstrip(b"\n").rpartition(b"\n")[2].decode("utf-8")
    what = "the last line has no line feed" if data else "the file is empty"
    return TraceFault("cut-off", complete.count(b"\n"), label_of(last), "", what=what)


# One line


def label_of(line: str) -> str:
    """What can be said about which record a line holds, be it well-formed or not: `STAGE index=3`, or nothing."""
    kind, *pieces = split_line(line)
    if not KIND.fullmatch(kind):
        return ""
    names = RECORD_KEYS.get(kind, ())
    parts = [piece for piece in pieces if piece.partition("=")[0] in names]
    return " ".join([kind, *(shortened(unescape(part) or part) for part in parts)])


def split_line(line: str) -> list[str]:
    """The pieces of a line between bars that are not escaped; the first is the kind."""
    if "\\" not in line:
        return line.split("|")
    pieces = []
    start = 0
    while True:
        end = start + len(_PIECE.match(line, start).group())  # type: ignore[union-attr]  # it matches the empty text
        if end < len(line) and line[end] != "|":  # a backslash with nothing behind it
            end = len(line)
        pieces.append(line[start:end])
        if end == len(line):
            return pieces
        start = end + 1


def read_record(line: str, number: int, rule: RecordRule, *, negative_zero: bool = False) -> Record:
    """The record on a line whose kind is that of `rule`; a TraceFault says what is wrong with line `number`.

    Most lines are matched whole by one expression. The others are read in a walk over their pieces, and only a line
    that the walk does not accept either is looked at again, to say what is wrong with it.
    """
    if not rule.variant and (usual := usual_line(rule, negative_zero).fullmatch(line)):
        texts = usual.groups()
        if None in texts:  # an optional field is absent
            pairs = [(name, text) for name, text in zip(rule.names, texts, strict=True) if text is not None]
            return Record(rule.kind, tuple(pairs))
        return Record(rule.kind, tuple(zip(rule.names, texts, strict=True)))
    pieces = split_line(line)
    readers = readers_of(rule, _variant(rule, pieces), negative_zero)
    plain = "\\" not in line
    fields = _walk(pieces, readers, plain)
    if fields is None:
        pieces = [pieces[0], *(piece for piece in pieces[1:] if not _ignored(piece))]
        fields = _walk(pieces, readers, plain)
        if fields is None:
            _explain(pieces, readers, rule.variant, number, label_of(line))
    return Record(rule.kind, fields)


def _variant(rule: RecordRule, pieces: list[str]) -> str | None:
    if not rule.variant:
        return None
    prefix = f"{rule.variant}="
    found = next((piece[len(prefix) :] for piece in pieces if piece.startswith(prefix)), None)
    # Unnamed variants share one entry of the cache.
    return found if any(found in field.variants for field in rule.fields) else None


def _ignored(piece: str) -> bool:
    name, equals, _ = piece.partition("=")
    return bool(equals) and name.startswith("x_") and FIELD_NAME.fullmatch(name) is not None


def _walk(pieces: list[str], readers: Readers, plain: bool) -> tuple[tuple[str, str], ...] | None:
    fields = []
    place = 0
    for piece in pieces[1:]:
        while True:
            if place == len(readers):
                return None
            rule, prefix, check = readers[place]
            place += 1
            if piece.startswith(prefix):
                break
            if rule.required:
                return None
        text = piece[len(prefix) :]
        if not check(text):
            return None
        if not plain and rule.type is FieldType.STRING:
            text = unescape(text) or ""  # the check has seen that it can be
        fields.append((rule.name, text))
    if any(rule.required for rule, _, _ in readers[place:]):
        return None
    return tuple(fields)


def _explain(pieces: list[str], readers: Readers, variant: str, number: int, label: str) -> NoReturn:
    known = {rule.name: (rule, check) for rule, _, check in readers}
    found: dict[str, str] = {}
    for piece in pieces[1:]:
        name, equals, text = piece.partition("=")
        if not equals or not FIELD_NAME.fullmatch(name):
            raise TraceFault("malformed-field", number, label, "", text=shortened(piece))
        if name in found:
            raise TraceFault("duplicate-field", number, label, name)
        found[name] = text
    if variant:  # the other fields depend on it
        if variant not in found:
            raise TraceFault("missing-field", number, label, variant)
        rule, check = known[variant]
        if not check(found[variant]):
            raise TraceFault(
                "bad-value", number, label, variant, value=shortened(found[variant]), expected=rule.meaning
            )
    for name in found:
        if name not in known:
            raise TraceFault("unknown-field", number, label, name)
    for name, (rule, _) in known.items():
        if rule.required and name not in found:
            raise TraceFault("missing-field", number, label, name)
    for name, expected in zip(found, [name for name in known if name in found], strict=True):
        if name != expected:
            raise TraceFault("field-out-of-order", number, label, name, expected=expected)
    for name, text in found.items():
        rule, check = known[name]
        if not check(text):
            raise TraceFault("bad-value", number, label, name, value=shortened(text), expected=rule.meaning)
    raise AssertionError(f"line {number} was refused and is in order")


# The whole


def _read_opening(lines: Lines, grammar_of: GrammarOf) -> tuple[Record, Grammar]:
    """The TRACE record of some lines, and the grammar of its suite; a TraceFault where there is none, or no END."""
    if kind_of(lines[0]) != "TRACE":
        raise NoTraceLine(1, label_of(lines[0]), "")
    if kind_of(lines[-1]) != "END" or len(lines) == 1:
        for number, line in enumerate(lines, 1):
            if kind_of(line) == "END":
                raise TraceFault("after-end", number + 1, label_of(lines[number]), "", end=number)
        raise TraceFault("cut-off", len(lines), label_of(lines[-1]), "", what="there is no END record")
    # The version comes before all else: in another major version the other fields may mean anything.
    version = next((piece for piece in lines[0].split("|") if piece.startswith("grammar=")), "")
    found = version.partition("=")[2]
    if version and found.partition(".")[0] != GRAMMAR:
        raise TraceFault("unknown-grammar", 1, "TRACE", "grammar", found=shortened(found), known=GRAMMAR)
    opening = read_record(lines[0], 1, TRACE)
    grammar = grammar_of(opening.get("suite"))
    if grammar is None:
        raise TraceFault("unknown-suite", 1, "TRACE", "suite", suite=shortened(opening.get("suite")))
    return opening, grammar


def _read_again(line: str, rules: Mapping[str, RecordRule], negative_zero: bool) -> Record:
    """The record on a line that is known to be in order."""
    if "\\" not in line and "|x_" not in line:  # every piece is a field, and its text stands as it is
        kind, *pieces = line.split("|")
        parts = [piece.partition("=") for piece in pieces]
        return Record(kind, tuple([(name, text) for name, _, text in parts]))
    return read_record(line, 0, rules[kind_of(line)], negative_zero=negative_zero)


class _Reading:
    """Reading the records of a profile in the order of its rules, one line at a time.

    Kinds in `optional` may be absent.
    """

    def __init__(self, lines: Lines, grammar: Grammar, profile: str, optional: Collection[str] = ()) -> None:
        rules = grammar.profiles.get(profile)
        if rules is None:
            raise TraceFault(
                "unknown-profile", 1, "TRACE", "profile", found=shortened(profile), known=", ".join(grammar.profiles)
            )
        self._lines = lines
        self._profile = profile
        self._negative_zero = grammar.negative_zero
        self._rules = rules
        self._minima = [0 if rule.kind in optional else rule.minimum for rule in rules]
        self._places = {rule.kind: place for place, rule in enumerate(rules)}
        by_kind = {rule.kind: rule for rule in (TRACE, *rules, END)}
        self._again = partial(_read_again, rules=by_kind, negative_zero=self._negative_zero)
        self._seen = KeyPlaces(lambda line: self._again(lines[line - 1]).key)
        self._place = 0
        self._count = 0
        self._last: int | None = None

    def check(self, start: int, stop: int, *, end_line: int) -> None:
        """Read the lines from `start` to `stop`, behind which END stands on `end_line` (0: there is no END)."""
        for number, line in enumerate(islice(self._lines, start, stop), start + 1):
            self._take(line, number)
        self._leave(len(self._rules), end_line, "END" if end_line else "", ())

    def trace(self, short: int) -> Trace:
        """The trace of all lines, which are known to be in order."""
        records = WrittenRecords(self._lines, self._again)
        return Trace(records if self._lines.size > short else tuple(records))

    def _take(self, text: str, line: int) -> None:
        """Read the next record; raise the TraceFault that says why it cannot stand here."""
        kind = kind_of(text)
        place = self._places.get(kind)
        if place is None:
            raise TraceFault(
                "unknown-record", line, label_of(text), "", kind=f"'{shortened(kind)}'", profile=self._profile
            )
        rule = self._rules[place]
        record = read_record(text, line, rule, negative_zero=self._negative_zero)
        if (first := self._seen.add(record.key, line)) != line:
            raise TraceFault("duplicate-record", line, record.label, "", first=first)
        if place != self._place:
            self._move(place, record, line)
        self._count += 1
        if rule.maximum is not None and self._count > rule.maximum:
            raise TraceFault("too-many-records", line, record.label, "", kind=rule.kind, maximum=rule.maximum)
        if rule.ascending:
            value = record.integer(rule.key[0])
            if self._last is not None and value < self._last:
                raise TraceFault(
                    "record-out-of-order", line, record.label, rule.key[0], why=f"{self._last} stands before it"
                )
            self._last = value

    def _move(self, place: int, record: Record, line: int) -> None:
        if place < self._place:
            before = self._rules[self._place].kind
            raise TraceFault("record-out-of-order", line, record.label, "", why=f"{record.kind} stands before {before}")
        self._leave(place, line, record.label, islice(self._lines, line, None))
        self._place, self._count, self._last = place, 0, None

    def _leave(self, place: int, line: int, label: str, later: Iterable[str]) -> None:
        """Check that enough records stand of the rules before `place`, told from those that only come `later`."""
        for skipped in range(self._place, place):
            kind, minimum = self._rules[skipped].kind, self._minima[skipped]
            count = self._count if skipped == self._place else 0
            if count < minimum and any(kind_of(line) == kind for line in later):
                raise TraceFault("record-out-of-order", line, label, "", why=f"{kind} comes first")
            if count < minimum:
                raise TraceFault("missing-record", line, label, "", kind=kind, needed=minimum, count=count)
