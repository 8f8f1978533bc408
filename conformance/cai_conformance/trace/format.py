"""From values to the text of a trace: numbers, lists, strings, records, the whole.

Pure functions, and the exact inverse of the parser on well-formed records. Which fields a record has, and in which
order, is the business of `cai_conformance.trace.grammar`.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable
from operator import index

from cai_conformance.trace.errors import TraceFault
from cai_conformance.trace.records import Envelope, Record, shortened

KIND = re.compile(r"[A-Z][A-Z0-9_]*")
FIELD_NAME = re.compile(r"[a-z][a-z0-9_]*")

_SPECIAL = re.compile("[\\\\|\x00-\x1f\x7f-\x9f]|\\A | \\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(?:[\\|n]|x[0-9a-f]{2})?")
_SHORT = {"\\": "\\\\", "|": "\\|", "\n": "\\n"}
_SHORT_BACK = {written: plain for plain, written in _SHORT.items()}


def format_integer(value: int) -> str:
    """An integer in plain decimal digits."""
    return str(index(value))


def format_real(value: float, digits: int = 6, *, negative_zero: bool = False) -> str:
    """A real with `digits` decimals, the exact binary value rounded half to even; `nan`, `inf`, `-inf`.

    What rounds to zero prints without a sign, unless `negative_zero` keeps it (the n-gram suite does).
    """
    text = f"{value:.{digits}f}"
    if not negative_zero and text[0] == "-" and not text.strip("-0."):
        return text[1:]
    return text


def format_list(items: Iterable[str]) -> str:
    """A list of formatted items: `[a, b, c]`, `[]` when empty."""
    return f"[{', '.join(items)}]"


def format_integers(values: Iterable[int]) -> str:
    """A list of integers."""
    return format_list(map(format_integer, values))


def format_reals(values: Iterable[float], digits: int = 6, *, negative_zero: bool = False) -> str:
    """A list of reals, each as `format_real` prints it."""
    return format_list(format_real(value, digits, negative_zero=negative_zero) for value in values)


def format_bits(value: float) -> str:
    """The sixteen lower-case hexadecimal digits of the double, most significant first: 1.0 is `3ff0000000000000`."""
    return struct.pack(">d", value).hex()


def format_bits_list(values: Iterable[float]) -> str:
    """A list of doubles as `format_bits` prints them."""
    return format_list(map(format_bits, values))


def escape(text: str) -> str:
    r"""A string as it stands in a line.

    Backslash, bar and line feed become `\\`, `\|`, `\n`; any other control character (U+0000–U+001F, U+007F–U+009F) and
    a space that opens or closes the string become `\x` and two lower-case hexadecimal digits. All else, `=` and inner
    spaces included, stands for itself.
    """
    return _SPECIAL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    character = match.group()
    return _SHORT.get(character) or f"\\x{ord(character):02x}"


def unescape(text: str) -> str | None:
    """The string that `escape` writes as `text`, or None if it writes no string so."""
    plain = _ESCAPE.sub(_unescaped, text)
    return plain if escape(plain) == text else None


def _unescaped(match: re.Match[str]) -> str:
    written = match.group()
    if written in _SHORT_BACK:
        return _SHORT_BACK[written]
    return chr(int(written[2:], 16)) if len(written) == 4 else written


def format_record(record: Record) -> str:
    """One line without its LF; `unprintable` if kind, a name or a value cannot stand in a line."""
    if not KIND.fullmatch(record.kind):
        raise TraceFault("unprintable", 0, "", "", text=shortened(record.kind), expected="a record kind")
    parts = [record.kind]
    for name, text in record.fields:
        if not FIELD_NAME.fullmatch(name):
            raise TraceFault("unprintable", 0, record.label, "", text=shortened(name), expected="a field name")
        parts.append(f"{name}={escape(text)}")
    line = "|".join(parts)
    if not line.isascii() and _SURROGATE.search(line):
        raise TraceFault("unprintable", 0, record.kind, "", text=shortened(line), expected="text that UTF-8 can encode")
    return line


def format_body(records: Iterable[Record]) -> str:
    """The lines of some records, each with its LF, without an envelope."""
    return "".join(format_record(record) + "\n" for record in records)


def format_trace(envelope: Envelope, records: Iterable[Record]) -> str:
    """A whole trace: TRACE, the records, and END with their number and the digest of every byte before it."""
    inner = list(records)
    text = format_body([envelope.record, *inner])
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    end = Record("END", (("records", str(len(inner))), ("digest", f"sha256:{digest}")))
    return text + format_record(end) + "\n"
