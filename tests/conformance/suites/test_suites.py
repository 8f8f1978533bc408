"""Suites as data: names that are for good, prerequisites in order, cases with levels, and how a name finds them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from cai_conformance.errors import SelectionError
from cai_conformance.report.words import VERDICTS
from cai_conformance.suites import SUITES, Suite, all_check_ids, find_check, find_suite, find_suites, registry
from cai_conformance.verdicts import Level, Outcome
from support_refusals import refuses

NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.identifier)
class TestEverySuite:
    """What holds for each of them."""

    def test_names_are_usable_everywhere(self, suite: Suite) -> None:
        """Suite, checks and cases are made of the same few characters, and unique."""
        names = [suite.identifier, *(check.name for check in suite.checks)]
        names += [case for check in suite.checks for case in check.cases]
        assert [] == [name for name in names if not NAME.fullmatch(name)]
        assert len(set(suite.check_ids())) == len(suite.check_ids())

    def test_a_prerequisite_stands_before_what_requires_it(self, suite: Suite) -> None:
        """So that its outcome is known in time."""
        seen: set[str] = set()
        for check in suite.checks:
            assert set(check.requires) <= seen
            seen.add(check.name)

    def test_the_first_check_is_the_grammar(self, suite: Suite) -> None:
        """Every other check depends on it, directly or not."""
        first, *others = suite.checks
        assert ("trace.format", ()) == (first.name, first.requires)
        assert all(check.requires for check in others)

    def test_every_case_of_the_suite_belongs_to_a_check_that_lists_it(self, suite: Suite) -> None:
        """And says what it catches."""
        for case in suite.cases():
            assert case.case in suite.check(case.check).cases
            assert case.sees
            assert suite.check(case.check).of_edges

    def test_every_check_explains_itself(self, suite: Suite) -> None:
        """A clause for the list, sentences for `explain`."""
        for check in suite.checks:
            assert not check.summary.endswith(".")
            assert check.explanation.endswith(".")
            assert check.level in Level

    def test_its_own_input_has_a_profile_of_its_grammar(self, suite: Suite) -> None:
        """The input that ships with the suite."""
        assert suite.default_input().profile in suite.grammar.profiles


def test_all_ids_are_those_of_all_suites() -> None:
    """In the order of suites and checks."""
    assert [name for suite in SUITES for name in suite.check_ids()] == list(all_check_ids())


@pytest.mark.parametrize("name", ["course.ngram", "ngram", ".ngram"])
def test_a_suite_is_found_by_any_unique_ending(name: str) -> None:
    """The whole id among them."""
    assert "course.ngram" == find_suite(name).identifier
    assert ["course.ngram"] == [suite.identifier for suite in find_suites([name, "course.ngram"])]


@pytest.mark.parametrize("name", ["", "nothing", "course", "NGRAM", "course.ngram "])
def test_any_other_name_is_unknown(name: str) -> None:
    """The message lists the suites."""
    with refuses(SelectionError, "unknown-suite") as caught:
        find_suite(name)
    assert (name, ", ".join(suite.identifier for suite in SUITES)) == (
        caught.value.fields["name"],
        caught.value.fields["known"],
    )


def test_an_ending_of_two_suites_is_ambiguous(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole id is not, even where it is the ending of another."""
    one = find_suite("course.ngram")
    monkeypatch.setattr(registry, "SUITES", (one, replace(one, identifier="other.course.ngram")))
    assert "course.ngram" == find_suite("course.ngram").identifier
    with refuses(SelectionError, "ambiguous-suite", name="ngram"):
        find_suite("ngram")
    assert 2 == len(find_suites([]))
    with refuses(SelectionError, "unknown-check"):
        find_check("tok.fit")


@pytest.mark.parametrize(
    ("name", "case"), [("ngram::tok.fit", ""), ("ngram::tok.fit[tie]", "tie"), ("course.ngram::tok.fit[tie]", "tie")]
)
def test_a_check_is_found_by_name(name: str, case: str) -> None:
    """With or without case, in the suite that has this ending."""
    suite, check, found = find_check(name)
    assert ("course.ngram", "tok.fit", case) == (suite.identifier, check.name, found)


def test_a_check_that_only_one_suite_has_needs_no_suite() -> None:
    """The bare name will do."""
    names = [check.name for suite in SUITES for check in suite.checks]
    unique = next(check.name for check in find_suite("ngram").checks if names.count(check.name) == 1)
    assert unique == find_check(unique)[1].name


@pytest.mark.parametrize("name", ["", "tok", "tok.fit[nothing]", "other::tok.fit", "[tie]", "tok.fit::tie"])
def test_any_other_check_is_unknown(name: str) -> None:
    """No guessing."""
    with refuses(SelectionError, "unknown-check"):
        find_check(name)


def test_every_outcome_has_a_meaning() -> None:
    """`explain` knows all eight."""
    assert {outcome.value for outcome in Outcome} == set(VERDICTS)
