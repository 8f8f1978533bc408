"""What can be wrong with the text of a trace, one class a fault.

::

    TraceError
    └── TraceFault              a place (line, record, field) and a sentence
        ├── NoTraceLine         the first line is not a TRACE record
        └── DigestMismatch      END digests other bytes than there are; carries the parsed trace
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from cai_conformance.errors import TraceError
from cai_reference.errors import shown

if TYPE_CHECKING:
    from cai_conformance.trace.records import Trace


TRACE_TEMPLATES: Final[Mapping[str, str]] = {
    # The bytes are no UTF-8; `column` counts bytes of the line from 1.
    "not-utf8": "byte {column} of the line is not UTF-8",
    # A character that no trace holds; `column` counts bytes of the line from 1.
    "forbidden-character": "{character} at byte {column} of the line is not allowed",
    # A file (line 0) or a line has more bytes than the limit.
    "too-large": "{size} bytes are more than the limit of {limit}",
    # A line has no characters; `record` is the one before it.
    "blank-line": "the line is blank",
    # A line ends with a space.
    "trailing-space": "the line ends with a space",
    # The file stops before its END line is complete; `record` is the last complete record.
    "cut-off": "the trace is cut off after this record: {what}",
    # A line follows the END record.
    "after-end": "this stands after the END record of line {end}",
    # The first line is not a TRACE record.
    "no-trace-line": "the first record of a trace is TRACE",
    # The trace is written in another major version of the grammar.
    "unknown-grammar": "grammar {found} is unknown, this program reads grammar {known}",
    # Nobody knows the suite that the trace names.
    "unknown-suite": "suite {suite} is unknown",
    # The suite has no profile of this name.
    "unknown-profile": "profile {found} is unknown, the suite has {known}",
    # A piece of a line that is no `name=value`.
    "malformed-field": "'{text}' is no name=value",
    # The record has no field of this name.
    "unknown-field": "the field is unknown here",
    # A required field is absent.
    "missing-field": "the field is missing",
    # A field stands twice in one record.
    "duplicate-field": "the field stands twice",
    # A field stands in another place than the grammar gives it.
    "field-out-of-order": "the field is out of order, {expected} comes first",
    # A value is not of the type of its field.
    "bad-value": "'{value}' is not {expected}",
    # The profile has no record of this kind.
    "unknown-record": "{kind} is no record of profile {profile}",
    # A record kind occurs too seldom; `record` is the one found in its place.
    "missing-record": "{kind} is missing before this record: {needed} wanted, {count} found",
    # Two records have one key.
    "duplicate-record": "the record stands on line {first} already",
    # A record stands in another place than the grammar gives it.
    "record-out-of-order": "the record is out of order: {why}",
    # A record kind occurs too often.
    "too-many-records": "{kind} stands more than {maximum} times",
    # END counts other records than there are between TRACE and END.
    "wrong-record-count": "{stated} records stated, {counted} found between TRACE and END",
    # END digests other bytes than stand before it: the text was changed after it was written. Everything else about the
    # trace is in order; `trace` is the parsed trace, so that a caller can find out what differs.
    "digest-mismatch": "{stated} stated, but the bytes before the END line give {computed}",
    # A record was asked for a field that it does not have.
    "field-absent": "the record has no such field",
    # A field was asked for as another type than it is.
    "not-of-type": "'{value}' is not {expected}",
    # The formatter was given something that no record can hold.
    "unprintable": "'{text}' is not {expected}",
}


class TraceFault(TraceError):
    """A fault with its place: `line` counts from 1 (0: no file), `record` reads like `STAGE index=3`.

    `record` and `field` are empty where they are not known or do not matter. `str(fault)` is one line: place, colon,
    sentence.
    """

    templates = TRACE_TEMPLATES

    def __init__(self, code: str, line: int, record: str, field: str, /, **fields: object) -> None:
        super().__init__(code, **fields)
        self.line, self.record, self.field = line, record, field

    def __str__(self) -> str:
        if self.code == "cut-off" and not self.record:
            return self.filled("the trace is cut off before its first record is complete: {what}")
        place = [f"line {self.line}"] if self.line else []
        place += [str(shown(self.record))] if self.record else []
        place += [f"field {shown(self.field)}"] if self.field else []
        sentence = super().__str__()
        return f"{', '.join(place)}: {sentence}" if place else sentence


class NoTraceLine(TraceFault):
    """The first line is not a TRACE record."""

    def __init__(self, line: int, record: str, field: str) -> None:
        super().__init__("no-trace-line", line, record, field)


class DigestMismatch(TraceFault):
    """END digests other bytes than stand before it: the text was changed after it was written.

    Everything else about the trace is in order; `trace` is the parsed trace, so that a caller can find out what
    differs.
    """

    def __init__(self, line: int, record: str, field: str, stated: str, computed: str, trace: Trace) -> None:
        super().__init__("digest-mismatch", line, record, field, stated=stated, computed=computed, trace=trace)
        self.stated = stated
        self.computed = computed
        self.trace = trace
