"""The pytest plugin: `pytest --pyargs cai_conformance --cai-backend SPEC` judges a backend, one test a check.

pytest loads this module in every run of an environment in which cai-conform is installed. So it adds options, looks for
its own argument, and imports nothing more until it finds it. It judges nothing: that begins in `activation`.

Its assertions need no rewriting, and a process that imported it before it starts pytest gets no warning about that:
PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from cai_conformance.run.pytest_plugin.arguments import asks_for_checks, refuse_old_pytest, refuse_useless_options
from cai_conformance.run.pytest_plugin.options import add_options


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, all of which begin with `--cai-`."""
    add_options(parser)


# Around the others, because pytest-xdist decides in the same hook how tests are distributed. Of the two kinds of
# wrappers this is the one that old releases of pytest can load, too: they need not be able to run the checks.
@pytest.hookimpl(hookwrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, None]:
    """Make ready to collect checks, where the command line names them."""
    if asks_for_checks(config):
        refuse_old_pytest()
        from cai_conformance.run.pytest_plugin.activation import activate

        activate(config)
    else:
        refuse_useless_options(config)
    yield
