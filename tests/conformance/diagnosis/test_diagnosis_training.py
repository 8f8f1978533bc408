"""Training with planted faults: the first part that is wrong, and the mistake that gives the numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np
import pytest

from cai_conformance.backends.reference.story_training import prepare
from cai_conformance.diagnosis.diagnosis import diagnosis_of_run, diagnosis_of_training
from cai_conformance.diagnosis.runs import ShownRun, run_findings
from cai_conformance.diagnosis.steps import ReferenceSteps, ShownStep, Start
from cai_conformance.diagnosis.training import Part, training_findings
from cai_conformance.engine import OptimizerState, TrainingSettings
from cai_conformance.faults import fault_named, planted_together
from cai_conformance.fixtures.decoder_phases import phase_of
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.models.registry import decayed_names
from support_fault_workloads import BATCHES, CLIP, SETTINGS, model_of

SUITE: Final = "llama.gqa-window"
FLOOR: Final = 1e-12

FAULTY: Final = (
    ("adamw.decay-after-update", Part.WEIGHTS, "token_embedding.weight"),
    ("clip.per-tensor", Part.CLIPPING, "token_embedding.weight"),
    ("loss.pads-counted", Part.LOSS, ""),
    ("adamw.coupled-decay", Part.FIRST_MOMENT, "token_embedding.weight"),
    ("adamw.no-bias-correction", Part.WEIGHTS, "token_embedding.weight"),
    ("adamw.eps-inside-root", Part.WEIGHTS, "token_embedding.weight"),
    ("adamw.eps-before-correction", Part.WEIGHTS, "token_embedding.weight"),
    ("adamw.decays-everything", Part.WEIGHTS, "blocks.0.attention_norm.gain"),
    ("adamw.no-decay", Part.WEIGHTS, "token_embedding.weight"),
    ("adamw.betas-exchanged", Part.CLIPPING, "token_embedding.weight"),
    ("clip.none", Part.CLIPPING, "token_embedding.weight"),
    ("clip.squared-norm", Part.CLIPPING, "token_embedding.weight"),
    ("loss.pads-scored", Part.LOSS, ""),
    ("loss.mean-of-means", Part.LOSS, ""),
    ("loss.sum", Part.LOSS, ""),
    ("loss.unshifted", Part.LOSS, ""),
    ("gradient.tied-once", Part.GRADIENT, "token_embedding.weight"),
    ("gradient.norm-without-mean", Part.GRADIENT, "token_embedding.weight"),
    ("gradient.last-occurrence", Part.GRADIENT, "token_embedding.weight"),
    ("gradient.last-sequence", Part.GRADIENT, "blocks.0.attention.query.weight"),
    ("rope.adjacent", Part.LOSS, ""),
)
"""Faults, the first part of a step that they spoil, and the first tensor of it."""

SAMPLE: Final = 16


@cache
def settings() -> TrainingSettings:
    """Return the settings of the vehicle, with the reference's names."""
    decayed = decayed_names(model_of(SUITE).parameters)
    optimizer = SETTINGS
    return TrainingSettings(
        optimizer.learning_rate,
        optimizer.beta1,
        optimizer.beta2,
        optimizer.epsilon,
        optimizer.weight_decay,
        CLIP,
        decayed,
    )


def shown(*slugs: str) -> list[ShownStep]:
    """Return what an engine with some faults shows of two steps."""
    steps = []
    with planted_together([fault_named(slug) for slug in slugs]):
        training = ReferenceSteps(model_of(SUITE), settings(), Start.of(model_of(SUITE)), FAST)
        for batch in BATCHES:
            taken = training.step(batch)
            steps.append(ShownStep(batch, taken.loss, taken.gradients, taken.after))
    return steps


@pytest.mark.parametrize(
    ("slug", "part", "tensor"),
    [
        pytest.param(*row, id=row[0], marks=pytest.mark.exhaustive if place % SAMPLE else ())
        for place, row in enumerate(FAULTY)
    ],
)
def test_a_wrong_step_is_explained(slug: str, part: Part, tensor: str) -> None:
    """The part where it begins, and the mistake, at the top."""
    finding = training_findings(model_of(SUITE), settings(), shown(slug), STRICT, FLOOR)
    assert finding is not None
    assert (finding.step, finding.part, finding.tensor) == (1, part, tensor)
    diagnosis = diagnosis_of_training(finding)
    assert diagnosis.conventions[0] == slug and finding.fits[0].residual < 1e-12
    assert len(diagnosis.lines) <= 6


class TestSteps:
    """Each step begins where the engine's last one ended, so that one mistake is reported once."""

    def test_a_right_engine_has_nothing_to_explain(self) -> None:
        """In another arithmetic, within the floor; the model stays as it was."""
        before = [parameter.value.copy() for parameter in model_of(SUITE).parameters]
        assert training_findings(model_of(SUITE), settings(), shown(), STRICT, 1e-11) is None
        after = [parameter.value for parameter in model_of(SUITE).parameters]
        assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))

    @pytest.mark.exhaustive
    def test_losses_alone_are_compared_where_nothing_else_is_shown(self) -> None:
        """The step before is then the reference's own, and what was planted shows one step later."""
        losses = [ShownStep(each.batch, each.loss) for each in shown("clip.none")]
        finding = training_findings(model_of(SUITE), settings(), losses, STRICT, FLOOR)
        assert finding is not None
        assert (finding.step, finding.part) == (2, Part.LOSS)
        assert ("clip.none",) in [fit.slugs for fit in finding.fits]

    def test_weights_alone_are_compared_where_no_moments_are_shown(self) -> None:
        """Losses, gradients and weights."""
        steps = [
            replace(each, after=OptimizerState(each.after.weights, {}, {}))
            for each in shown("adamw.eps-inside-root")
            if each.after is not None
        ]
        finding = training_findings(model_of(SUITE), settings(), steps, STRICT, FLOOR)
        assert finding is not None and finding.part is Part.WEIGHTS
        assert finding.fits[0].slugs == ("adamw.eps-inside-root",)

    def test_another_order_is_told_from_a_wrong_loss(self) -> None:
        """The loss of step 1 is that of the batch of step 2."""
        other = [replace(step, batch=batch) for step, batch in zip(shown(), reversed(BATCHES), strict=True)]
        finding = training_findings(model_of(SUITE), settings(), other, STRICT, FLOOR)
        assert finding is not None
        assert (finding.step, finding.part) == (1, Part.ORDER)
        assert finding.detail == "this is the loss of the batch of step 2"

    @pytest.mark.exhaustive
    def test_a_second_moment_is_judged_by_the_gradient_that_the_first_has_seen(self) -> None:
        """So that it is found although everything before is right."""
        first, second = shown()
        assert second.after is not None
        name = "blocks.1.ffn.gate.weight"
        moments = dict(second.after.second_moments)
        moments[name] = 1.5 * moments[name]
        spoiled = replace(second, after=replace(second.after, second_moments=moments))
        finding = training_findings(model_of(SUITE), settings(), [first, spoiled], STRICT, FLOOR)
        assert finding is not None
        assert (finding.step, finding.part, finding.tensor) == (2, Part.SECOND_MOMENT, name)
        assert finding.fits == ()

    def test_gradients_with_one_factor_are_said_to_have_it(self) -> None:
        """As of a loss that was divided by something else."""
        first = shown()[0]
        doubled = replace(first, gradients={name: 2.0 * value for name, value in first.gradients.items()})
        finding = training_findings(model_of(SUITE), settings(), [doubled], STRICT, FLOOR)
        assert finding is not None and finding.part is Part.GRADIENT
        assert finding.detail == "all gradients are 2 times what they should be"

    @pytest.mark.exhaustive
    def test_a_wrong_loss_is_explained_by_what_it_was_divided_by(self) -> None:
        """Beside the planted mistake that fits."""
        finding = training_findings(model_of(SUITE), settings(), shown("loss.pads-counted"), STRICT, FLOOR)
        assert finding is not None
        assert [way.name for way in finding.normalizers] == ["padding in the denominator"]
        assert "the loss fits: padding in the denominator" in diagnosis_of_training(finding).lines


@cache
def run_of(suite: str) -> ShownRun:
    """Return a short training of a suite."""
    phase = phase_of(suite)
    sizes = replace(phase.golden_sizes, steps=4, stories=30, evaluation_stories=4, prompts=1)
    return ShownRun(phase, sizes, prepare(sizes, b""))


class TestRuns:
    """Losses of whole runs, of which nothing else is known."""

    @pytest.mark.parametrize(
        ("suite", "slug"),
        [
            pytest.param(SUITE, "adamw.no-bias-correction", marks=pytest.mark.exhaustive),
            pytest.param(SUITE, "clip.per-tensor", marks=pytest.mark.exhaustive),
            pytest.param(SUITE, "loss.mean-of-means", marks=pytest.mark.exhaustive),
            pytest.param("cai.diagonal-ssm", "adamw.decays-everything", marks=pytest.mark.exhaustive),
            pytest.param("course.decoder", "adamw.coupled-decay", marks=pytest.mark.exhaustive),
        ],
    )
    def test_a_run_with_a_mistake_is_explained_at_its_first_differing_step(self, suite: str, slug: str) -> None:
        """Step 0 agrees, and is not trained for."""
        run = run_of(suite)
        expected = {step: run.losses(step) for step in (0, 4)}
        found = {0: expected[0], 4: run.losses(4, (fault_named(slug),))}
        finding = run_findings(run, expected, found, 1e-7)
        assert finding is not None
        assert (finding.step, finding.fits[0].slugs) == (4, (slug,))
        assert diagnosis_of_run(finding).lines[0].startswith("step 4: expected losses")

    def test_a_loss_that_is_counted_otherwise_shows_at_step_0(self) -> None:
        """Before anything is trained."""
        run = run_of(SUITE)
        expected = {0: run.losses(0)}
        found = {0: run.losses(0, (fault_named("loss.pads-counted"),), evaluated_rightly=False)}
        finding = run_findings(run, expected, found, 1e-7)
        assert finding is not None
        assert (finding.step, finding.fits[0].slugs) == (0, ("loss.pads-counted",))

    def test_equal_losses_say_nothing(self) -> None:
        """Within the tolerance."""
        run = run_of(SUITE)
        losses = {0: run.losses(0)}
        assert run_findings(run, losses, losses, 0.0) is None
