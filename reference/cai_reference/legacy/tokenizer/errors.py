"""Errors of the legacy tokenizer: files that are damaged, texts and sizes that it cannot take.

Where the library would go on with a damaged file, read past an array or crash, there is an error here. Lines and fields
count from 1, positions from 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.legacy.errors import LegacyError


class LegacyTokenizerError(LegacyError):
    """A vocabulary, a file of rows or a text cannot be used."""


# ── lines of vocabularies and rows ───────────────────────────────────────────────────────────────────────────────────


class DamagedLine(LegacyTokenizerError):
    """A line of a file is not what was written."""


@dataclass(eq=False)
class NulByte(DamagedLine):
    """The file is binary, or of another encoding."""

    template = "line {line} holds a NUL byte, so this is no plain text"
    line: int


@dataclass(eq=False)
class CarriageReturn(DamagedLine):
    """The line ends were translated on the way."""

    template = "line {line} holds a carriage return; lines end in LF alone, not in CR LF"
    line: int


@dataclass(eq=False)
class ByteOrderMark(DamagedLine):
    """An editor put a byte order mark before the first line."""

    template = "line {line} opens with a byte order mark, which would become part of its first token"
    line: int


@dataclass(eq=False)
class UnfinishedLine(DamagedLine):
    """The last line has no line end: the file was cut off."""

    template = "line {line} has no line end, so the file is cut off"
    line: int


# ── vocabularies ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class EmptyEntry(LegacyTokenizerError):
    """A vocabulary has an empty line."""

    template = "line {line} is empty; a vocabulary has one token a line"
    line: int


@dataclass(eq=False)
class RepeatedEntry(LegacyTokenizerError):
    """Two entries are equal to the library, which ignores letter case; which one it finds depends on chance."""

    template = "line {line} repeats line {first}; letter case makes no difference"
    line: int
    first: int


@dataclass(eq=False)
class TooManyEntries(LegacyTokenizerError):
    """A vocabulary has more ids than the model that it is for."""

    template = "line {line} would get id {token_id}, but the vocabulary holds {size} ids"
    line: int
    token_id: int
    size: int


# ── rows of ids ──────────────────────────────────────────────────────────────────────────────────────────────────────


class RowError(LegacyTokenizerError):
    """A row of comma-separated ids cannot be read."""


@dataclass(eq=False)
class NotAnId(RowError):
    """A field is empty, or not a decimal number without a sign and leading zeros."""

    template = "line {line}, field {field}: {text!r} is not a token id"
    line: int
    field: int
    text: str


@dataclass(eq=False)
class NegativeId(RowError):
    """An id is below zero."""

    template = "line {line}, field {field}: token id {token_id} is negative"
    line: int
    field: int
    token_id: int


@dataclass(eq=False)
class IdTooLarge(RowError):
    """An id does not fit into the library's 32-bit integers with a sign, or not into the vocabulary."""

    template = "line {line}, field {field}: token id {text} is too large; the largest is {largest}"
    line: int
    field: int
    text: str
    largest: int


@dataclass(eq=False)
class UndecodableId(LegacyTokenizerError):
    """An id below zero stands for nothing."""

    template = "token id {token_id} at position {position} is negative"
    position: int
    token_id: int


@dataclass(eq=False)
class InvalidRowFilter(RowError):
    """A filter of rows would keep none, whatever they are."""

    template = "no row passes a filter of {limit} rows with ids up to {largest}"
    limit: int
    largest: int


# ── texts and sizes ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(eq=False)
class ReservedByte(LegacyTokenizerError):
    """A text holds a byte that the library uses as a mark of its own; what it would do then was not measured."""

    template = "line {line} holds byte {byte}, which the library keeps for itself"
    line: int
    byte: int


@dataclass(eq=False)
class VocabularySizeTooSmall(LegacyTokenizerError):
    """No room is left beside the ids of single bytes."""

    template = "a vocabulary of {size} ids cannot be fitted: the first {single} are those of single bytes"
    size: int
    single: int
