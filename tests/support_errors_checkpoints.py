"""One call for every error of checkpoints, with the error that it must raise."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cai_course.checkpoint import course_checksum, read_course_checkpoint
from cai_course.checkpoint.content import LiteralTokens, NamedValues
from cai_course.errors import CourseCheckpointError
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import LIBM
from cai_reference.checkpoints.errors import CheckpointError
from cai_reference.checkpoints.saved import read_checkpoint
from cai_reference.checkpoints.tensor_file import read_tensors, write_tensors
from cai_reference.errors import CaiReferenceError
from cai_reference.training.adamw import Moments, ParameterGroups
from cai_reference.training.errors import TrainingError
from cai_reference.training.state import OrderPlace, check_place
from support_course_checkpoints import FILE_BYTES, HEADER_BYTES, changed, chapter_35, descriptor_at, spliced, written
from support_course_fixtures import MODEL
from support_resumable import MODELS, after, rewritten, saved

Case = tuple[CaiReferenceError, Callable[[], object]]

GAIN, TABLE = "final_norm.gain", "token_embedding.weight"


def reading(make: Callable[[], bytes]) -> Callable[[], object]:
    """Return a call that reads a damaged file."""
    return lambda: read_course_checkpoint(make())


def with_gain(first: list[float], second: list[float]) -> Callable[[], object]:
    """Return a call that puts other moments of the last gain into the checkpoint."""

    def call() -> object:
        given = chapter_35()
        moments = {**given.state.moments, GAIN: Moments(np.array(first), np.array(second))}
        return replace(given, state=replace(given.state, moments=moments))

    return call


def with_parameters(change: Callable[[list[NamedValues]], list[NamedValues]]) -> Callable[[], object]:
    """Return a call that puts other parameters into the checkpoint."""
    return lambda: replace(chapter_35(), parameters=tuple(change(list(chapter_35().parameters))))


def damaged_checksum() -> bytes:
    """Return the file with its last byte changed, and the checksum as it was."""
    data = bytearray(written())
    data[-1] ^= 1
    return bytes(data)


def checksums() -> tuple[str, str]:
    """Return what the damaged file says, and what it is."""
    stored = int.from_bytes(written()[30:38], "little")
    return f"fnv1a64:{stored:016x}", f"fnv1a64:{course_checksum(damaged_checksum()):016x}"


def names() -> tuple[str, ...]:
    """Return the names of all parameters, sorted."""
    return tuple(sorted(chapter_35().state.moments))


SHARED: list[Case] = [
    (
        TrainingError("invalid-beta-power", name="beta1", value=-0.5, step=8),
        lambda: replace(chapter_35(), state=replace(chapter_35().state, beta1_power=-0.5)),
    ),
    (
        TrainingError("moment-presence", step=8, entries=0),
        lambda: replace(chapter_35(), state=replace(chapter_35().state, moments={})),
    ),
    (
        TrainingError("moment-names", expected=names(), actual=("odd",)),
        lambda: replace(
            chapter_35(), state=replace(chapter_35().state, moments={"odd": Moments(np.zeros(1), np.zeros(1))})
        ),
    ),
    (
        TrainingError("moment-shape", name=GAIN, kind="first", parameter=(4,), moment=(3,)),
        with_gain([0.0] * 3, [0.0] * 4),
    ),
    (
        TrainingError("non-finite-moment", name=GAIN, kind="second", index=2, value=math.inf),
        with_gain([0.0] * 4, [0.0, 0.0, math.inf, 0.0]),
    ),
    (
        TrainingError("negative-second-moment", name=GAIN, index=1, value=-0.5),
        with_gain([0.0] * 4, [0.0, -0.5, 0.0, 0.0]),
    ),
    (
        TrainingError("group-names", expected=names(), actual=("odd",)),
        lambda: replace(chapter_35(), groups=ParameterGroups(("odd",))),
    ),
]

COURSE: list[Case] = [
    (CourseCheckpointError("checkpoint-truncated", what="the opening"), reading(lambda: b"LLMCP35")),
    (
        CourseCheckpointError("wrong-magic", found="504b030414000000"),
        reading(lambda: b"PK\x03\x04\x14\0\0\0" + bytes(99)),
    ),
    (CourseCheckpointError("unsupported-checkpoint-version", found=3), reading(lambda: changed(8, 3, form="H"))),
    (CourseCheckpointError("wrong-byte-order", found="0x00000000"), reading(lambda: changed(10, 0, form="I"))),
    (
        CourseCheckpointError("file-extent", header=HEADER_BYTES, payload=3461, actual=FILE_BYTES - 7),
        reading(lambda: written()[:-7]),
    ),
    (
        CourseCheckpointError("checkpoint-checksum", **dict(zip(("stored", "actual"), checksums(), strict=True))),
        reading(damaged_checksum),
    ),
    (CourseCheckpointError("unsupported-tokenizer-layout", found=9), reading(lambda: changed(38, 9, form="H"))),
    (CourseCheckpointError("unsupported-generator", found=7), reading(lambda: changed(40, 7, form="H"))),
    (CourseCheckpointError("unknown-tokenizer-kind", tag=5), reading(lambda: changed(58, 5, form="B"))),
    (CourseCheckpointError("unknown-role", tag=8), reading(lambda: changed(descriptor_at("0", 1), 8, form="B"))),
    (
        CourseCheckpointError("unknown-number-kind", tag=0),
        reading(lambda: changed(descriptor_at("0", 1) + 6, 0, form="B")),
    ),
    (
        CourseCheckpointError("name-not-utf8", what="a record's name"),
        reading(lambda: changed(descriptor_at("0", 1) + 5, 255, form="B")),
    ),
    (
        CourseCheckpointError("record-layout", name="0", problem="1 bytes are not what shape (2,) takes, 2"),
        reading(lambda: changed(descriptor_at("0", 1) + 11, 2, form="Q")),
    ),
    (
        CourseCheckpointError("record-count", what="the table", expected=36, actual=38),
        reading(lambda: changed(descriptor_at("0", 1) - 8, 10, form="I")),
    ),
    (
        CourseCheckpointError("non-canonical-checkpoint", problem="2 bytes of the header are left"),
        reading(lambda: spliced(HEADER_BYTES, 0, struct.pack("<H", 0))),
    ),
    (CourseCheckpointError("no-literal-tokens"), lambda: LiteralTokens(())),
    (CourseCheckpointError("empty-literal-token", token=0), lambda: LiteralTokens((b"",))),
    (CourseCheckpointError("repeated-literal-token", token=1), lambda: LiteralTokens((b"a", b"a"))),
    (
        CourseCheckpointError("not-the-course-decoder", field="tied", value="False"),
        lambda: replace(chapter_35(), configuration=replace(chapter_35().configuration, tied=False)),
    ),
    (
        CourseCheckpointError("tokenizer-vocabulary", tokenizer=1, decoder=5),
        lambda: replace(chapter_35(), tokenizer=LiteralTokens((b"a",))),
    ),
    (CourseCheckpointError("selected-step", selected=4, optimizer=8), lambda: replace(chapter_35(), selected_step=4)),
    (CourseCheckpointError("parameter-count", expected=11, actual=10), with_parameters(lambda given: given[:-1])),
    (
        CourseCheckpointError("parameter-name", index=10, expected=GAIN, actual="odd"),
        with_parameters(lambda given: [*given[:-1], NamedValues("odd", np.ones(4))]),
    ),
    (
        CourseCheckpointError("parameter-extent", name=GAIN, expected=(4,), actual=(3,)),
        with_parameters(lambda given: [*given[:-1], NamedValues(GAIN, np.ones(3))]),
    ),
    (
        CourseCheckpointError("parameter-not-finite", name=GAIN, index=0, value=-math.inf),
        with_parameters(lambda given: [*given[:-1], NamedValues(GAIN, np.full(4, -math.inf))]),
    ),
]


def reading_saved(make: Callable[[], bytes]) -> Callable[[], object]:
    """Return a call that reads a damaged checkpoint of this project."""
    return lambda: read_checkpoint(make())


def with_tensor(name: str, values: Array) -> Callable[[], bytes]:
    """Return a checkpoint with another tensor of a name, which its description does not know."""
    return lambda: rewritten(saved("llama", 1), tensors=lambda tensors: tensors.update({name: values}), listed=False)


def fresh_state(**changes: object) -> Callable[[], object]:
    """Return a call that changes the state of a run that has made no step, and makes the model from it."""
    return lambda: replace(after("llama", 0), **changes).model()  # type: ignore[arg-type]


VALUES = after("llama", 0).values


PARAMETERS = tuple(VALUES)
HEADER = b'{"__metadata__":{"a":"1","a":"2"}}      '
TWICE = struct.pack("<Q", len(HEADER)) + HEADER
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
ONES = hashlib.sha256(np.ones(4).tobytes()).hexdigest()
TWOS = hashlib.sha256(np.full(4, 2.0).tobytes()).hexdigest()
DESCRIBED = hashlib.sha256(read_tensors(saved("llama", 1))[1]["state"].encode()).hexdigest()

SAVED: list[Case] = [
    # The library's own words are not pinned; these are ours.
    (CheckpointError("not-a-tensor-file", reason="duplicate key 'a'"), lambda: read_checkpoint(TWICE)),
    (CheckpointError("not-a-checkpoint", key="format"), lambda: read_checkpoint(write_tensors({}, {}))),
    (
        CheckpointError("unknown-checkpoint-version", found="3", known="1"),
        reading_saved(lambda: rewritten(saved("llama", 1), metadata={"version": "3"})),
    ),
    (
        CheckpointError("state-damaged", stored=EMPTY_SHA256, actual=DESCRIBED),
        lambda: read_checkpoint(write_tensors({}, {**read_tensors(saved("llama", 1))[1], "digest": EMPTY_SHA256})),
    ),
    (
        CheckpointError("bad-description", where="description", problem="it lacks 'model'"),
        reading_saved(lambda: rewritten(saved("llama", 1), lambda description: description.pop("model"))),
    ),
    (
        CheckpointError("missing-part", name=f"first/{GAIN}"),
        reading_saved(
            lambda: rewritten(saved("llama", 1), tensors=lambda tensors: tensors.pop(f"first/{GAIN}"), listed=False)
        ),
    ),
    (CheckpointError("unexpected-part", name="more"), reading_saved(with_tensor("more", np.ones(1)))),
    (
        CheckpointError("part-differs", name=f"weights/{GAIN}", expected="F64 [4]", found="F64 [2, 2]"),
        reading_saved(with_tensor(f"weights/{GAIN}", np.ones((2, 2)))),
    ),
    (
        CheckpointError("part-damaged", name=f"weights/{GAIN}", stored=ONES, actual=TWOS),
        lambda: read_checkpoint(
            rewritten(saved("llama", 0), tensors=lambda t: t.update({f"weights/{GAIN}": np.full(4, 2.0)}), listed=False)
        ),
    ),
]

RESUMED: list[Case] = [
    (
        TrainingError("state-differs", part="arithmetic", expected="libm/1", found="strict/1"),
        lambda: after("llama", 0).check_run(MODEL, LIBM),
    ),
    (TrainingError("state-steps", step=5, optimizer=0), fresh_state(step=5)),
    (
        TrainingError("state-too-small", least=8 * 4 + 124, found=144),
        fresh_state(configuration=replace(MODEL, vocabulary=8)),
    ),
    (
        TrainingError("state-values", expected=PARAMETERS, found=PARAMETERS[::-1]),
        fresh_state(values=dict(reversed(list(VALUES.items())))),
    ),
    (
        TrainingError("state-shape", name=GAIN, expected=(4,), found=(2,)),
        lambda: replace(after("llama", 0), values={**VALUES, GAIN: np.ones(2)}).check_values(MODELS["llama"]()),
    ),
    (
        TrainingError("state-value-not-finite", name=GAIN, index=3, value=-math.inf),
        fresh_state(values={**VALUES, GAIN: np.array([1.0, 1.0, 1.0, -math.inf])}),
    ),
    (TrainingError("order-out-of-range", epoch=1, batch=9, last=1), lambda: check_place(4, 3, OrderPlace(1, 9, 0))),
    (TrainingError("no-examples"), lambda: check_place(0, 1, OrderPlace(0, 0, 0))),
]

CASES: list[Case] = [*SHARED, *COURSE, *SAVED, *RESUMED]
