"""No child outlives the run: neither grandchildren nor those of a run that is killed."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from cai_conformance.backends.serve import guard
from cai_conformance.engine import EngineBroken
from support_serving import PIECE, Workshop, is_gone

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to the guard")

GRANDCHILD = """
begin()
if os.fork() == 0:
    ESCAPE
    note(os.getpid())
    signal(SIGTERM, SIG_IGN)
    sleep(60)
while len(open(sys.argv[1]).read().split()) < 2:
    sleep(0.01)
message = hear()
"""

# It says its process id and lives until it is ended; every other way to see it would be a race.
PARENT = """
import sys
from time import sleep
from cai_conformance.backends.serve.client import ServeEngine
engine = ServeEngine(sys.argv[1:])
print("ready", flush=True)
ACTION
"""


class TestGrandchildren:
    """What a program started is ended with it."""

    def test_keeps_the_output_open(self, shop: Workshop) -> None:
        """A crash is seen at once, although somebody still holds the pipe."""
        found = shop.broken(GRANDCHILD.replace("ESCAPE", "pass") + "sys.exit(4)")
        assert "ended with exit code 4 before it answered evaluate" in found
        assert 2 == len(shop.made[0].pids)

    @LINUX
    def test_leaves_the_group(self, shop: Workshop) -> None:
        """A session of its own and another parent are no way out."""
        escape = "os.setsid()\n    if os.fork(): os._exit(0)"
        found = shop.broken(GRANDCHILD.replace("ESCAPE", escape) + "say(message, errored='enough'); rest()")
        assert "failed at evaluate: enough" in found
        assert 2 == len(shop.made[0].pids)


class TestEndsOfTheRun:
    """Whatever ends this side ends the program."""

    @pytest.mark.parametrize(
        ("action", "number"),
        [
            ("sleep(60)", signal.SIGKILL),
            pytest.param("sleep(60)", signal.SIGTERM, marks=pytest.mark.exhaustive),
            pytest.param("raise SystemExit(7)", None, marks=pytest.mark.exhaustive),
        ],
    )
    def test_nothing_is_left(self, shop: Workshop, action: str, number: signal.Signals | None) -> None:
        """Killed, asked to end, or at the end of the interpreter."""
        program = shop.program("signal(SIGTERM, SIG_IGN); begin(); sleep(60)")
        command = [sys.executable, "-c", PARENT.replace("ACTION", action), *program.command]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment(shop.folder)
        ) as parent:
            assert parent.stdout is not None
            assert parent.stderr is not None
            assert b"ready\n" == parent.stdout.readline()
            if number is not None:
                parent.send_signal(number)
            assert b"" == parent.stderr.read()
            assert (7 if number is None else -number) == parent.wait(20)
        assert all(map(is_gone, program.pids))

    def test_an_interruption_ends_the_program(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        """Control-C is no answer; it goes on upwards, and nothing is left running."""
        engine = shop.engine("begin(); hear(); os.kill(int(PARENT), SIGINT); sleep(60)".replace(
            "PARENT", str(os.getpid())))  # fmt: skip
        with pytest.raises(KeyboardInterrupt):
            engine.evaluate([PIECE])
        assert all(map(is_gone, shop.made[0].pids))
        engine.close()

    def test_an_engine_that_is_forgotten(self, shop: Workshop) -> None:
        """It is ended when nobody holds it any more."""
        engine = shop.engine("begin(); sleep(60)")
        del engine
        assert all(map(is_gone, shop.made[0].pids))


class TestCancelling:
    """From another thread."""

    def test_a_request_is_given_up(self, shop: Workshop) -> None:
        """The program answers both, in the order that it likes."""
        body = """
begin()
first, second = hear(), hear()
assert (second["do"], second["request"]) == ("cancel", first["id"])
say(second, ok={})
say(first, errored="cancelled in block 1")
rest()
"""
        engine = shop.engine(body)

        def cancel() -> None:
            while not engine.cancel():
                time.sleep(0.01)

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(EngineBroken, match="failed at evaluate: cancelled in block 1"):
            engine.evaluate([PIECE])
        thread.join()
        assert not engine.cancel()


def _environment(folder: Path) -> dict[str, str]:
    import cai_conformance
    import cai_reference

    roots = [str(Path(package.__file__ or "").parents[1]) for package in (cai_conformance, cai_reference)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(roots), "PYTHONWARNINGS": "error", "TMPDIR": str(folder)}


class TestGuard:
    """It is a script of its own."""

    def test_it_starts_with_the_standard_library_alone(self) -> None:
        """What it imports is what every start of a program waits for."""
        tree = ast.parse(Path(guard.__file__).read_text(encoding="utf-8"))
        names = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
        sources = [node.module for node in tree.body if isinstance(node, ast.ImportFrom)]
        assert {"os", "select", "signal", "sys"} == set(names)
        assert {"__future__", "collections.abc", "contextlib", "itertools"} == set(sources)

    def test_somebody_ends_it(self, shop: Workshop) -> None:
        """Then this side ends the program with what it started."""
        engine = shop.engine("begin()\nif os.fork() == 0: note(os.getpid())\nsignal(SIGTERM, SIG_IGN)\nsleep(60)")
        (program,) = shop.made
        while len(program.pids) < 2:
            time.sleep(0.01)
        psutil.Process(program.pids[0]).parent().kill()
        engine.close()
        assert all(map(is_gone, program.pids))
