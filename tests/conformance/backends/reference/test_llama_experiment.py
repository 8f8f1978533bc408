"""Experiments on Llama models at a tiny size: arms, caches, rollback, records, and training that selects."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from cai_conformance.backends.reference import decoder_run as experiment
from cai_conformance.backends.reference.decoder_records import trace_records
from cai_conformance.backends.reference.decoder_run import DecodeExperiment
from cai_conformance.backends.reference.story_training import course_epochs
from cai_conformance.errors import FixtureError
from cai_conformance.fixtures import weight_files as hugging_face
from cai_conformance.fixtures.decoder_phases import DECODE_PHASES, phase_of, sizes_for
from cai_conformance.fixtures.given_weights import in_pairs, native_values, read_given, write_given
from cai_conformance.fixtures.inputs import exact_everywhere
from cai_conformance.fixtures.llama_phases import COURSE_TRAINING, LLAMA_PHASES
from cai_conformance.fixtures.phases import CourseTraining, parts
from cai_conformance.suites.decoder import foreign_stories
from cai_conformance.trace.format import format_trace
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_conformance.trace.records import Envelope, Trace
from cai_reference.arithmetic.instances import named
from cai_reference.models.llama import Llama
from cai_reference.splitmix import SplitMix64, below
from support_decode_tiny import TINY

LLAMA_TINY = replace(TINY, width=8, heads=2, stories=20, steps=4, prompts=1)
SUITES = tuple(phase.suite for phase in LLAMA_PHASES)
COURSE = "course.decoder"


def tiny(suite: str, arithmetic: str = "strict/1") -> DecodeExperiment:
    """Run an experiment at the tiny size, once a process."""
    return _run(suite, arithmetic)


@cache
def _run(suite: str, arithmetic: str) -> DecodeExperiment:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "sizes_for", lambda *_: LLAMA_TINY)
        return experiment.run_decode_experiment(suite, "golden", 0, b"", named(arithmetic))


def traced(ran: DecodeExperiment) -> Trace:
    """Write an experiment down and read it again."""
    envelope = Envelope(ran.phase.suite, "1.0.0", "golden", ran.arithmetic.identifier, "sha256:" + "0" * 64)
    return parse(format_trace(envelope, trace_records(ran)).encode(), grammar_of)


RUNS = [
    (COURSE, "strict/1"),
    pytest.param("llama.gqa-window", "strict/1", marks=pytest.mark.exhaustive),
    pytest.param("llama.dense", "strict/1", marks=pytest.mark.exhaustive),
    pytest.param("llama.gqa-window", "fast", marks=pytest.mark.exhaustive),
    pytest.param(COURSE, "fast", marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize(("suite", "arithmetic"), RUNS)
class TestEveryRun:
    """What holds for each suite."""

    def test_all_arms_generate_the_same_tokens(self, suite: str, arithmetic: str) -> None:
        """From the same bits in `strict/1`; in `fast` from logits that are close."""
        ran = tiny(suite, arithmetic)
        assert ran.tokens_equal()
        agreement, rollback = ("close", "close") if arithmetic == "fast" else ("bitwise", "exact")
        assert (agreement, rollback) == (ran.logits_agreement(), ran.rollback.value)
        assert (True, True) == (ran.replays, ran.caches_exact())

    def test_the_arms_of_a_suite(self, suite: str, arithmetic: str) -> None:
        """The common ones, and the model that drafts for itself."""
        found = {result.arm for result in tiny(suite, arithmetic).arms if "." not in result.arm}
        assert {"full", "cached", "chunked", "scripted", "self-draft"} == found

    def test_the_records_keep_the_grammar(self, suite: str, arithmetic: str) -> None:
        """Bits stand in `strict/1` and not in `fast`; losses that select come with what their update did."""
        trace = traced(tiny(suite, arithmetic))
        assert (arithmetic != "fast") == bool(trace.all("BITS"))
        assert {suite == COURSE} == {record.has("rate") for record in trace.all("LOSS")}
        assert (suite == COURSE) == trace.all("RESULT")[0].has("selected_step")
        assert "draft_parameters" not in dict(trace.all("CONFIG")[0].fields)

    def test_caches_hold_the_heads_of_keys(self, suite: str, arithmetic: str) -> None:
        """One head of keys and values of two: 2·4 floats a token in place of 2·8; W 5, S 2, C 15."""
        windowed = suite == "llama.gqa-window"
        row = 2 * (4 if windowed else 8)
        for count in tiny(suite, arithmetic).caches:
            assert row * (min(count.prefix, 5) if windowed else count.prefix) == count.accounting.floats
            assert row * (7 if windowed else 15) == count.accounting.allocated


class TestSelectionAtTinySize:
    """Training that selects."""

    def test_the_kept_model_is_the_selected_one(self) -> None:
        """Its validation loss, computed anew, is the smallest of the checkpoints."""
        ran = tiny(COURSE)
        course = ran.trained.course
        assert course is not None
        losses = [step.validation for step in course.steps]
        assert (
            min(losses)
            == course.selected.validation
            == losses[[s.step for s in course.steps].index(course.selected.step)]
        )
        assert course.model is ran.trained.model
        kept = {step.step: step.parameters for step in course.steps if step.parameters is not None}
        assert {0, course.selected.step, LLAMA_TINY.steps} == set(kept)

    def test_checkpoints_and_rates_follow_the_plan(self) -> None:
        """Four steps: each rate once, and losses after each."""
        course = tiny(COURSE).trained.course
        assert course is not None
        facts = [(step.step, step.update.rate if step.update else None) for step in course.steps]
        assert [(0, 0.0), (1, 0.04), (2, 0.025), (3, 0.015), (4, 0.008)] == facts

    def test_windows_are_whole_and_of_one_story_each(self) -> None:
        """Nothing is padded; with a wide stride only the first window of a story is taken."""
        epochs = course_epochs(
            COURSE_TRAINING, LLAMA_TINY, [tuple(range(40)), tuple(range(100, 110))], [tuple(range(16))]
        )
        (batch,) = epochs.updates.batches
        assert (tuple(range(16)),) == batch.stories
        assert 15 == batch.target_count
        narrow = course_epochs(CourseTraining((0.1,), 10, 5, 1), LLAMA_TINY, [tuple(range(40))], [tuple(range(40))])
        starts = sorted(story[0] for batch in narrow.updates.batches for story in batch.stories)
        assert [0, 10, 20] == starts
        assert [0, 5, 10, 15, 20] == [story[0] for batch in narrow.validation.batches for story in batch.stories]

    def test_stories_shorter_than_a_window_stop_the_experiment(self) -> None:
        """The part is named."""
        with pytest.raises(FixtureError, match=r"^Windows: no validation story is longer than 15 tokens$"):
            course_epochs(COURSE_TRAINING, LLAMA_TINY, [tuple(range(16))], [tuple(range(15))])

    @pytest.mark.parametrize("steps", [0, 1, 3, 4, 8, 48, 53])
    @pytest.mark.parametrize("count", [1, 4, 6])
    def test_parts_differ_by_at_most_one(self, steps: int, count: int) -> None:
        """From 0 to the last step, ascending."""
        borders = parts(steps, count)
        lengths = [later - earlier for earlier, later in pairwise(borders)]
        assert (0, steps, count) == (borders[0], borders[-1], len(lengths))
        assert max(lengths) - min(lengths) <= 1

    def test_own_stories_without_a_whole_window_are_the_users_fault(self) -> None:
        """They are refused before any backend is asked."""
        generator = SplitMix64(8)
        texts = ["".join(chr(97 + below(generator, 26)) for _ in range(40)) for _ in range(12)]
        stories = "\n\n".join(texts).encode()
        with pytest.raises(FixtureError, match=r"^Windows: no train story is longer than 48 tokens$"):
            foreign_stories(phase_of(COURSE), stories)

    @pytest.mark.parametrize("suite", SUITES)
    def test_the_published_size_follows_the_same_conventions(self, suite: str) -> None:
        """A window of another size would be another convention."""
        phase = phase_of(suite)
        assert phase.conventions(phase.golden_sizes) == phase.conventions(phase.published_sizes)

    @pytest.mark.parametrize("examples", [1, 6, 30])
    def test_examples_decide_the_number_of_updates(self, examples: int) -> None:
        """Rates and checkpoints follow; of few updates some rates have none."""
        phase = phase_of(COURSE)
        sizes = sizes_for(phase, "golden", examples)
        assert phase.selection is not None
        assert max(1, examples // 3) == sizes.steps == phase.selection.schedule(sizes.steps).steps
        checkpoints = phase.selection.checkpoints(sizes.steps)
        assert (0, sizes.steps) == (checkpoints[0], checkpoints[-1])


class TestGivenWeights:
    """Weights that load anywhere."""

    @pytest.mark.parametrize("suite", SUITES)
    def test_writing_and_reading_gives_the_same_model(self, suite: str) -> None:
        """By whatever names and shapes the file has."""
        phase = phase_of(suite)
        model = phase.initialized(LLAMA_TINY, 30, SplitMix64(5))
        values = {each.name: exact_everywhere(each.value) for each in model.parameters}
        data = write_given(phase, values)
        again = read_given(phase, LLAMA_TINY, data)
        assert [each.name for each in model.parameters] == [each.name for each in again.parameters]
        for parameter in again.parameters:
            assert values[parameter.name].tobytes() == parameter.value.tobytes()
        assert set(values) == set(native_values(phase, data))

    def test_names_are_one_to_one(self) -> None:
        """Every parameter has a name of its own in the files, and is found by it."""
        model = phase_of("llama.dense").initialized(LLAMA_TINY, 30, SplitMix64(5))
        names = [hugging_face.hugging_face_name(each.name) for each in model.parameters]
        assert len(set(names)) == len(names)
        assert [each.name for each in model.parameters] == [hugging_face.native_name(name) for name in names]
        for unknown in ("lm_head.bias", "model.layers.0.self_attn.q_proj.bias", "model.layers.x.mlp.up_proj.weight"):
            with pytest.raises(KeyError):
                hugging_face.native_name(unknown)

    @pytest.mark.parametrize("suite", SUITES)
    def test_tied_logits_come_in_equal_pairs(self, suite: str) -> None:
        """Rows of a tied table, columns of an output matrix; nothing else is changed."""
        phase = phase_of(suite)
        model = phase.initialized(LLAMA_TINY, 30, SplitMix64(5))
        data = write_given(phase, {each.name: exact_everywhere(each.value) for each in model.parameters})
        plain, tied = (read_given(phase, LLAMA_TINY, data, tied=tied) for tied in (False, True))
        changed = [
            mine.name
            for mine, other in zip(plain.parameters, tied.parameters, strict=True)
            if mine.value.tobytes() != other.value.tobytes()
        ]
        assert (["output.weight"] if suite == "llama.dense" else ["token_embedding.weight"]) == changed

    def test_pairs_worked_by_hand(self) -> None:
        """An axis of odd length keeps its last value."""
        values = np.arange(10.0).reshape(2, 5)
        assert [[0.0, 0.0, 2.0, 2.0, 4.0], [5.0, 5.0, 7.0, 7.0, 9.0]] == in_pairs(values, 1).tolist()
        assert [[0.0, 1.0, 2.0, 3.0, 4.0]] * 2 == in_pairs(values, 0).tolist()

    def test_only_what_engines_compute_has_their_layout(self) -> None:
        """The others say why not."""
        layouts = {phase.suite: (phase.weights_layout.value, bool(phase.obstacle)) for phase in DECODE_PHASES}
        assert {"llama.dense", "llama.gqa-window"} == {
            suite for suite, found in layouts.items() if found == ("hf", False)
        }
        assert all(found == ("native", True) for suite, found in layouts.items() if not suite.startswith("llama."))
        assert "adjacent pairs" in phase_of(COURSE).obstacle
        assert "exp and log" in phase_of(COURSE).obstacle
        assert isinstance(tiny(COURSE).trained.model, Llama)
