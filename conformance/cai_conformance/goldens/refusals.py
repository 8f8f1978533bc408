"""When a golden must not be written at all, decided before anything is touched.

The mode bits are looked at and not only asked of the operating system, because root may write what nobody should.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from cai_conformance.goldens.errors import GoldenReadOnly, ReasonMissing, RefusedInCi
from cai_conformance.goldens.transaction import may_write

CI: Final = "CI"

_FALSE = frozenset({"", "0", "false", "no", "off", "n", "f"})


def check_reason(reason: str) -> str:
    """The reason without white space around it, in characters that UTF-8 can hold.

    Raises:
        ReasonMissing: nothing is left.
    """
    clean = reason.encode("utf-8", "replace").decode("utf-8").strip()
    if not clean:
        raise ReasonMissing
    return clean


def check_not_ci(environ: Mapping[str, str] | None = None) -> None:
    """Pass unless the environment variable `CI` is set to anything but a word for false.

    Raises:
        RefusedInCi: it is.
    """
    value = (os.environ if environ is None else environ).get(CI, "")
    if value.strip().lower() not in _FALSE:
        raise RefusedInCi(value)


def check_folder(root: Path) -> None:
    """Pass if files in the folder of goldens may be replaced.

    Raises:
        GoldenReadOnly: no write bit, no permission, or a read-only file system.
    """
    if not may_write(root):
        raise GoldenReadOnly(str(root), "the folder is read-only")


def check_targets(root: Path, names: Iterable[str]) -> None:
    """Pass if each of the files, named relative to the store, may be replaced or added.

    Raises:
        GoldenReadOnly: one of them or its folder has no write bit, or something else stands in its place.
    """
    for name in sorted(names):
        target = root / name
        folder = target.parent
        if folder.exists() and not folder.is_dir():
            raise GoldenReadOnly(str(folder), "there is a file where a folder should be")
        if folder.is_dir() and not may_write(folder):
            raise GoldenReadOnly(str(folder), "the folder is read-only")
        if target.exists() and not target.is_file():
            raise GoldenReadOnly(str(target), "there is no plain file in its place")
        if target.exists() and not target.stat().st_mode & 0o222:
            raise GoldenReadOnly(str(target), "the file has no write permission")
