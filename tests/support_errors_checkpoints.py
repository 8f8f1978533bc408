"""One call for every error of checkpoints, with the error that it must raise."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.checkpoints.course import LiteralTokens, course_checksum, read_course_checkpoint
from cai_reference.checkpoints.course import errors as course
from cai_reference.checkpoints.course.content import NamedValues
from cai_reference.checkpoints.saved import errors as stored
from cai_reference.checkpoints.saved import read_checkpoint
from cai_reference.checkpoints.saved.container import read_tensors, write_tensors
from cai_reference.errors import CaiReferenceError
from cai_reference.training import state_errors as shared
from cai_reference.training.adamw import Moments, ParameterGroups
from cai_reference.training.data_order import DataOrder, OrderPlace
from support_course_checkpoints import (
    FILE_BYTES,
    HEADER_BYTES,
    changed,
    chapter_35,
    descriptor_at,
    spliced,
    written,
)
from support_course_fixtures import MODEL
from support_resumable import llama_training, rewritten, saved

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
        shared.InvalidBetaPower("beta1", -0.5, 8),
        lambda: replace(chapter_35(), state=replace(chapter_35().state, beta1_power=-0.5)),
    ),
    (shared.MomentPresence(8, 0), lambda: replace(chapter_35(), state=replace(chapter_35().state, moments={}))),
    (
        shared.MomentNames(names(), ("odd",)),
        lambda: replace(
            chapter_35(), state=replace(chapter_35().state, moments={"odd": Moments(np.zeros(1), np.zeros(1))})
        ),
    ),
    (shared.MomentShape(GAIN, "first", (4,), (3,)), with_gain([0.0] * 3, [0.0] * 4)),
    (shared.NonFiniteMoment(GAIN, "second", 2, math.inf), with_gain([0.0] * 4, [0.0, 0.0, math.inf, 0.0])),
    (shared.NegativeSecondMoment(GAIN, 1, -0.5), with_gain([0.0] * 4, [0.0, -0.5, 0.0, 0.0])),
    (
        shared.GroupNames(names(), ("odd",)),
        lambda: replace(chapter_35(), groups=ParameterGroups(("odd",))),
    ),
]

COURSE: list[Case] = [
    (course.CheckpointTruncated("the opening"), reading(lambda: b"LLMCP35")),
    (course.WrongMagic("504b030414000000"), reading(lambda: b"PK\x03\x04\x14\0\0\0" + bytes(99))),
    (course.UnsupportedCheckpointVersion(3), reading(lambda: changed(8, 3, form="H"))),
    (course.WrongByteOrder("0x00000000"), reading(lambda: changed(10, 0, form="I"))),
    (course.FileExtent(HEADER_BYTES, 3461, FILE_BYTES - 7), reading(lambda: written()[:-7])),
    (course.CheckpointChecksum(*checksums()), reading(damaged_checksum)),
    (course.UnsupportedTokenizerLayout(9), reading(lambda: changed(38, 9, form="H"))),
    (course.UnsupportedGenerator(7), reading(lambda: changed(40, 7, form="H"))),
    (course.UnknownTokenizerKind(5), reading(lambda: changed(58, 5, form="B"))),
    (course.UnknownRole(8), reading(lambda: changed(descriptor_at("0", 1), 8, form="B"))),
    (course.UnknownNumberKind(0), reading(lambda: changed(descriptor_at("0", 1) + 6, 0, form="B"))),
    (course.NameNotUtf8("a record's name"), reading(lambda: changed(descriptor_at("0", 1) + 5, 255, form="B"))),
    (
        course.RecordLayout("0", "1 bytes are not what shape (2,) takes, 2"),
        reading(lambda: changed(descriptor_at("0", 1) + 11, 2, form="Q")),
    ),
    (course.RecordCount("the table", 36, 38), reading(lambda: changed(descriptor_at("0", 1) - 8, 10, form="I"))),
    (
        course.NonCanonicalCheckpoint("2 bytes of the header are left"),
        reading(lambda: spliced(HEADER_BYTES, 0, struct.pack("<H", 0))),
    ),
    (course.NoLiteralTokens(), lambda: LiteralTokens(())),
    (course.EmptyLiteralToken(0), lambda: LiteralTokens((b"",))),
    (course.RepeatedLiteralToken(1), lambda: LiteralTokens((b"a", b"a"))),
    (
        course.NotTheCourseDecoder("tied", "False"),
        lambda: replace(chapter_35(), configuration=replace(chapter_35().configuration, tied=False)),
    ),
    (course.TokenizerVocabulary(1, 5), lambda: replace(chapter_35(), tokenizer=LiteralTokens((b"a",)))),
    (course.SelectedStep(4, 8), lambda: replace(chapter_35(), selected_step=4)),
    (course.ParameterCount(11, 10), with_parameters(lambda given: given[:-1])),
    (
        course.ParameterName(10, GAIN, "odd"),
        with_parameters(lambda given: [*given[:-1], NamedValues("odd", np.ones(4))]),
    ),
    (
        course.ParameterExtent(GAIN, (4,), (3,)),
        with_parameters(lambda given: [*given[:-1], NamedValues(GAIN, np.ones(3))]),
    ),
    (
        course.ParameterNotFinite(GAIN, 0, -math.inf),
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
    """Return a call that changes the state of a run that has made no step, and restores it."""

    def call() -> None:
        training = llama_training()
        training.restore(replace(training.state(), **changes))  # type: ignore[arg-type]

    return call


def values_with(name: str, values: Array) -> dict[str, Array]:
    """Return the values of a fresh run with one exchanged."""
    return {**llama_training().state().values, name: values}


def turned_values() -> dict[str, Array]:
    """Return the values of a fresh run, last parameter first."""
    values = llama_training().state().values
    return {name: values[name] for name in tuple(values)[::-1]}


PARAMETERS = tuple(llama_training().state().values)
HEADER = b'{"__metadata__":{"a":"1","a":"2"}}      '
TWICE = struct.pack("<Q", len(HEADER)) + HEADER
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
ONES = hashlib.sha256(np.ones(4).tobytes()).hexdigest()
TWOS = hashlib.sha256(np.full(4, 2.0).tobytes()).hexdigest()
DESCRIBED = hashlib.sha256(read_tensors(saved("llama", 1))[1]["state"].encode()).hexdigest()

SAVED: list[Case] = [
    # The library's own words are not pinned; these are ours.
    (stored.NotATensorFile("duplicate key 'a'"), lambda: read_checkpoint(TWICE)),
    (stored.NotACheckpoint("format"), lambda: read_checkpoint(write_tensors({}, {}))),
    (
        stored.UnknownCheckpointVersion("3", "1"),
        reading_saved(lambda: rewritten(saved("llama", 1), metadata={"version": "3"})),
    ),
    (
        stored.StateDamaged(EMPTY_SHA256, DESCRIBED),
        lambda: read_checkpoint(
            write_tensors({}, {**read_tensors(saved("llama", 1))[1], "digest": EMPTY_SHA256}),
        ),
    ),
    (
        stored.BadDescription("description", "it lacks 'model'"),
        reading_saved(lambda: rewritten(saved("llama", 1), lambda description: description.pop("model"))),
    ),
    (
        stored.MissingPart(f"first/{GAIN}"),
        reading_saved(
            lambda: rewritten(saved("llama", 1), tensors=lambda tensors: tensors.pop(f"first/{GAIN}"), listed=False)
        ),
    ),
    (stored.UnexpectedPart("more"), reading_saved(with_tensor("more", np.ones(1)))),
    (
        stored.PartDiffers(f"weights/{GAIN}", "F64 [4]", "F64 [2, 2]"),
        reading_saved(with_tensor(f"weights/{GAIN}", np.ones((2, 2)))),
    ),
    (
        stored.PartDamaged(f"weights/{GAIN}", ONES, TWOS),
        lambda: read_checkpoint(
            rewritten(saved("llama", 0), tensors=lambda t: t.update({f"weights/{GAIN}": np.full(4, 2.0)}), listed=False)
        ),
    ),
]

RESUMED: list[Case] = [
    (shared.StateDiffers("number of examples", "20", "30"), fresh_state(examples=30)),
    (shared.StateSteps(5, 0), fresh_state(step=5)),
    (
        shared.StateTooSmall(8 * 4 + 124, 144),
        lambda: replace(llama_training().state(), configuration=replace(MODEL, vocabulary=8)).model(),
    ),
    (shared.StateValues(PARAMETERS, PARAMETERS[::-1]), fresh_state(values=turned_values())),
    (shared.StateShape(GAIN, (4,), (2,)), fresh_state(values=values_with(GAIN, np.ones(2)))),
    (
        shared.StateValueNotFinite(GAIN, 3, -math.inf),
        fresh_state(values=values_with(GAIN, np.array([1.0, 1.0, 1.0, -math.inf]))),
    ),
    (shared.OrderOutOfRange(1, 9, 1), lambda: DataOrder(4, 3, OrderPlace(1, 9, 0))),
    (shared.NoExamples(), lambda: DataOrder.from_seed(0, 1, 0)),
]

CASES: list[Case] = [*SHARED, *COURSE, *SAVED, *RESUMED]
