"""Programs that speak the serve protocol, well or badly, as tiny scripts; and what must be left of them: nothing."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cai_conformance.backends.serve.channel import Deadlines
from cai_conformance.backends.serve.client import ServeEngine
from cai_conformance.engine import EngineBroken, Piece

PATIENT = Deadlines(20.0, 20.0)
"""For programs that answer at once; a busy machine is not their fault."""

WORDS = "these are my last words"

PIECE = Piece(0, 0, (5, 6, 7), (0, 2))
"""Asks for two rows of logits."""

# A script must start quickly: `signal` of the standard library makes enumerations of what `_signal` has.
PREAMBLE = """
import json, os, sys
from _signal import *
from time import sleep

def note(pid):
    with open(sys.argv[1], "a") as file:
        file.write(f"{pid}\\n")

def hear():
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line else sys.exit(0)

def raw(data):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()

def say(message, **outcome):
    raw(json.dumps({"id": message["id"], **outcome}).encode() + b"\\n")

def begin(**changes):
    message = hear()
    ok = {"name": "tiny", "version": "1", "protocol": "1", "arithmetic": "float64",
          "precision": {key: "float64" for key in ("weights", "activations", "cache", "accumulation", "logits")},
          "precisions": [], "nondeterminism": "none", "features": [], "arms": [], "slots": 1}
    say(message, ok={**ok, **changes})
    return message["scratch"]

def tensor(values, *shape, **changes):
    import binascii, struct
    data = binascii.b2a_base64(struct.pack(f"<{len(values)}d", *values), newline=False).decode()
    return {"dtype": "float64", "shape": list(shape), "data": data, **changes}

def answer(*tensors, **changes):
    say(hear(), ok={"answers": [{"logits": value, "stages": [], **changes} for value in tensors]})

def rest():
    while True:
        message = hear()
        say(message, ok={})
        if message["do"] == "stop":
            sys.exit(0)

note(os.getpid())
print(WORDS, file=sys.stderr, flush=True)
""".replace("WORDS", repr(WORDS))


@dataclass(frozen=True)
class Program:
    """A script that has been written: how it is called, and where it notes its process ids."""

    command: tuple[str, ...]
    notes: Path

    @property
    def pids(self) -> list[int]:
        """The processes that were there."""
        return [int(line) for line in self.notes.read_text().split()] if self.notes.exists() else []


class Workshop:
    """Writes programs into a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: list[Program] = []

    def program(self, body: str, preamble: str = PREAMBLE) -> Program:
        """Write a script that begins with `PREAMBLE`."""
        number = len(self.made)
        script, notes = self.folder / f"program-{number}.py", self.folder / f"pids-{number}"
        script.write_text(preamble + body, encoding="utf-8")
        self.made.append(Program((sys.executable, "-I", "-S", str(script), str(notes)), notes))
        return self.made[-1]

    def engine(self, body: str, deadlines: Deadlines = PATIENT) -> ServeEngine:
        """Start a program that has been written."""
        return ServeEngine(self.program(body).command, deadlines=deadlines, name="the program")

    def broken(self, body: str, deadlines: Deadlines = PATIENT) -> str:
        """Start a program, evaluate `PIECE`, and return the sentence that says what went wrong."""
        with pytest.raises(EngineBroken) as caught:
            self.evaluated(body, deadlines)
        return str(caught.value)

    def evaluated(self, body: str, deadlines: Deadlines = PATIENT) -> object:
        """Start a program, evaluate `PIECE`, and return the logits."""
        with self.engine(body, deadlines) as engine:
            return engine.evaluate([PIECE])[0].logits


@contextmanager
def workshop(folder: Path) -> Iterator[Workshop]:
    """Let programs be written, and look afterwards whether a process, a thread or a file is left."""
    threads, files = set(threading.enumerate()), open_files()
    found = Workshop(folder)
    yield found
    for program in found.made:
        for pid in program.pids:
            assert is_gone(pid), f"process {pid} is left"
    assert set() == {thread for thread in threading.enumerate() if thread.is_alive()} - threads
    assert open_files() <= files


def is_gone(pid: int, seconds: float = 5.0) -> bool:
    """Wait for the end of a process that is being ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def open_files() -> int:
    """Return how many descriptors this process has; 0 where the system does not say."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0
