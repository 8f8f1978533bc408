"""The options of the plugin. They have no defaults here, so that a run can tell which ones it was given."""

from __future__ import annotations

from typing import Final

import pytest

PREFIX: Final = "--cai-"
"""How every option begins."""


OPTIONS: Final = (
    (
        "backend",
        "SPEC",
        "The backend to judge: reference (the default), trace:FILE, module:attribute, or an entry point's name.",
    ),
    ("suite", "NAME", "A suite, by its id or an ending of it; may be repeated. All suites by default."),
    ("arithmetic", "NAME", "strict, libm or fast; the backend's or the suite's own by default."),
    (
        "policy",
        "POLICY",
        "What may differ: exact, ulp:N, measured, or auto (the default): exact in strict, else measured.",
    ),
    ("expect-failures", "FILE", "A TOML file of checks that are known to fail, and why; strict."),
    ("require", "LEVEL", "A skip up to this level (I0…I3, T0…T3) counts as a failure."),
)
"""What follows the prefix, what stands for the value, and the help; only the suite may be repeated."""


def add_options(parser: pytest.Parser) -> None:
    """Add the options to a parser of pytest."""
    group = parser.getgroup("cai-conform", "conformance checks (--pyargs cai_conformance)")
    for name, value, told in OPTIONS:
        action = "append" if name == "suite" else "store"
        group.addoption(f"{PREFIX}{name}", action=action, metavar=value, help=told)
