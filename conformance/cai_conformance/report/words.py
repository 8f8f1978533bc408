"""The sentences that every format shares, so that a table and a pull-request comment say the same thing.

Nothing here knows about columns, colours or markup.

What each verdict means, in a sentence or two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cai_conformance.verdicts import Outcome, Report, Verdict

BAD = frozenset({Outcome.FAIL, Outcome.XPASS, Outcome.BLOCKED, Outcome.ERRORED})
"""The outcomes that turn the exit code away from 0."""


def local_id(verdict: Verdict) -> str:
    """The part of the id after `::`, which is unique within the suite; the whole id where there is no `::`."""
    return verdict.check.partition("::")[2] or verdict.check


def by_suite(report: Report) -> dict[str, tuple[Verdict, ...]]:
    """The verdicts of each suite, suites and checks in the order of the report."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in report.verdicts:
        groups.setdefault(verdict.suite, []).append(verdict)
    return {suite: tuple(verdicts) for suite, verdicts in groups.items()}


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 check`, `2 checks`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def explanation(verdict: Verdict) -> str:
    """Why an expected-failure entry names this check, with its link; empty where no entry does."""
    return " ".join(part for part in (verdict.reason, verdict.link) if part)


def sentence(report: Report, verdict: Verdict) -> str:
    """What one line should say about a verdict: its message, or the expectation where that weighs more."""
    if verdict.outcome is Outcome.XFAIL:
        return f"expected to fail: {explanation(verdict)}"
    if verdict.outcome is Outcome.XPASS:
        return f"passes, but is expected to fail: {explanation(verdict)}"
    if is_required_skip(report, verdict):
        return " ".join(part for part in (verdict.message, f"(required by {report.required})") if part)
    return verdict.message


def met(verdict: Verdict) -> str:
    """What was met on the way, and how often: `compared rows: 3, ties: 2`; empty where nothing was counted."""
    return ", ".join(f"{name}: {count}" for name, count in verdict.met)


def is_required_skip(report: Report, verdict: Verdict) -> bool:
    """Whether the verdict is a skip that the required level does not allow."""
    return verdict.outcome is Outcome.SKIPPED and any(verdict is required for required in report.required_but_skipped())


def count_words(report: Report) -> list[tuple[Outcome, int]]:
    """The outcomes worth naming, in the order of `Outcome`: passes always, the others where there are any."""
    return [(outcome, count) for outcome, count in report.counts().items() if count or outcome is Outcome.PASS]


def counts_sentence(report: Report) -> str:
    """How many checks there were, and how they came out: `3 checks: 2 pass, 1 fail`."""
    parts = ", ".join(f"{count} {outcome}" for outcome, count in count_words(report))
    return f"{counted(len(report.verdicts), 'check')}: {parts}"


def exit_meaning(report: Report) -> str:
    """What the exit code of this run means, in words and without a full stop."""
    counts = report.counts()
    code = report.exit_code()
    if code == 2:
        if not counts[Outcome.ERRORED]:
            return "nothing was judged"
        crashes = counted(counts[Outcome.ERRORED], "check")
        return f"not judged to the end (in {crashes} the backend crashed, hung or broke the protocol)"
    if code == 1:
        return f"does not conform ({', '.join(_faults(report, counts))})"
    return "conforms, apart from the expected failures" if counts[Outcome.XFAIL] else "conforms"


def _faults(report: Report, counts: dict[Outcome, int]) -> list[str]:
    """What exit code 1 is made of."""
    required = len(report.required_but_skipped())
    clauses = [
        (counts[Outcome.FAIL], "failed"),
        (counts[Outcome.XPASS], "passed unexpectedly"),
        (counts[Outcome.BLOCKED], "blocked"),
        (required, f"skipped but required by {report.required}"),
    ]
    return [f"{count} {clause}" for count, clause in clauses if count]


VERDICTS: Final[Mapping[str, str]] = {
    Outcome.PASS.value: "the check was judged and holds.",
    Outcome.NEAR_TIE.value: "two tokens were so close that the measured disagreement explains the other choice.",
    Outcome.XFAIL.value: "it failed, and the expected-failure file says so, with a reason.",
    Outcome.SKIPPED.value: "nothing was judged: not offered by the backend, or not applicable, with the reason.",
    Outcome.FAIL.value: "it was judged and does not hold; the message names the first difference. Exit code 1.",
    Outcome.XPASS.value: "it passed although the expected-failure file says it fails; remove the entry. Exit code 1.",
    Outcome.BLOCKED.value: "a prerequisite failed, so there is nothing sound to judge; look there first. Exit code 1.",
    Outcome.ERRORED.value: "the backend crashed, hung or broke the protocol; no verdict on its numbers. Exit code 2.",
}
