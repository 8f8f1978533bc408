"""The pytest plugin by the name that entry points and `-p cai_conformance.pytest_plugin` load.

The hooks live in `cai_conformance.run.pytest_plugin`. PYTEST_DONT_REWRITE: see there.
"""

from __future__ import annotations

from cai_conformance.run.pytest_plugin import pytest_addoption, pytest_cmdline_main

__all__ = ["pytest_addoption", "pytest_cmdline_main"]
