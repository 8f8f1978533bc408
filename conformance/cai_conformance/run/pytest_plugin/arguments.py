"""The argument that asks for checks: `cai_conformance`, a package, and what pytest is given in its place.

pytest refuses `::` behind a package, and would look through all its files. So the package is replaced by the one file
whose collector knows the checks::

    cai_conformance                         cai_conformance.run.pytest_plugin.checks
    cai_conformance::course.ngram           cai_conformance.run.pytest_plugin.checks::course.ngram

A node id that pytest printed can thus be given back to it, behind `--pyargs`.
"""

from __future__ import annotations

from typing import Final

import pytest

from cai_conformance.run.pytest_plugin.options import PREFIX

PACKAGE: Final = "cai_conformance"
"""The argument; node ids begin with it, too, wherever the package is installed."""

COLLECTED: Final = f"{PACKAGE}.run.pytest_plugin.checks"
"""The module that pytest collects."""


def asks_for_checks(config: pytest.Config) -> bool:
    """Whether the arguments name the checks, as a package."""
    return bool(config.option.pyargs) and any(_module(argument) in (PACKAGE, COLLECTED) for argument in config.args)


def refuse_old_pytest() -> None:
    """Refuse a pytest in which no plugin decides how a folder is collected.

    Raises:
        pytest.UsageError: it is older than 8.0.
    """
    if pytest.version_tuple < (8, 0):
        raise pytest.UsageError(
            f"cai-conform needs pytest 8.0 or newer to collect checks; this is {pytest.__version__}"
        )


def collected_argument(argument: str) -> str:
    """Return what pytest is to collect for an argument."""
    module, separator, rest = argument.partition("::")
    return f"{COLLECTED}{separator}{rest}" if module == PACKAGE else argument


def refuse_useless_options(config: pytest.Config) -> None:
    """Refuse options on the command line that would judge nothing; those in a configuration file may wait there.

    Raises:
        pytest.UsageError: there is one.
    """
    for argument in map(str, config.invocation_params.args):
        if argument.startswith(PREFIX):
            name = argument.partition("=")[0]
            raise pytest.UsageError(f"{name} judges nothing without the arguments --pyargs {PACKAGE}")


def _module(argument: str) -> str:
    return argument.partition("::")[0]
