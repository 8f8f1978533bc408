"""Stages of a full pass: the one that is wrong by itself is told from those that inherit its difference."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from cai_conformance.diagnosis.diagnosis import diagnosis_of_stages
from cai_conformance.diagnosis.stages import Origin, reference_pass, stage_findings
from cai_conformance.faults import planted_together
from cai_conformance.faults.catalogue import fault_named
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.autograd import Tape, Variable
from cai_reference.models.stack import DecoderStack
from support_fault_workloads import IDS, forward, model_of

SUITES: Final = (
    "llama.gqa-window",
    "cai.hybrid",
    "cai.parallel-block",
    "cai.multi-token",
    "cai.latent-attention",
    "cai.grouped-hybrid",
    "llama.dense",
    "course.decoder",
    "cai.kv-cache",
)
SAMPLE: Final = SUITES[:1]


def spoiled(model: DecoderStack, stage: str) -> dict[str, Array]:
    """Return the stages of a backend that adds a little to one of them, unevenly, and goes on with that."""
    kept: dict[str, Array] = {}

    def observe(name: str, value: Variable) -> None:
        if name == stage:
            value.value = value.value + np.linspace(0.0625, 0.125, value.value.size).reshape(value.shape)
        kept[name] = value.value[0]

    model.forward(Tape(FAST, recording=False), list(IDS), 1, 0, observe)
    return kept


def rounded(model: DecoderStack, kind: type[np.floating]) -> dict[str, Array]:
    """Return the stages of a backend that rounds every one of them to a narrow format."""
    kept: dict[str, Array] = {}

    def observe(name: str, value: Variable) -> None:
        value.value = value.value.astype(kind).astype(np.float64)
        kept[name] = value.value[0]

    model.forward(Tape(FAST, recording=False), list(IDS), 1, 0, observe)
    return kept


@pytest.mark.parametrize(
    "suite", [pytest.param(suite, marks=() if suite in SAMPLE else pytest.mark.exhaustive) for suite in SUITES]
)
class TestEveryStage:
    """Whatever stage is spoiled, it and no other is said to be wrong."""

    def test_the_spoiled_stage_alone_is_added_here(self, suite: str) -> None:
        """Earlier ones are equal, later ones inherit: every later stage reads what was put in the place of this one."""
        model = model_of(suite)
        names = list(forward(model))
        for place, stage in enumerate(names):
            findings = stage_findings(model, IDS, 0, spoiled(model, stage), FAST, 1e-9)
            origins = [finding.origin for finding in findings.stages]
            assert origins[:place] == [Origin.EQUAL] * place, stage
            assert origins[place] is Origin.ADDED, stage
            assert Origin.ADDED not in origins[place + 1 :], stage
            assert findings.first_added is not None and findings.first_added.local is not None
            assert findings.first_added.local.largest == pytest.approx(0.125)
            if place < len(names) - 4 and not stage.startswith("logits"):
                assert origins[place + 1 :].count(Origin.INHERITED) >= 3, stage

    def test_a_right_backend_is_equal_everywhere(self, suite: str) -> None:
        """In another arithmetic, within the floor."""
        model = model_of(suite)
        findings = stage_findings(model, IDS, 3, forward(model, start=3, arithmetic=FAST), STRICT, 1e-11)
        assert {finding.origin for finding in findings.stages} == {Origin.EQUAL}
        assert str(findings) == f"all {len(findings.stages)} stages agree"


class TestWhatIsShown:
    """A backend shows what it likes, in its own format."""

    def test_a_stage_that_was_not_shown_is_skipped(self) -> None:
        """Its mistake is found in the next one that was."""
        model = model_of("llama.gqa-window")
        shown = {name: value for name, value in spoiled(model, "blocks.0.mixed").items() if name.endswith("output")}
        findings = stage_findings(model, IDS, 0, shown, FAST, 1e-9)
        assert findings.first_added is not None and findings.first_added.stage == "blocks.0.output"
        assert [finding.origin for finding in findings.stages] == [Origin.ADDED, Origin.INHERITED]
        assert "logits.0" in findings.missing

    def test_a_batch_axis_in_front_is_left_out(self) -> None:
        """A length of 1 there changes nothing."""
        model = model_of("llama.gqa-window")
        shown = {name: value[None] for name, value in forward(model).items()}
        assert {finding.origin for finding in stage_findings(model, IDS, 0, shown, FAST, 1e-9).stages} == {Origin.EQUAL}

    def test_another_shape_is_said_and_not_compared(self) -> None:
        """As of keys that were repeated for every query head; what comes behind is judged by itself."""
        model = model_of("llama.gqa-window")
        shown = forward(model)
        shown["blocks.0.mixer.key"] = np.repeat(shown["blocks.0.mixer.key"], 2, axis=0)
        findings = stage_findings(model, IDS, 0, shown, FAST, 1e-9)
        assert str(findings.first_added) == (
            "blocks.0.mixer.key: added here, expected shape [2, 16, 8], found [4, 16, 8]"
        )
        assert [finding.origin for finding in findings.stages].count(Origin.ADDED) == 1

    def test_names_that_nobody_knows_are_told(self) -> None:
        """And not judged."""
        findings = stage_findings(model_of("llama.dense"), IDS, 0, {"lm_head": np.zeros(3)}, FAST, 1e-9)
        assert (findings.unknown, findings.stages, str(findings)) == (("lm_head",), (), "no stage was shown")

    def test_the_first_stage_without_a_number_is_to_blame(self) -> None:
        """The ones behind it inherit it, although nothing can be computed from it."""
        model = model_of("llama.dense")
        shown = forward(model)
        names = list(shown)
        for name in names[7:]:
            shown[name] = np.full(shown[name].shape, np.nan)
        findings = stage_findings(model, IDS, 0, shown, FAST, 1e-9)
        assert findings.first_added is not None and findings.first_added.stage == names[7]
        assert {finding.origin for finding in findings.stages[8:]} == {Origin.INHERITED}

    @pytest.mark.parametrize(
        ("kind", "precision", "floor"), [(np.float32, "float32", 1e-6), (np.float16, "float16", 5e-3)]
    )
    def test_rounding_of_a_narrow_format_is_within_its_floor(
        self, kind: type[np.floating], precision: str, floor: float
    ) -> None:
        """And a mistake is still found where it is."""
        model = model_of("llama.gqa-window")
        right = stage_findings(model, IDS, 0, rounded(model, kind), FAST, floor, precision)
        assert right.first_added is None
        with planted_together((fault_named("attention.groups-strided"),)):
            shown = rounded(model, kind)
        wrong = stage_findings(model, IDS, 0, shown, FAST, floor, precision)
        assert wrong.first_added is not None and wrong.first_added.stage == "blocks.0.mixer.weights"
        assert wrong.first_added.local is not None and wrong.first_added.local.precision == precision

    def test_what_was_shown_is_left_as_it_is(self) -> None:
        """Nothing is written to a backend's arrays or to the model."""
        model = model_of("cai.hybrid")
        shown = spoiled(model, "blocks.0.norm1")
        before = {name: value.copy() for name, value in shown.items()}
        stage_findings(model, IDS, 0, shown, FAST, 1e-9)
        assert all(np.array_equal(before[name], value) for name, value in shown.items())
        assert list(reference_pass(model, IDS, 0, FAST)) == list(shown)


def test_a_diagnosis_of_stages_has_lines_and_fields() -> None:
    """What a report prints, and what a program reads."""
    model = model_of("llama.dense")
    findings = stage_findings(model, IDS, 0, spoiled(model, "blocks.1.norm1"), FAST, 1e-9)
    diagnosis = diagnosis_of_stages(findings, (), "case last")
    assert diagnosis and len(diagnosis.lines) == 2
    assert diagnosis.lines[0] == "case last"
    assert diagnosis.lines[1].startswith("first stage that goes wrong after 11 of 11 that agree: blocks.1.norm1: added")
    assert (diagnosis.stage, diagnosis.index, diagnosis.origin) == ("blocks.1.norm1", (0, 0), "added")
    assert diagnosis.found == pytest.approx((diagnosis.expected or 0.0) + 0.0625)
    assert not diagnosis_of_stages(None)
