from __future__ import annotations

import io
from dataclasses import replace
from typing import Literal

import pytest
from rich.cells import cell_len
from rich.console import Console

from cai_conformance.report.terminal import render_table
from cai_conformance.verdicts import Level, Outcome, Report, Verdict
from support_reports import BLOCKED, ERRORED, EVERY_OUTCOME, FAIL, NEAR_TIE, PASS, SKIPPED, XFAIL, XPASS, report

LONG_ID = Verdict(
    "course.ngram::bits.the-published-digests-of-all-sixteen-steps[libm]",
    Level.T3,
    Outcome.SKIPPED,
    "the C library fails its self-test, so that course.ngram::bits.parameters[published-digests] says nothing about it",
)
DIGEST = Verdict("course.ngram::tok.golden", Level.I0, Outcome.NEAR_TIE, "sha256:" + "ab12" * 16)


def shown(told: Report, width: int = 80, verbose: int = 0, *, terminal: bool = False, no_color: bool = False) -> str:
    """What a console of this width prints."""
    stream = io.StringIO()
    colours: Literal["standard"] | None = "standard" if terminal else None
    console = Console(
        file=stream, width=width, force_terminal=terminal, no_color=no_color, color_system=colours, _environ={}
    )
    render_table(told, console, verbose)
    return stream.getvalue()


def test_a_run_without_failures_is_one_table_and_one_line() -> None:
    """Passes take a line each; the last line counts them and says what exit code 0 means."""
    expected = """\
backend reference: grammar 1, protocol 1, arithmetic strict/1

course.ngram  suite 1.0.0, vectors 1.2.0
  check            level  verdict   message
  tok.fit          I0     pass      24 merges agree
  opt.step         T2     near_tie  both orders are accepted
  bits.parameters  T3     xfail     expected to fail: sums in float32
                                    https://example.org/issues/7

3 checks: 1 pass, 1 near_tie, 1 xfail. Exit 0: conforms, apart from
the expected failures.
"""
    assert expected == shown(report(PASS, NEAR_TIE, XFAIL), width=70)


def test_failures_are_expanded_below_the_tables() -> None:
    """A failure's paragraph has the full id, the level in words, ten differences and the number of the rest."""
    expected = """\
backend reference: grammar 1, protocol 1, arithmetic strict/1

course.ngram  suite 1.0.0, vectors 1.2.0
  check               level  verdict   message
  fwd.oracle[hidden]  I1     FAIL      14 of 60 values differ

cai.kv-cache  suite 0.3.0
  check               level  verdict   message
  kv.inc              I2     XPASS     passes, but is expected to fail: restarts positions

FAIL course.ngram::fwd.oracle[hidden]
  I1 forward pass: 14 of 60 values differ
   1. STAGE index=0, field hidden[2]: value, expected 0.123456, found 0.123457, 4096 ULP apart
   2. STAGE index=1, field hidden[2]: value, expected 0.123456, found 0.123457, 4096 ULP apart
   3. STAGE index=2, field hidden[2]: value, expected 0.123456, found 0.123457, 4096 ULP apart
   4. STAGE index=3, field hidden[2]: value, expected 0.123456, found 0.123457, 4096 ULP apart
   5. STAGE index=4, field hidden[2]: value, expected 0.123456, found 0.123457, 4096 ULP apart
   6. STAGE index=5, field hidden[2]: value, expected 0.123456, found 0.123457, 4096 ULP apart
   7. STAGE index=6, field hidden[2]: value, expected 0.123456, found 0.123457, 4096 ULP apart
   8. STAGE index=7, field hidden[2]: value, expected 0.123456, found 0.123457, 4096 ULP apart
   9. STAGE index=8, field hidden[2]: value, expected 0.123456, found 0.123457, 4096 ULP apart
  10. STAGE index=9, field hidden[2]: value, expected 0.123456, found 0.123457, 4096 ULP apart
  and 4 more differences

XPASS cai.kv-cache::kv.inc
  I2 cached decoding: every step agrees
  expected to fail: restarts positions

note: the corpus is foreign

2 checks: 0 pass, 1 FAIL, 1 XPASS. Exit 1: does not conform (1 failed, 1 passed unexpectedly).
"""
    assert expected == shown(report(FAIL, XPASS, notes=("the corpus is foreign",)), width=120)


def test_quiet_leaves_what_is_not_a_pass_and_the_summary() -> None:
    """Passes, column names, versions and notes go; a suite with nothing to say goes with them."""
    expected = """\
cai.kv-cache
  kv.split  I2     skipped   chunked calls are not offered

2 checks: 1 pass, 1 skipped. Exit 0: conforms.
"""
    assert expected == shown(report(PASS, SKIPPED, notes=("the corpus is foreign",)), verbose=-1)


def test_quiet_is_one_line_when_all_pass() -> None:
    """Nothing but the summary is left of a clean run."""
    assert "1 check: 1 pass. Exit 0: conforms.\n" == shown(report(PASS), verbose=-1)


def test_verbose_adds_seconds_whole_messages_and_differences() -> None:
    """The long message of a pass is folded instead of clipped, and a near tie shows what was tolerated."""
    talkative = replace(PASS, message="24 merges agree with the list that the course publishes")
    expected = """\
backend reference: grammar 1, protocol 1, arithmetic strict/1

course.ngram  suite 1.0.0, vectors 1.2.0
  check     level  verdict   seconds  message
  tok.fit   I0     pass        0.250  24 merges agree with the list
                                      that the course publishes
  opt.step  T2     near_tie    0.000  both orders are accepted

near_tie course.ngram::opt.step
  T2 optimiser step: both orders are accepted
   1. STAGE index=4, field hidden[2]: value, expected 0.123456, found
      0.123457, 4096 ULP apart

2 checks: 1 pass, 1 near_tie. Exit 0: conforms.
"""
    assert expected == shown(report(talkative, NEAR_TIE), width=70, verbose=1)
    assert "  tok.fit   I0     pass      24 merges agree with the list that ...\n" in shown(
        report(talkative, NEAR_TIE), width=70
    )


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("verbose", [-1, 0, 1])
def test_every_line_fits_and_every_id_is_whole(width: int, verbose: int) -> None:
    """At the usual widths no line is too long, none ends in spaces, and no id is broken over two lines."""
    wordy = [replace(v, message=(v.message + ", and that is all there is to say about it ") * 3) for v in EVERY_OUTCOME]
    verdicts = [*wordy, LONG_ID, DIGEST]
    printed = shown(report(*verdicts, required=Level.T3), width=width, verbose=verbose)
    lines = printed.splitlines()
    assert max(cell_len(line) for line in lines) <= width
    assert all(line == line.rstrip() for line in lines)
    for verdict in verdicts:
        local = verdict.check.partition("::")[2]
        assert (verdict.outcome is Outcome.PASS and verbose < 0) or any(local in line for line in lines), local
    assert any("course.ngram::bits.parameters[published-digests]" in line for line in lines)
    assert any("sha256:" + "ab12" * 16 in line for line in lines)


def test_an_id_too_long_for_its_column_gets_its_own_line() -> None:
    """The columns stay aligned below a long id, which is neither cut nor clipped."""
    short = replace(LONG_ID, message="not applicable")
    assert [
        "  check    level  verdict   message",
        "  tok.fit  I0     pass      24 merges agree",
        "  bits.the-published-digests-of-all-sixteen-steps[libm]",
        "           T3     skipped   not applicable",
    ] == shown(report(PASS, short)).splitlines()[3:7]


def test_an_id_wider_than_the_terminal_sticks_out_whole() -> None:
    """A narrow terminal may wrap an id, the report never does."""
    assert "  bits.the-published-digests-of-all-sixteen-steps[libm]" in shown(report(LONG_ID), width=30).splitlines()


def test_a_digest_too_long_for_its_column_goes_below() -> None:
    """A message with a word that its column would have to cut gets the width of the terminal."""
    assert ["  tok.golden  I0     near_tie", "    sha256:" + "ab12" * 16] == shown(report(DIGEST)).splitlines()[4:6]


def test_a_skip_that_is_required_reads_as_bad() -> None:
    """It is printed in capitals and names the level that requires it."""
    printed = shown(report(PASS, SKIPPED, required=Level.I3))
    assert "  kv.split  I2     SKIPPED   chunked calls are not offered (required by I3)\n" in printed


def test_blocked_checks_name_their_prerequisite_in_the_table_only() -> None:
    """A blocked check without differences needs no paragraph of its own."""
    printed = shown(report(BLOCKED), width=120)
    assert 1 == printed.count("BLOCKED   needs course.ngram::fwd.oracle[hidden], which failed")
    assert "\nBLOCKED course" not in printed
    assert "\nBLOCKED course" in shown(report(replace(BLOCKED, differences=FAIL.differences)))


def test_an_empty_report_says_that_nothing_was_judged() -> None:
    """No verdicts is trouble, not success."""
    assert shown(report(), verbose=-1) == "0 checks: 0 pass. Exit 2: nothing was judged.\n"


def test_the_words_do_not_depend_on_colour() -> None:
    """NO_COLOR takes away colour codes and leaves the words as a pipe gets them."""
    told = report(*EVERY_OUTCOME)
    coloured = shown(told, terminal=True)
    plain = shown(told, terminal=True, no_color=True)
    assert "\x1b[1;31mFAIL" in coloured
    assert "\x1b[32mpass" in coloured
    assert not any(code in plain for code in ("[31m", ";31m", "[32m", ";32m", "[33m", "[35m", ";35m", "[36m"))


def test_what_a_backend_says_cannot_drive_the_terminal() -> None:
    """Escape sequences and line ends in a message are printed, not obeyed."""
    rude = replace(ERRORED, message="\x1b[2Jgone\nsecond line", reason="")
    assert "  I2 cached decoding: \\x1b[2Jgone second line\n" in shown(report(rude))


def test_a_terminal_that_knows_only_ascii_gets_ascii() -> None:
    """Foreign letters are spelt as escapes where the stream could not take them."""
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii") as stream:
        render_table(report(replace(PASS, message="é😀")), Console(file=stream, width=80), 0)
        stream.flush()
        printed = raw.getvalue()
    assert rb"\xe9\U0001f600" in printed
