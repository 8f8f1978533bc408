"""Making a run of pytest ready to collect and judge checks."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final

import pytest

from cai_conformance.errors import ConformanceError
from cai_conformance.run.pytest_plugin import checks
from cai_conformance.run.pytest_plugin.arguments import collected_argument
from cai_conformance.run.pytest_plugin.judging import PluginJudging, explained, settings_of
from cai_conformance.run.pytest_plugin.outcomes import Summary

NAME: Final = "cai-conform-checks"
"""Under which the hooks of a run with checks are registered; `cai-conform` is the plugin that is always there."""


def activate(config: pytest.Config) -> None:
    """Check the options, have the checks collected, and keep each suite in one process.

    Raises:
        pytest.UsageError: an option cannot be used, or the backend cannot be loaded.
    """
    judging = PluginJudging(settings_of(config))
    config.args[:] = map(collected_argument, config.args)
    # A worker of pytest-xdist has no summary of its own: its reports go to the process that started it.
    is_worker = hasattr(config, "workerinput")
    config.pluginmanager.register(ChecksPlugin(judging), NAME)
    if not is_worker:
        config.pluginmanager.register(Summary(judging.settings.backend), f"{NAME}-summary")
        _keep_suites_together(config)
        if not config.option.collectonly:
            _load(judging)
            if getattr(config.option, "numprocesses", None):
                # Its workers judge, each with a backend of its own.
                judging.close()


def _keep_suites_together(config: pytest.Config) -> None:
    """Let pytest-xdist give whole suites to its workers, where the user chose no other way.

    Its scopes end before the last `::` of a node id, which is where a check begins.
    """
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no" and not config.option.distload:
        config.option.dist = "loadscope"


def _load(judging: PluginJudging) -> None:
    """Refuse a backend that cannot be loaded once, before there are workers, rather than fail every check."""
    try:
        # What a module prints while it is imported is no result.
        with redirect_stdout(sys.stderr):
            judging.load()
    except ConformanceError as error:
        raise pytest.UsageError(explained(error)) from error


class ChecksPlugin:
    """The hooks of a run with checks."""

    def __init__(self, judging: PluginJudging) -> None:
        self._judging = judging

    def pytest_report_header(self) -> str:
        """Say what is judged."""
        suites = len(self._judging.settings.suites)
        return f"cai-conform: backend {self._judging.settings.backend}, {suites} {'suite' if suites == 1 else 'suites'}"

    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Look in this package for one file only, and import nothing for it."""
        return checks.folder(path, parent)

    def pytest_pycollect_makemodule(self, module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        """Collect the checks in place of the module that pytest was pointed at."""
        return checks.file_of_checks(module_path, parent, self._judging)

    def pytest_sessionfinish(self) -> None:
        """Let go of the backend."""
        self._judging.close()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Judge what was selected, and nothing else."""
        found = [item.check for item in session.items if isinstance(item, checks.CheckItem)]
        self._judging.select(found)
