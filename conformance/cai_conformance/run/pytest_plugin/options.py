"""The options of the plugin. They have no defaults here, so that a run can tell which ones it was given."""

from __future__ import annotations

from typing import Final

import pytest

PREFIX: Final = "--cai-"
"""How every option begins."""


def add_options(parser: pytest.Parser) -> None:
    """Add the options to a parser of pytest."""
    group = parser.getgroup("cai-conform", "conformance checks (--pyargs cai_conformance)")
    group.addoption(
        f"{PREFIX}backend",
        metavar="SPEC",
        help="The backend to judge: reference (the default), trace:FILE, module:attribute, or an entry point's name.",
    )
    group.addoption(
        f"{PREFIX}suite",
        action="append",
        metavar="NAME",
        help="A suite, by its id or an ending of it; may be repeated. All suites by default.",
    )
    group.addoption(
        f"{PREFIX}arithmetic", metavar="NAME", help="strict, libm or fast; the backend's or the suite's own by default."
    )
    group.addoption(
        f"{PREFIX}policy",
        metavar="POLICY",
        help="What may differ: exact, ulp:N, measured, or auto (the default): exact in strict, else measured.",
    )
    group.addoption(
        f"{PREFIX}expect-failures",
        metavar="FILE",
        help="A TOML file of checks that are known to fail, and why; strict.",
    )
    group.addoption(
        f"{PREFIX}require", metavar="LEVEL", help="A skip up to this level (I0…I3, T0…T3) counts as a failure."
    )
