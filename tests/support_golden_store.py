"""What the tests of the golden store share: a candidate, what lies in a store, an environment for a child."""

from __future__ import annotations

import os
from pathlib import Path

import cai_conformance
from cai_conformance.fixtures.goldens.records import Candidate


def make(suite: str = "course.ngram", text: str = "one", version: str = "1", **files: bytes) -> Candidate:
    """A candidate of one record with the given text, and any further files, whose names have `_` for a dot."""
    named = {name.replace("_", "."): data for name, data in files.items()}
    trace = {"trace.txt": f"LOSS|value={text}\n".encode()}
    return Candidate(suite, trace | named, version, "strict/1", f"cai-conform trace {suite}", 1)


def contents(root: Path) -> dict[str, bytes]:
    """Every file below a folder but the lock."""
    paths = sorted(path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def child_environment(**variables: str) -> dict[str, str]:
    """An environment without CI in which another Python finds the package under test, installed or not."""
    source = str(Path(cai_conformance.__file__).parents[1])
    paths = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), **variables}
