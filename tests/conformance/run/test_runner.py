"""Running suites: which checks are judged, blocked, skipped and errored, in which order, and what is asked for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding
from cai_conformance.errors import BackendError, FixtureError, GoldenError
from cai_conformance.run.runner import SuiteRun, run_suites
from cai_conformance.suites import Check
from cai_conformance.verdicts import Level, Outcome, Verdict
from support_traces import (
    SUITE,
    StoredBackend,
    changed,
    conforming,
    golden_bytes,
    judged,
    question,
    question_of,
    sealed,
    with_field,
    with_outcome,
)

IDS = [check.partition("::")[2] for check in SUITE.check_ids()]
OF_EDGES = {check.name for check in SUITE.checks if check.of_edges}
WITHOUT_CONVENTION = ["trace.recount", "run.learning", "run.replay", "published.text", "published.bits"]


def base(check: str) -> str:
    """Return the name of a check without its case."""
    return check.partition("[")[0]


def run_of(*checks: Check) -> list[Verdict]:
    """Return the verdicts of a suite of these checks on a conforming backend."""
    suite = replace(SUITE, checks=checks)
    return list(run_suites([SuiteRun(suite, question())], conforming(), lambda _: True))


def check_of(
    name: str, judge: Callable[[Evidence], tuple[Finding, ...]], cases: tuple[str, ...] = (), requires: str = ""
) -> Check:
    """Return a check whose other properties do not matter."""
    return Check(name, Level.I0, "it holds", "nothing", judge, cases, (requires,) if requires else ())


def test_a_conforming_backend_passes_every_check_that_applies() -> None:
    """On the suite's own input only the published facts are skipped."""
    verdicts = judged(conforming())
    assert IDS == list(verdicts)
    assert ["published.text", "published.bits"] == with_outcome(verdicts, Outcome.SKIPPED)
    assert {Outcome.PASS, Outcome.SKIPPED} == {verdict.outcome for verdict in verdicts.values()}


@pytest.mark.parametrize("profile", ["golden", "foreign", "published", "edges"])
def test_the_verdicts_are_those_that_the_suite_lists_whatever_the_input(profile: str) -> None:
    """Ids, number and order of verdicts depend on the suite alone."""
    data = sealed(golden_bytes().replace(b"profile=golden", b"profile=" + profile.encode(), 1))
    backend = conforming(**({} if profile == "edges" else {profile: data}))
    assert IDS == list(judged(backend, question_of(profile)))


def test_a_foreign_input_skips_each_stage_by_name() -> None:
    """A judge that can say only one thing says it of every case."""
    verdicts = judged(conforming(foreign=changed("profile=golden", "profile=foreign")), question_of("foreign"))
    stages = [check for check in IDS if base(check) == "fwd.stage"]
    reason = "the input is not the suite's own, so there is no golden for it"
    assert 5 == len(stages)
    assert [(Outcome.SKIPPED, reason)] * 5 == [(verdicts[one].outcome, verdicts[one].message) for one in stages]


def test_a_trace_of_vector_cases_is_judged_by_what_concerns_it() -> None:
    """With the profile `edges`, checks of the training run are skipped with the reason."""
    verdicts = judged(conforming(), question_of("edges"))
    passed = with_outcome(verdicts, Outcome.PASS)
    assert [check for check in IDS if base(check) in OF_EDGES] == passed
    messages = {verdict.message for verdict in verdicts.values() if verdict.outcome is not Outcome.PASS}
    assert {"a trace of vector cases has nothing for this check"} == messages


def test_a_broken_trace_fails_once_and_blocks_the_rest() -> None:
    """One mistake is reported once: what depends on the grammar is blocked."""
    verdicts = judged(conforming(golden=golden_bytes()[:5000]))
    assert ["trace.format"] == with_outcome(verdicts, Outcome.FAIL)
    assert IDS[1:] == with_outcome(verdicts, Outcome.BLOCKED)
    assert "trace.format did not pass, so there is nothing sound to judge" == verdicts["run.replay"].message


def test_another_convention_blocks_every_comparison_of_numbers() -> None:
    """A mismatch of conventions is said first; the trace is still held against itself."""
    data = with_field("CONVENTION", "argmax", "highest id")
    verdicts = judged(conforming(golden=data, second=data))
    assert ["trace.convention"] == with_outcome(verdicts, Outcome.FAIL)
    assert ["trace.format", *WITHOUT_CONVENTION[:3]] == with_outcome(verdicts, Outcome.PASS)
    rest = [check for check in IDS[2:] if check not in WITHOUT_CONVENTION]
    assert rest == with_outcome(verdicts, Outcome.BLOCKED)


def test_what_is_blocked_blocks_what_depends_on_it() -> None:
    """A difference in the sizes blocks stages, losses and bits, and nothing of the vector cases."""
    verdicts = judged(conforming(golden=with_field("CONFIG", "lr", "0.020000")))
    blocked = {base(check) for check in with_outcome(verdicts, Outcome.BLOCKED)}
    assert {"fwd.stage", "run.golden", "run.bits"} == blocked


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (ValueError("no such\nlayer"), "stored crashed: ValueError: no such layer"),
        (ValueError(), "stored crashed: ValueError"),
        (SystemExit(0), "stored crashed: SystemExit: 0"),
        (RecursionError("too deep"), "stored crashed: RecursionError: too deep"),
        (
            BackendError("backend-crashed", backend="stored", problem="the process died"),
            "stored crashed: the process died",
        ),
        (FixtureError("Model", "no rows"), "Model: no rows"),
        (
            GoldenError("golden-missing", suite="a", root="b"),
            "stored crashed: GoldenError: There is no golden for suite a in b.",
        ),
    ],
)
def test_whatever_a_backend_raises_is_its_crash(raised: BaseException, message: str) -> None:
    """An exception makes the first check errored and blocks the rest; it never ends the program."""
    verdicts = judged(conforming(golden=raised))
    assert ["trace.format"] == with_outcome(verdicts, Outcome.ERRORED)
    assert message == verdicts["trace.format"].message
    assert IDS[1:] == with_outcome(verdicts, Outcome.BLOCKED)


@pytest.mark.parametrize("answer", [None, "TRACE|", bytearray(b"TRACE|"), 7])
def test_an_answer_that_is_not_bytes_breaks_the_protocol(answer: object) -> None:
    """Whatever else a backend returns makes the check errored, with the type named."""
    verdicts = judged(conforming(golden=answer))  # type: ignore[arg-type]  # that is what is tested
    expected = f"stored crashed: its answer is of the type {type(answer).__name__}, not bytes"
    assert (Outcome.ERRORED, expected) == (verdicts["trace.format"].outcome, verdicts["trace.format"].message)


def test_an_interrupt_by_the_user_is_not_a_crash() -> None:
    """Ctrl-C ends the run."""
    with pytest.raises(KeyboardInterrupt):
        judged(conforming(golden=KeyboardInterrupt()))


def test_a_backend_that_offers_no_vector_cases_is_not_blamed() -> None:
    """Cases that are not offered are skipped with the reason, all else is judged."""
    backend = conforming()
    verdicts = judged(StoredBackend({"golden": golden_bytes()}, backend.second))
    assert "stored does not offer profile edges: it is not stored" == verdicts["tok.fit[tie]"].message
    vectors = {name for name in OF_EDGES if not name.startswith("trace.")}
    skipped = {base(check) for check in with_outcome(verdicts, Outcome.SKIPPED)}
    assert vectors | {"published.text", "published.bits"} == skipped
    assert [] == with_outcome(verdicts, Outcome.FAIL)


def test_a_backend_that_crashes_on_vector_cases_is_errored_there() -> None:
    """The crash is told for each case of each check that needs the answer."""
    verdicts = judged(conforming(edges=OSError("gone")))
    expected = [check for check in IDS if base(check) in OF_EDGES and not check.startswith("trace.")]
    assert expected == with_outcome(verdicts, Outcome.ERRORED)


def test_a_broken_trace_of_vector_cases_fails_where_it_is_needed() -> None:
    """The second trace has its own grammar, whose faults fail the checks that look at it."""
    verdicts = judged(conforming(edges=b"nonsense\n"))
    assert Outcome.FAIL is verdicts["tok.fit[tie]"].outcome
    assert "line 1: the first record of a trace is TRACE" == verdicts["tok.fit[tie]"].message


def test_a_second_run_that_differs_fails_the_replay_alone() -> None:
    """Nondeterminism is one failure, with the line that changed."""
    verdicts = judged(conforming(second=changed("train=5.58", "train=5.57")))
    assert ["run.replay"] == with_outcome(verdicts, Outcome.FAIL)
    assert verdicts["run.replay"].message.startswith("line 10 changed from LOSS|step=0|train=5.58")


def test_a_prerequisite_is_judged_although_it_is_not_reported() -> None:
    """Selecting one check reports one check, blocked if what it needs fails."""
    runs = [SuiteRun(SUITE, question())]
    backend = conforming(golden=golden_bytes()[:5000])
    verdicts = list(run_suites(runs, backend, lambda check: check.endswith("tok.fit[tie]")))
    assert [("course.ngram::tok.fit[tie]", Outcome.BLOCKED)] == [(one.check, one.outcome) for one in verdicts]


def test_nothing_is_asked_that_no_selected_check_needs() -> None:
    """Without the replay, and without vector cases, neither is asked for; the main trace is asked for once."""
    backend = conforming()
    list(run_suites([SuiteRun(SUITE, question())], backend, lambda check: "golden" in check and "run" in check))
    assert ["golden"] == backend.asked


def test_each_answer_is_asked_for_once() -> None:
    """Many checks look at one answer."""
    backend = conforming()
    judged(backend)
    assert ["golden", "edges", "replay"] == backend.asked


def test_a_run_with_two_jobs_gives_the_verdicts_of_one() -> None:
    """Replays beside the first run change nothing but time."""
    for backend in (conforming(), conforming(second=golden_bytes()[:-9]), conforming(second=SystemExit(3))):
        alone, beside = judged(backend), judged(backend, jobs=2)
        assert [(one.check, one.outcome, one.message) for one in alone.values()] == [
            (one.check, one.outcome, one.message) for one in beside.values()
        ]


def test_a_run_that_is_given_up_leaves_no_worker() -> None:
    """Closing the iterator stops the executor."""
    verdicts = run_suites([SuiteRun(SUITE, question())], conforming(), lambda _: True, jobs=2)
    assert "course.ngram::trace.format" == next(iter(verdicts)).check
    verdicts.close()  # type: ignore[attr-defined]  # an iterator to its users, a generator here


def test_each_verdict_takes_its_level_from_its_check() -> None:
    """Levels, and time that is not negative."""
    for verdict in judged(conforming()).values():
        name = base(verdict.check.partition("::")[2])
        assert SUITE.check(name).level is verdict.level
        assert verdict.seconds >= 0.0


def test_one_finding_speaks_for_all_cases() -> None:
    """A judge without anything to say about single cases is quoted for each."""
    verdicts = run_of(check_of("a", lambda _: (Finding.failed("no"),), ("x", "y")))
    assert [("course.ngram::a[x]", "no"), ("course.ngram::a[y]", "no")] == [
        (one.check, one.message) for one in verdicts
    ]


def test_a_case_without_finding_is_an_error_of_the_harness() -> None:
    """A listed case never vanishes; findings come in the order of the list, and unlisted ones after them."""
    found = (Finding.passed("extra", case="z"), Finding.passed("yes", case="y"))
    verdicts = run_of(check_of("a", lambda _: found, ("x", "y")))
    assert [
        ("course.ngram::a[x]", Outcome.ERRORED),
        ("course.ngram::a[y]", Outcome.PASS),
        ("course.ngram::a[z]", Outcome.PASS),
    ] == [(one.check, one.outcome) for one in verdicts]


def test_a_skipped_prerequisite_does_not_block() -> None:
    """What does not apply says nothing against what depends on it."""
    first = check_of("a", lambda _: (Finding.skipped("not here"),))
    second = check_of("b", lambda _: (Finding.passed("fine"),), requires="a")
    assert [Outcome.SKIPPED, Outcome.PASS] == [verdict.outcome for verdict in run_of(first, second)]


def test_one_failed_case_blocks_what_requires_the_check() -> None:
    """A prerequisite with cases must not fail in any of them."""
    found = (Finding.passed("fine", case="x"), Finding.failed("no", case="y"))
    first = check_of("a", lambda _: found, ("x", "y"))
    second = check_of("b", lambda _: (Finding.passed("fine"),), ("z",), requires="a")
    assert [Outcome.PASS, Outcome.FAIL, Outcome.BLOCKED] == [verdict.outcome for verdict in run_of(first, second)]
