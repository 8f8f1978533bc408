"""From the options of a run to what they name, checked before anything is collected."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from cai_conformance.arithmetics import arithmetic_identifier
from cai_conformance.errors import ConformanceError
from cai_conformance.expectations import Expectations, apply_expectations, load_expectations
from cai_conformance.measuring import parse_policy
from cai_conformance.questions import Options
from cai_conformance.suites import Suite, all_check_ids, find_suites
from cai_conformance.suites.errors import UnknownLevel
from cai_conformance.verdicts import Level
from cai_reference import CaiReferenceError


@dataclass(frozen=True)
class Settings:
    """What a run judges, by what, and what it expects.

    Attributes:
        backend: the specification, not yet resolved.
        suites: in registry order.
        options: what is asked differently from the suites' own way.
        expectations: the failures that are known.
        required: the level up to which a skip counts as a failure.
    """

    backend: str
    suites: tuple[Suite, ...]
    options: Options
    expectations: Expectations
    required: Level | None


def settings_of(config: pytest.Config) -> Settings:
    """Return the settings of a run.

    Raises:
        pytest.UsageError: an option names something that does not exist, or a file that cannot be used.
    """
    try:
        arithmetic, policy = config.getoption("cai_arithmetic"), config.getoption("cai_policy")
        return Settings(
            config.getoption("cai_backend") or "reference",
            find_suites(config.getoption("cai_suite") or []),
            Options(
                arithmetic if arithmetic is None else arithmetic_identifier(arithmetic),
                policy=parse_policy(policy or "auto"),
            ),
            _expectations(config),
            _level(config.getoption("cai_require")),
        )
    except (ConformanceError, CaiReferenceError) as error:
        raise pytest.UsageError(explained(error)) from error


def explained(error: ConformanceError | CaiReferenceError) -> str:
    """Return the sentence of an error, and the next command to try where there is one."""
    command = getattr(error, "next_command", "")
    return f"{error}\ntry: {command}" if command else str(error)


def _expectations(config: pytest.Config) -> Expectations:
    file = config.getoption("cai_expect_failures")
    # Where pytest.xfail is switched off, an expected failure is a failure like any other.
    if file is None or config.option.runxfail:
        return Expectations("", ())
    expectations = load_expectations(config.invocation_params.dir / Path(file))
    apply_expectations((), expectations, all_check_ids())
    return expectations


def _level(name: str | None) -> Level | None:
    if name is None:
        return None
    try:
        return Level(name.upper())
    except ValueError:
        raise UnknownLevel(name, ", ".join(Level)) from None
