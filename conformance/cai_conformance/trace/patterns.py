"""One expression for all lines of a record rule, so that many lines are read at once.

An exact expression matches the very lines that `cai_conformance.trace.reading` accepts; what is wrong with any other is
said there.
"""

from __future__ import annotations

import re
from functools import cache
from re import Pattern

from cai_conformance.trace.formatting import unescape
from cai_conformance.trace.schema import FieldRule, RecordRule
from cai_conformance.trace.values import LARGEST_INTEGER, SMALLEST_INTEGER, FieldType, list_pattern, usual_pattern

_ESCAPED = r"\\(?:[\\|n]|x(?:0[0-9b-f]|1[0-9a-f]|7f|[89][0-9a-f]))"
_STRING = rf"(?! )(?:\\x20)?+[^|\\\n]*+(?:{_ESCAPED}[^|\\\n]*+)*+(?:\\x20)?+(?<! )"
"""A string: an escaped space stands only at its ends, a plain one only inside."""

_IGNORED = r"(?:\|x_[a-z0-9_]*+=[^|\\\n]*+(?:\\[^\n][^|\\\n]*+)*+(?:\\(?=\n))?+)*+"
"""Any number of fields that are ignored; the last character of a line may be a backslash that escapes nothing."""


_LOOSE_STRING = r"[^|\\\n]*+(?:\\[^\n][^|\\\n]*+)*+"
_LOOSE = r"[^|\n]*+"
_LOOSE_INNER = "[^|]*+"
_LOOSE_LAST = ".*+"
"""In a line that is known to be in order a value ends at the next bar, in a string at the next unescaped one."""


class LineReader:
    """Reads some fields of many lines of one rule at once.

    An exact reader takes only lines that are in order; another one may be given no others, and is faster. Where the
    rule has variants both read the lines that belong to none of those it names.
    """

    def __init__(self, rule: RecordRule, names: tuple[str, ...], *, negative_zero: bool, exact: bool) -> None:
        fields = rule.fields_of(None)
        types = {field.name: field.type for field in fields}
        self._width = len(names)
        self._strings = tuple(place for place, name in enumerate(names) if types[name] is FieldType.STRING)
        # Ignored fields are rare, and looking for them behind every field takes half the time.
        self._plain, self._full = (
            _line(rule, fields, names, negative_zero=negative_zero, exact=exact, ignored=ignored)
            for ignored in ("", _IGNORED)
        )

    def rows(self, text: str, start: int, end: int) -> list[tuple[str, ...]]:
        """The fields of each line between two line starts that is in order, as they stand there; one a line.

        An absent field gives an empty text. Lines that are not in order are passed over, so count the rows.
        """
        found = self._pattern(text, start, end).findall(text, start, end)
        if self._width == 0:
            return [()] * len(found)
        return list(zip(found, strict=True)) if self._width == 1 else found

    def plain_rows(self, text: str, start: int, end: int) -> list[tuple[str, ...]]:
        """The same, unescaped."""
        rows = self.rows(text, start, end)
        if self._strings and text.find("\\", start, end) >= 0:
            return [tuple([self._unescaped(place, value) for place, value in enumerate(row)]) for row in rows]
        return rows

    def run(self, text: str, start: int, end: int) -> int:
        """Where the lines in order end that stand behind one line start without another one between them."""
        pattern = self._pattern(text, start, end)
        while found := pattern.match(text, start, end):
            start = found.end()
        return start

    def _pattern(self, text: str, start: int, end: int) -> Pattern[str]:
        written = self._plain if text.find("|x_", start, end) < 0 else self._full
        return _compiled(written)

    def _unescaped(self, place: int, text: str) -> str:
        return unescape(text) or "" if place in self._strings and "\\" in text else text


@cache
def line_reader(
    rule: RecordRule, names: tuple[str, ...], *, negative_zero: bool = False, exact: bool = False
) -> LineReader | None:
    """The reader of some fields of a rule; None where not all of them are fields of it, in this order."""
    known = tuple(field.name for field in rule.fields_of(None) if field.name in names)
    return LineReader(rule, names, negative_zero=negative_zero, exact=exact) if known == names else None


@cache
def _compiled(pattern: str) -> Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


def exact_pattern(kind: FieldType, *, negative_zero: bool = False, words: tuple[str, ...] = ()) -> str:
    """A pattern that matches exactly the values of a type, where a bar or the end of the line follows."""
    if words:
        return usual_pattern(kind, words=words)
    match kind:
        case FieldType.STRING:
            return _STRING
        case FieldType.INTEGER:
            return _INTEGER
        case FieldType.INTEGERS:
            return list_pattern(_INTEGER)
        case _:
            return usual_pattern(kind, negative_zero=negative_zero)


def _line(
    rule: RecordRule,
    fields: tuple[FieldRule, ...],
    names: tuple[str, ...],
    *,
    negative_zero: bool,
    exact: bool,
    ignored: str,
) -> str:
    parts = [f"^{rule.kind}", ignored]
    for place, field in enumerate(fields):
        if exact:
            value = exact_pattern(field.type, negative_zero=negative_zero, words=field.words)
        elif field is fields[-1] and not ignored:
            value = _LOOSE_LAST
        elif field.type is FieldType.STRING:
            value = _LOOSE_STRING
        else:
            value = _LOOSE_INNER if any(later.required for later in fields[place + 1 :]) else _LOOSE
        if field.name == rule.variant:
            named = sorted({variant for other in rule.fields for variant in other.variants})
            value = rf"(?!(?:{'|'.join(map(re.escape, named))})[|\n])(?:{value})"
        group = f"({value})" if field.name in names else f"(?:{value})"
        part = rf"\|{field.name}={group}"
        # What may be absent is not tried again, so that its value has to end where it can end.
        parts.append(part if field.required else rf"(?:{part}(?=[|\n]))?+")
        parts.append(ignored)
    return "".join(parts) + r"\n"


def _at_most(limit: int) -> str:
    """A pattern for the integers with as many digits as `limit` has that are not larger."""
    digits = str(limit)
    smaller = [
        f"{digits[:place]}[{'1' if place == 0 else '0'}-{int(digit) - 1}][0-9]{{{len(digits) - place - 1}}}"
        for place, digit in enumerate(digits)
        if int(digit) > (1 if place == 0 else 0)
    ]
    return "|".join([*smaller, digits])


_INTEGER = (
    rf"(?:0|-?[1-9][0-9]{{0,17}}+(?![0-9])|[1-9][0-9]{{18}}(?![0-9])|-(?:{_at_most(-SMALLEST_INTEGER)})(?![0-9])"
    rf"|(?:{_at_most(LARGEST_INTEGER)})(?![0-9]))"
)
