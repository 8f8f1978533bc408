"""Evidence is asked for once: what failed once fails alike for every judge, without asking again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cai_conformance.backends.engine.backend import EngineBackend
from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.checks.evidence import Evidence
from cai_conformance.engine import EngineBroken, Evaluated, Loaded, Piece, Refused
from cai_conformance.errors import BackendError
from cai_conformance.run.runner import Judging, SuiteRun
from cai_conformance.suites import find_suite
from cai_conformance.verdicts import Outcome, Verdict
from support_decode_traces import question_about
from support_engines import HEADS, STAGED, SUITE, Wrapped, question
from support_refusals import refuses


class Failing:
    """A backend that fails, and counts how often it was asked."""

    name = "failing"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def trace(self, request: TraceRequest) -> bytes:
        """Fail."""
        self.asked.append(request.profile)
        raise OSError("no such program")

    def replay(self, request: TraceRequest) -> bytes:
        """Fail again."""
        return self.trace(request)


class TestFailures:
    """Of a backend, of an engine, and of what is measured."""

    def test_a_backend_that_fails_is_asked_once_a_question(self) -> None:
        """For the main trace, the edges and the second run."""
        backend = Failing()
        asked = question()
        evidence = Evidence(backend, replace(asked, request=replace(asked.request, profile="golden")))
        errors: list[BackendError] = []
        for look in ("main_bytes", "answers", "replay") * 2:
            with refuses(BackendError, "backend-crashed") as caught:
                getattr(evidence, look)
            errors.append(caught.value)
        assert ["golden", "edges", "golden"] == backend.asked
        assert errors[0] is errors[3]

    def test_an_engine_that_breaks_is_measured_once(self) -> None:
        """A floor takes many loads."""

        class Breaking(Wrapped):
            def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
                raise EngineBroken("breaking", "hung")

        engine = Breaking()
        evidence = Evidence(EngineBackend("breaking", lambda: engine), question(SUITE, "auto", "float64", STAGED))
        for _ in range(3):
            with pytest.raises(EngineBroken):
                _ = evidence.floor
        assert engine.loads == 1
        assert evidence.floor_used is None

    def test_what_judges_share_is_computed_once(self) -> None:
        """A value, or an error of a backend; another error is a mistake here, and met again."""
        evidence = Evidence(Failing(), question())
        values: Iterator[int] = iter((1, 2))
        assert [1, 1] == [evidence.remembered("one", lambda: next(values)) for _ in range(2)]

        def refused() -> int:
            raise NotOffered("failing", str(next(values)), "no")

        texts: list[str] = []
        for _ in range(2):
            with pytest.raises(NotOffered) as caught:
                evidence.remembered("other", refused)
            texts.append(caught.value.what)
        assert ["2", "2"] == texts


def verdicts(engine: Wrapped, *checks: str, suite: str = SUITE) -> dict[str, Verdict]:
    """Judge an engine by some checks, with what they require."""
    wanted = {f"{suite}::{check}" for check in checks}
    judging = Judging(
        [SuiteRun(find_suite(suite), question(suite, "auto", "float64", STAGED))],
        EngineBackend("mine", lambda: engine),
        lambda check: check.partition("[")[0] in wanted,
    )
    return {verdict.check.partition("::")[2]: verdict for verdict in judging}


class TestRunning:
    """How the runner takes what engines say."""

    def test_what_an_engine_refuses_is_skipped(self) -> None:
        """A folder that it cannot load leaves nothing to judge; nothing failed."""

        class Narrow(Wrapped):
            def load(self, folder: Path, precision: str | None = None) -> Loaded:
                self.loads += 1
                raise Refused("narrow", "the folder", "it loads no windows")

        engine = Narrow()
        found = verdicts(engine, "trace.format", "kv.batch", "loss.given")
        assert {Outcome.SKIPPED} == {verdict.outcome for verdict in found.values()}
        assert {"narrow refuses the folder: it loads no windows"} == {verdict.message for verdict in found.values()}

    def test_an_engine_that_breaks_is_errored_and_blocks(self) -> None:
        """What depends on it says so."""

        class Breaking(Wrapped):
            def load(self, folder: Path, precision: str | None = None) -> Loaded:
                raise EngineBroken("breaking", "ended with exit code 3")

        found = verdicts(Breaking(), "trace.format", "kv.batch")
        assert [Outcome.ERRORED, Outcome.BLOCKED, Outcome.BLOCKED] == [each.outcome for each in found.values()]

    def test_a_suite_of_which_nothing_is_selected_is_not_asked_about(self) -> None:
        """Its run may take minutes."""
        backend = Failing()
        runs = [SuiteRun(find_suite(suite), question(suite, "auto", "float64", STAGED)) for suite in (SUITE, HEADS)]
        judging = Judging(runs, backend, lambda check: check == f"{HEADS}::trace.format")
        assert [Outcome.ERRORED] == [verdict.outcome for verdict in judging]
        assert ["edges"] == backend.asked

    def test_a_run_that_is_not_offered_leaves_the_given_weights(self) -> None:
        """The reason stands beside what is skipped."""
        asked = question(SUITE, "auto", "float64", STAGED)
        golden = replace(asked.request, profile="golden")
        whole = replace(asked, request=golden, golden=question_about(SUITE).golden)
        vars(whole)["given"] = asked.given
        wanted = ("trace.format", "trace.convention", "kv.inc[cached]")
        judging = Judging(
            [SuiteRun(find_suite(SUITE), whole)],
            EngineBackend("mine", Wrapped),
            lambda check: check in {f"{SUITE}::{name}" for name in wanted},
        )
        found = {verdict.check.partition("::")[2]: verdict for verdict in judging}
        assert [Outcome.PASS, Outcome.PASS, Outcome.SKIPPED] == [found[name].outcome for name in wanted]
        assert "mine does not offer the profile golden: it is given weights, and makes no run" == (
            found["kv.inc[cached]"].message
        )
