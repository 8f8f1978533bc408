"""Damaged files of the course's checkpoint: every check has a file that fails it, with a checksum that is right."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import pytest

from cai_course.checkpoint import course_checksum, read_course_checkpoint, write_course_checkpoint
from cai_course.errors import CourseCheckpointError
from cai_reference.errors import CaiReferenceError, LayerError
from cai_reference.splitmix import SplitMix64
from cai_reference.training.errors import AdamWError, TrainingError
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
from support_refusals import raises

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
    ("short", lambda: written()[:37], CourseCheckpointError("checkpoint-truncated", what="the opening")),
    ("empty", lambda: b"", CourseCheckpointError("checkpoint-truncated", what="the opening")),
    ("magic", lambda: b"LLMCP36\0" + written()[8:], CourseCheckpointError("wrong-magic", found="4c4c4d4350333600")),
    ("version", lambda: changed(8, 2, form="H"), CourseCheckpointError("unsupported-checkpoint-version", found=2)),
    (
        "byte order",
        lambda: changed(10, 0x04030201, form="I"),
        CourseCheckpointError("wrong-byte-order", found="0x04030201"),
    ),
    (
        "cut off",
        lambda: written()[:-1],
        CourseCheckpointError("file-extent", header=HEADER_BYTES, payload=3461, actual=FILE_BYTES - 1),
    ),
    (
        "prolonged",
        lambda: written() + b"\0",
        CourseCheckpointError("file-extent", header=HEADER_BYTES, payload=3461, actual=FILE_BYTES + 1),
    ),
    (
        "tiny header",
        lambda: changed(14, 37, 6293, form="QQ"),
        CourseCheckpointError("file-extent", header=37, payload=6293, actual=FILE_BYTES),
    ),
    ("token layout", lambda: changed(38, 2, form="H"), CourseCheckpointError("unsupported-tokenizer-layout", found=2)),
    ("generator", lambda: changed(40, 0, form="H"), CourseCheckpointError("unsupported-generator", found=0)),
    ("tokenizer kind", lambda: changed(58, 3, form="B"), CourseCheckpointError("unknown-tokenizer-kind", tag=3)),
    ("heads", lambda: changed(83, 3, form="Q"), LayerError("heads-do-not-divide", width=4, heads=3)),
    ("beta", lambda: changed(139, 1.5, form="d"), AdamWError("invalid-beta1", value=1.5)),
    (
        "flag",
        lambda: changed(171, 2, form="B"),
        CourseCheckpointError("non-canonical-checkpoint", problem="the flag of the groups is 2, neither 0 nor 1"),
    ),
    ("both groups", lambda: grouped(172, GAIN, TABLE), AdamWError("parameter-in-multiple-groups", name=TABLE)),
    ("role", lambda: changed(descriptor_at(GAIN, 3), 6, form="B"), CourseCheckpointError("unknown-role", tag=6)),
    (
        "numbers",
        lambda: changed(descriptor_at(GAIN, 3) + 5 + len(GAIN), 4, form="B"),
        CourseCheckpointError("unknown-number-kind", tag=4),
    ),
    (
        "utf-8",
        lambda: changed(descriptor_at(GAIN, 3) + 5, b"\xff", form="s"),
        CourseCheckpointError("name-not-utf8", what="a record's name"),
    ),
    (
        "no name",
        lambda: spliced(descriptor_at("0", 1) + 1, 5, bytes(4)),
        CourseCheckpointError("record-layout", name="", problem="it has no name"),
    ),
    (
        "cut header",
        lambda: spliced(HEADER_BYTES - 3, 3, b""),
        CourseCheckpointError("checkpoint-truncated", what="a number of bytes"),
    ),
    (
        "left over",
        lambda: spliced(HEADER_BYTES, 0, b"\0"),
        CourseCheckpointError("non-canonical-checkpoint", problem="1 bytes of the header are left"),
    ),
    (
        "huge count",
        lambda: changed(descriptor_at("0", 1) - 4, 2**32 - 1, form="I"),
        CourseCheckpointError("checkpoint-truncated", what="a role"),
    ),
    (
        "twice",
        lambda: renamed("1", 1, "0"),
        CourseCheckpointError("record-layout", name="0", problem="it stands there twice in one role"),
    ),
    (
        "bytes of a shape",
        lambda: shaped(GAIN, 3, 5),
        CourseCheckpointError("record-layout", name=GAIN, problem="32 bytes are not what shape (5,) takes, 40"),
    ),
    (
        "offset",
        lambda: changed(descriptor_at("0", 1) + 1 + 4 + 1 + 1 + 4 + 8, HEADER_BYTES + 1, form="Q"),
        CourseCheckpointError(
            "record-layout", name="0", problem=f"it starts at {HEADER_BYTES + 1}, not at {HEADER_BYTES}"
        ),
    ),
    (
        "gap at the end",
        lambda: signed(written()[:22] + struct.pack("<Q", 3462) + written()[30:] + b"\0"),
        CourseCheckpointError(
            "record-layout", name=TABLE, problem=f"the last record ends at {FILE_BYTES}, the file at {FILE_BYTES + 1}"
        ),
    ),
    (
        "counts",
        lambda: changed(descriptor_at("0", 1) - 12, 10, form="I"),
        CourseCheckpointError("record-count", what="the table", expected=37, actual=38),
    ),
    (
        "no parameters",
        lambda: signed(without_parameters()),
        CourseCheckpointError("record-count", what="the parameters", expected=1, actual=0),
    ),
    (
        "token name",
        lambda: renamed("4", 1, "7"),
        CourseCheckpointError(
            "record-layout",
            name="7",
            problem="it has role 1 with numbers of kind 1, where '4' of role 1 and kind 1 must stand",
        ),
    ),
    (
        "same token",
        lambda: changed(HEADER_BYTES + 4, b"0", form="s"),
        CourseCheckpointError("repeated-literal-token", token=4),
    ),
    (
        "parameter in a moment's role",
        lambda: changed(descriptor_at(GAIN, 3), 4, form="B"),
        CourseCheckpointError("record-layout", name=GAIN, problem="it stands there twice in one role"),
    ),
    (
        "parameter name",
        lambda: renamed(GAIN, 3, "final_norm.gait"),
        CourseCheckpointError("parameter-name", index=10, expected=GAIN, actual="final_norm.gait"),
    ),
    (
        "parameter shape",
        lambda: shaped(TABLE, 3, 4, 5),
        CourseCheckpointError("parameter-extent", name=TABLE, expected=(5, 4), actual=(4, 5)),
    ),
    (
        "infinite",
        lambda: placed(TABLE, 3, 2, 6, math.inf),
        CourseCheckpointError("parameter-not-finite", name=TABLE, index=6, value=math.inf),
    ),
    ("layers", lambda: changed(99, 2, form="Q"), CourseCheckpointError("parameter-count", expected=20, actual=11)),
    (
        "many layers",
        lambda: changed(99, 2**63, form="Q"),
        CourseCheckpointError("parameter-count", expected=2 + 9 * 2**63, actual=11),
    ),
    (
        "vocabulary",
        lambda: changed(67, 2**40, form="Q"),
        CourseCheckpointError("parameter-extent", name=TABLE, expected=(2**40, 4), actual=(5, 4)),
    ),
    (
        "selected step",
        lambda: changed(42, 7, form="Q"),
        CourseCheckpointError("selected-step", selected=7, optimizer=8),
    ),
    (
        "power",
        lambda: changed(OPTIMIZER_AT + 8, 1.0, form="d"),
        TrainingError("invalid-beta-power", name="beta1", value=1.0, step=8),
    ),
    (
        "moment is infinite",
        lambda: placed(GAIN, 4, 1, 2, -math.inf),
        TrainingError("non-finite-moment", name=GAIN, kind="first", index=2, value=-math.inf),
    ),
    (
        "mean square",
        lambda: placed(TABLE, 5, 2, 3, -1e-9),
        TrainingError("negative-second-moment", name=TABLE, index=3, value=-1e-9),
    ),
    (
        "moment shape",
        lambda: shaped(TABLE, 5, 4, 5),
        TrainingError("moment-shape", name=TABLE, kind="second", parameter=(5, 4), moment=(4, 5)),
    ),
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
        with raises(
            CourseCheckpointError(
                "checkpoint-checksum", stored=f"fnv1a64:{stored:016x}", actual=f"fnv1a64:{actual:016x}"
            )
        ):
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
        with raises(CourseCheckpointError("non-canonical-checkpoint", problem="written again, it has other bytes")):
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
