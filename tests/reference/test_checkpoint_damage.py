"""Damaged files of the course's checkpoint: every check has a file that fails it, with a checksum that is right."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import pytest

from cai_reference.checkpoints.course import course_checksum, read_course_checkpoint, write_course_checkpoint
from cai_reference.checkpoints.course import errors as course
from cai_reference.errors import CaiReferenceError
from cai_reference.layers.errors import HeadsDoNotDivide
from cai_reference.splitmix import SplitMix64
from cai_reference.training.errors import InvalidBeta1, ParameterInMultipleGroups
from cai_reference.training.state_errors import (
    InvalidBetaPower,
    MomentShape,
    NegativeSecondMoment,
    NonFiniteMoment,
)
from support_course_checkpoints import (
    FILE_BYTES,
    HEADER_BYTES,
    changed,
    descriptor_at,
    payload_at,
    signed,
    spliced,
    written,
)
from support_raising import raises

TABLE = "token_embedding.weight"
GAIN = "final_norm.gain"


def placed(name: str, role: int, rank: int, index: int, value: float) -> bytes:
    """Return the file with one double exchanged."""
    return changed(payload_at(name, role, rank) + 8 * index, value, form="d")


def renamed(name: str, role: int, new: str) -> bytes:
    """Return the file with a record called otherwise, in as many bytes."""
    assert len(name) == len(new)
    return changed(descriptor_at(name, role) + 5, new.encode(), form=f"{len(new)}s")


def shaped(name: str, role: int, *lengths: int) -> bytes:
    """Return the file with other lengths in a record's shape, of the same rank."""
    return changed(descriptor_at(name, role) + 5 + len(name) + 5, *lengths, form=f"{len(lengths)}Q")


def grouped(offset: int, old: str, new: str) -> bytes:
    """Return the file with a name in the groups exchanged for another."""
    place = written().index(struct.pack("<I", len(old)) + old.encode(), offset)
    return spliced(place, 4 + len(old), struct.pack("<I", len(new)) + new.encode())


OPTIMIZER_AT = descriptor_at("0", 1) - 36
"""Where the optimiser's step stands: three counts and two powers before the table."""


def without_parameters() -> bytes:
    """Return a file of five tokens alone."""
    data = written()
    end = descriptor_at(TABLE, 3)
    front, table, shift = data[: OPTIMIZER_AT + 24], data[descriptor_at("0", 1) : end], HEADER_BYTES - end
    lines = [table[i : i + 35] for i in range(0, len(table), 35)]
    moved = b"".join(line[:-16] + struct.pack("<QQ", end + k, 1) for k, line in enumerate(lines))
    assert shift > 0
    body = front + struct.pack("<III", 0, 0, 5) + moved + b"01234"
    return body[:14] + struct.pack("<QQ", end, 5) + body[30:]


DAMAGE: list[tuple[str, Callable[[], bytes], CaiReferenceError]] = [
    ("short", lambda: written()[:37], course.CheckpointTruncated("the opening")),
    ("empty", lambda: b"", course.CheckpointTruncated("the opening")),
    ("magic", lambda: b"LLMCP36\0" + written()[8:], course.WrongMagic("4c4c4d4350333600")),
    ("version", lambda: changed(8, 2, form="H"), course.UnsupportedCheckpointVersion(2)),
    ("byte order", lambda: changed(10, 0x04030201, form="I"), course.WrongByteOrder("0x04030201")),
    ("cut off", lambda: written()[:-1], course.FileExtent(HEADER_BYTES, 3461, FILE_BYTES - 1)),
    ("prolonged", lambda: written() + b"\0", course.FileExtent(HEADER_BYTES, 3461, FILE_BYTES + 1)),
    ("tiny header", lambda: changed(14, 37, 6293, form="QQ"), course.FileExtent(37, 6293, FILE_BYTES)),
    ("token layout", lambda: changed(38, 2, form="H"), course.UnsupportedTokenizerLayout(2)),
    ("generator", lambda: changed(40, 0, form="H"), course.UnsupportedGenerator(0)),
    ("tokenizer kind", lambda: changed(58, 3, form="B"), course.UnknownTokenizerKind(3)),
    ("heads", lambda: changed(83, 3, form="Q"), HeadsDoNotDivide(4, 3)),
    ("beta", lambda: changed(139, 1.5, form="d"), InvalidBeta1(1.5)),
    (
        "flag",
        lambda: changed(171, 2, form="B"),
        course.NonCanonicalCheckpoint("the flag of the groups is 2, neither 0 nor 1"),
    ),
    ("both groups", lambda: grouped(172, GAIN, TABLE), ParameterInMultipleGroups(TABLE)),
    ("role", lambda: changed(descriptor_at(GAIN, 3), 6, form="B"), course.UnknownRole(6)),
    ("numbers", lambda: changed(descriptor_at(GAIN, 3) + 5 + len(GAIN), 4, form="B"), course.UnknownNumberKind(4)),
    ("utf-8", lambda: changed(descriptor_at(GAIN, 3) + 5, b"\xff", form="s"), course.NameNotUtf8("a record's name")),
    ("no name", lambda: spliced(descriptor_at("0", 1) + 1, 5, bytes(4)), course.RecordLayout("", "it has no name")),
    ("cut header", lambda: spliced(HEADER_BYTES - 3, 3, b""), course.CheckpointTruncated("a number of bytes")),
    (
        "left over",
        lambda: spliced(HEADER_BYTES, 0, b"\0"),
        course.NonCanonicalCheckpoint("1 bytes of the header are left"),
    ),
    (
        "huge count",
        lambda: changed(descriptor_at("0", 1) - 4, 2**32 - 1, form="I"),
        course.CheckpointTruncated("a role"),
    ),
    (
        "twice",
        lambda: renamed("1", 1, "0"),
        course.RecordLayout("0", "it stands there twice in one role"),
    ),
    (
        "bytes of a shape",
        lambda: shaped(GAIN, 3, 5),
        course.RecordLayout(GAIN, "32 bytes are not what shape (5,) takes, 40"),
    ),
    (
        "offset",
        lambda: changed(descriptor_at("0", 1) + 1 + 4 + 1 + 1 + 4 + 8, HEADER_BYTES + 1, form="Q"),
        course.RecordLayout("0", f"it starts at {HEADER_BYTES + 1}, not at {HEADER_BYTES}"),
    ),
    (
        "gap at the end",
        lambda: signed(written()[:22] + struct.pack("<Q", 3462) + written()[30:] + b"\0"),
        course.RecordLayout(TABLE, f"the last record ends at {FILE_BYTES}, the file at {FILE_BYTES + 1}"),
    ),
    ("counts", lambda: changed(descriptor_at("0", 1) - 12, 10, form="I"), course.RecordCount("the table", 37, 38)),
    (
        "no parameters",
        lambda: signed(without_parameters()),
        course.RecordCount("the parameters", 1, 0),
    ),
    (
        "token name",
        lambda: renamed("4", 1, "7"),
        course.RecordLayout("7", "it has role 1 with numbers of kind 1, where '4' of role 1 and kind 1 must stand"),
    ),
    ("same token", lambda: changed(HEADER_BYTES + 4, b"0", form="s"), course.RepeatedLiteralToken(4)),
    (
        "parameter in a moment's role",
        lambda: changed(descriptor_at(GAIN, 3), 4, form="B"),
        course.RecordLayout(GAIN, "it stands there twice in one role"),
    ),
    ("parameter name", lambda: renamed(GAIN, 3, "final_norm.gait"), course.ParameterName(10, GAIN, "final_norm.gait")),
    ("parameter shape", lambda: shaped(TABLE, 3, 4, 5), course.ParameterExtent(TABLE, (5, 4), (4, 5))),
    ("infinite", lambda: placed(TABLE, 3, 2, 6, math.inf), course.ParameterNotFinite(TABLE, 6, math.inf)),
    ("layers", lambda: changed(99, 2, form="Q"), course.ParameterCount(20, 11)),
    ("many layers", lambda: changed(99, 2**63, form="Q"), course.ParameterCount(2 + 9 * 2**63, 11)),
    ("vocabulary", lambda: changed(67, 2**40, form="Q"), course.ParameterExtent(TABLE, (2**40, 4), (5, 4))),
    ("selected step", lambda: changed(42, 7, form="Q"), course.SelectedStep(7, 8)),
    ("power", lambda: changed(OPTIMIZER_AT + 8, 1.0, form="d"), InvalidBetaPower("beta1", 1.0, 8)),
    ("moment is infinite", lambda: placed(GAIN, 4, 1, 2, -math.inf), NonFiniteMoment(GAIN, "first", 2, -math.inf)),
    ("mean square", lambda: placed(TABLE, 5, 2, 3, -1e-9), NegativeSecondMoment(TABLE, 3, -1e-9)),
    ("moment shape", lambda: shaped(TABLE, 5, 4, 5), MomentShape(TABLE, "second", (5, 4), (4, 5))),
]


class TestDamage:
    """Every check, in files whose checksum is right."""

    @pytest.mark.parametrize(("make", "expected"), [pytest.param(m, e, id=i) for i, m, e in DAMAGE])
    def test_the_reason_is_named(self, make: Callable[[], bytes], expected: CaiReferenceError) -> None:
        """By class and values."""
        with raises(expected):
            read_course_checkpoint(make())

    @pytest.mark.parametrize("offset", [30, 38, 500, HEADER_BYTES, FILE_BYTES - 1])
    def test_any_changed_byte_is_seen_by_the_checksum(self, offset: int) -> None:
        """Also one of the checksum itself."""
        data = bytearray(written())
        data[offset] ^= 1
        stored = int.from_bytes(data[30:38], "little")
        actual = course_checksum(bytes(data))
        with raises(course.CheckpointChecksum(f"fnv1a64:{stored:016x}", f"fnv1a64:{actual:016x}")):
            read_course_checkpoint(bytes(data))

    def test_groups_out_of_order_are_not_canonical(self) -> None:
        """The names are right, and sorted they would be another file."""
        data = written()
        first = data.index(b"blocks.0.attention_norm.gain", 172) - 4
        one = data[first : first + 32]
        second = data[first + 32 : first + 32 + 27]
        assert (
            one[4:] == b"blocks.0.attention_norm.gain"
            and second[4:] == b"blocks.0.ffn_norm.gain\x0f"[:22] + second[26:]
        )
        length = 4 + len("blocks.0.ffn_norm.gain")
        swapped = data[:first] + data[first + 32 : first + 32 + length] + one + data[first + 32 + length :]
        with raises(course.NonCanonicalCheckpoint("written again, it has other bytes")):
            read_course_checkpoint(signed(swapped))

    def test_nothing_but_errors_of_the_reference_comes_out(self) -> None:
        """Bytes exchanged at drawn places, signed: refused for a reason, or the very file of another content."""
        generator, refused = SplitMix64(3), 0
        for _ in range(25):
            data = bytearray(written())
            data[generator.next_u64() % HEADER_BYTES] = generator.next_u64() % 256
            try:
                found = read_course_checkpoint(signed(bytes(data)))
            except CaiReferenceError:
                refused += 1
            else:
                assert signed(bytes(data)) == write_course_checkpoint(found)
        assert refused > 15
