"""`cai-conform faults`: the catalogue, what each fault is, and the matrix of a few of them."""

from __future__ import annotations

import json
from pathlib import Path

from cai_conformance.faults import FAULTS
from support_cli import invoke


class TestListing:
    """One line a fault."""

    def test_a_pipe_gets_json_lines(self) -> None:
        """In the order of the catalogue, with all that is known."""
        lines = [json.loads(line) for line in invoke("faults", "list").out.splitlines()]
        assert [line["slug"] for line in lines] == [fault.slug for fault in FAULTS]
        assert lines[0]["type"] == "fault" and lines[0]["expected"] == ["fwd.oracle"]

    def test_a_family_is_listed_as_a_table_within_80_cells(self) -> None:
        """And its number is a message."""
        result = invoke("faults", "list", "--family", "cache", "--format", "table")
        assert all(line.startswith(("cache.", " ")) and len(line) <= 80 for line in result.out.splitlines())
        assert f"{sum(fault.family == 'cache' for fault in FAULTS)} faults" in result.err

    def test_an_unknown_family_is_refused(self) -> None:
        """With exit code 2."""
        result = invoke("faults", "list", "--family", "none")
        assert (result.code, result.sentences) == (2, ["cai-conform: there is no fault 'none'"])


class TestExplaining:
    """What a fault does, where it was seen, which checks must fail."""

    def test_a_fault_with_a_kind_and_a_precedent(self) -> None:
        """And what kills it."""
        out = invoke("faults", "explain", "window.plus-one").out
        assert out.startswith("window.plus-one: window one token too long\n")
        for part in ("W01, a window one token too long", "seen in    hugging", "batch path, session", "or fwd.oracle"):
            assert part in out
        assert all(len(line) <= 78 for line in out.splitlines())

    def test_a_fault_that_changes_nothing_says_why(self) -> None:
        """And names no check."""
        out = " ".join(invoke("faults", "explain", "mla.folded-without-key-bias").out.split())
        assert "changes nothing: q·b is the same number for every key" in out
        assert "must fail" not in out

    def test_an_unknown_one_is_refused(self) -> None:
        """With exit code 2."""
        assert invoke("faults", "explain", "rope.sideways").code == 2


class TestRunning:
    """The matrix of a few faults, and what would be missed without a check."""

    NAMES = ("tokenizer.over-borders", "tokenizer.from-the-left")

    def test_json_lines_and_a_file(self, tmp_path: Path) -> None:
        """Killed faults make the exit code 0."""
        target = tmp_path / "matrix.json"
        result = invoke("faults", "run", *self.NAMES, "--jobs", "1", "--write", target)
        lines = [json.loads(line) for line in result.out.splitlines()]
        assert result.code == 0
        assert [line["killed_by"] for line in lines] == [["tok.golden"], ["tok.fit"]]
        assert list(json.loads(target.read_text())["faults"]) == [line["slug"] for line in lines]
        assert result.sentences == ["cai-conform: 2 faults, 2 to be killed, 0 that change nothing; 0 problems"]

    def test_a_table_fits_80_cells(self) -> None:
        """Slugs are whole."""
        result = invoke("faults", "run", "sampler.top-p-without-crossing", "--jobs", "1", "--format", "table")
        assert "sampler.top-p-without-crossing" in result.out and "smp.support" in result.out
        assert all(len(line) <= 80 for line in result.out.splitlines())

    def test_markdown(self) -> None:
        """A row a fault."""
        result = invoke("faults", "run", self.NAMES[0], "--jobs", "1", "--format", "markdown")
        assert "| `tokenizer.over-borders` | course.ngram exact | tok.fit | 0 |" in result.out

    def test_a_check_that_is_left_out_is_missed(self) -> None:
        """What it alone kills is a problem, and the exit code 1."""
        result = invoke("faults", "run", *self.NAMES, "--jobs", "1", "--without-check", "tok.fit")
        assert result.code == 1
        assert "cai-conform: without tok.fit, tokenizer.over-borders would survive" in result.sentences

    def test_by_check(self) -> None:
        """Each check says what it kills, and what it kills alone."""
        result = invoke("faults", "run", *self.NAMES, "--jobs", "1", "--by-check")
        found = {line["check"]: line for line in map(json.loads, result.out.splitlines())}
        assert found["tok.fit"]["alone"] == ["tokenizer.over-borders"]
        assert found["published.text"]["kills"] == [] and found["published.text"]["stays"]

    def test_an_unknown_check_is_refused(self) -> None:
        """Before anything is judged."""
        assert invoke("faults", "run", "--without-check", "fwd.orakel").code == 2
