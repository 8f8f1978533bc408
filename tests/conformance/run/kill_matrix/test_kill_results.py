"""How a fault fared is told from which checks failed, and every way to fare badly is a problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from cai_conformance.faults import Way, Workload, fault_named
from cai_conformance.faults.errors import FaultError
from cai_conformance.run.kill_matrix.file import is_whole, known_kill, matrix_bytes, read_matrix
from cai_conformance.run.kill_matrix.observation import Observation
from cai_conformance.run.kill_matrix.results import FaultResult, KillMatrix, Standing
from support_refusals import refuses

FIRST, SECOND = Workload("llama.dense", Way.GIVEN), Workload("course.ngram", Way.EXACT)
FAULT: Final = replace(
    fault_named("rope.half-split"), workloads=(FIRST, SECOND), expected=("fwd.oracle", "kv.split"), equivalent=""
)
EQUIVALENT: Final = replace(FAULT, expected=(), equivalent="nothing changes")


def result_of(first: Observation, second: Observation | None = None, fault: object = FAULT) -> FaultResult:
    """Return a result of two vehicles, in the second of which `kv.split` fails unless something else is said."""
    assert isinstance(fault, type(FAULT))
    return FaultResult(fault, (first, Observation(SECOND, ("kv.split",)) if second is None else second))


QUIET: Final = Observation(SECOND, (), (), (), ("kv.split",))


class TestStandings:
    """One of the expected checks has to fail; anything else is no kill."""

    def test_a_fault_is_killed_by_an_expected_check_in_any_vehicle(self) -> None:
        """Others may fail, too, and are told apart."""
        found = result_of(Observation(FIRST, ("gen.given", "smp.tie")))
        assert found.standing is Standing.KILLED
        assert found.killed_by == ("kv.split",)
        assert found.also_seen_by == ("gen.given", "smp.tie")
        assert list(found.problems()) == []

    def test_expected_checks_are_named_in_the_order_in_which_they_are_expected(self) -> None:
        """Whatever their order in the vehicles."""
        assert result_of(Observation(FIRST, ("fwd.oracle",))).killed_by == ("fwd.oracle", "kv.split")

    def test_a_vehicle_in_which_nothing_shows_is_a_problem(self) -> None:
        """Although the fault is killed in another one."""
        found = result_of(Observation(FIRST, ("fwd.oracle",)), QUIET)
        assert found.standing is Standing.KILLED
        assert list(found.problems()) == [
            "rope.half-split does not show in course.ngram exact, which is one of its vehicles"
        ]

    def test_a_fault_that_no_check_sees_has_survived(self) -> None:
        """Its vehicles are named."""
        found = result_of(replace(QUIET, workload=FIRST), QUIET)
        assert found.standing is Standing.SURVIVED
        assert list(found.problems()) == [
            "rope.half-split survived: no check failed in llama.dense given, course.ngram exact"
        ]

    def test_a_crash_is_no_kill(self) -> None:
        """Nor does a blocked check make it one."""
        found = result_of(Observation(FIRST, (), ("trace.format",), ("fwd.oracle",)), QUIET)
        assert found.standing is Standing.CRASHED
        assert list(found.problems()) == [
            "rope.half-split only crashed: no check failed, and trace.format met an error"
        ]

    def test_a_check_that_nobody_expected_is_no_kill(self) -> None:
        """Whoever sees the mistake by chance says nothing about why."""
        found = result_of(Observation(FIRST, ("smp.tie",)), QUIET)
        assert found.standing is Standing.UNEXPECTED
        (problem,) = found.problems()
        assert problem == (
            "rope.half-split is killed by smp.tie alone, where fwd.oracle, kv.split was expected to fail"
        )

    def test_a_fault_that_changes_nothing_must_not_be_seen(self) -> None:
        """Neither by a failure nor by a crash."""
        quiet = replace(QUIET, workload=FIRST)
        assert result_of(quiet, QUIET, EQUIVALENT).standing is Standing.EQUIVALENT
        assert list(result_of(quiet, QUIET, EQUIVALENT).problems()) == []
        for seen in (Observation(FIRST, ("smp.tie",)), Observation(FIRST, (), ("smp.tie",))):
            found = result_of(seen, QUIET, EQUIVALENT)
            assert found.standing is Standing.NOT_EQUIVALENT
            assert list(found.problems()) == ["rope.half-split is said to change nothing, and smp.tie saw it"]

    def test_what_nobody_asks_for_must_not_be_seen_either(self) -> None:
        """It is told apart from what changes nothing."""
        unseen = replace(EQUIVALENT, equivalent="", unseen="nobody asks")
        assert result_of(replace(QUIET, workload=FIRST), QUIET, unseen).standing is Standing.UNSEEN
        found = result_of(Observation(FIRST, ("smp.tie",)), QUIET, unseen)
        assert list(found.problems()) == ["rope.half-split is said to be asked for by no check, and smp.tie saw it"]

    def test_a_library_may_be_right_by_accident(self) -> None:
        """Then nothing fails, and that is no problem."""
        found = result_of(replace(QUIET, workload=FIRST), QUIET, replace(FAULT, library=True))
        assert found.standing is Standing.SURVIVED
        assert list(found.problems()) == []


class TestRemovingAnyOneCheck:
    """What would be missed if a check did not exist."""

    ONE: Final = result_of(Observation(FIRST, ("kv.split",)))
    TWO: Final = result_of(Observation(FIRST, ("fwd.oracle",)))
    SEEN: Final = result_of(Observation(FIRST, ("smp.tie",)))

    def test_a_fault_that_one_check_kills_is_lost_with_it(self) -> None:
        """Only where no other expected check fails; where an unexpected one does, that is said."""
        assert self.ONE.without("kv.split") is Standing.SURVIVED
        assert self.SEEN.without("kv.split") is Standing.UNEXPECTED
        assert self.TWO.without("kv.split") is Standing.KILLED
        assert self.ONE.without("smp.tie") is Standing.KILLED

    def test_kills_are_listed_by_check(self) -> None:
        """All of them, those by a check alone, and those that would be lost."""
        matrix = KillMatrix((self.ONE, self.TWO))
        slug = FAULT.slug
        assert matrix.kills() == {"fwd.oracle": (slug,), "kv.split": (slug, slug)}
        assert matrix.kills_alone() == {"kv.split": (slug,)}
        assert matrix.lost_without("kv.split") == (self.ONE,)
        assert matrix.lost_without("fwd.oracle") == ()


class TestTheMatrix:
    """Problems of the reference as it is come first; the file says what was seen."""

    def test_checks_that_fail_without_a_fault_are_a_problem(self) -> None:
        """They would kill everything."""
        matrix = KillMatrix((), (Observation(FIRST, ("grad.fd",), ("kv.fail",)), QUIET))
        assert matrix.problems() == ("llama.dense given: grad.fd, kv.fail did not pass without a fault",)

    def test_the_file_is_read_as_it_was_written(self) -> None:
        """By slug, with what failed in each vehicle."""
        matrix = KillMatrix((result_of(Observation(FIRST, ("smp.tie",))),))
        known = read_matrix(matrix_bytes(matrix))["rope.half-split"]
        assert (known.standing, known.killed_by, known.also_seen_by) == ("killed", ("kv.split",), ("smp.tie",))
        assert known.failed == {"llama.dense given": ("smp.tie",), "course.ngram exact": ("kv.split",)}
        assert not is_whole(matrix)

    def test_a_file_of_another_form_is_refused(self) -> None:
        """And a fault that the shipped one does not hold is unknown."""
        with pytest.raises(ValueError, match="form 2, and not 1"):
            read_matrix(b'{"form": 2, "faults": {}}')
        with refuses(FaultError, "unknown-fault", match=r"no fault .no\.such."):
            known_kill("no.such")
