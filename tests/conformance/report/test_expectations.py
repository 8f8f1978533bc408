from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from cai_conformance.errors import ConformanceError, InputError
from cai_conformance.report.expectations import (
    Expectation,
    ExpectationError,
    Expectations,
    apply_expectations,
    load_expectations,
)
from cai_conformance.verdicts import Difference, Level, Outcome, Problem, Verdict
from support_refusals import refuses

HIDDEN = "course.ngram::fwd.oracle[hidden]"
LOGITS = "course.ngram::fwd.oracle[logits]"
KNOWN = [HIDDEN, LOGITS, "course.ngram::tok.fit", "cai.kv-cache::kv.inc"]
GOOD = """\
[[expected-failure]]
check = "course.ngram::fwd.oracle[hidden]"
reason = "rounds to bfloat16"
link = "https://example.org/issues/7"

[[expected-failure]]
check = "cai.*::kv.*"
reason = " no cache "
"""


def written(folder: Path, content: str | bytes) -> Path:
    """A file `xfail.toml` in the folder."""
    path = folder / "xfail.toml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def expectations(*entries: tuple[str, str]) -> Expectations:
    """Entries from pairs of check and reason."""
    numbered = enumerate(entries, start=1)
    return Expectations("xfail.toml", tuple(Expectation(number, check, reason) for number, (check, reason) in numbered))


def verdict(check: str, outcome: Outcome) -> Verdict:
    """A verdict with a message and one difference, which must survive."""
    return Verdict(check, Level.I1, outcome, "a message", (Difference(Problem.MISSING, "STAGE index=1"),), seconds=0.5)


@pytest.mark.parametrize("content", [GOOD, b"\xef\xbb\xbf" + GOOD.encode(), GOOD.replace("\n", "\r\n")])
def test_entries_are_read_in_their_order(tmp_path: Path, content: str | bytes) -> None:
    """A byte-order mark and Windows line ends do no harm, and reasons are stripped."""
    path = written(tmp_path, content)
    assert Expectations(
        str(path),
        (
            Expectation(1, HIDDEN, "rounds to bfloat16", "https://example.org/issues/7"),
            Expectation(2, "cai.*::kv.*", "no cache", ""),
        ),
    ) == load_expectations(path)


@pytest.mark.parametrize("content", ["", "# nothing yet\n", "expected-failure = []\n"])
def test_a_file_without_entries_is_valid(tmp_path: Path, content: str) -> None:
    """A backend may expect no failure."""
    assert () == load_expectations(written(tmp_path, content)).entries


ENTRY = '[[expected-failure]]\ncheck = "a::b"\nreason = "why"\n'


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b"# caf\xe9", "expectation-file-not-utf8", "not UTF-8 at byte 5"),
        ("check = ", "expectation-file-not-toml", "not TOML: Invalid value (at end of document)"),
        (
            "[[expected_failure]]\n",
            "unknown-expectation-table",
            "unknown key 'expected_failure'; entries are written under [[expected-failure]]",
        ),
        (
            "[expected-failure]\ncheck = 'a'\n",
            "expectation-not-table",
            "expected-failure must be an array of tables; write [[expected-failure]] above each entry",
        ),
        (
            "expected-failure = [1]\n",
            "expectation-not-table",
            "expected-failure must be an array of tables; write [[expected-failure]] above each entry",
        ),
        (
            ENTRY + 'reasons = "x"\n',
            "unknown-expectation-key",
            "entry 1: unknown key 'reasons'; the keys are check, reason and link",
        ),
        (ENTRY + '[[expected-failure]]\ncheck = "a::c"\n', "expectation-key-missing", "entry 2: reason is missing"),
        ('[[expected-failure]]\nreason = "why"\n', "expectation-key-missing", "entry 1: check is missing"),
        ('[[expected-failure]]\ncheck = "a"\nreason = " \\t"\n', "expectation-value-blank", "entry 1: reason is blank"),
        (ENTRY + 'link = ""\n', "expectation-value-blank", "entry 1: link is blank"),
        (
            '[[expected-failure]]\ncheck = "a"\nreason = 7\n',
            "expectation-value-not-string",
            "entry 1: reason must be a string, not int",
        ),
        (ENTRY + ENTRY, "duplicate-expectation", "entry 2: check 'a::b' is already in entry 1"),
    ],
)
def test_a_bad_file_gets_one_sentence(tmp_path: Path, content: str | bytes, kind: str, message: str) -> None:
    """The error names the file, the entry by number, and the key."""
    path = written(tmp_path, content)
    with refuses(ConformanceError, kind) as caught:
        load_expectations(path)
    assert f"{path}: {message}" == str(caught.value)
    assert 2 == caught.value.exit_code


@pytest.mark.parametrize("content", ["x = " + "[" * 20_000, "x = " + "9" * 5_000])
def test_text_that_overwhelms_the_toml_reader_is_not_toml(tmp_path: Path, content: str) -> None:
    """Deep nesting and huge numbers end in the same error as other nonsense."""
    with refuses(ExpectationError, "expectation-file-not-toml"):
        load_expectations(written(tmp_path, content))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The error says which file there is not."""
    path = tmp_path / "absent.toml"
    with refuses(ExpectationError, "expectation-file-missing") as caught:
        load_expectations(path)
    assert f"{path}: no such expected-failure file" == str(caught.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """What cannot be read is told apart from what is not there."""
    with refuses(ExpectationError, "expectation-file-unreadable"):
        load_expectations(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "check", "expected"),
    [
        (HIDDEN, HIDDEN, True),
        ("course.ngram::fwd.oracle", HIDDEN, False),
        ("course.ngram::fwd.oracle[*]", HIDDEN, True),
        ("course.ngram::*", HIDDEN, True),
        ("*::fwd.oracle[hidde?]", HIDDEN, True),
        ("course.ngram::fwd.oracle[hidden", HIDDEN, False),
        ("course.ngram::fwd.oracl[ef]", "course.ngram::fwd.oracle", False),
        ("course.ngram::fwd.oracl[!x]", "course.ngram::fwd.oracle", False),
        ("courseXngram::*", HIDDEN, False),
        ("COURSE.NGRAM::*", HIDDEN, False),
    ],
)
def test_stars_and_question_marks_are_wild_and_brackets_are_not(pattern: str, check: str, expected: bool) -> None:
    """A pattern covers the full id; brackets stand for themselves."""
    assert expected == Expectation(1, pattern, "why").matches(check)


@pytest.mark.parametrize(
    ("before", "after"),
    [(Outcome.FAIL, Outcome.XFAIL), (Outcome.PASS, Outcome.XPASS), (Outcome.NEAR_TIE, Outcome.XPASS)],
)
def test_an_expectation_turns_the_outcome(before: Outcome, after: Outcome) -> None:
    """A failure becomes expected, a pass unexpected; reason and link are added and nothing else changes."""
    expected = Verdict(
        HIDDEN,
        Level.I1,
        after,
        "a message",
        (Difference(Problem.MISSING, "STAGE index=1"),),
        "why",
        "https://x.org",
        0.5,
    )
    entries = Expectations("xfail.toml", (Expectation(1, HIDDEN, "why", "https://x.org"),))
    assert (expected,) == apply_expectations([verdict(HIDDEN, before)], entries, KNOWN)


@pytest.mark.parametrize("outcome", [Outcome.SKIPPED, Outcome.BLOCKED, Outcome.ERRORED, Outcome.XFAIL, Outcome.XPASS])
def test_what_was_not_judged_stays_as_it_is(outcome: Outcome) -> None:
    """An expectation says nothing about a check that did not come to a verdict."""
    untouched = verdict(HIDDEN, outcome)
    assert (untouched,) == apply_expectations([untouched], expectations((HIDDEN, "why")), KNOWN)


def test_a_check_that_no_entry_names_stays_as_it_is() -> None:
    """Only named checks change, and the order is kept."""
    first, second = verdict(LOGITS, Outcome.FAIL), verdict(HIDDEN, Outcome.FAIL)
    judged = apply_expectations([first, second], expectations((HIDDEN, "why")), KNOWN)
    assert (first, Outcome.XFAIL) == (judged[0], judged[1].outcome)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [([("course.*", "wide"), (HIDDEN, "exact")], "exact"), ([("course.*", "first"), ("*[hidden]", "second")], "first")],
)
def test_the_most_exact_entry_gives_the_reason(entries: list[tuple[str, str]], expected: str) -> None:
    """An exact id comes before patterns, and among patterns the order of the file decides."""
    (judged,) = apply_expectations([verdict(HIDDEN, Outcome.FAIL)], expectations(*entries), KNOWN)
    assert expected == judged.reason


def test_a_pattern_is_strict_about_each_check() -> None:
    """One pass among the checks of a pattern is unexpected, though another of them fails."""
    judged = apply_expectations(
        [verdict(HIDDEN, Outcome.FAIL), verdict(LOGITS, Outcome.PASS)],
        expectations(("course.ngram::fwd.oracle[*]", "why")),
        KNOWN,
    )
    assert [Outcome.XFAIL, Outcome.XPASS] == [one.outcome for one in judged]


def test_a_known_check_that_was_not_selected_is_no_error() -> None:
    """A run of some checks may use the file of all."""
    assert () == apply_expectations([], expectations((HIDDEN, "why")), KNOWN)


@pytest.mark.parametrize(
    ("check", "closest"),
    [
        ("course.ngram::fwd.oracle[hiden]", HIDDEN),
        ("course.ngram::tok.fits", "course.ngram::tok.fit"),
        ("cai.kv-cache::kv.inn*", "cai.kv-cache::kv.inc"),
    ],
)
def test_an_entry_that_names_nothing_is_an_error(check: str, closest: str) -> None:
    """The error names the entry and the id that looks most like it, whatever order the ids come in."""
    for known in (KNOWN, KNOWN[::-1], set(KNOWN)):
        with refuses(ExpectationError, "unknown-expectation") as caught:
            apply_expectations([], expectations((HIDDEN, "why"), (check, "why")), known)
        assert f"xfail.toml: entry 2: check {check!r} matches no known check; the closest is {closest!r}" == str(
            caught.value
        )
        assert "cai-conform list" == caught.value.next_command


def test_errors_cross_process_borders() -> None:
    """An error survives pickling with its fields, and is an InputError."""
    error = ExpectationError(
        "unknown-expectation", path="xfail.toml", entry=2, key="check", check="a::b", closest=HIDDEN
    )
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, InputError)
    assert str(error) == str(again)
