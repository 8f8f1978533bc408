"""Writing folders whole: each is made beside its place and moved there in one step.

Everything is looked at before anything is written. A crash between two folders leaves some of them new and the others
as they were; none is ever half.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cai_conformance.exporting.errors import AlreadyThere, ForeignFolder
from cai_conformance.interchange.errors import OutputNotWritten

EXPORTED: Final = frozenset(
    {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "trace.txt",
        "vectors.json",
        "weights.safetensors",
    }
)
"""Every name that an export writes; a folder with any other file is somebody else's."""


def write_folders(root: Path, folders: Mapping[str, Mapping[str, bytes]], *, force: bool) -> tuple[Path, ...]:
    """Write folders with their files below `root`, which is made where it is missing; return their paths.

    Args:
        root: where the folders go.
        folders: contents by file name, by the name of the folder.
        force: whether folders of an earlier export are replaced.

    Raises:
        AlreadyThere: something has a folder's name, and `force` is not given.
        ForeignFolder: a folder that would be replaced holds what no export writes.
        OutputNotWritten: the operating system refuses.
    """
    places = {name: root / name for name in folders}
    try:
        for place in places.values():
            _check(place, force=force)
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".exporting-", dir=root) as work:
            for name, files in folders.items():
                _make(Path(work) / "new" / name, files)
            for name, place in places.items():
                if place.exists():
                    old = Path(work) / "old"
                    old.mkdir(exist_ok=True)
                    place.rename(old / name)
                (Path(work) / "new" / name).rename(place)
    except OSError as error:
        raise OutputNotWritten(os.fspath(root), error.strerror or str(error)) from error
    return tuple(places.values())


def _check(place: Path, *, force: bool) -> None:
    if not os.path.lexists(place):
        return
    if not force or place.is_symlink() or not place.is_dir():
        raise AlreadyThere(os.fspath(place))
    foreign = sorted(found.name for found in place.iterdir() if found.name not in EXPORTED or not found.is_file())
    if foreign:
        raise ForeignFolder(os.fspath(place), foreign[0])


def _make(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, data in files.items():
        with (folder / name).open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
