"""Reading little-endian fields one after the other.

Reading the course's checkpoint, or refusing all of it (chapter 35).

The first failure wins, in this order: the length of the opening; magic; version; byte order; extents; checksum; the
variable header, field by field; the table of records; tokenizer, parameters and moments; what they have to do with each
other. At last the content is written again, and must give the very bytes that were read: there is one file for one
content.

Writing the course's checkpoint (chapter 35). All numbers are little-endian, and nothing is padded.

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
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_course.checkpoint.content import (
    TRAINING_PAIRS,
    ByteBpe,
    CheckpointRecord,
    CourseCheckpoint,
    CourseTokenizer,
    Descriptor,
    LiteralTokens,
    NamedValues,
    NumberKind,
    Role,
    course_configuration,
    records_of,
    sorted_bytewise,
)
from cai_course.errors import CourseCheckpointError
from cai_reference.arithmetic import Array
from cai_reference.text.corpus import fnv1a64
from cai_reference.training.adamw import AdamWConfiguration, AdamWState, Moments, ParameterGroups


class ByteReader:
    """A place in some bytes that moves on with every field.

    Every method takes what the field is, for the error.

    Raises:
        CourseCheckpointError (checkpoint-truncated): the bytes end inside a field; from every method.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def left(self) -> int:
        """How many bytes have not been read."""
        return len(self._data) - self._place

    def take(self, length: int, what: str) -> bytes:
        """Return the next bytes."""
        if length > self.left:
            raise CourseCheckpointError("checkpoint-truncated", what=what)
        self._place += length
        return self._data[self._place - length : self._place]

    def integer(self, width: int, what: str) -> int:
        """Return an unsigned integer of so many bytes."""
        return int.from_bytes(self.take(width, what), "little")

    def double(self, what: str) -> float:
        """Return a double."""
        (value,) = struct.unpack("<d", self.take(8, what))
        return float(value)

    def text(self, what: str) -> str:
        """Return a text behind its length.

        Raises:
            CourseCheckpointError (name-not-utf8): it is none.
        """
        data = self.take(self.integer(4, what), what)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise CourseCheckpointError("name-not-utf8", what=what) from None

    def texts(self, what: str) -> tuple[str, ...]:
        """Return texts behind their number."""
        return tuple(self.text(what) for _ in range(self.integer(4, what)))


SIZES: Final = ("vocabulary", "width", "heads", "inner width", "layers", "positions")
ROLES: Final = frozenset(role.value for role in Role)
NUMBER_KINDS: Final = frozenset(kind.value for kind in NumberKind)
LARGEST_RANK: Final = 2
"""Parameters are vectors and matrices."""
MOST_AXES: Final = 8
"""No record has more: the number of bytes of a shape with thousands of lengths could not even be printed."""
HYPERPARAMETERS: Final = ("learning rate", "beta1", "beta2", "epsilon", "weight decay")


def read_course_checkpoint(data: bytes) -> CourseCheckpoint:
    """Return the content of a checkpoint.

    Raises:
        CourseCheckpointError, TrainingError: a leaf that says what is wrong.
        ModelError, LayerError, AdamWError, BpeTokenizerError: sizes, hyperparameters or merges that are refused
            wherever they come from.
    """
    header_bytes = _checked_opening(data)
    header = _header(ByteReader(data[FIXED_BYTES:header_bytes]))
    _check_table(header.table, header_bytes, len(data))
    sections = _sections(header)
    tokenizer = _tokenizer(header, sections.tokenizer, data)
    parameters = tuple(_parameter(descriptor, data) for descriptor in sections.parameters)
    moments = dict(_moments(sections.moments, data))
    checkpoint = CourseCheckpoint(
        tokenizer,
        course_configuration(*header.sizes, *header.constants),
        parameters,
        header.optimizer,
        header.groups,
        AdamWState(header.optimizer_step, *header.powers, moments),
        header.selected_step,
        header.generator,
    )
    if write_course_checkpoint(checkpoint) != data:
        raise CourseCheckpointError("non-canonical-checkpoint", problem="written again, it has other bytes")
    return checkpoint


@dataclass(frozen=True)
class _Header:
    """The variable header."""

    selected_step: int
    generator: int
    tokenizer_kind: int
    tokenizer_vocabulary: int
    sizes: tuple[int, int, int, int, int, int]
    constants: tuple[float, float]
    optimizer: AdamWConfiguration
    groups: ParameterGroups | None
    optimizer_step: int
    powers: tuple[float, float]
    parameters: int
    moments: int
    table: tuple[Descriptor, ...]


@dataclass(frozen=True)
class _Sections:
    """The table, cut where one kind of record ends and the next begins."""

    tokenizer: Sequence[Descriptor]
    parameters: Sequence[Descriptor]
    moments: Sequence[Descriptor]


def _checked_opening(data: bytes) -> int:
    """Check what stands before the variable header, and return where that ends."""
    if len(data) < FIXED_BYTES:
        raise CourseCheckpointError("checkpoint-truncated", what="the opening")
    reader = ByteReader(data)
    magic = reader.take(len(MAGIC), "the magic")
    if magic != MAGIC:
        raise CourseCheckpointError("wrong-magic", found=magic.hex())
    version = reader.integer(2, "the version")
    if version != VERSION:
        raise CourseCheckpointError("unsupported-checkpoint-version", found=version)
    marker = reader.integer(4, "the byte order")
    if marker != BYTE_ORDER:
        raise CourseCheckpointError("wrong-byte-order", found=f"0x{marker:08x}")
    header, payload = reader.integer(8, "the header's length"), reader.integer(8, "the payload's length")
    if header < FIXED_BYTES or header + payload != len(data):
        raise CourseCheckpointError("file-extent", header=header, payload=payload, actual=len(data))
    stored, actual = reader.integer(8, "the checksum"), course_checksum(data)
    if stored != actual:
        raise CourseCheckpointError(
            "checkpoint-checksum", stored=f"fnv1a64:{stored:016x}", actual=f"fnv1a64:{actual:016x}"
        )
    return header


def _header(reader: ByteReader) -> _Header:
    layout = reader.integer(2, "the version of token ids")
    if layout != TOKENIZER_LAYOUT:
        raise CourseCheckpointError("unsupported-tokenizer-layout", found=layout)
    generator = reader.integer(2, "the number of the generator")
    if generator != GENERATOR:
        raise CourseCheckpointError("unsupported-generator", found=generator)
    selected, state = reader.integer(8, "the selected step"), reader.integer(8, "the state of the generator")
    kind = reader.integer(1, "the kind of tokenizer")
    if kind not in (LITERAL, BYTE_PAIRS):
        raise CourseCheckpointError("unknown-tokenizer-kind", tag=kind)
    vocabulary = reader.integer(8, "the vocabulary of the tokenizer")
    a, b, c, d, e, f = (reader.integer(8, f"the decoder's {name}") for name in SIZES)
    constants = reader.double("the rotary base"), reader.double("the epsilon of the norms")
    optimizer = AdamWConfiguration(*(reader.double(f"the optimiser's {name}") for name in HYPERPARAMETERS))
    groups = _groups(reader)
    step = reader.integer(8, "the optimiser's step")
    powers = reader.double("the power of beta1"), reader.double("the power of beta2")
    parameters, moments = reader.integer(4, "the number of parameters"), reader.integer(4, "the number of moments")
    table = tuple(_descriptor(reader) for _ in range(reader.integer(4, "the number of records")))
    if reader.left:
        raise CourseCheckpointError("non-canonical-checkpoint", problem=f"{reader.left} bytes of the header are left")
    return _Header(
        selected,
        state,
        kind,
        vocabulary,
        (a, b, c, d, e, f),
        constants,
        optimizer,
        groups,
        step,
        powers,
        parameters,
        moments,
        table,
    )


def _groups(reader: ByteReader) -> ParameterGroups | None:
    flag = reader.integer(1, "the flag of the groups")
    if flag == 0:
        return None
    if flag != 1:
        raise CourseCheckpointError(
            "non-canonical-checkpoint", problem=f"the flag of the groups is {flag}, neither 0 nor 1"
        )
    return ParameterGroups(reader.texts("the names that decay"), reader.texts("the names that do not decay"))


def _descriptor(reader: ByteReader) -> Descriptor:
    role = reader.integer(1, "a role")
    if role not in ROLES:
        raise CourseCheckpointError("unknown-role", tag=role)
    name = reader.text("a record's name")
    if not name:
        raise CourseCheckpointError("record-layout", name=name, problem="it has no name")
    kind = reader.integer(1, "a kind of numbers")
    if kind not in NUMBER_KINDS:
        raise CourseCheckpointError("unknown-number-kind", tag=kind)
    shape = tuple(reader.integer(8, "a length") for _ in range(reader.integer(4, "a rank")))
    offset, length = reader.integer(8, "an offset"), reader.integer(8, "a number of bytes")
    return Descriptor(Role(role), name, NumberKind(kind), shape, offset, length)


def _check_table(table: Sequence[Descriptor], start: int, end: int) -> None:
    """Check that the records fill the payload without gaps, each with the bytes that its shape takes."""
    place = start
    seen: set[tuple[Role, str]] = set()
    for descriptor in table:
        name = descriptor.name
        if (descriptor.role, name) in seen:
            raise CourseCheckpointError("record-layout", name=name, problem="it stands there twice in one role")
        seen.add((descriptor.role, name))
        if len(descriptor.shape) > MOST_AXES:
            raise CourseCheckpointError("record-layout", name=name, problem=f"it has {len(descriptor.shape)} axes")
        if descriptor.length != descriptor.expected_length:
            shape, length = descriptor.shape, descriptor.length
            raise CourseCheckpointError(
                "record-layout",
                name=name,
                problem=f"{length} bytes are not what shape {shape} takes, {descriptor.expected_length}",
            )
        if descriptor.offset != place:
            raise CourseCheckpointError(
                "record-layout", name=name, problem=f"it starts at {descriptor.offset}, not at {place}"
            )
        place += descriptor.length
    if place != end:
        raise CourseCheckpointError(
            "record-layout",
            name=table[-1].name if table else "",
            problem=f"the last record ends at {place}, the file at {end}",
        )


def _sections(header: _Header) -> _Sections:
    tokens = header.tokenizer_vocabulary if header.tokenizer_kind == LITERAL else 1
    inner, outer = tokens, tokens + header.parameters
    total = outer + 2 * header.moments
    if len(header.table) != total:
        raise CourseCheckpointError("record-count", what="the table", expected=total, actual=len(header.table))
    if not header.parameters:
        raise CourseCheckpointError("record-count", what="the parameters", expected=1, actual=0)
    return _Sections(header.table[:inner], header.table[inner:outer], header.table[outer:])


def _tokenizer(header: _Header, table: Sequence[Descriptor], data: bytes) -> CourseTokenizer:
    tokenizer: CourseTokenizer
    if header.tokenizer_kind == LITERAL:
        for token, descriptor in enumerate(table):
            _require(descriptor, Role.LITERAL_TOKEN, NumberKind.BYTE, str(token))
            if len(descriptor.shape) != 1 or descriptor.shape[0] == 0:
                raise CourseCheckpointError(
                    "record-layout", name=descriptor.name, problem="a literal token has one length, at least 1"
                )
        tokenizer = LiteralTokens(tuple(_bytes(descriptor, data) for descriptor in table))
    else:
        (descriptor,) = table
        _require(descriptor, Role.BPE_PAIRS, NumberKind.UNSIGNED, TRAINING_PAIRS)
        if len(descriptor.shape) != 2 or descriptor.shape[1] != 2:
            raise CourseCheckpointError(
                "record-layout", name=descriptor.name, problem=f"merges have shape [merges, 2], not {descriptor.shape}"
            )
        numbers = [number for (number,) in struct.iter_unpack("<I", _bytes(descriptor, data))]
        tokenizer = ByteBpe(tuple(zip(numbers[::2], numbers[1::2], strict=True)))
    if tokenizer.vocabulary != header.tokenizer_vocabulary:
        raise CourseCheckpointError(
            "tokenizer-vocabulary", tokenizer=tokenizer.vocabulary, decoder=header.tokenizer_vocabulary
        )
    return tokenizer


def _parameter(descriptor: Descriptor, data: bytes) -> NamedValues:
    _require(descriptor, Role.PARAMETER, NumberKind.DOUBLE, descriptor.name)
    return NamedValues(descriptor.name, _doubles(descriptor, data))


def _moments(table: Sequence[Descriptor], data: bytes) -> list[tuple[str, Moments]]:
    found = []
    for first, second in zip(table[::2], table[1::2], strict=True):
        _require(first, Role.FIRST_MOMENT, NumberKind.DOUBLE, first.name)
        _require(second, Role.SECOND_MOMENT, NumberKind.DOUBLE, first.name)
        found.append((first.name, Moments(_doubles(first, data), _doubles(second, data))))
    return found


def _require(descriptor: Descriptor, role: Role, kind: NumberKind, name: str) -> None:
    if (descriptor.role, descriptor.kind, descriptor.name) != (role, kind, name):
        found = f"role {descriptor.role.value} with numbers of kind {descriptor.kind.value}"
        raise CourseCheckpointError(
            "record-layout",
            name=descriptor.name,
            problem=f"it has {found}, where {name!r} of role {role.value} and kind {kind.value} must stand",
        )


def _bytes(descriptor: Descriptor, data: bytes) -> bytes:
    return data[descriptor.offset : descriptor.offset + descriptor.length]


def _doubles(descriptor: Descriptor, data: bytes) -> Array:
    shape = descriptor.shape
    if not 1 <= len(shape) <= LARGEST_RANK or 0 in shape:
        raise CourseCheckpointError("record-layout", name=descriptor.name, problem=f"no parameter has shape {shape}")
    values: Array = np.frombuffer(_bytes(descriptor, data), "<f8").astype(np.float64)
    return values.reshape(shape)


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


def _described(record: CheckpointRecord) -> bytes:
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
