"""The reference passes every check of self-consistency, and says what it met on the way."""

from __future__ import annotations

import pytest

from cai_conformance.checks.probe.driven import UNDRIVEN, probed
from cai_conformance.suites import find_suite
from cai_conformance.suites.probe import SELF_CHECKS
from cai_conformance.verdicts import Level, Outcome
from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import FAST, STRICT
from support_engines import HEADS, NATIVE, SUITE, Wrapped, evidence_with, floor_of, question
from support_foreign_engines import DECODERS
from support_probes import check_named, under_probe

SKIPPED = {
    SUITE: {"kv.poison", "kv.fail", "ssm.split", "ssm.boundary", "ssm.snap", "mtp.self", "loss.shift"},
    NATIVE: {"kv.poison", "kv.fail", "kv.window", "mtp.self"},
    HEADS: {"kv.poison", "kv.fail", "kv.window", "ssm.split", "ssm.boundary", "ssm.snap"},
}
"""What the reference as an engine, or the model, does not have."""


def judged(suite: str, arithmetic: Arithmetic) -> dict[str, set[Outcome]]:
    """Return the outcomes of every check."""
    probe = under_probe(Wrapped(arithmetic), suite)
    return {check.name: {each.outcome for each in probed(check.judge, probe)} for check in SELF_CHECKS}


class TestReference:
    """No false alarm."""

    @pytest.mark.parametrize(
        "suite", [SUITE, *(pytest.param(suite, marks=pytest.mark.exhaustive) for suite in (HEADS, NATIVE))]
    )
    def test_all_checks_pass_or_say_what_is_lacking(self, suite: str) -> None:
        """In fast arithmetic, where calls of other shapes round otherwise."""
        found = judged(suite, FAST)
        assert SKIPPED[suite] == {name for name, outcomes in found.items() if Outcome.SKIPPED in outcomes}
        assert {Outcome.PASS, Outcome.SKIPPED} == set().union(*found.values())

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("suite", DECODERS)
    @pytest.mark.parametrize("arithmetic", [STRICT, FAST], ids=lambda each: each.identifier)
    def test_no_suite_alarms(self, suite: str, arithmetic: Arithmetic) -> None:
        """Whatever the model is made of."""
        assert set().union(*judged(suite, arithmetic).values()) <= {Outcome.PASS, Outcome.SKIPPED}


class TestSuites:
    """The checks as those of a suite."""

    def test_a_backend_that_prints_traces_is_skipped(self) -> None:
        """For no call can be made."""
        evidence = evidence_with(question(SUITE), {}, floor_of(1.0))
        for check in SELF_CHECKS:
            (finding,) = check.check().judge(evidence)
            assert (Outcome.SKIPPED, UNDRIVEN) == (finding.outcome, finding.message)

    def test_a_suite_has_the_checks_that_its_model_can_be_asked(self) -> None:
        """Recurrent layers and several heads are there or not; everything else is found when it is asked."""
        names = {suite: {check.name for check in find_suite(suite).checks} for suite in (SUITE, NATIVE, HEADS)}
        ours = {check.name for check in SELF_CHECKS}
        recurrent = {"ssm.split", "ssm.boundary", "ssm.snap"}
        assert ours - recurrent - {"mtp.self"} == names[SUITE] & ours
        assert ours - {"mtp.self"} == names[NATIVE] & ours
        assert ours - recurrent == names[HEADS] & ours

    def test_no_name_is_taken_twice(self) -> None:
        """Nor stands a prerequisite behind what requires it."""
        names = [check.name for check in SELF_CHECKS]
        assert len(set(names)) == len(names)
        for place, check in enumerate(SELF_CHECKS):
            assert not check.requires or check.requires in names[:place]
        assert {Level.I1, Level.I2, Level.I3, Level.T1, Level.T3} == {check.level for check in SELF_CHECKS}

    @pytest.mark.exhaustive
    def test_findings_name_the_cases_of_their_check(self) -> None:
        """Also where all of them are skipped for one reason."""
        probe = under_probe(Wrapped(), SUITE)
        for name in ("rope.shift", "kv.reuse", "kv.edge", "kv.window"):
            assert set(check_named(name).cases) == {each.case for each in probed(check_named(name).judge, probe)}
