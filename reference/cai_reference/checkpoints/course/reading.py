"""Reading the course's checkpoint, or refusing all of it (chapter 35).

The first failure wins, in this order: the length of the opening; magic; version; byte order; extents; checksum; the
variable header, field by field; the table of records; tokenizer, parameters and moments; what they have to do with each
other. At last the content is written again, and must give the very bytes that were read: there is one file for one
content.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.checkpoints.course.byte_reader import ByteReader
from cai_reference.checkpoints.course.content import (
    ByteBpe,
    CourseCheckpoint,
    CourseTokenizer,
    LiteralTokens,
    NamedValues,
    course_configuration,
)
from cai_reference.checkpoints.course.errors import (
    CheckpointChecksum,
    CheckpointTruncated,
    FileExtent,
    NonCanonicalCheckpoint,
    RecordCount,
    RecordLayout,
    TokenizerVocabulary,
    UnknownNumberKind,
    UnknownRole,
    UnknownTokenizerKind,
    UnsupportedCheckpointVersion,
    UnsupportedGenerator,
    UnsupportedTokenizerLayout,
    WrongByteOrder,
    WrongMagic,
)
from cai_reference.checkpoints.course.records import TRAINING_PAIRS, Descriptor, NumberKind, Role
from cai_reference.checkpoints.course.writing import (
    BYTE_ORDER,
    BYTE_PAIRS,
    FIXED_BYTES,
    GENERATOR,
    LITERAL,
    MAGIC,
    TOKENIZER_LAYOUT,
    VERSION,
    course_checksum,
    write_course_checkpoint,
)
from cai_reference.training.adamw import AdamWConfiguration, AdamWState, Moments, ParameterGroups

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
        CourseCheckpointError, OptimizerStateError: a leaf that says what is wrong.
        DecoderError, MixerError, AdamWError, BpeTokenizerError: sizes, hyperparameters or merges that are refused
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
        raise NonCanonicalCheckpoint("written again, it has other bytes")
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
        raise CheckpointTruncated("the opening")
    reader = ByteReader(data)
    magic = reader.take(len(MAGIC), "the magic")
    if magic != MAGIC:
        raise WrongMagic(magic.hex())
    version = reader.integer(2, "the version")
    if version != VERSION:
        raise UnsupportedCheckpointVersion(version)
    marker = reader.integer(4, "the byte order")
    if marker != BYTE_ORDER:
        raise WrongByteOrder(f"0x{marker:08x}")
    header, payload = reader.integer(8, "the header's length"), reader.integer(8, "the payload's length")
    if header < FIXED_BYTES or header + payload != len(data):
        raise FileExtent(header, payload, len(data))
    stored, actual = reader.integer(8, "the checksum"), course_checksum(data)
    if stored != actual:
        raise CheckpointChecksum(f"fnv1a64:{stored:016x}", f"fnv1a64:{actual:016x}")
    return header


def _header(reader: ByteReader) -> _Header:
    layout = reader.integer(2, "the version of token ids")
    if layout != TOKENIZER_LAYOUT:
        raise UnsupportedTokenizerLayout(layout)
    generator = reader.integer(2, "the number of the generator")
    if generator != GENERATOR:
        raise UnsupportedGenerator(generator)
    selected, state = reader.integer(8, "the selected step"), reader.integer(8, "the state of the generator")
    kind = reader.integer(1, "the kind of tokenizer")
    if kind not in (LITERAL, BYTE_PAIRS):
        raise UnknownTokenizerKind(kind)
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
        raise NonCanonicalCheckpoint(f"{reader.left} bytes of the header are left")
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
        raise NonCanonicalCheckpoint(f"the flag of the groups is {flag}, neither 0 nor 1")
    return ParameterGroups(reader.texts("the names that decay"), reader.texts("the names that do not decay"))


def _descriptor(reader: ByteReader) -> Descriptor:
    role = reader.integer(1, "a role")
    if role not in ROLES:
        raise UnknownRole(role)
    name = reader.text("a record's name")
    if not name:
        raise RecordLayout(name, "it has no name")
    kind = reader.integer(1, "a kind of numbers")
    if kind not in NUMBER_KINDS:
        raise UnknownNumberKind(kind)
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
            raise RecordLayout(name, "it stands there twice in one role")
        seen.add((descriptor.role, name))
        if len(descriptor.shape) > MOST_AXES:
            raise RecordLayout(name, f"it has {len(descriptor.shape)} axes")
        if descriptor.length != descriptor.expected_length:
            shape, length = descriptor.shape, descriptor.length
            raise RecordLayout(name, f"{length} bytes are not what shape {shape} takes, {descriptor.expected_length}")
        if descriptor.offset != place:
            raise RecordLayout(name, f"it starts at {descriptor.offset}, not at {place}")
        place += descriptor.length
    if place != end:
        raise RecordLayout(table[-1].name if table else "", f"the last record ends at {place}, the file at {end}")


def _sections(header: _Header) -> _Sections:
    tokens = header.tokenizer_vocabulary if header.tokenizer_kind == LITERAL else 1
    inner, outer = tokens, tokens + header.parameters
    total = outer + 2 * header.moments
    if len(header.table) != total:
        raise RecordCount("the table", total, len(header.table))
    if not header.parameters:
        raise RecordCount("the parameters", 1, 0)
    return _Sections(header.table[:inner], header.table[inner:outer], header.table[outer:])


def _tokenizer(header: _Header, table: Sequence[Descriptor], data: bytes) -> CourseTokenizer:
    tokenizer: CourseTokenizer
    if header.tokenizer_kind == LITERAL:
        for token, descriptor in enumerate(table):
            _require(descriptor, Role.LITERAL_TOKEN, NumberKind.BYTE, str(token))
            if len(descriptor.shape) != 1 or descriptor.shape[0] == 0:
                raise RecordLayout(descriptor.name, "a literal token has one length, at least 1")
        tokenizer = LiteralTokens(tuple(_bytes(descriptor, data) for descriptor in table))
    else:
        (descriptor,) = table
        _require(descriptor, Role.BPE_PAIRS, NumberKind.UNSIGNED, TRAINING_PAIRS)
        if len(descriptor.shape) != 2 or descriptor.shape[1] != 2:
            raise RecordLayout(descriptor.name, f"merges have shape [merges, 2], not {descriptor.shape}")
        numbers = [number for (number,) in struct.iter_unpack("<I", _bytes(descriptor, data))]
        tokenizer = ByteBpe(tuple(zip(numbers[::2], numbers[1::2], strict=True)))
    if tokenizer.vocabulary != header.tokenizer_vocabulary:
        raise TokenizerVocabulary(tokenizer.vocabulary, header.tokenizer_vocabulary)
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
        raise RecordLayout(
            descriptor.name, f"it has {found}, where {name!r} of role {role.value} and kind {kind.value} must stand"
        )


def _bytes(descriptor: Descriptor, data: bytes) -> bytes:
    return data[descriptor.offset : descriptor.offset + descriptor.length]


def _doubles(descriptor: Descriptor, data: bytes) -> Array:
    shape = descriptor.shape
    if not 1 <= len(shape) <= LARGEST_RANK or 0 in shape:
        raise RecordLayout(descriptor.name, f"no parameter has shape {shape}")
    values: Array = np.frombuffer(_bytes(descriptor, data), "<f8").astype(np.float64)
    return values.reshape(shape)
