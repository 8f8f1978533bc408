"""The example backend in C: building it, calling it, and folders that ask it a question."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.suites.ngram import embedded_input

SOURCES: Final = Path(__file__).resolve().parents[1] / "conformance" / "examples" / "c99"
STRICT: Final = ("-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror")
SANITIZED: Final = (
    "-std=c99",
    "-O1",
    "-g",
    "-ffp-contract=off",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover",
)
SECONDS: Final = 60


@dataclass(frozen=True)
class Called:
    """How one call of the program ended."""

    code: int
    output: bytes
    complaint: str


@dataclass(frozen=True)
class Program:
    """The compiled example."""

    path: Path

    def call(self, *arguments: str, given: bytes = b"") -> Called:
        """Call it with these arguments and this standard input."""
        done = subprocess.run(
            [str(self.path), *arguments], input=given, capture_output=True, timeout=SECONDS, check=False
        )
        return Called(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))

    def trace(self, folder: Path, profile: str = "golden", suite: str = "course.ngram") -> Called:
        """Ask for a trace in `strict/1`."""
        arguments = ["--vectors", str(folder), "--profile", profile, "--arithmetic", "strict/1"]
        return self.call("trace", suite, *arguments)


def compiler() -> str | None:
    """Return a C compiler, or None."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def compiled(
    target: Path, options: Sequence[str], sources: Sequence[Path] = (), libraries: Sequence[str] = ("-lm",)
) -> str:
    """Compile the example, or some of its files, into `target`; return what went wrong, which is nothing at all."""
    chosen = sources or sorted(SOURCES.glob("*.c"))
    command = [compiler() or "cc", *options, "-o", str(target), *map(str, chosen), *libraries]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * SECONDS, check=False)
    return "" if done.returncode == 0 else done.stderr or f"exit code {done.returncode}"


def write_question(folder: Path, changes: Mapping[str, bytes] | None = None) -> Path:
    """Write what the n-gram suite gives to a program; `changes` replace files."""
    golden, own = GoldenStore(locate()).read("course.ngram"), embedded_input()
    request = {"suite": "course.ngram", "suite_version": golden.entry.suite_version}
    files = {
        "vectors.json": golden.files["vectors.json"],
        "weights.safetensors": golden.files["weights.safetensors"],
        "corpus.txt": own.corpus,
        "splits.json": own.splits,
        "request.json": json.dumps(request).encode(),
        **(changes or {}),
    }
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder
