"""Files for readers that want a path: one folder a process, gone when it ends."""

from __future__ import annotations

import atexit
import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory


@cache
def _folder(process: int) -> Path:
    folder = TemporaryDirectory(prefix="cai-conform-fuzzing-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def scratch_folder() -> Path:
    """Return the folder of this process."""
    return _folder(os.getpid())


def scratch_file(name: str, data: bytes) -> Path:
    """Write a file, over the one that had its name."""
    path = scratch_folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
