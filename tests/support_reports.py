"""Hand-written reports that the tests of the formats share."""

from __future__ import annotations

from cai_conformance.verdicts import Difference, Level, Outcome, Problem, Report, Verdict, Versions

VERSIONS = Versions("1", "1", "strict/1", {"course.ngram": "1.0.0", "cai.kv-cache": "0.3.0"}, {"course.ngram": "1.2.0"})


def difference(index: int) -> Difference:
    """A value that is 4096 ULP away, in one stage."""
    return Difference(Problem.VALUE, f"STAGE index={index}", "hidden", 2, "0.123456", "0.123457", 4096)


PASS = Verdict("course.ngram::tok.fit", Level.I0, Outcome.PASS, "24 merges agree", seconds=0.25)
NEAR_TIE = Verdict("course.ngram::opt.step", Level.T2, Outcome.NEAR_TIE, "both orders are accepted", (difference(4),))
XFAIL = Verdict(
    "course.ngram::bits.parameters",
    Level.T3,
    Outcome.XFAIL,
    "parameters differ",
    (difference(1),),
    "sums in float32",
    "https://example.org/issues/7",
)
SKIPPED = Verdict("cai.kv-cache::kv.split", Level.I2, Outcome.SKIPPED, "chunked calls are not offered")
FAIL = Verdict(
    "course.ngram::fwd.oracle[hidden]",
    Level.I1,
    Outcome.FAIL,
    "14 of 60 values differ",
    tuple(difference(index) for index in range(14)),
    seconds=1.5,
)
XPASS = Verdict("cai.kv-cache::kv.inc", Level.I2, Outcome.XPASS, "every step agrees", reason="restarts positions")
BLOCKED = Verdict(
    "course.ngram::fwd.oracle[logits]",
    Level.I1,
    Outcome.BLOCKED,
    "needs course.ngram::fwd.oracle[hidden], which failed",
)
ERRORED = Verdict("cai.kv-cache::kv.rollback", Level.I2, Outcome.ERRORED, "ended with signal 11")

EVERY_OUTCOME = (PASS, FAIL, BLOCKED, NEAR_TIE, XFAIL, XPASS, ERRORED, SKIPPED)


def report(*verdicts: Verdict, required: Level | None = None, notes: tuple[str, ...] = ()) -> Report:
    """A report of these verdicts by the backend `reference`."""
    return Report("reference", VERSIONS, verdicts, required, notes)
