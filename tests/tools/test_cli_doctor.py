"""`doctor` on a terminal: long values are broken beside their names."""

from __future__ import annotations

import io
import os
import shutil
import sys

import pytest
import typer

from cai_conform.commands import doctor as module
from cai_conformance.run import fingerprint
from cai_conformance.run.fingerprint import Fingerprint

VALUES = {"suites": "one, two, three, four, five, six, seven, eight", "portable fast": "short"}


class Terminal(io.StringIO):
    """Standard output that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def printed(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, columns: int) -> list[str]:
    """Return the lines that `doctor` prints to a stream on a terminal of so many columns."""
    monkeypatch.setattr(fingerprint, "fingerprint", lambda: Fingerprint(VALUES, sound=True))
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((columns, 24)))
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(typer.Exit) as ended:
        module.doctor()
    assert 0 == ended.value.exit_code
    return stream.getvalue().splitlines()


def test_a_terminal_gets_lines_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names stand before the first of them only."""
    assert [
        "suites         one, two, three, four,",
        "               five, six, seven,",
        "               eight",
        "portable fast  short",
    ] == printed(monkeypatch, Terminal(), 38)


def test_a_narrow_terminal_is_no_reason_to_break_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least ten characters a line."""
    assert "               one, two," == printed(monkeypatch, Terminal(), 8)[0].replace("suites", " " * 6)


def test_a_pipe_gets_one_line_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long."""
    assert [f"suites         {VALUES['suites']}", "portable fast  short"] == printed(monkeypatch, io.StringIO(), 38)
