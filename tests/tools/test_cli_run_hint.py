"""What `run` says after an engine has failed: the command that makes the failure small."""

from __future__ import annotations

import pytest

from cai_conformance.faults import fault_named
from support_cli import invoke
from support_engines import Planted, Wrapped


def wrong() -> Wrapped:
    """Return an engine that takes a window for one token longer than it is."""
    return Planted(fault_named("window.plus-one"))


pytestmark = pytest.mark.exhaustive

SPECIFICATION = f"{__name__}:wrong"
RUN = ("run", "llama.gqa-window", "-k", "fwd.oracle or trace", "--jobs", "1", "--format", "table")


def test_the_command_names_the_suite_the_backend_and_the_check() -> None:
    """The first check of those that can be made small."""
    result = invoke(*RUN, "--backend", SPECIFICATION)
    assert 1 == result.code
    expected = f"to make it small: cai-conform shrink llama.gqa-window --backend {SPECIFICATION} -k fwd.oracle"
    assert f"cai-conform: {expected}" == result.err.strip().splitlines()[-1]


@pytest.mark.parametrize("arguments", [("--backend", SPECIFICATION, "--quiet"), ("--backend", "reference")])
def test_it_is_not_said_when_nothing_fails_or_nothing_is_wanted(arguments: tuple[str, ...]) -> None:
    """Nor to those who asked for quiet."""
    assert "to make it small" not in invoke(*RUN, *arguments).err
