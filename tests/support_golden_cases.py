"""The vector cases and files of the goldens, each read once."""

import json
from functools import cache
from typing import Any

from cai_conformance.fixtures.goldens.store import locate

# JSON, as the file spells it.
Case = dict[str, Any]


@cache
def shipped(suite: str, name: str) -> bytes:
    """Return a file of a suite's golden."""
    return (locate() / suite / name).read_bytes()


@cache
def cases_of(suite: str) -> dict[str, Case]:
    """Return the cases of a suite by id."""
    return {case["id"]: case for case in json.loads(shipped(suite, "vectors.json"))["cases"]}
