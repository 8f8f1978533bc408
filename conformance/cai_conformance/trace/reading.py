"""From one line to one record, by the rule of its kind.

Most lines are matched whole by one expression. The others are read in a walk over their pieces, and only a line that
the walk does not accept either is looked at again, to say what is wrong with it.
"""

from __future__ import annotations

import re
from typing import NoReturn

from cai_conformance.trace.errors import (
    BadValue,
    DuplicateField,
    FieldOutOfOrder,
    MalformedField,
    MissingField,
    UnknownField,
)
from cai_conformance.trace.formatting import FIELD_NAME, KIND, unescape
from cai_conformance.trace.records import RECORD_KEYS, Record, shortened
from cai_conformance.trace.schema import FieldReader, RecordRule, readers_of, usual_line

_PIECE = re.compile(r"(?:[^|\\]++|\\.)*+", re.DOTALL)
IGNORED = "x_"


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


def label_of(line: str) -> str:
    """What can be said about which record a line holds, be it well-formed or not: `STAGE index=3`, or nothing."""
    kind, *pieces = split_line(line)
    if not KIND.fullmatch(kind):
        return ""
    names = RECORD_KEYS.get(kind, ())
    parts = [piece for piece in pieces if piece.partition("=")[0] in names]
    return " ".join([kind, *(shortened(unescape(part) or part) for part in parts)])


def read_record(line: str, number: int, rule: RecordRule, *, negative_zero: bool = False) -> Record:
    """The record on a line whose kind is that of `rule`; a TraceFault says what is wrong with line `number`."""
    if not rule.variant:
        usual = usual_line(rule, negative_zero).fullmatch(line)
        if usual:
            texts = usual.groups()
            if None in texts:
                return Record(
                    rule.kind, tuple([pair for pair in zip(rule.names, texts, strict=True) if pair[1] is not None])
                )
            return Record(rule.kind, tuple(zip(rule.names, texts, strict=True)))
    pieces = split_line(line)
    readers = readers_of(rule, _variant(rule, pieces), negative_zero)
    plain = "\\" not in line
    fields = _walk(pieces, readers, plain)
    if fields is None:
        pieces = [pieces[0], *(piece for piece in pieces[1:] if not _ignored(piece))]
        fields = _walk(pieces, readers, plain)
        if fields is None:
            _explain(pieces, readers, rule, number, label_of(line))
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
    return bool(equals) and name.startswith(IGNORED) and FIELD_NAME.fullmatch(name) is not None


def _walk(pieces: list[str], readers: tuple[FieldReader, ...], plain: bool) -> tuple[tuple[str, str], ...] | None:
    fields = []
    count = len(readers)
    place = 0
    for piece in pieces[1:]:
        while True:
            if place == count:
                return None
            reader = readers[place]
            place += 1
            if piece.startswith(reader.prefix):
                break
            if reader.required:
                return None
        text = piece[reader.width :]
        if not reader.check(text):
            return None
        if not plain and reader.escaped:
            text = unescape(text) or ""  # the check has seen that it can be
        fields.append((reader.name, text))
    if any(reader.required for reader in readers[place:]):
        return None
    return tuple(fields)


def _explain(
    pieces: list[str], readers: tuple[FieldReader, ...], rule: RecordRule, number: int, label: str
) -> NoReturn:
    known = {reader.name: reader for reader in readers}
    found: dict[str, str] = {}
    for piece in pieces[1:]:
        name, equals, text = piece.partition("=")
        if not equals or not FIELD_NAME.fullmatch(name):
            raise MalformedField(number, label, "", shortened(piece))
        if name in found:
            raise DuplicateField(number, label, name)
        found[name] = text
    if rule.variant:  # the other fields depend on it
        if rule.variant not in found:
            raise MissingField(number, label, rule.variant)
        _explain_value(known[rule.variant], found[rule.variant], number, label)
    for name in found:
        if name not in known:
            raise UnknownField(number, label, name)
    for reader in readers:
        if reader.required and reader.name not in found:
            raise MissingField(number, label, reader.name)
    in_order = [reader.name for reader in readers if reader.name in found]
    for name, expected in zip(found, in_order, strict=True):
        if name != expected:
            raise FieldOutOfOrder(number, label, name, expected)
    for name, text in found.items():
        _explain_value(known[name], text, number, label)
    raise AssertionError(f"line {number} was refused and is in order")


def _explain_value(reader: FieldReader, text: str, number: int, label: str) -> None:
    if not reader.check(text):
        raise BadValue(number, label, reader.name, shortened(text), reader.rule.meaning)
