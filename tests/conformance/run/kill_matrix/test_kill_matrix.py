"""The shipped kill matrix: every fault of the catalogue is in it, and it says what judging says."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.faults import FAULTS, Fault, HeldFault, Way, Workload, fault_named
from cai_conformance.faults.errors import FaultError
from cai_conformance.faults.planted import WrongBackend
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.kill_matrix.file import document_of, read_matrix
from cai_conformance.run.kill_matrix.observation import Observation, check_names, observe
from cai_conformance.run.kill_matrix.results import IDLE, SOUND, FaultResult, KillMatrix
from cai_conformance.run.kill_matrix.workers import run_faults
from cai_conformance.run.questions import Options, question_for
from cai_conformance.suites import find_suite
from cai_reference.decoding import greedy
from support_refusals import refuses

KNOWN: Final = read_matrix()

SAMPLE: Final = (
    "argmax.last-maximum",
    "data.last-window-dropped",
    "evaluation.mean-of-batches",
    "init.interpolated",
    "loss.no-maximum",
    "sampler.nan-is-zero",
    "sampler.top-k-keeps-ties",
    "speculation.residual-of-target",
    "ssm.state-kept",
    "tokenizer.from-the-left",
    "trace.nan-as-zero",
    "trace.record-lost",
)
"""Faults that are judged always, in their vehicles that cost little; all of them with `--exhaustive`."""


def quick_workloads(fault: Fault) -> list[Workload]:
    """Return the vehicles that are judged always: those that cost little, or all if none does."""
    return [workload for workload in fault.workloads if workload.way is Way.EXACT] or list(fault.workloads)


class TestTheFile:
    """It is the catalogue's, and nothing in it is a problem."""

    def test_it_holds_every_fault_in_the_order_of_the_catalogue(self) -> None:
        """With its vehicles."""
        assert list(KNOWN) == [fault.slug for fault in FAULTS]
        for fault in FAULTS:
            assert list(KNOWN[fault.slug].failed) == [str(workload) for workload in fault.workloads], fault.slug

    def test_there_are_enough_faults(self) -> None:
        """And few of them change nothing."""
        assert len(FAULTS) >= 290
        assert sum(bool(fault.equivalent or fault.unseen) for fault in FAULTS) <= 12

    def test_every_fault_is_killed_by_an_expected_check_or_changes_nothing(self) -> None:
        """Recounted from what failed."""
        for fault in FAULTS:
            known = KNOWN[fault.slug]
            seen = {name for names in known.failed.values() for name in names}
            assert set(known.killed_by) == seen & set(fault.expected), fault.slug
            assert set(known.also_seen_by) == seen - set(fault.expected), fault.slug
            assert bool(known.killed_by) != bool(fault.equivalent or fault.unseen), fault.slug
            assert known.standing in {standing.value for standing in SOUND}, fault.slug
            assert bool(fault.equivalent or fault.unseen) or all(known.failed.values()), fault.slug

    def test_checks_are_those_of_the_vehicle(self) -> None:
        """Every name is known, and sorted."""
        for fault in FAULTS:
            for workload in fault.workloads:
                names = KNOWN[fault.slug].failed[str(workload)]
                known = {check.name for check in find_suite(workload.suite).checks}
                assert set(names) <= known and list(names) == sorted(names), fault.slug


class TestIdleChecks:
    """A check that kills nothing says why it stays."""

    def test_exactly_those_that_kill_nothing_are_listed(self) -> None:
        """By what failed in the shipped matrix."""
        seen = {name for known in KNOWN.values() for names in known.failed.values() for name in names}
        assert set(IDLE) == set(check_names()) - seen

    def test_each_has_a_reason(self) -> None:
        """In words, without a stop."""
        assert all(reason and not reason.endswith(".") for reason in IDLE.values())


class TestEachFault:
    """What is shipped is what is seen."""

    @pytest.mark.parametrize("slug", SAMPLE)
    def test_an_expected_check_kills_it(self, slug: str) -> None:
        """In each vehicle that costs little, if the matrix says so, and without a crash that hides it."""
        fault = fault_named(slug)
        for workload in quick_workloads(fault):
            killers = set(KNOWN[slug].failed[str(workload)]) & set(fault.expected)
            assert not killers or killers & set(observe(slug, workload).failed), str(workload)

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("slug", [fault.slug for fault in FAULTS])
    def test_the_same_checks_fail(self, slug: str) -> None:
        """All of them, in every vehicle: whoever changes what a check sees writes the matrix anew."""
        for workload in fault_named(slug).workloads:
            failed = observe(slug, workload).failed
            if fault_named(slug).library and not failed:
                pytest.skip("the library of this machine computes the bits of strict/1 here")
            assert failed == KNOWN[slug].failed[str(workload)], str(workload)


class TestTheReferenceAsItIs:
    """Judged in the same way, it passes."""

    @pytest.mark.parametrize(
        "workload",
        [
            pytest.param(workload, id=str(workload), marks=() if workload.way is Way.EXACT else pytest.mark.exhaustive)
            for workload in sorted({workload for fault in FAULTS for workload in fault.workloads})
        ],
    )
    def test_no_check_fails(self, workload: object) -> None:
        """And some pass."""
        found = next(observe("", each) for fault in FAULTS for each in fault.workloads if each == workload)
        assert (found.failed, found.errored, found.blocked) == ((), (), ())
        assert len(found.passed) >= 8


class TestTheWrongBackend:
    """The fault is in place while it answers, and at no other time."""

    def test_without_a_fault_it_answers_as_the_reference(self) -> None:
        """The same bytes."""
        question = question_for(find_suite("ngram"), GoldenStore(locate()), Options(profile="edges"))
        assert WrongBackend(None).trace(question.request) == ReferenceBackend().trace(question.request)

    def test_between_two_answers_the_reference_is_right(self) -> None:
        """And within them it is not."""
        right = greedy.greedy_token
        question = question_for(find_suite("ngram"), GoldenStore(locate()), Options(profile="edges"))
        wrong = WrongBackend(HeldFault(fault_named("argmax.last-maximum")))
        first = wrong.trace(question.request)
        assert greedy.greedy_token is right
        assert first == wrong.replay(question.request) != ReferenceBackend().trace(question.request)
        assert greedy.greedy_token is right

    def test_an_engine_plants_during_its_calls(self) -> None:
        """Between them its model is that of the reference."""
        question = question_for(find_suite("llama.dense"), GoldenStore(locate()), Options(profile="edges"))
        backend = WrongBackend(HeldFault(fault_named("argmax.last-maximum")))
        opened = backend.opened(question.request)
        assert opened is not None
        opened.load()
        assert opened.engine.description.name == "reference"
        assert (
            WrongBackend(None).opened(question_for(find_suite("ngram"), GoldenStore(locate()), Options()).request)
            is None
        )


class TestRunning:
    """Faults are judged one by one, or beside each other."""

    def test_two_faults_in_one_process(self) -> None:
        """Each task is told, and the reference as it is is judged, too."""
        told: list[str] = []
        faults = (fault_named("tokenizer.over-borders"), fault_named("init.by-columns"))
        matrix = run_faults(faults, told=told.append)
        assert matrix.problems() == ()
        assert told == [
            "no fault in course.ngram exact",
            "tokenizer.over-borders in course.ngram exact",
            "init.by-columns in course.ngram exact",
        ]
        assert [document_of(result)["killed_by"] for result in matrix.results] == [["tok.fit"], ["init.golden"]]

    @pytest.mark.exhaustive
    def test_workers_say_the_same(self) -> None:
        """In the order of the faults, whichever is ready first."""
        faults = tuple(fault for fault in FAULTS if fault.family == "tokenizer")
        assert run_faults(faults, jobs=2) == run_faults(faults)

    def test_an_observation_that_is_wrong_is_a_problem_of_the_matrix(self) -> None:
        """A fault whose checks all pass is no kill, whoever says so."""
        fault = fault_named("tokenizer.over-borders")
        quiet = Observation(fault.workloads[0], (), (), (), ("tok.fit",))
        assert KillMatrix((FaultResult(fault, (quiet,)),)).problems() == (
            "tokenizer.over-borders survived: no check failed in course.ngram exact",
        )

    @pytest.mark.exhaustive
    def test_a_worker_that_fails_is_told(self) -> None:
        """By the fault and the vehicle, whatever the error was."""
        strange = replace(fault_named("tokenizer.over-borders"), slug="tokenizer.strange")
        with refuses(FaultError, "fault-not-judged", match=r"could not be judged in course\.ngram exact: FaultError"):
            run_faults((strange, replace(strange, slug="tokenizer.other")), jobs=2, untouched=False)
