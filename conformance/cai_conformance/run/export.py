"""What an exported folder holds, by layout.

| layout | files |
|---|---|
| `native` | `weights.safetensors` with the reference's own names, `vectors.json`, `trace.txt` |
| `hf` | `model.safetensors`, `config.json`, `generation_config.json`, `vectors.json`, `trace.txt` |

Nothing is computed anew: values are those of the golden, which are exact in bfloat16, float16 and float32.

What can go wrong while goldens are exported.

::

    InputError
    └── ExportError

Writing folders whole: each is made beside its place and moved there in one step.

Everything is looked at before anything is written. A crash between two folders leaves some of them new and the others
as they were; none is ever half.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cai_conformance.errors import InputError
from cai_conformance.fixtures.decoder_phases import DECODE_PHASES
from cai_conformance.fixtures.files import InterchangeError
from cai_conformance.fixtures.given_weights import native_file, native_values
from cai_conformance.fixtures.goldens.records import Golden
from cai_conformance.fixtures.weight_files import WeightsLayout
from cai_conformance.suites.suite import Suite

EXPORTING_TEMPLATES: Final[Mapping[str, str]] = {
    # A suite has no model in this layout.
    "layout-impossible": "{suite} has no layout {layout!r}: {reason}",
    # Something would be replaced.
    "already-there": "{path!r} is already there",
    # What would be replaced was not exported, or was added to since.
    "foreign-folder": "{path!r} holds {name!r}, which no export writes, and is not replaced",
}

EXPORTING_HINTS: Final[Mapping[str, str]] = {
    "layout-impossible": "cai-conform vectors export DIR {suite} --layout native",
    "already-there": "cai-conform vectors export --force",
}
"""The command or step to try next, by code, filled from the fields as the templates are."""


class ExportError(InputError):
    """A golden cannot be exported."""

    templates = EXPORTING_TEMPLATES
    hints = EXPORTING_HINTS


Layout = WeightsLayout

NO_DECODER: Final = "its model is no decoder"
"""Why a suite without a phase has no folder that engines load."""


def obstacle(suite: Suite) -> str:
    """Return why engines cannot load the model of a suite; nothing where they can."""
    return next((phase.obstacle for phase in DECODE_PHASES if phase.suite == suite.identifier), NO_DECODER)


def can_export(suite: Suite, layout: Layout) -> bool:
    """Tell whether a suite has a layout."""
    return layout is Layout.NATIVE or not obstacle(suite)


def contents_of(suite: Suite, golden: Golden, layout: Layout) -> Mapping[str, bytes]:
    """Return the files of a folder, by name.

    Raises:
        ExportError (layout-impossible): engines cannot compute what the suite's model computes.
    """
    if not can_export(suite, layout):
        raise ExportError("layout-impossible", suite=suite.identifier, layout=layout.value, reason=obstacle(suite))
    files = dict(golden.files)
    if layout is Layout.HUGGING_FACE or suite.weights_file == Layout.NATIVE.file:
        return files
    phase = next(phase for phase in DECODE_PHASES if phase.suite == suite.identifier)
    return {
        Layout.NATIVE.file: native_file(native_values(phase, files[suite.weights_file])),
        **{name: files[name] for name in ("trace.txt", "vectors.json")},
    }


EXPORTED: Final = frozenset(
    {"config.json", "generation_config.json", "model.safetensors", "trace.txt", "vectors.json", "weights.safetensors"}
)
"""Every name that an export writes; a folder with any other file is somebody else's."""


def write_folders(root: Path, folders: Mapping[str, Mapping[str, bytes]], *, force: bool) -> tuple[Path, ...]:
    """Write folders with their files below `root`, which is made where it is missing; return their paths.

    Args:
        root: where the folders go.
        folders: contents by file name, by the name of the folder.
        force: whether folders of an earlier export are replaced.

    Raises:
        ExportError (already-there): something has a folder's name, and `force` is not given.
        ExportError (foreign-folder): a folder that would be replaced holds what no export writes.
        InterchangeError (output-not-written): the operating system refuses.
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
        raise InterchangeError(
            "output-not-written", path=os.fspath(root), problem=error.strerror or str(error)
        ) from error
    return tuple(places.values())


def _check(place: Path, *, force: bool) -> None:
    if not os.path.lexists(place):
        return
    if not force or place.is_symlink() or not place.is_dir():
        raise ExportError("already-there", path=os.fspath(place))
    foreign = sorted(found.name for found in place.iterdir() if found.name not in EXPORTED or not found.is_file())
    if foreign:
        raise ExportError("foreign-folder", path=os.fspath(place), name=foreign[0])


def _make(folder: Path, files: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True)
    for name, data in files.items():
        with (folder / name).open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
