"""The names of checks, such as `fwd.oracle`, which several suites share."""

from __future__ import annotations

from cai_conformance.suites import SUITES
from cai_conformance.suites.errors import UnknownCheck


def check_names() -> tuple[str, ...]:
    """Return the names of all checks of all suites, each once, in the order of the suites."""
    return tuple(dict.fromkeys(check.name for suite in SUITES for check in suite.checks))


def known_check(name: str) -> str:
    """Return the name of a check.

    Raises:
        UnknownCheck: no suite has one of this name.
    """
    if name not in check_names():
        raise UnknownCheck(name)
    return name
