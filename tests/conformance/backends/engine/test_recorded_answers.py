"""A recording of an engine is judged as the engine itself is: both fill one object, and only one of them by a trace."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_conformance.backends.engine.backend import EngineBackend
from cai_conformance.backends.protocol import Backend, ask, ask_cases, spell
from cai_conformance.backends.registry import resolve
from cai_conformance.checks.evidence import Question
from cai_conformance.fixtures.vectors import Answer, Answers
from cai_conformance.run.runner import SuiteRun, run_suites
from cai_conformance.run.shrink.trial import wrong_backend
from cai_conformance.suites import find_suite
from cai_conformance.trace.errors import TraceFault
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_conformance.verdicts import Outcome, Verdict
from support_decode_traces import driven
from support_engines import SUITE, Wrapped, question
from support_refusals import refuses

PLAIN: Final = Path(__file__).resolve().parents[4] / "conformance" / "examples" / "plain_python" / "engine.py"
CASES: Final = ("fwd.oracle.far", "kv.split.half", "gen.given.cached", "causal.flip.full", "smp.tie.cached")


def torch(precision: str) -> Backend:
    """Return the engine of PyTorch."""
    pytest.importorskip("torch")
    return resolve(f"torch:{precision}")


def served(*words: str) -> Backend:
    """Return a program behind the serve protocol."""
    return resolve(" ".join(["serve:" + sys.executable, *words]))


def verdicts(backend: Backend, asked: Question) -> list[Verdict]:
    """Judge by all checks that a trace can answer, too; seconds do not matter."""
    suite = find_suite(asked.request.suite)
    live = driven(suite.identifier)
    found = run_suites([SuiteRun(suite, asked)], backend, lambda check: check.split("::")[1].split("[")[0] not in live)
    return [replace(verdict, seconds=0.0) for verdict in found]


@pytest.mark.parametrize(
    ("opened", "arithmetic", "policy"),
    [
        (lambda: served("-m", "cai_conform.main", "serve", "reference"), "strict/1", "auto"),
        (lambda: wrong_backend("argmax.last-maximum"), "strict/1", "auto"),
        (lambda: torch("float64"), "float64", "exact"),
        (lambda: torch("float32"), "float32", "ulp:64"),
        (lambda: served(str(PLAIN)), "float64", "exact"),
    ],
    ids=["reference", "faulty", "torch", "float32", "plain"],
)
def test_a_recording_gives_the_report_of_its_engine(
    opened: Callable[[], Backend], arithmetic: str, policy: str, tmp_path: Path
) -> None:
    """Outcomes, messages with every bit, differences and what was met; no floor is measured under these policies."""
    asked = question(SUITE, policy, arithmetic, *CASES)
    backend = opened()
    assert isinstance(backend, EngineBackend)
    try:
        (tmp_path / "trace.txt").write_bytes(ask(backend, asked.request))
        direct = verdicts(backend, asked)
    finally:
        backend.close()
    assert direct == verdicts(resolve(f"trace:{tmp_path / 'trace.txt'}"), asked)
    assert {Outcome.PASS} < {verdict.outcome for verdict in direct}


DOUBLES: Final = st.integers(0, 2**64 - 1).map(lambda bits: float(struct.unpack(">d", struct.pack(">Q", bits))[0]))
IDS: Final = st.integers(-(2**65), 2**65)


class TestRules:
    """What text demands is demanded of the object."""

    @given(
        st.lists(DOUBLES | st.sampled_from((-0.0, 0.0, float("nan"), float("-inf"))), max_size=4),
        st.lists(IDS | st.integers(-(2**63), 2**64 - 1), max_size=3),
    )
    @settings(max_examples=50, deadline=None)
    def test_an_object_is_refused_where_its_trace_is_and_holds_the_same_bits(
        self, values: list[float], ids: list[int]
    ) -> None:
        """Zeros keep their sign and NaN its payload; a number beyond the grammar has the parser's words."""
        asked = question(SUITE, "exact", "float64", *CASES)
        names = ("fwd.oracle.far", "gen.given.cached")
        by_case = dict(zip(names, (Answer(values=tuple(values)), Answer(ids=tuple(ids))), strict=True))
        answers = Answers("float64", dict(asked.conventions.fields), by_case)
        data = spell(EngineBackend("mine", Wrapped), asked.request, answers, asked.vectors.digest)
        try:
            answers.check()
        except TraceFault as refused:
            if refused.code != "bad-value":
                raise
            with pytest.raises(TraceFault) as caught:
                parse(data, grammar_of)
            assert str(caught.value) == str(refused)
        else:
            read = Answers.of_trace(parse(data, grammar_of), asked.vectors.cases)
            assert {name: answer.to_json() for name, answer in by_case.items()} == {
                name: answer.to_json() for name, answer in read.by_case.items()
            }

    def test_nothing_answered_is_no_trace(self) -> None:
        """An engine that refuses every case has nothing that could be recorded."""
        asked = question(SUITE, "exact", "float64", *CASES)
        answers = Answers("float64", dict(asked.conventions.fields), {})
        data = spell(EngineBackend("mine", Wrapped), asked.request, answers, asked.vectors.digest)
        with refuses(TraceFault, "missing-record") as refused:
            answers.check()
        with refuses(TraceFault, "missing-record") as caught:
            parse(data, grammar_of)
        assert str(caught.value) == str(refused.value)

    def test_what_is_no_answer_is_a_crash(self) -> None:
        """A backend that answers directly is foreign code, too."""

        class Odd(EngineBackend):
            def answer_cases(self, request: object) -> Answers:
                raise SystemExit(3)

        asked = question(SUITE, "exact", "float64", *CASES)
        with pytest.raises(Exception, match="mine crashed: SystemExit: 3"):
            ask_cases(Odd("mine", Wrapped), asked.request)
