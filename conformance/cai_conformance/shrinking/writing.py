"""Writing a smallest case as a folder: the model that engines load, and beside it what was asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from cai_conformance.engines.given_model import GivenModel
from cai_conformance.probing.batches import Batches
from cai_conformance.probing.calls import Calls
from cai_conformance.shrinking.errors import FolderTaken
from cai_conformance.shrinking.minimising import Smallest
from cai_conformance.shrinking.telling import facts_of

CASE: Final = "case.json"
"""The name of the file that says what was asked."""
WRITTEN: Final = (CASE, "config.json", "generation_config.json", "model.safetensors", "weights.safetensors")
"""All names of files that are ever written."""


def check_free(folder: Path) -> None:
    """Refuse a folder that holds something else than a case.

    Raises:
        FolderTaken: it does, or is no folder.
    """
    if not folder.exists() or (folder.is_dir() and (not any(folder.iterdir()) or (folder / CASE).is_file())):
        return
    raise FolderTaken(str(folder))


def write_case(found: Smallest, given: GivenModel, folder: Path, backend: str, command: str) -> None:
    """Write a case, in the place of one that was there before.

    Args:
        found: the case.
        given: the model of the suite.
        folder: which is made if need be.
        backend: its specification.
        command: which replays the case.

    Raises:
        FolderTaken: the folder holds something else.
        OSError: it cannot be written.
    """
    check_free(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in WRITTEN:
        (folder / name).unlink(missing_ok=True)
    for name, data in found.last.model.files(given).items():
        (folder / name).write_bytes(data)
    document = {
        "suite": found.suite,
        "check": found.check.identifier,
        "backend": backend,
        "command": command,
        **_question(found),
        "sizes": facts_of(found.last),
        "message": found.last_judged.message,
    }
    (folder / CASE).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _question(found: Smallest) -> dict[str, object]:
    asked = found.last.asked
    if isinstance(asked, Calls):
        return {"prompt": asked.prompt, "start": asked.start, "calls": asked.text}
    return {"batches": asked.steps} if isinstance(asked, Batches) else {}
