"""What the tests of the golden store share: a candidate, a change that stops half way, an environment for a child."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import cai_conformance
from cai_conformance.goldens import Candidate, GoldenStore, transaction


def make(suite: str = "course.ngram", text: str = "one", version: str = "1", **files: bytes) -> Candidate:
    """A candidate of one record with the given text, and any further files, whose names have `_` for a dot."""
    named = {name.replace("_", "."): data for name, data in files.items()}
    trace = {"trace.txt": f"LOSS|value={text}\n".encode()}
    return Candidate(suite, trace | named, version, "strict/1", f"cai-conform trace {suite}", 1)


def interrupted(store: GoldenStore, candidate: Candidate) -> None:
    """Accept a candidate and stop right after the commit point, as a crash would."""

    class Crash(BaseException):
        pass

    def crash(root: Path) -> None:
        raise Crash

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        patch.setattr(transaction, "_place", crash)
        store.accept_all([candidate], reason="interrupted")
    assert (store.root / transaction.ACCEPTED).is_dir()


def child_environment(**variables: str) -> dict[str, str]:
    """An environment without CI in which another Python finds the package under test, installed or not."""
    source = str(Path(cai_conformance.__file__).parents[1])
    paths = [source, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), **variables}
