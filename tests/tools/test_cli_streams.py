"""Standard streams and unexpected errors, in process: what is said, what is swallowed, which exit code it gives."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Callable

import pytest

from cai_conform import main, terminal
from cai_conform.commands import compare, doctor
from cai_conform.options import ColorChoice
from cai_conformance.errors import InputError
from cai_conformance.run import fingerprint
from support_cli import invoke
from support_refusals import refuses


class Refusing(io.TextIOWrapper):
    """A stream on which every flush fails, with no file of its own, as a closed pipe or a full disk."""

    def __init__(self, error: OSError) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")
        self.error = error

    def flush(self) -> None:
        """Refuse."""
        raise self.error

    def close(self) -> None:
        """Stay open: closing would flush."""


def raising(error: BaseException) -> Callable[[], object]:
    """Return a function that raises."""

    def fail() -> object:
        raise error

    return fail


class TestErrors:
    """What a command raises."""

    def test_a_defect_keeps_its_traceback(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is not our own error must not look like a sentence about the user's input."""
        monkeypatch.setattr(fingerprint, "fingerprint", raising(ZeroDivisionError("a defect")))
        with pytest.raises(ZeroDivisionError, match=r"^a defect$"):
            invoke("doctor")

    def test_a_refusal_of_the_system_is_a_sentence(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Exit code 2 with the system's words."""
        monkeypatch.setattr(fingerprint, "fingerprint", raising(OSError(errno.ENOSPC, "No space left on device")))
        result = invoke("doctor")
        assert (2, "cai-conform: the operating system refuses: No space left on device\n") == (result.code, result.err)

    def test_a_closed_pipe_is_silent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Exit code 141."""
        monkeypatch.setattr(fingerprint, "fingerprint", raising(BrokenPipeError()))
        result = invoke("doctor")
        assert (141, "", "") == (result.code, result.out, result.err)

    def test_unprintable_characters_are_escaped(self) -> None:
        """A message cannot move the cursor, and stays on its line."""
        result = invoke("run", "a\x1b[2J\nb")
        assert 2 == result.code
        assert r"cai-conform: suite 'a\x1b[2J\nb' is unknown; " in result.err

    def test_help_on_a_full_disk_is_a_sentence(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """It is printed before any command is invoked."""
        monkeypatch.setattr(main, "app", raising(OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(SystemExit) as caught:
            main.main()
        assert 2 == caught.value.code
        assert "cai-conform: the operating system refuses: No space left on device\n" == capsys.readouterr().err

    def test_main_runs_the_command_line(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """With the arguments of the process."""
        monkeypatch.setattr(sys, "argv", ["cai-conform", "--version"])
        with pytest.raises(SystemExit) as caught:
            main.main()
        assert 0 == caught.value.code
        assert capsys.readouterr().out.startswith("cai-conform ")


class TestStreams:
    """Streams before anything is printed."""

    def test_closed_ones_swallow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is printed anywhere, and no message among the results."""
        out = io.StringIO()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", None)
        terminal.prepare_streams()
        terminal.say("a message")
        assert ("", False) == (out.getvalue(), sys.stderr is None)
        sys.stderr.close()

    def test_narrow_ones_escape(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What an encoding has not is spelt."""
        taken = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(taken, encoding="ascii", write_through=True))
        terminal.prepare_streams()
        print("2 − 1")
        assert b"2 \\u2212 1\n" == taken.getvalue()

    def test_a_message_that_cannot_be_written_is_lost(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """There is nobody left to tell."""
        stream = Refusing(OSError(errno.ENOSPC, "full"))
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(stream, "write", lambda text: stream.flush())
        terminal.say("a message")

    def test_closed_standard_input_is_no_trace(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A sentence instead of an attribute error."""
        monkeypatch.setattr(sys, "stdin", None)
        with refuses(InputError, "input-unreadable", path="-"):
            compare.read_file("-")

    def test_a_table_in_a_closed_pipe_raises_like_everything_else(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Rich would end the program itself, with exit code 1."""
        monkeypatch.setattr(sys, "stdout", Refusing(BrokenPipeError()))
        with pytest.raises(BrokenPipeError):
            terminal.output(ColorChoice.NEVER).print("row")


class TestProgress:
    """A sign of life while something takes time."""

    def test_a_terminal_shows_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """On standard error only."""
        out, error = io.StringIO(), io.StringIO()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", error)
        monkeypatch.setenv("FORCE_COLOR", "1")
        with terminal.progress("training"):
            print("from a backend")
        assert ("", True, True) == (out.getvalue(), "training" in error.getvalue(), "backend" in error.getvalue())

    def test_a_pipe_shows_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        """But what the backend prints."""
        with terminal.progress("training"):
            print("from a backend")
        assert ("", "from a backend\n") == capsys.readouterr()


def test_a_doctor_is_a_function_too(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are plain functions with defaults."""
    from cai_conformance.run.fingerprint import Fingerprint

    monkeypatch.setattr(fingerprint, "fingerprint", lambda: Fingerprint({"a": "1", "longer": "2"}, sound=True))
    with pytest.raises(Exception) as caught:
        doctor.doctor()
    assert 0 == getattr(caught.value, "exit_code", None)
    assert "a       1\nlonger  2\n" == capsys.readouterr().out
