"""Where `golden/` is: named by the caller, by the environment, in a checkout, or inside an installed package.

Locating does not open anything in the folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cai_conformance.goldens.errors import GoldenFolderMissing

VARIABLE: Final = "CAI_CONFORM_GOLDEN"

_PACKAGE = Path(__file__).resolve().parents[1]


def locate(
    explicit: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    package: Path = _PACKAGE,
) -> Path:
    """The absolute path of the folder of goldens.

    An explicit path comes first, then the environment variable `CAI_CONFORM_GOLDEN` unless empty, then `golden/` at the
    top of the checkout that holds the `package` folder, then `golden/` inside that folder.

    Raises:
        GoldenFolderMissing: the first of these that applies is not a folder; later ones are not tried.
    """
    named = (os.environ if environ is None else environ).get(VARIABLE, "")
    if explicit is not None:
        path, source = Path(explicit), "the caller"
    elif named:
        path, source = Path(named), f"the environment variable {VARIABLE}"
    elif package.parent.name == "conformance" and (package.parents[1] / "pyproject.toml").is_file():
        path, source = package.parents[1] / "golden", "the checkout"
    else:
        path, source = package / "golden", "the installed package"
    if not path.is_dir():
        raise GoldenFolderMissing(str(path), source)
    return path.absolute()
