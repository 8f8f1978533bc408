"""Judging engines that train: loss, gradients and steps, exact or within rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np
import pytest

from cai_conformance.backends.engine.given_model import GivenModel, OpenedModel
from cai_conformance.checks import optimizer
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.optimizer import judge_gradients, judge_loss, judge_steps
from cai_conformance.checks.probe.driven import UNDRIVEN, UNTRAINED
from cai_conformance.checks.tolerance.training import TrainingPart, TrainingProbe, reference_parts
from cai_conformance.engine import EngineBroken, Feature, LossAndGradients, OptimizerState, TrainingBatch
from cai_conformance.verdicts import Outcome, Problem
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST, STRICT
from support_engines import HEADS, STAGED, SUITE, Wrapped, evidence_with, floor_of, opened_in, question


@pytest.fixture(autouse=True)
def computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the reference take its steps once for all tests; engines take theirs in each."""
    monkeypatch.setattr(optimizer, "reference_parts", lambda opened, _: reference_of(opened.given))
    monkeypatch.setattr(TrainingProbe, "of", staticmethod(probe_of))


MAKE_PROBE: Final = TrainingProbe.of


@cache
def probe_of(model: GivenModel) -> TrainingProbe:
    """Return what an engine is asked."""
    return MAKE_PROBE(model)


@cache
def reference_of(model: GivenModel) -> tuple[TrainingPart, ...]:
    """Return the parts of the reference's steps."""
    return reference_parts(OpenedModel(Wrapped(), model), probe_of(model))


POLICY: Final = "ulp:200"
"""Wide enough for the order of sums, so that no floor has to be measured."""
QUERY: Final = "model.layers.0.self_attn.q_proj.weight"


class Changed(Wrapped):
    """An engine that trains, parts of whose answers are changed.

    Args:
        part: `loss`, `gradients`, `weights`, `first_moments` or `second_moments`.
        change: of a tensor, or of the loss as an array of one number.
        step: in which step, from 1; of all if 0.
        name: of the tensor.
    """

    def __init__(self, part: str, change: Callable[[Array], Array], step: int = 0, name: str = QUERY) -> None:
        super().__init__()
        self._part, self._change, self._wrong, self._name = part, change, step, name
        self._step = 0

    def gradients(self, batch: TrainingBatch) -> LossAndGradients:
        """Those before a step."""
        found = super().gradients(batch)
        self._step += 1
        return replace(found, gradients=self._with("gradients", found.gradients))

    def train_step(self, batch: TrainingBatch) -> float:
        """Take a step."""
        loss = super().train_step(batch)
        return float(self._change(np.array([loss]))[0]) if self._here("loss") else loss

    def training_state(self) -> OptimizerState:
        """Return the state."""
        found = super().training_state()
        parts = ("weights", "first_moments", "second_moments")
        return OptimizerState(*(self._with(part, getattr(found, part)) for part in parts))

    def _here(self, part: str) -> bool:
        return part == self._part and self._wrong in (0, self._step)

    def _with(self, part: str, tensors: object) -> dict[str, Array]:
        assert isinstance(tensors, dict)
        if not self._here(part):
            return tensors
        return {**tensors, self._name: self._change(tensors[self._name])}


def evidence_about(engine: Wrapped, policy: str = POLICY, suite: str = SUITE) -> Evidence:
    """Return the evidence about an engine."""
    asked = question(suite, policy, engine.description.arithmetic, STAGED)
    return evidence_with(asked, {}, floor_of(4.0), opened_in(engine, suite))


def all_findings(evidence: Evidence) -> list[Finding]:
    """Return the findings about the loss, the gradients, and each step."""
    return [*judge_loss(evidence), *judge_gradients(evidence), *judge_steps(evidence)]


def outcomes(engine: Wrapped, policy: str = POLICY) -> str:
    """Return the outcomes, a letter each."""
    return "".join(finding.outcome.value[0] for finding in all_findings(evidence_about(engine, policy)))


def doubled(value: Array) -> Array:
    """Return twice a tensor."""
    return 2.0 * value


def broken(value: Array) -> Array:
    """Return a tensor of what is no number."""
    return np.full_like(value, np.nan)


class TestOutcomes:
    """One finding for the loss, one for the gradients, and one a step."""

    def test_the_reference_passes_within_rounding(self) -> None:
        """Its parts are asked for once by all judges."""
        evidence = evidence_about(Wrapped())
        findings = all_findings(evidence)
        assert [Outcome.PASS] * 5 == [finding.outcome for finding in findings]
        assert ["", "", "1", "2", "3"] == [finding.case for finding in findings]
        assert "1 tensor as the reference's, within its measured rounding" == findings[0].message
        assert findings[3].message.startswith("81 tensors")

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("suite", [SUITE, HEADS])
    def test_the_strict_reference_passes_in_every_bit(self, suite: str) -> None:
        """Where bits are defined; the fast one does not, if bits are asked for."""
        findings = all_findings(evidence_about(Wrapped(STRICT), "auto", suite))
        assert [Outcome.PASS] * 5 == [finding.outcome for finding in findings]
        assert "1 tensor as the reference's, in every bit" == findings[0].message
        assert Outcome.FAIL in {finding.outcome for finding in all_findings(evidence_about(Wrapped(FAST), "exact"))}

    @pytest.mark.parametrize(
        ("part", "step", "found"),
        [
            ("loss", 0, "fppff"),
            pytest.param("loss", 2, "pppfp", marks=pytest.mark.exhaustive),
            ("gradients", 1, "pfppp"),
            pytest.param("gradients", 3, "ppppf", marks=pytest.mark.exhaustive),
            pytest.param("first_moments", 2, "pppfp", marks=pytest.mark.exhaustive),
            pytest.param("second_moments", 1, "ppfpp", marks=pytest.mark.exhaustive),
            ("weights", 3, "ppppf"),
        ],
    )
    def test_each_part_of_each_step_is_judged(self, part: str, step: int, found: str) -> None:
        """The loss and the gradients of the first step by checks of their own."""
        assert found == outcomes(Changed(part, doubled, step))

    @pytest.mark.parametrize(
        ("part", "place"),
        [
            ("loss", 0),
            *(pytest.param(*each, marks=pytest.mark.exhaustive) for each in (("gradients", 1), ("weights", 2))),
        ],
    )
    def test_what_is_no_number_fails(self, part: str, place: int) -> None:
        """At its first place, in whatever part."""
        finding = all_findings(evidence_about(Changed(part, broken, 1), "ulp:1e300"))[place]
        assert Outcome.FAIL is finding.outcome
        (difference,) = finding.differences
        assert (Problem.NAN, None) == (difference.problem, difference.ulp)
        assert (None if part == "loss" else 0) == difference.index


class TestDifferences:
    """What is told about the first difference."""

    def test_the_part_and_the_tensor_are_named(self) -> None:
        """By the reference's names; with the number that is furthest off."""

        def spoiled(value: Array) -> Array:
            changed = value.copy()
            changed[1, 2] += 1.0
            changed[3, 0] += 2.0
            return changed

        finding = all_findings(evidence_about(Changed("first_moments", spoiled, 2)))[3]
        (difference,) = finding.differences
        assert "step 2, first moment of blocks.0.attention.query.weight" == difference.record
        # The reference holds it transposed.
        assert 3 == difference.index
        assert "; off by 2, rounding explains " in finding.message

    def test_the_loss_has_no_index(self) -> None:
        """It is one number."""
        (finding,) = judge_loss(evidence_about(Changed("loss", doubled, 1)))
        (difference,) = finding.differences
        assert ("step 1, loss", None) == (difference.record, difference.index)

    def test_earlier_parts_are_told_first(self) -> None:
        """A wrong moment before the weights that follow from it."""

        class Both(Changed):
            def training_state(self) -> OptimizerState:
                found = super().training_state()
                return replace(found, weights=self._with("first_moments", found.weights))

        finding = all_findings(evidence_about(Both("first_moments", doubled, 1)))[2]
        assert finding.differences[0].record.startswith("step 1, first moment of ")


class TestEngines:
    """Engines that do not train, or fail to."""

    def test_an_engine_that_does_not_train_is_skipped(self) -> None:
        """By all three."""
        engine = Wrapped(features=frozenset({Feature.DROP}))
        findings = [judge(evidence_about(engine)) for judge in (judge_loss, judge_gradients, judge_steps)]
        assert [(Outcome.SKIPPED, UNTRAINED)] * 3 == [(found.outcome, found.message) for (found,) in findings]

    def test_who_cannot_be_driven_is_skipped(self) -> None:
        """With another reason."""
        evidence = evidence_with(question(SUITE, POLICY, "float64", STAGED), {}, floor_of(1.0))
        assert [(UNDRIVEN,)] * 3 == [
            tuple(finding.message for finding in judge(evidence))
            for judge in (judge_loss, judge_gradients, judge_steps)
        ]

    def test_an_engine_that_breaks_is_asked_once(self) -> None:
        """Each judge meets the same error."""
        tries: list[int] = []

        class Breaking(Wrapped):
            def train_step(self, batch: TrainingBatch) -> float:
                tries.append(1)
                raise EngineBroken("breaking", "crashed")

        evidence = evidence_about(Breaking())
        for judge in (judge_loss, judge_gradients, judge_steps):
            with pytest.raises(EngineBroken):
                judge(evidence)
        assert len(tries) == 1
