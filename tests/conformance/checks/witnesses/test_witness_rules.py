"""Witnesses as rules: what a pass that met too little becomes, who is asked for what, and where it is told."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding, witnessed
from cai_conformance.checks.witness import Met, Witness
from cai_conformance.report.jsonlines import render_jsonlines
from cai_conformance.report.terminal import render_table
from cai_conformance.run.probe.runner import probed_verdicts
from cai_conformance.run.runner import SuiteRun, run_suites
from cai_conformance.suites import SUITES, Check, Suite
from cai_conformance.suites.probe import SELF_CHECKS
from cai_conformance.verdicts import Level, Outcome, Verdict
from support_cli import invoke
from support_engines import Wrapped
from support_probes import under_probe
from support_reports import PASS, report
from support_traces import SUITE, conforming, question_of

TIES = Witness("tie", "ties")
PROMPTS = Witness("prompt", "prompts", least=3)


def judged(*met: Met, profile: str = "golden", of_edges: bool = False, cases: tuple[str, ...] = ()) -> list[Verdict]:
    """Return what becomes of a pass that met something, in a check that needs ties and three prompts."""

    def judge(_: Evidence) -> tuple[Finding, ...]:
        return (Finding.passed("all equal", met=met),)

    check = Check(
        "a", Level.I0, "it holds", "Nothing.", judge, cases, of_edges=of_edges, witnesses=(TIES, PROMPTS.of("x", ""))
    )
    suite = replace(SUITE, checks=(check,))
    return list(run_suites([SuiteRun(suite, question_of(profile))], conforming(), lambda _: True))


class TestAPass:
    """What becomes of it."""

    def test_one_that_met_enough_stays_and_tells_its_counts(self) -> None:
        """Counts of other things are left out."""
        (verdict,) = judged(TIES.met(1), PROMPTS.met(3), Witness("pass", "passes").met(9))
        assert (Outcome.PASS, "all equal") == (verdict.outcome, verdict.message)
        assert (("ties", 1), ("prompts", 3)) == verdict.met

    @pytest.mark.parametrize(
        ("met", "missing"),
        [
            ([TIES.met(0), PROMPTS.met(3)], "no ties"),
            ([TIES.met(1), PROMPTS.met(2)], "only 2 of at least 3 prompts"),
            ([TIES.met(1)], "no prompts"),
            ([], "no ties, no prompts"),
            ([TIES.met(1, needed=False), PROMPTS.met(0, needed=False)], "no prompts"),
        ],
        ids=["none", "too-few", "not-counted", "nothing-counted", "not-to-be-waived"],
    )
    def test_one_that_met_too_little_fails(self, met: list[Met], missing: str) -> None:
        """What a judge did not count was not met; only a judge of what not everybody has may waive it."""
        (verdict,) = judged(*met)
        assert Outcome.FAIL is verdict.outcome
        assert f"this shows nothing, for it met {missing}; all equal" == verdict.message

    def test_on_an_input_of_the_user_s_it_is_skipped(self) -> None:
        """Nobody promises that it has ties; but vector cases are the suite's own in every profile."""
        (verdict,) = judged(TIES.met(0), PROMPTS.met(3), profile="foreign")
        assert (Outcome.SKIPPED, "this shows nothing, for it met no ties; all equal") == (
            verdict.outcome,
            verdict.message,
        )
        assert Outcome.FAIL is judged(TIES.met(0), profile="foreign", of_edges=True)[0].outcome

    def test_each_case_needs_its_own(self) -> None:
        """Prompts are needed in one of two cases."""
        verdicts = judged(TIES.met(1), cases=("x", "y"))
        assert [Outcome.FAIL, Outcome.PASS] == [verdict.outcome for verdict in verdicts]

    def test_what_not_everybody_has_may_be_waived(self) -> None:
        """By the judge, or by not counting it; where it is needed it has to be met."""
        windows = replace(TIES, where="if a layer has a window")
        found = Finding.passed("all equal")
        assert Outcome.PASS is witnessed(found, [windows]).outcome
        assert Outcome.PASS is witnessed(found.having_met(windows.met(0, needed=False)), [windows]).outcome
        assert Outcome.FAIL is witnessed(found.having_met(windows.met(0)), [windows]).outcome

    @pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.PASS])
    def test_any_other_outcome_stays(self, outcome: Outcome) -> None:
        """A failure has its own message, and a near tie says what it is worth."""
        finding = Finding(outcome, "as it is")
        assert finding is witnessed(finding, [TIES])

    def test_a_probe_that_counted_nothing_fails(self) -> None:
        """Also of a model of anybody's."""
        shift = next(check for check in SELF_CHECKS if check.name == "loss.shift")
        blind = replace(shift, judge=lambda _: (Finding.passed("all equal"),))
        (verdict,) = probed_verdicts(under_probe(Wrapped()), lambda _: True, [blind])
        assert (Outcome.FAIL, "this shows nothing, for it met no shifted biases, no targets; all equal") == (
            verdict.outcome,
            verdict.message,
        )


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.identifier)
class TestEverySuite:
    """What its checks state."""

    def test_every_case_of_every_check_states_what_it_must_have_met(self, suite: Suite) -> None:
        """Something that is needed of everybody, at least once."""
        for check in suite.checks:
            for case in check.cases or ("",):
                needed = [each for each in check.witnesses if each.needed_in(case) and each.least and not each.where]
                assert needed, f"{check.name}[{case}]"

    def test_every_witness_is_of_use(self, suite: Suite) -> None:
        """It names cases of its check, stands there once, and is needed at least once."""
        for check in suite.checks:
            names = [each.many for each in check.witnesses]
            assert len(set(names)) == len(names), check.name
            for witness in check.witnesses:
                assert witness.least > 0, (check.name, witness.many)
                assert set(witness.cases) | set(witness.excepted) <= set(check.cases) | {*ALL_CASES[check.name]}
                assert not check.cases or any(map(witness.needed_in, check.cases)), (check.name, witness.many)


ALL_CASES = {
    check.name: {case for suite in SUITES for other in suite.checks if other.name == check.name for case in other.cases}
    for suite in SUITES
    for check in suite.checks
}
"""The cases of a check in any suite, for suites share what they state."""


class TestWhereItIsTold:
    """`explain`, and reports."""

    def test_explain_lists_what_must_be_met(self) -> None:
        """With the cases that need it, unless all do."""
        shown = invoke("explain", "kv-cache::run.witness").out
        assert "must have met, or a pass is none:\n  at least 3 prompts [variety]\n" in shown
        assert "  at least 5 offsets of a stop [stops]\n" in shown
        shown = invoke("explain", "kv-cache::spec.eq").out
        assert "  at least 1 rejection inside a block\n" in shown

    def test_explain_of_a_case_leaves_out_the_others(self) -> None:
        """And does not repeat its name."""
        shown = invoke("explain", "ngram::tok.fit[tie]").out
        assert "  at least 1 tie\n" in shown
        assert "overlapping occurrence" not in shown

    def test_explain_says_of_whom_it_is_asked(self) -> None:
        """A window can only be left where there is one."""
        shown = " ".join(invoke("explain", "gqa-window::kv.steps").out.split())
        assert "at least 1 row beyond the window, if a window is shorter than the sequence" in shown

    def test_reports_tell_the_counts(self) -> None:
        """As numbers for programs, in words for people who ask for more."""
        told = report(replace(PASS, met=(("learned merges", 3), ("ties", 2))))
        line = next(line for line in map(json.loads, render_jsonlines(told)) if line["type"] == "verdict")
        assert {"learned merges": 3, "ties": 2} == line["met"]
        for verbose in (0, 1):
            stream = io.StringIO()
            render_table(told, Console(file=stream, width=200), verbose)
            assert bool(verbose) is ("24 merges agree (met learned merges: 3, ties: 2)" in stream.getvalue())


def test_the_page_lists_what_each_check_states() -> None:
    """Of all suites, in their order; in brackets the cases that need it, if not all do."""
    rows: dict[str, dict[str, dict[str, None]]] = {}
    for suite in SUITES:
        for check in suite.checks:
            row = rows.setdefault(check.name, {})
            for each in check.witnesses:
                text = str(replace(each, where="")).removeprefix("at least ") + (
                    f" ({each.where})" if each.where else ""
                )
                cases = [case for case in check.cases if each.needed_in(case)]
                row.setdefault(text, {}).update(dict.fromkeys(cases if cases != list(check.cases) else ()))
    lines = ["| check | at least |", "|---|---|"]
    for name, row in rows.items():
        cells = [text + (f" [{', '.join(cases)}]" if cases else "") for text, cases in row.items()]
        lines.append(f"| `{name}` | {', '.join(cells)} |")
    assert "\n".join(lines) == "| check |" + PAGE.read_text("utf-8").partition("\n| check |")[2].rstrip("\n")


PAGE = Path(__file__).resolve().parents[4] / "conformance" / "docs" / "witnesses.md"
