"""What can be wrong with the text of a trace, one class a fault.

::

    TraceError
    └── TraceFault              a place (line, record, field) and a sentence
        ├── NotUtf8             the bytes are no UTF-8
        ├── ForbiddenCharacter  byte order mark, CR, NUL, another control character
        ├── TooLarge            a file or a line beyond the size limit
        ├── BlankLine           a line without a record
        ├── TrailingSpace       a line that ends with a space
        ├── CutOff              the end is missing
        ├── AfterEnd            something follows the END record
        ├── NoTraceLine         the first line is not a TRACE record
        ├── UnknownGrammar      another major version of the grammar
        ├── UnknownSuite        nobody knows the suite
        ├── UnknownProfile      the suite has no such profile
        ├── MalformedField      a piece of a line that is no `name=value`
        ├── UnknownField, MissingField, DuplicateField, FieldOutOfOrder
        ├── BadValue            a value that is not of the type of its field
        ├── UnknownRecord, MissingRecord, DuplicateRecord, RecordOutOfOrder, TooManyRecords
        ├── WrongRecordCount    END counts other records than there are
        ├── DigestMismatch      END digests other bytes than there are; carries the parsed trace
        ├── FieldAbsent         asked of a record: a field that it does not have
        ├── NotOfType           asked of a record: a field as another type than it is
        └── Unprintable         asked of the formatter: something that no record can hold
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from cai_conformance.errors import TraceError
from cai_reference.errors import shown

if TYPE_CHECKING:
    from cai_conformance.trace.records import Trace


@dataclass(eq=False)
class TraceFault(TraceError):
    """A fault with its place: `line` counts from 1 (0: no file), `record` reads like `STAGE index=3`.

    `record` and `field` are empty where they are not known or do not matter. `str(fault)` is one line: place, colon,
    sentence.
    """

    line: int
    record: str
    field: str

    def __str__(self) -> str:
        place = [f"line {self.line}"] if self.line else []
        place += [str(shown(self.record))] if self.record else []
        place += [f"field {shown(self.field)}"] if self.field else []
        sentence = self.template.format(**self._shown())
        return f"{', '.join(place)}: {sentence}" if place else sentence


@dataclass(eq=False)
class NotUtf8(TraceFault):
    """The bytes are no UTF-8; `column` counts bytes of the line from 1."""

    template: ClassVar[str] = "byte {column} of the line is not UTF-8"
    column: int


@dataclass(eq=False)
class ForbiddenCharacter(TraceFault):
    """A character that no trace holds; `column` counts bytes of the line from 1."""

    template: ClassVar[str] = "{character} at byte {column} of the line is not allowed"
    column: int
    character: str


@dataclass(eq=False)
class TooLarge(TraceFault):
    """A file (line 0) or a line has more bytes than the limit."""

    template: ClassVar[str] = "{size} bytes are more than the limit of {limit}"
    size: int
    limit: int


@dataclass(eq=False)
class BlankLine(TraceFault):
    """A line has no characters; `record` is the one before it."""

    template: ClassVar[str] = "the line is blank"


@dataclass(eq=False)
class TrailingSpace(TraceFault):
    """A line ends with a space."""

    template: ClassVar[str] = "the line ends with a space"


@dataclass(eq=False)
class CutOff(TraceFault):
    """The file stops before its END line is complete; `record` is the last complete record."""

    template: ClassVar[str] = "the trace is cut off after this record: {what}"
    what: str

    def __str__(self) -> str:
        if self.record:
            return TraceFault.__str__(self)
        return f"the trace is cut off before its first record is complete: {self.what}"


@dataclass(eq=False)
class AfterEnd(TraceFault):
    """A line follows the END record."""

    template: ClassVar[str] = "this stands after the END record of line {end}"
    end: int


@dataclass(eq=False)
class NoTraceLine(TraceFault):
    """The first line is not a TRACE record."""

    template: ClassVar[str] = "the first record of a trace is TRACE"


@dataclass(eq=False)
class UnknownGrammar(TraceFault):
    """The trace is written in another major version of the grammar."""

    template: ClassVar[str] = "grammar {found} is unknown, this program reads grammar {known}"
    found: str
    known: str


@dataclass(eq=False)
class UnknownSuite(TraceFault):
    """Nobody knows the suite that the trace names."""

    template: ClassVar[str] = "suite {suite} is unknown"
    suite: str


@dataclass(eq=False)
class UnknownProfile(TraceFault):
    """The suite has no profile of this name."""

    template: ClassVar[str] = "profile {found} is unknown, the suite has {known}"
    found: str
    known: str


@dataclass(eq=False)
class MalformedField(TraceFault):
    """A piece of a line that is no `name=value`."""

    template: ClassVar[str] = "'{text}' is no name=value"
    text: str


@dataclass(eq=False)
class UnknownField(TraceFault):
    """The record has no field of this name."""

    template: ClassVar[str] = "the field is unknown here"


@dataclass(eq=False)
class MissingField(TraceFault):
    """A required field is absent."""

    template: ClassVar[str] = "the field is missing"


@dataclass(eq=False)
class DuplicateField(TraceFault):
    """A field stands twice in one record."""

    template: ClassVar[str] = "the field stands twice"


@dataclass(eq=False)
class FieldOutOfOrder(TraceFault):
    """A field stands in another place than the grammar gives it."""

    template: ClassVar[str] = "the field is out of order, {expected} comes first"
    expected: str


@dataclass(eq=False)
class BadValue(TraceFault):
    """A value is not of the type of its field."""

    template: ClassVar[str] = "'{value}' is not {expected}"
    value: str
    expected: str


@dataclass(eq=False)
class UnknownRecord(TraceFault):
    """The profile has no record of this kind."""

    template: ClassVar[str] = "{kind} is no record of profile {profile}"
    kind: str
    profile: str


@dataclass(eq=False)
class MissingRecord(TraceFault):
    """A record kind occurs too seldom; `record` is the one found in its place."""

    template: ClassVar[str] = "{kind} is missing before this record: {needed} wanted, {count} found"
    kind: str
    needed: int
    count: int


@dataclass(eq=False)
class DuplicateRecord(TraceFault):
    """Two records have one key."""

    template: ClassVar[str] = "the record stands on line {first} already"
    first: int


@dataclass(eq=False)
class RecordOutOfOrder(TraceFault):
    """A record stands in another place than the grammar gives it."""

    template: ClassVar[str] = "the record is out of order: {why}"
    why: str


@dataclass(eq=False)
class TooManyRecords(TraceFault):
    """A record kind occurs too often."""

    template: ClassVar[str] = "{kind} stands more than {maximum} times"
    kind: str
    maximum: int


@dataclass(eq=False)
class WrongRecordCount(TraceFault):
    """END counts other records than there are between TRACE and END."""

    template: ClassVar[str] = "{stated} records stated, {counted} found between TRACE and END"
    stated: int
    counted: int


@dataclass(eq=False)
class DigestMismatch(TraceFault):
    """END digests other bytes than stand before it: the text was changed after it was written.

    Everything else about the trace is in order; `trace` is the parsed trace, so that a caller can find out what
    differs.
    """

    template: ClassVar[str] = "{stated} stated, but the bytes before the END line give {computed}"
    stated: str
    computed: str
    trace: Trace


@dataclass(eq=False)
class FieldAbsent(TraceFault):
    """A record was asked for a field that it does not have."""

    template: ClassVar[str] = "the record has no such field"


@dataclass(eq=False)
class NotOfType(TraceFault):
    """A field was asked for as another type than it is."""

    template: ClassVar[str] = "'{value}' is not {expected}"
    value: str
    expected: str


@dataclass(eq=False)
class Unprintable(TraceFault):
    """The formatter was given something that no record can hold."""

    template: ClassVar[str] = "'{text}' is not {expected}"
    text: str
    expected: str
