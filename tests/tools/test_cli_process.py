"""The program as a process: streams that are closed, full, narrow or left by their reader, modules where it is run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support_cli import command, environment_of, invoke, program
from support_traces import golden_bytes, with_field

POSIX = pytest.mark.skipif(os.name != "posix", reason="about the shells and devices of POSIX")
FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")


def shell(line: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run a line of the shell in which `$@` stands for the program with these arguments."""
    return subprocess.run(
        ["/bin/sh", "-c", line, "sh", *command(*arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment_of(),
        timeout=60,
        check=False,
    )


def test_exit_codes_are_those_of_the_process() -> None:
    """1 with the result on standard output."""
    wrong = program("verify", "-", stdin=with_field("CONFIG", "lr", "0.020000"))
    assert (1, b"", 1) == (wrong.returncode, wrong.stderr, wrong.stdout.count(b"\n"))


@pytest.mark.exhaustive
def test_exit_codes_of_unreadable_files_are_those_of_the_process() -> None:
    """2 with the sentence on standard error."""
    broken = program("verify", "-", stdin=golden_bytes()[:-5])
    assert (2, b"", 1) == (broken.returncode, broken.stdout, broken.stderr.count(b"\n"))


@pytest.mark.exhaustive
def test_a_module_beside_the_user_is_a_backend(tmp_path: Path) -> None:
    """It need not be installed; what it prints on import goes to standard error."""
    (tmp_path / "mine.py").write_text(
        "print('loading')\n"
        "class Backend:\n"
        "    name = 'mine'\n"
        "    def trace(self, request): return b'nothing'\n"
        "    def replay(self, request): raise SystemExit(0)\n",
        encoding="utf-8",
    )
    done = program("run", "ngram", "--backend", "mine:Backend", "-k", "trace.format", folder=tmp_path)
    assert (1, b"loading\n") == (done.returncode, done.stderr)
    assert b'"backend": "mine"' in done.stdout


@POSIX
class TestStreams:
    """What shells do to standard streams."""

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("options", [(), pytest.param(("-f", "table"), marks=pytest.mark.exhaustive)], ids=str)
    def test_a_reader_that_left_is_no_fault(self, tmp_path: Path, options: tuple[str, ...]) -> None:
        """The exit code of a program that SIGPIPE ended, not that of a backend that fails, and not a word."""
        path = tmp_path / "trace.txt"
        path.write_bytes(golden_bytes())
        done = shell('{ "$@"; echo $? >&2; } | true', "verify", path, *options)
        assert [b"141"] == done.stderr.splitlines()

    @pytest.mark.exhaustive
    def test_a_closed_standard_input_is_told(self) -> None:
        """A sentence, exit code 2."""
        done = shell('"$@" <&-', "verify", "-")
        assert (2, b"") == (done.returncode, done.stdout)
        assert b"cai-conform: '-' cannot be read: standard input is closed\n" == done.stderr

    @pytest.mark.exhaustive
    def test_closed_outputs_leave_the_exit_code(self) -> None:
        """There is nobody to tell, and messages never land among results."""
        silent = shell('"$@" 2>&-', "list", "nothing")
        assert (2, b"") == (silent.returncode, silent.stdout)
        assert 0 == shell('"$@" >&-', "list").returncode

    @pytest.mark.exhaustive
    @FULL
    @pytest.mark.parametrize("arguments", [("list",), pytest.param(("--version",), marks=pytest.mark.exhaustive)])
    def test_a_full_disk_is_told(self, arguments: tuple[str, ...]) -> None:
        """One sentence, exit code 2."""
        done = shell('"$@" >/dev/full', *arguments)
        assert 2 == done.returncode
        assert b"cai-conform: the operating system refuses: No space left on device\n" == done.stderr

    @pytest.mark.exhaustive
    @FULL
    def test_a_full_standard_error_leaves_the_exit_code(self) -> None:
        """The sentence is lost, the code is not."""
        assert 2 == shell('"$@" 2>/dev/full', "list", "nothing").returncode

    @pytest.mark.exhaustive
    def test_a_narrow_encoding_gets_escapes(self) -> None:
        """Explanations hold signs that ASCII has not."""
        wide = invoke("explain", "ngram::data.order").out
        narrow = program("explain", "ngram::data.order", variables={"PYTHONIOENCODING": "ascii"})
        assert (0, b"", True) == (narrow.returncode, narrow.stderr, narrow.stdout.isascii())
        assert wide == narrow.stdout.decode("unicode-escape")
        assert not wide.isascii()


def test_the_command_is_installed_under_its_name() -> None:
    """The entry point is `main`."""
    from importlib.metadata import entry_points

    from cai_conform.main import main

    found = [point for point in entry_points(group="console_scripts") if point.name == "cai-conform"]
    if not found:
        pytest.skip("the project is not installed here")
    assert main is found[0].load()


def test_numbers_are_imported_only_when_needed() -> None:
    """Help and version come without NumPy, so that they come at once, also with the commands of other packages."""
    code = (
        "import sys, typer.main; from cai_conform.main import app; typer.main.get_group(app).list_commands(None); "
        "print(sorted({'numpy', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env=environment_of(), timeout=60, check=True
    )
    assert b"[]\n" == done.stdout
