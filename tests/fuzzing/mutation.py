"""Bytes that are almost right: valid files with a few mistakes, each drawn from a seed.

Which mistakes: single bits and bytes; pieces deleted, doubled, exchanged or taken from another file; lines and words in
the wrong place; numbers that are too long, too large, negative, or none; brackets without end; what is no UTF-8, a byte
order mark, NUL and carriage returns; a file that ends too early.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from cai_reference.splitmix import SplitMix64, below

Thing = TypeVar("Thing")
Operation = Callable[[bytes, SplitMix64, Sequence[bytes]], bytes]

GROWTH: Final = 1 << 18
"""So many bytes a mutated file may be longer than the longest one that it is made from."""

WORDS: Final = (
    b"null", b"true", b"false", b"[]", b"{}", b'""', b'"a"', b"[null]", b'{"a":1}', b"NaN", b"Infinity", b"-Infinity",
    b"nan", b"inf", b"-inf", b"1e999", b"-1e999", b"1e-999", b"0x10", b"1_000", b"+1", b"01", b".5", b"5.", b"1e5",
    b'"\\ud800"', b'"\\u0000"', b"'", b'"', b"\\", b"|", b"=", b",", b";", b":", b"#", b"!", b"[", b"]", b"{", b"}",
    b"(", b")", b"%s", b"%n", b"{0}", b"../../x", b"/etc/passwd", b"~", b"-", b" ", b"",
)  # fmt: skip

NUMBERS: Final = (
    b"0", b"-0", b"-0.0", b"1", b"-1", b"2", b"3", b"7", b"16", b"127", b"128", b"255", b"256", b"65535", b"65536",
    b"1000000", b"2147483647", b"2147483648", b"-2147483648", b"-2147483649", b"4294967295", b"4294967296",
    b"9007199254740992", b"9007199254740993", b"9223372036854775807", b"9223372036854775808", b"18446744073709551615",
    b"18446744073709551616", b"1e308", b"1e309", b"-1e400", b"1e-320", b"0.1", b"1.0", b"0.5", b"1e16", b"3.0000001",
)  # fmt: skip

INTEGERS: Final = (
    0, 1, 2, 3, 7, 8, 127, 128, 255, 256, 1 << 15, (1 << 16) - 1, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1,
    1 << 32, 1 << 40, (1 << 61) - 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1,
)  # fmt: skip

NOT_UTF8: Final = (b"\xff", b"\xfe", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3", b"\xe2\x82")

ODD: Final = (
    b"\xef\xbb\xbf", b"\r\n", b"\r", b"\0", b"\t", b"\x1b[31m", b"\x7f", b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\x83",
    b"\xf0\x9f\x98\x80", b"\xcc\x81", b"\xd9\xa3",
)  # fmt: skip
"""A byte order mark, line ends, controls, spaces and letters beyond ASCII, and a digit that is none of ours."""

PIECES: Final = (
    b"1", b"a", b"1,", b"1;", b"a ", b" ", b"\\", b'\\"', b"|a=", b"\n", b"a\n", b"-", b"a.", b"\xc3\xa9", b"0.", b"%",
    b"\\u0041", b"#", b"!", b"a:", b"\r", b", ",
)  # fmt: skip
"""What a reader may take in as many ways as it stands there."""

OPENING: Final = (b"[", b"{", b"(", b'{"a":', b'[{"a":', b"[[expected-failure]]\n", b"a.", b"-", b"!")

NUMBER: Final = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
WORD: Final = re.compile(rb"\"[^\"\n]{0,80}\"|[A-Za-z_][A-Za-z_0-9.-]*|-?[0-9]+")


def mutated(seeds: Sequence[bytes], generator: SplitMix64) -> bytes:
    """Return one of the seeds with one mistake or several; every second time only such as leave its form as it is."""
    data = chosen(seeds, generator)
    longest = max(map(len, seeds)) + GROWTH
    operations = OPERATIONS if below(generator, 2) else (TEXTUAL if data.isascii() else BINARY)
    count = 1
    while count < 8 and below(generator, 2):
        count += 1
    for _ in range(count):
        data = chosen(operations, generator)(data, generator, seeds)[:longest]
    return data


def chosen(things: Sequence[Thing], generator: SplitMix64) -> Thing:
    """Return one of some things."""
    return things[below(generator, len(things))]


def _place(data: bytes, generator: SplitMix64) -> int:
    return below(generator, len(data) + 1)


def _slice(data: bytes, generator: SplitMix64) -> tuple[int, int]:
    """Return the ends of a piece; short pieces are as likely as long ones."""
    longest = 1 << below(generator, max(1, len(data).bit_length()))
    start = _place(data, generator)
    return start, min(len(data), start + 1 + below(generator, longest))


def _put(data: bytes, start: int, stop: int, new: bytes) -> bytes:
    return data[:start] + new + data[stop:]


def flip_bit(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Turn one bit over."""
    if not data:
        return b"\0"
    place = below(generator, len(data))
    return _put(data, place, place + 1, bytes([data[place] ^ 1 << below(generator, 8)]))


def set_byte(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Put any byte in the place of another one."""
    place = _place(data, generator)
    return _put(data, place, place + 1, bytes([below(generator, 256)]))


def insert_bytes(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Put some bytes in between."""
    place = _place(data, generator)
    return _put(data, place, place, bytes(below(generator, 256) for _ in range(1 + below(generator, 8))))


def insert_odd(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Put in what text files should not hold; half of the time at the very beginning."""
    place = _place(data, generator) if below(generator, 2) else 0
    return _put(data, place, place, chosen(NOT_UTF8 if below(generator, 2) else ODD, generator))


def delete(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Leave a piece out."""
    return _put(data, *_slice(data, generator), b"")


def duplicate(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Let a piece stand twice, or many times."""
    start, stop = _slice(data, generator)
    times = 2 if below(generator, 4) else 2 + below(generator, 500)
    return _put(data, start, stop, data[start:stop] * min(times, 1 + GROWTH // max(1, stop - start)))


def exchange(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Put a piece in the place of another one."""
    first, second = _slice(data, generator), _slice(data, generator)
    return _put(data, *first, data[slice(*second)])


def splice(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Put in a piece of another file."""
    other = chosen(seeds, generator)
    if below(generator, 2):
        return data[: _place(data, generator)] + other[_place(other, generator) :]
    return _put(data, *_slice(data, generator), other[slice(*_slice(other, generator))])


def truncate(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """End too early."""
    return data[: _place(data, generator)]


def replace_number(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Put another number in the place of one."""
    return _exchanged(data, NUMBER, chosen(NUMBERS, generator), generator)


def long_number(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Put a number with many digits in the place of one."""
    digits = chosen((20, 40, 310, 3000, 4300, 4301, 20000), generator)
    number = bytes([b"19"[below(generator, 2)]]) + b"0" * (digits - 1)
    return _exchanged(data, NUMBER, number, generator)


def inflate(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Put a short piece many times in the place of a word, with or without quotes around it."""
    piece, quotes = chosen(PIECES, generator), chosen((b"", b'"'), generator)
    size = chosen((50, 1000, 5000, 100_000), generator)
    return _exchanged(data, WORD, quotes + piece * (size // len(piece)) + quotes, generator)


def replace_word(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Put another word, or a word of the file, in the place of one."""
    found = _found(chosen(seeds, generator), WORD, generator)
    word = chosen(WORDS, generator) if found is None or below(generator, 2) else found[0]
    return _exchanged(data, WORD, word, generator)


def insert_word(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Put a word in between."""
    place = _place(data, generator)
    return _put(data, place, place, chosen(WORDS, generator))


def nest(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Open many brackets in the place of a word, in front of everything, or anywhere; sometimes close them, too."""
    opening = chosen(OPENING, generator) * chosen((2, 30, 100, 600, 3000, 100_000), generator)
    closing = b""
    if below(generator, 2):
        closing = bytes({91: 93, 123: 125, 40: 41}.get(byte, 32) for byte in reversed(opening) if byte in b"[{(")
    new = opening + (b"1" if below(generator, 2) else b"") + closing
    if below(generator, 2):
        return _exchanged(data, WORD, new, generator)
    place = _place(data, generator) if below(generator, 2) else 0
    return _put(data, place, place, new)


def write_integer(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Write an integer of one to eight bytes over what stands there, at an even place or any."""
    width = 1 << below(generator, 4)
    place = _place(data, generator)
    if below(generator, 2):
        place = place // width * width
    value = chosen(INTEGERS, generator) & (1 << 8 * width) - 1
    return _put(data, place, place + width, value.to_bytes(width, "little" if below(generator, 4) else "big"))


def write_double(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Write a NaN, an infinity, a negative zero, or the smallest or largest double over what stands there."""
    bits = chosen((0x7FF8 << 48, 0x7FF0 << 48, 0xFFF0 << 48, 1 << 63, 1, (0x7FF0 << 48) - 1, 0x7FF4 << 48), generator)
    place = _place(data, generator) // 8 * 8
    return _put(data, place, place + 8, bits.to_bytes(8, "little"))


def move_line(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Delete a line, or put it somewhere else, or let it stand twice."""
    lines = data.split(b"\n")
    line = lines.pop(below(generator, len(lines)))
    for _ in range(below(generator, 3)):
        lines.insert(below(generator, len(lines) + 1), line)
    return b"\n".join(lines)


def change_line_ends(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """End every line in another way."""
    return data.replace(b"\n", chosen((b"\r\n", b"\r", b"\n\n", b" \n", b""), generator))


def widen(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Spell a text in UTF-16."""
    return data[:4096].decode("latin-1").encode("utf-16")


def empty(data: bytes, generator: SplitMix64, seeds: Sequence[bytes]) -> bytes:
    """Leave nothing, or nothing but white space."""
    return chosen((b"", b"\n", b" ", b"\n\n\n"), generator)


def _found(data: bytes, pattern: re.Pattern[bytes], generator: SplitMix64) -> re.Match[bytes] | None:
    """Return an occurrence of a pattern behind a place, or behind the beginning; not all are looked for."""
    return pattern.search(data, _place(data, generator)) or pattern.search(data)


def _exchanged(data: bytes, pattern: re.Pattern[bytes], new: bytes, generator: SplitMix64) -> bytes:
    found = _found(data, pattern, generator)
    return data + new if found is None else _put(data, *found.span(), new)


OPERATIONS: Final[Sequence[Operation]] = (
    flip_bit, set_byte, insert_bytes, insert_odd, delete, delete, duplicate, exchange, splice, truncate,
    replace_number, replace_number, replace_number, long_number, inflate, replace_word, replace_word, replace_word,
    insert_word, nest, write_integer, write_integer, write_double, move_line, move_line, change_line_ends, widen, empty,
)  # fmt: skip
"""What is done to a file, the likelier the more often it stands here."""

TEXTUAL: Final[Sequence[Operation]] = (
    replace_number, replace_number, long_number, inflate, replace_word, replace_word, replace_word, move_line,
)  # fmt: skip
"""What a reader of text may notice only once it knows what a word means."""

BINARY: Final[Sequence[Operation]] = (
    flip_bit, set_byte, write_integer, write_integer, write_double, replace_number, replace_word,
)  # fmt: skip
"""What leaves most of a file of bytes where it is."""
