"""Records: what stands in the payload, and the table in the header that describes it (course, chapter 35).

Every record has a role, a name that is unique in its role, numbers of one kind, and a shape. The table gives the place
of its bytes from the start of the file; the payload has no gaps and the order of the table.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import Final

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.checkpoints.course.content import ByteBpe, CourseCheckpoint
from cai_reference.training.errors import Shape

TRAINING_PAIRS: Final = "training-pairs"


class Role(IntEnum):
    """What a record is for."""

    LITERAL_TOKEN = 1
    BPE_PAIRS = 2
    PARAMETER = 3
    FIRST_MOMENT = 4
    SECOND_MOMENT = 5


class NumberKind(IntEnum):
    """What a record's numbers are."""

    BYTE = 1
    UNSIGNED = 2
    DOUBLE = 3

    @property
    def width(self) -> int:
        """How many bytes a number has."""
        return {NumberKind.BYTE: 1, NumberKind.UNSIGNED: 4, NumberKind.DOUBLE: 8}[self]


@dataclass(frozen=True)
class Record:
    """One record with its bytes."""

    role: Role
    name: str
    kind: NumberKind
    shape: Shape
    data: bytes


@dataclass(frozen=True)
class Descriptor:
    """One line of the table: a record without its bytes, and where they are."""

    role: Role
    name: str
    kind: NumberKind
    shape: Shape
    offset: int
    length: int

    @property
    def expected_length(self) -> int:
        """How many bytes the shape takes."""
        return prod(self.shape) * self.kind.width


def records_of(checkpoint: CourseCheckpoint) -> Iterator[Record]:
    """Yield all records in order: tokenizer; parameters; first and second moment of each name, names sorted."""
    if isinstance(checkpoint.tokenizer, ByteBpe):
        pairs = checkpoint.tokenizer.pairs
        numbers = [number for pair in pairs for number in pair]
        data = struct.pack(f"<{len(numbers)}I", *numbers)
        yield Record(Role.BPE_PAIRS, TRAINING_PAIRS, NumberKind.UNSIGNED, (len(pairs), 2), data)
    else:
        for token, piece in enumerate(checkpoint.tokenizer.pieces):
            yield Record(Role.LITERAL_TOKEN, str(token), NumberKind.BYTE, (len(piece),), piece)
    for parameter in checkpoint.parameters:
        yield _doubles(Role.PARAMETER, parameter.name, parameter.values)
    for name in sorted_bytewise(checkpoint.state.moments):
        moments = checkpoint.state.moments[name]
        yield _doubles(Role.FIRST_MOMENT, name, moments.first)
        yield _doubles(Role.SECOND_MOMENT, name, moments.second)


def sorted_bytewise(names: Iterable[str]) -> list[str]:
    """Return names in the order of their UTF-8 bytes."""
    return sorted(names, key=str.encode)


def _doubles(role: Role, name: str, values: Array) -> Record:
    return Record(role, name, NumberKind.DOUBLE, values.shape, np.ascontiguousarray(values, "<f8").tobytes())
