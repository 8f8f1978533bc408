"""Writing the course's checkpoint (chapter 35). All numbers are little-endian, and nothing is padded.

======  =====  ==============================================================================================
offset  bytes  field
======  =====  ==============================================================================================
0       8      `LLMCP35` and a NUL
8       2      version, 1
10      4      0x01020304, which shows the byte order
14      8      bytes of the header, this one and the variable one
22      8      bytes of the payload
30      8      FNV-1a of the whole file with these eight bytes as zeros
38      2, 2   versions of token ids and of the generator, both 1
42      8, 8   selected step; state of the generator
58      1, 8   kind of tokenizer, 1 literal and 2 byte pairs; its vocabulary
67      6 · 8  vocabulary, width, heads, inner width, layers, positions
115     2 · 8  rotary base, epsilon of the norms
131     5 · 8  learning rate, β₁, β₂, ε, weight decay
171     1, …   1 and two lists of names, those that decay and those that do not; or 0
…       3 · 8  steps of the optimiser, powers of β₁ and β₂
…       3 · 4  numbers of parameters, of parameters with moments, of records
…       …      of each record: role (1), name, kind of numbers (1), rank (4), lengths (8 each), offset and bytes (8, 8)
======  =====  ==============================================================================================

A name is its length (4) and its UTF-8 bytes; a list of names is their number (4) and the names in the order of their
bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from cai_reference.checkpoints.course.content import ByteBpe, CourseCheckpoint
from cai_reference.checkpoints.course.records import Record, records_of, sorted_bytewise
from cai_reference.text.checksum import fnv1a64

MAGIC: Final = b"LLMCP35\0"
VERSION: Final = 1
BYTE_ORDER: Final = 0x01020304
CHECKSUM_AT: Final = 30
CHECKSUM_BYTES: Final = 8
FIXED_BYTES: Final = CHECKSUM_AT + CHECKSUM_BYTES
TOKENIZER_LAYOUT: Final = 1
GENERATOR: Final = 1
LITERAL: Final = 1
BYTE_PAIRS: Final = 2
PLACE_BYTES: Final = 16
"""Of the offset and the length at the end of each line of the table."""


def write_course_checkpoint(checkpoint: CourseCheckpoint) -> bytes:
    """Return the one file that has this content."""
    records = list(records_of(checkpoint))
    metadata = _metadata(checkpoint, len(records))
    described = [_described(record) for record in records]
    header = FIXED_BYTES + len(metadata) + sum(len(front) + PLACE_BYTES for front in described)
    offset, table = header, b""
    for front, record in zip(described, records, strict=True):
        table += front + struct.pack("<QQ", offset, len(record.data))
        offset += len(record.data)
    opening = MAGIC + struct.pack("<HIQQ", VERSION, BYTE_ORDER, header, offset - header)
    rest = metadata + table + b"".join(record.data for record in records)
    checksum = fnv1a64(opening + bytes(CHECKSUM_BYTES) + rest)
    return opening + struct.pack("<Q", checksum) + rest


def course_checksum(data: bytes) -> int:
    """Return the FNV-1a hash of a checkpoint's bytes, those of its own checksum taken as zeros."""
    return fnv1a64(data[:CHECKSUM_AT] + bytes(CHECKSUM_BYTES) + data[FIXED_BYTES:])


def _metadata(checkpoint: CourseCheckpoint, records: int) -> bytes:
    sizes, optimizer, state = checkpoint.configuration, checkpoint.optimizer, checkpoint.state
    kind = BYTE_PAIRS if isinstance(checkpoint.tokenizer, ByteBpe) else LITERAL
    parts = [
        struct.pack("<HHQQ", TOKENIZER_LAYOUT, GENERATOR, checkpoint.selected_step, checkpoint.generator),
        struct.pack("<BQ", kind, checkpoint.tokenizer.vocabulary),
        struct.pack("<QQQ", sizes.vocabulary, sizes.width, sizes.heads),
        struct.pack("<QQQ", sizes.feed_forward, sizes.layers, sizes.context),
        struct.pack("<dd", sizes.rope_base, sizes.epsilon),
        struct.pack("<ddd", optimizer.learning_rate, optimizer.beta1, optimizer.beta2),
        struct.pack("<dd", optimizer.epsilon, optimizer.weight_decay),
        struct.pack("<B", checkpoint.groups is not None),
    ]
    if checkpoint.groups is not None:
        parts += [_names(checkpoint.groups.decay), _names(checkpoint.groups.no_decay)]
    parts += [
        struct.pack("<Qdd", state.step, state.beta1_power, state.beta2_power),
        struct.pack("<III", len(checkpoint.parameters), len(state.moments), records),
    ]
    return b"".join(parts)


def _described(record: Record) -> bytes:
    """Return the line of the table without the place of the bytes."""
    rank = len(record.shape)
    return (
        struct.pack("<B", record.role)
        + _text(record.name)
        + struct.pack("<BI", record.kind, rank)
        + struct.pack(f"<{rank}Q", *record.shape)
    )


def _names(names: Sequence[str]) -> bytes:
    return struct.pack("<I", len(names)) + b"".join(map(_text, sorted_bytewise(names)))


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<I", len(data)) + data
