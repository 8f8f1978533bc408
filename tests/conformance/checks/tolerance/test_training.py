"""Steps of training, part by part: losses by a plain loop, gradients by differences, and engines that answer badly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np
import pytest

from cai_conformance.backends.engine.given_model import OpenedModel
from cai_conformance.backends.reference.training import loss_and_gradients
from cai_conformance.checks.tolerance.training import (
    BETA_1,
    BETA_2,
    DECAY,
    EPSILON,
    FIRST_MOMENT,
    GRADIENT,
    LEAST_FLOOR,
    LOSS,
    MOST_FLOOR,
    RATE,
    SECOND_MOMENT,
    WEIGHTS,
    TrainingPart,
    TrainingProbe,
    engine_parts,
    fresh_model,
    part_floors,
    reference_parts,
    rounding_units,
)
from cai_conformance.engine import (
    EngineBroken,
    EngineError,
    LossAndGradients,
    OptimizerState,
    TrainingBatch,
    TrainingSettings,
)
from cai_conformance.faults import fault_named
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST
from cai_reference.autograd import Tape
from cai_reference.models.stack import DecoderStack
from cai_reference.text.story_batches import StoryBatch
from support_engines import HEADS, SUITE, Planted, Wrapped, opened_in
from support_foreign_engines import given
from support_refusals import refuses

KINDS: Final = (LOSS, GRADIENT, FIRST_MOMENT, SECOND_MOMENT, WEIGHTS)


@cache
def probe_of(suite: str) -> TrainingProbe:
    """Return what an engine is asked about a suite."""
    return TrainingProbe.of(given(suite))


@cache
def parts_of(suite: str) -> tuple[TrainingPart, ...]:
    """Return the parts of the reference's steps."""
    return reference_parts(opened_in(Wrapped(), suite), probe_of(suite))


def short(probe: TrainingProbe) -> TrainingProbe:
    """Return the first step of a probe."""
    return replace(probe, batches=probe.batches[:1])


def parts_by(engine: Wrapped, suite: str = SUITE, probe: TrainingProbe | None = None) -> tuple[TrainingPart, ...]:
    """Return the parts of an engine's steps: of the first one, unless a probe is given."""
    return engine_parts(opened_in(engine, suite), engine, short(probe_of(suite)) if probe is None else probe)


def mean_loss(
    model: DecoderStack, inputs: tuple[tuple[int, ...], ...], targets: Mapping[int, list[list[int]]]
) -> float:
    """Return the mean, over heads, of the mean over real targets, one row of logits at a time."""
    means: list[float] = []
    for head, rows in targets.items():
        losses: list[float] = []
        for row, wanted in zip(inputs, rows, strict=True):
            logits = model.forward(Tape(FAST, recording=False), row, 1)[head].value[0]
            for place, target in enumerate(wanted):
                if target >= 0:
                    largest = max(logits[place])
                    total = sum(math.exp(one - largest) for one in logits[place])
                    losses.append(largest + math.log(total) - logits[place][target])
        means.append(sum(losses) / len(losses))
    return sum(means) / len(means)


def shifted(batch: StoryBatch, head: int) -> list[list[int]]:
    """Return the targets of a head: the id that stands head + 1 places on, and −1 where a story has none."""
    return [
        [story[place + head + 1] if place + head + 1 < len(story) else -1 for place in range(batch.width)]
        for story in batch.stories
    ]


class TestProbe:
    """What is asked: everything in it shows something."""

    def test_batches_are_ragged_and_repeat_ids(self) -> None:
        """So that padding and sums into the table show."""
        for batch in probe_of(SUITE).batches:
            assert len({len(story) for story in batch.stories}) == 3
            assert all(story[0] == 0 and story[-1] == 1 and story[1] == story[-2] for story in batch.stories)

    def test_a_batch_is_padded_on_the_right_and_predicts_nothing_there(self) -> None:
        """Targets are the ids behind; of a later head those further behind."""
        for suite, heads in ((SUITE, 1), (HEADS, given(HEADS).sizes.futures)):
            batch, story_batch = probe_of(suite).batch(0), probe_of(suite).batches[0]
            assert len(batch.targets) == heads
            for row, story in zip(batch.inputs, story_batch.stories, strict=True):
                assert row == (*story, *[0] * story_batch.width)[: story_batch.width]
            for head in range(heads):
                assert [list(row) for row in batch.targets[head]] == shifted(story_batch, head)

    def test_clipping_is_active_at_half_the_first_norm(self) -> None:
        """The norm of all gradients together."""
        probe = probe_of(SUITE)
        gradients = parts_of(SUITE)[1].tensors
        norm = math.sqrt(sum(float(one) ** 2 for value in gradients.values() for one in value.ravel()))
        assert probe.settings.clip is not None
        assert math.isclose(norm / 2.0, probe.settings.clip, abs_tol=6e-4)

    def test_turned_batches_ask_the_same(self) -> None:
        """Rows change places; three turns are none."""
        probe = probe_of(SUITE)
        turned = probe.rotated()
        assert [sorted(batch.stories) for batch in probe.batches] == [sorted(each.stories) for each in turned.batches]
        assert probe != turned
        assert probe == turned.rotated().rotated()

    def test_decayed_tensors_are_named_as_in_the_file(self) -> None:
        """Matrices decay, gains do not."""
        names = probe_of(SUITE).settings_for(given(SUITE)).decayed
        assert "model.layers.0.self_attn.q_proj.weight" in names
        assert not any("norm" in name for name in names)
        assert probe_of(HEADS).settings_for(given(HEADS)).decayed == probe_of(HEADS).settings.decayed


class TestReference:
    """What engines are held against."""

    @pytest.mark.parametrize("suite", [SUITE, pytest.param(HEADS, marks=pytest.mark.exhaustive)])
    def test_the_loss_is_the_mean_of_means(self, suite: str) -> None:
        """Worked out row by row, without padding."""
        model, batch = fresh_model(given(suite)), probe_of(suite).batches[0]
        heads = probe_of(suite).heads
        inputs = tuple(story[:-1] for story in batch.stories)
        targets = {
            head: [row[: len(story)] for row, story in zip(shifted(batch, head), inputs, strict=True)]
            for head in range(heads)
        }
        assert math.isclose(mean_loss(model, inputs, targets), parts_of(suite)[0].tensors[LOSS][0], rel_tol=1e-12)

    @pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.exhaustive)])
    def test_gradients_are_differences_of_losses(self, every: int) -> None:
        """At the largest place of a tensor, by the loss a little to both sides: of some tensors, or of all."""
        model, batch = fresh_model(given(SUITE)), probe_of(SUITE).batch(0)
        gradients, width = parts_of(SUITE)[1].tensors, 1e-5
        for parameter in model.parameters[::every]:
            place = int(np.argmax(np.abs(gradients[parameter.name])))
            right, before = float(gradients[parameter.name].flat[place]), parameter.value.copy()
            losses: list[float] = []
            for sign in (1.0, -1.0):
                changed = before.copy()
                changed.flat[place] += sign * width
                parameter.assign(changed)
                losses.append(loss_and_gradients(model, batch.inputs, batch.targets, FAST)[0])
            parameter.assign(before)
            assert math.isclose((losses[0] - losses[1]) / (2.0 * width), right, rel_tol=1e-5, abs_tol=1e-9)

    def test_the_first_step_follows_the_formula(self) -> None:
        """Clip, moments, both corrections, the update, and decay of the weight before it."""
        parts = {part.kind: part.tensors for part in parts_of(SUITE)[:5]}
        decayed, clip = set(probe_of(SUITE).settings.decayed), probe_of(SUITE).settings.clip
        norm = math.sqrt(math.fsum(float(one) ** 2 for value in parts[GRADIENT].values() for one in value.ravel()))
        assert clip is not None
        for name, weight in given(SUITE).tensors.items():
            gradient = parts[GRADIENT][name] * (clip / norm)
            first, second = (1.0 - BETA_1) * gradient, (1.0 - BETA_2) * gradient * gradient
            step = (first / (1.0 - BETA_1)) / (np.sqrt(second / (1.0 - BETA_2)) + EPSILON)
            after = weight - RATE * step - (RATE * DECAY * weight if name in decayed else 0.0)
            for kind, right in ((FIRST_MOMENT, first), (SECOND_MOMENT, second), (WEIGHTS, after)):
                assert np.allclose(right, parts[kind][name], rtol=1e-10, atol=1e-15)

    def test_parts_come_in_the_order_of_computing(self) -> None:
        """Five of each step; the suite's own model is left as it was."""
        assert [(step, kind) for step in (1, 2, 3) for kind in KINDS] == [(p.step, p.kind) for p in parts_of(SUITE)]
        before = given(SUITE).tensors
        assert all(np.array_equal(before[each.name], each.value) for each in given(SUITE).model.parameters)


class Wrong(Wrapped):
    """An engine that trains; what it answers about gradients is changed."""

    def __init__(self, change: Callable[[dict[str, Array]], object]) -> None:
        super().__init__()
        self._change = change

    def gradients(self, batch: TrainingBatch) -> LossAndGradients:
        """Change a copy of the right answer."""
        found = super().gradients(batch)
        tensors = dict(found.gradients)
        self._change(tensors)
        return LossAndGradients(found.loss, tensors)


QUERY: Final = "model.layers.0.self_attn.q_proj.weight"


class TestEngine:
    """What engines answer."""

    @pytest.mark.parametrize("suite", [SUITE, pytest.param(HEADS, marks=pytest.mark.exhaustive)])
    def test_the_reference_in_fast_moves_by_rounding_alone(self, suite: str) -> None:
        """In the layout of engines, whose matrices are transposed, and in its own."""
        parts = parts_by(Wrapped(), suite)
        assert [(1, kind) for kind in KINDS] == [(part.step, part.kind) for part in parts]
        for right, found in zip(parts_of(suite), parts, strict=False):
            assert list(right.tensors) == list(found.tensors)
            for name, value in right.tensors.items():
                scale = max(float(np.max(np.abs(each))) for each in right.tensors.values())
                assert float(np.max(np.abs(value - found.tensors[name]))) < 1e-12 * scale

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda tensors: tensors.pop(QUERY), "answered nothing where the tensor blocks.0.attention.query.weight"),
            (lambda tensors: tensors.update({QUERY: np.zeros((3, 5))}), "answered shape [5, 3] where the tensor"),
            (lambda tensors: tensors.update({QUERY: np.zeros(7)}), "answered shape [7] where the tensor"),
            (lambda tensors: tensors.update({"w": np.zeros(1)}), "answered a tensor 'w' where those of the model's"),
        ],
    )
    def test_tensors_of_another_shape_are_refused(
        self, change: Callable[[dict[str, Array]], object], message: str
    ) -> None:
        """Or missing ones, or others; a tied head in a role of its own is no other one."""
        with refuses(EngineError, "answer-out-of-shape") as caught:
            parts_by(Wrong(change))
        assert message in str(caught.value)

    def test_a_tied_head_may_be_shown_as_well(self) -> None:
        """It is the table once more."""
        head = "lm_head.weight"
        parts = parts_by(Wrong(lambda tensors: tensors.update({head: tensors["model.embed_tokens.weight"]})))
        assert "output.weight" not in parts[1].tensors

    def test_whatever_goes_wrong_the_model_is_loaded_anew(self) -> None:
        """Its weights were trained."""

        class Breaking(Wrapped):
            def training_state(self) -> OptimizerState:
                raise EngineBroken("breaking", "crashed")

        engine = Breaking()
        opened: OpenedModel = opened_in(engine)
        with pytest.raises(EngineBroken):
            engine_parts(opened, engine, short(probe_of(SUITE)))
        opened.load()
        assert engine.loads == 2
        row = engine.inner.gradients(probe_of(SUITE).batch(0)).loss
        assert math.isclose(row, parts_of(SUITE)[0].tensors[LOSS][0], rel_tol=1e-12)

    def test_names_of_decayed_tensors_are_the_files(self) -> None:
        """Whoever is asked knows no others."""
        seen: list[TrainingSettings] = []

        class Listening(Wrapped):
            def start_training(self, settings: TrainingSettings) -> None:
                seen.append(settings)
                super().start_training(settings)

        parts_by(Listening())
        assert QUERY in seen[0].decayed


class TestRounding:
    """In which unit parts are measured, and how far rounding moves them."""

    def test_a_unit_is_of_the_tensor_and_of_the_part(self) -> None:
        """A tensor that is zero by symmetry is measured by the largest of the others."""
        part = TrainingPart(1, GRADIENT, {"a": np.array([1.0, -3.0]), "b": np.array([0.0])})
        units = rounding_units(part, "float32")
        assert 2.0**-22 + 2.0**-22 == units["a"]
        assert 2.0**-149 + 2.0**-22 == units["b"]

    @pytest.mark.exhaustive
    def test_floors_are_small_and_never_below_the_least(self) -> None:
        """Of three parts of a step; rows and channels in other orders move a double by some units."""
        engine, probe = Wrapped(), short(probe_of(SUITE))
        opened = opened_in(engine)
        floors = part_floors(opened, engine, probe, engine_parts(opened, engine, probe))
        assert len(floors) == 5
        assert all(LEAST_FLOOR <= floor < 64.0 for floor in floors)

    def test_a_fault_does_not_measure_itself_as_rounding(self) -> None:
        """Where only the last sequence counts, the order of rows matters, and by far more than rounding gives."""
        engine, probe = Planted(fault_named("gradient.last-sequence")), short(probe_of(SUITE))
        opened = opened_in(engine)
        floors = part_floors(opened, engine, probe, engine_parts(opened, engine, probe))
        assert floors[1] == MOST_FLOOR

    @pytest.mark.exhaustive
    def test_what_is_no_number_is_no_floor(self) -> None:
        """It fails by itself, and excuses nothing else."""

        def spoil(tensors: dict[str, Array]) -> None:
            tensors[QUERY] = np.full_like(tensors[QUERY], np.nan)

        engine, probe = Wrong(spoil), short(probe_of(SUITE))
        opened = opened_in(engine)
        floors = part_floors(opened, engine, probe, engine_parts(opened, engine, probe))
        assert all(math.isfinite(floor) and floor < 64.0 for floor in floors)
