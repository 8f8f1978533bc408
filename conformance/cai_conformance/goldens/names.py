"""Names of suites and golden files, and the fixed names inside `golden/`.

A name must mean the same file on every file system, so there are no capitals, no spaces and no dots at either end.
"""

from __future__ import annotations

import re
from typing import Final

from cai_conformance.goldens.errors import NameUnusable

MANIFEST: Final = "manifest.json"
LEDGER: Final = "ledger.jsonl"
PORTABILITY: Final = "portability.json"
README: Final = "README.md"
TRACE: Final = "trace.txt"

_USABLE = re.compile(r"[a-z0-9_-](?:[a-z0-9_.-]*[a-z0-9_-])?", re.ASCII)


def check_suite(name: str) -> str:
    """Return the name of a suite unchanged.

    Raises:
        NameUnusable: it is not made of `[a-z0-9_.-]`, starts or ends with a dot, or is a fixed name of the store.
    """
    if _USABLE.fullmatch(name) is None or name in (MANIFEST, LEDGER, PORTABILITY, README.lower()):
        raise NameUnusable("suite", name)
    return name


def check_file(name: str) -> str:
    """Return the name of a file inside a suite folder unchanged.

    Raises:
        NameUnusable: it is not made of `[a-z0-9_.-]`, or starts or ends with a dot.
    """
    if _USABLE.fullmatch(name) is None:
        raise NameUnusable("file", name)
    return name
