"""The course's checkpoint of chapter 35, and changes of its bytes that keep its checksum right."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Final

from cai_course.checkpoint import course_checksum, write_course_checkpoint
from cai_course.checkpoint.content import CourseCheckpoint, LiteralTokens
from cai_reference.splitmix import SplitMix64
from support_course_fixtures import small_run

TOKENS: Final = LiteralTokens(tuple(str(token).encode() for token in range(5)))
HEADER_BYTES: Final = 2869
FILE_BYTES: Final = 6330


@cache
def chapter_35(identifier: str = "strict/1") -> CourseCheckpoint:
    """Return what chapter 35 saves: the selected state of chapter 33, five literal tokens, a generator drawn from."""
    run = small_run(identifier)
    sampling = SplitMix64(35)
    sampling.next_u64()
    groups = run.selected_optimizer.groups
    return CourseCheckpoint.of(TOKENS, run.selected_model, run.selected_optimizer, sampling, groups)


@cache
def written(identifier: str = "strict/1") -> bytes:
    """Return its bytes."""
    return write_course_checkpoint(chapter_35(identifier))


def signed(data: bytes) -> bytes:
    """Return a file with the checksum that it should have."""
    return data[:30] + struct.pack("<Q", course_checksum(data)) + data[38:]


def changed(offset: int, *fields: int | float | bytes, form: str = "") -> bytes:
    """Return the file with bytes put in at an offset, signed anew; the fields are packed by `form`."""
    data = written()
    new = struct.pack("<" + form, *fields)
    return signed(data[:offset] + new + data[offset + len(new) :])


def spliced(offset: int, removed: int, put: bytes) -> bytes:
    """Return the file with a piece of its header exchanged, its lengths put right, and signed anew."""
    data = written()
    body = data[:offset] + put + data[offset + removed :]
    header = HEADER_BYTES + len(put) - removed
    return signed(body[:14] + struct.pack("<QQ", header, len(body) - header) + body[30:])


def descriptor_at(name: str, role: int) -> int:
    """Return where the line of the table begins that describes a record."""
    return written().index(struct.pack("<BI", role, len(name)) + name.encode(), 400)


def payload_at(name: str, role: int, rank: int) -> int:
    """Return where a record's bytes begin."""
    place = descriptor_at(name, role) + 1 + 4 + len(name) + 1 + 4 + 8 * rank
    (offset,) = struct.unpack_from("<Q", written(), place)
    return int(offset)


Change = Callable[[], bytes]
