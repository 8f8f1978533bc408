"""The course's checkpoint: published bytes, what goes on from them, and every kind of damage."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

import numpy as np
import pytest

from cai_course.checkpoint import course_checksum, read_course_checkpoint, write_course_checkpoint
from cai_course.checkpoint.content import ByteBpe, CourseCheckpoint, LiteralTokens, NamedValues
from cai_course.errors import CourseCheckpointError
from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import LIBM, STRICT
from cai_reference.autograd import Tape
from cai_reference.autograd.backward import backward
from cai_reference.models.llama import Llama
from cai_reference.splitmix import SplitMix64
from cai_reference.text.corpus import fnv1a64
from cai_reference.text.story_batches import StoryBatch
from cai_reference.training.adamw import AdamW, AdamWConfiguration, AdamWState, Moments, ParameterGroups, everything
from cai_reference.training.errors import TrainingError
from cai_reference.training.model_kinds import copy_of
from support_course import MERGES, needs_corpus
from support_course_checkpoints import FILE_BYTES, HEADER_BYTES, TOKENS, chapter_35, written
from support_course_fixtures import MODEL, capstone_run, fresh, needs_published_functions, small_run, tokenizer
from support_refusals import raises

TABLE = "token_embedding.weight"
GAIN = "final_norm.gain"


def fingerprint(model: Llama, arithmetic: Arithmetic) -> str:
    """Return the FNV-1a of the logits after tokens 0 and 1."""
    (logits,) = model.forward(Tape(arithmetic, recording=False), [0, 1], 1)
    return f"fnv1a64:{fnv1a64(logits.value.astype('<f8').tobytes()):016x}"


def update(model: Llama, optimizer: AdamW, arithmetic: Arithmetic) -> None:
    """Make one more step: inputs 0, 1, targets 1, 2, rate 0.006, no clipping."""
    backward(model.loss(Tape(arithmetic), StoryBatch(((0, 1, 2),), 2)))
    optimizer.step_at(0.006, model.parameters)


class TestPublishedFiles:
    """Chapters 35 and 39."""

    @needs_published_functions
    def test_chapter_35_has_the_published_bytes(self) -> None:
        """6,330 of them, 2,869 in the header, 38 records, and the checksum."""
        data = written("libm/1")
        header, payload = struct.unpack_from("<QQ", data, 14)
        assert (FILE_BYTES, HEADER_BYTES, 3461) == (len(data), header, payload)
        assert f"{0x2B8B6097EAED6A91:016x}" == f"{course_checksum(data):016x}"
        assert struct.pack("<Q", 0x2B8B6097EAED6A91) == data[30:38]
        assert struct.pack("<III", 11, 11, 38) in data[:HEADER_BYTES]

    @needs_published_functions
    def test_what_is_read_gives_the_published_logits_and_goes_on_as_published(self) -> None:
        """Before and after one more update, and the next draw."""
        checkpoint = read_course_checkpoint(written("libm/1"))
        model, optimizer = checkpoint.model(), checkpoint.adamw()
        assert "fnv1a64:6029064fe7cd162d" == fingerprint(model, LIBM)
        update(model, optimizer, LIBM)
        assert "fnv1a64:0b875a0c9f380d8f" == fingerprint(model, LIBM)
        assert 9 == optimizer.state.step
        assert f"{0x9A8C505971939232:016x}" == f"{checkpoint.sampling().next_u64():016x}"

    def test_the_opening_is_as_documented(self) -> None:
        """Field by field, in another arithmetic, whose weights have other last bits."""
        data = written()
        assert bytes.fromhex("4c4c4d4350333500 0100 04030201") == data[:14]
        assert (1, 1, 8, 0x9E3779B97F4A7C38, 1, 5) == struct.unpack_from("<HHQQBQ", data, 38)
        assert (5, 4, 2, 4, 1, 2) == struct.unpack_from("<6Q", data, 67)
        assert (10000.0, 1e-6, 0.04, 0.9, 0.999, 1e-8, 0.01) == struct.unpack_from("<7d", data, 115)
        assert 1 == data[171]
        assert FILE_BYTES == len(data)

    @pytest.mark.exhaustive
    @needs_corpus
    @needs_published_functions
    def test_chapter_39_has_the_published_bytes(self) -> None:
        """30,994 of them; byte pairs, no groups, a generator that was not drawn from."""
        run = capstone_run("libm/1")
        pairs = ByteBpe(tokenizer().pairs)
        data = write_course_checkpoint(
            CourseCheckpoint.of(pairs, run.selected_model, run.selected_optimizer, SplitMix64(38), None)
        )
        assert (30994, 2418) == (len(data), struct.unpack_from("<Q", data, 14)[0])
        assert f"{0x67AEAAEA603B291F:016x}" == f"{course_checksum(data):016x}"
        checkpoint = read_course_checkpoint(data)
        assert (pairs, 0x26, None) == (checkpoint.tokenizer, checkpoint.generator, checkpoint.groups)
        assert run.selected.matches(checkpoint.model().parameters)


def same(one: CourseCheckpoint, other: CourseCheckpoint) -> bool:
    """Tell whether two contents are equal to the last bit."""
    return write_course_checkpoint(one) == write_course_checkpoint(other)


class TestRoundTrip:
    """What is written is read."""

    def test_everything_comes_back(self) -> None:
        """Field by field; values and moments in all bits."""
        expected, found = chapter_35(), read_course_checkpoint(written())
        for field in ("tokenizer", "configuration", "optimizer", "selected_step", "generator"):
            assert getattr(expected, field) == getattr(found, field), field
        assert expected.groups is not None and found.groups is not None
        assert sorted(expected.groups.decay) == list(found.groups.decay)
        assert sorted(expected.groups.no_decay) == list(found.groups.no_decay)
        assert small_run("strict/1").selected.matches(found.model().parameters)
        state, read = expected.state, found.state
        assert (state.step, state.beta1_power, state.beta2_power) == (read.step, read.beta1_power, read.beta2_power)
        for name, moments in state.moments.items():
            assert moments.first.tobytes() == read.moments[name].first.tobytes()
            assert moments.second.tobytes() == read.moments[name].second.tobytes()

    def test_training_goes_on_as_if_it_had_not_stopped(self) -> None:
        """One more step of the run's own model and of the one that was read."""
        run, checkpoint = small_run("strict/1"), read_course_checkpoint(written())
        model, optimizer = checkpoint.model(), checkpoint.adamw()
        own = copy_of(run.selected_model)
        other = AdamW(run.selected_optimizer.configuration, run.selected_optimizer.groups)
        other.state = run.selected_optimizer.state
        update(model, optimizer, STRICT)
        update(own, other, STRICT)
        assert [p.value.tobytes() for p in own.parameters] == [p.value.tobytes() for p in model.parameters]

    def test_a_tied_head_stays_tied(self) -> None:
        """The table is one parameter in two roles."""
        model = read_course_checkpoint(written()).model()
        before = fingerprint(model, STRICT)
        table = model.table.value.copy()
        table[3] = 0.0
        model.table.assign(table)
        (logits,) = model.forward(Tape(STRICT), [0, 1], 1)
        assert before != fingerprint(model, STRICT)
        assert [0.0, 0.0] == logits.value[0, :, 3].tolist()

    def test_a_fresh_optimiser_has_no_moments(self) -> None:
        """Step 0, both powers 1."""
        model, optimizer = fresh()
        checkpoint = CourseCheckpoint.of(TOKENS, model, optimizer, SplitMix64(0), None)
        found = read_course_checkpoint(write_course_checkpoint(checkpoint))
        assert (0, 1.0, 1.0, {}) == (
            found.state.step,
            found.state.beta1_power,
            found.state.beta2_power,
            dict(found.state.moments),
        )
        assert everything(model.parameters) == found.adamw().groups

    def test_negative_zeros_and_denormals_survive(self) -> None:
        """Every double is kept as it is."""
        model, optimizer = fresh()
        values = np.array([-0.0, 5e-324, -1.7976931348623157e308, 1.0 / 3.0])
        model.parameters[-1].assign(values)
        checkpoint = CourseCheckpoint.of(TOKENS, model, optimizer, SplitMix64(0), optimizer.groups)
        found = read_course_checkpoint(write_course_checkpoint(checkpoint))
        assert values.tobytes() == found.parameters[-1].values.tobytes()

    def test_byte_pairs_come_back(self) -> None:
        """As a record of 32-bit integers; also none at all."""
        for pairs in (MERGES, ()):
            sizes = replace(MODEL, vocabulary=258 + len(pairs))
            model = Llama.initialize(sizes, SplitMix64(1))
            optimizer = AdamW(AdamWConfiguration(0.5), everything(model.parameters))
            checkpoint = CourseCheckpoint.of(ByteBpe(pairs), model, optimizer, SplitMix64(0), None)
            found = read_course_checkpoint(write_course_checkpoint(checkpoint))
            assert ByteBpe(pairs) == found.tokenizer
            assert same(checkpoint, found)


class TestContent:
    """What cannot be put into a checkpoint."""

    @pytest.mark.parametrize(
        ("field", "value", "spelled"),
        [
            ("tied", False, "False"),
            ("key_value_heads", 1, "1"),
            ("head_width", 4, "4"),
            ("window", 2, "2"),
            ("rope_layout", "half-split", "half-split"),
            ("rope_frequencies", "exponential", "exponential"),
            ("norm", "inverse-root", "inverse-root"),
        ],
    )
    def test_other_decoders(self, field: str, value: object, spelled: str) -> None:
        """The file says nothing of what they differ in."""
        sizes = replace(MODEL, **{field: value})  # type: ignore[arg-type]
        if not isinstance(value, str):
            model = Llama.initialize(sizes, SplitMix64(1))
        else:
            model, _ = fresh()
        with raises(CourseCheckpointError("not-the-course-decoder", field=field, value=spelled)):
            replace(
                chapter_35(),
                configuration=sizes,
                parameters=tuple(NamedValues(p.name, p.value) for p in model.parameters),
            )

    def test_defaults_that_are_spelled_out_are_the_same(self) -> None:
        """As many heads of keys as of queries, and their width."""
        replace(chapter_35(), configuration=replace(MODEL, key_value_heads=2, head_width=2))

    def test_a_tokenizer_of_another_vocabulary(self) -> None:
        """Every id needs a meaning."""
        with raises(CourseCheckpointError("tokenizer-vocabulary", tokenizer=4, decoder=5)):
            replace(chapter_35(), tokenizer=LiteralTokens((b"a", b"b", b"c", b"d")))
        with raises(CourseCheckpointError("tokenizer-vocabulary", tokenizer=258, decoder=5)):
            replace(chapter_35(), tokenizer=ByteBpe(()))

    def test_literal_tokens(self) -> None:
        """Some, none empty, none twice."""
        for pieces, expected in (
            ((), CourseCheckpointError("no-literal-tokens")),
            ((b"a", b""), CourseCheckpointError("empty-literal-token", token=1)),
            ((b"a", b"b", b"a"), CourseCheckpointError("repeated-literal-token", token=2)),
        ):
            with raises(expected):
                LiteralTokens(pieces)

    def test_optimisers_that_do_not_fit(self) -> None:
        """Steps, moments, groups."""
        given = chapter_35()
        state, names = given.state, tuple(sorted(given.state.moments))
        less = {name: moments for name, moments in state.moments.items() if name != TABLE}
        short = {**state.moments, TABLE: Moments(np.zeros(3), np.zeros((5, 4)))}
        for change, expected in (
            ({"state": replace(state, moments={})}, TrainingError("moment-presence", step=8, entries=0)),
            (
                {"state": replace(AdamWState(), moments=state.moments), "selected_step": 0},
                TrainingError("moment-presence", step=0, entries=11),
            ),
            ({"state": replace(state, moments=less)}, TrainingError("moment-names", expected=names, actual=names[:-1])),
            (
                {"state": replace(state, moments=short)},
                TrainingError("moment-shape", name=TABLE, kind="first", parameter=(5, 4), moment=(3,)),
            ),
            ({"groups": ParameterGroups(names[1:])}, TrainingError("group-names", expected=names, actual=names[1:])),
            (
                {"state": replace(state, beta2_power=math.nan)},
                TrainingError("invalid-beta-power", name="beta2", value=math.nan, step=8),
            ),
        ):
            with raises(expected):
                replace(given, **change)

    def test_arithmetics_differ_in_last_bits_only(self) -> None:
        """The file of one is as long as that of the other, and its values are close."""
        one, other = written("strict/1"), written("libm/1")
        assert (len(one), one[38 : HEADER_BYTES - 16]) == (len(other), other[38 : HEADER_BYTES - 16])
        left, right = (np.frombuffer(data[HEADER_BYTES + 5 :], "<f8") for data in (one, other))
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-12)
