"""What pytest collects: one file, in it the suites, in them their checks.

Everything is known from the registry of suites. No backend is asked, so that all processes of a run collect the same.
This is also the file that pytest is pointed at; it holds no test.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import cai_conformance
from cai_conformance.errors import ConformanceError
from cai_conformance.run.pytest_plugin import outcomes
from cai_conformance.run.pytest_plugin.arguments import PACKAGE
from cai_conformance.run.pytest_plugin.judging import PluginJudging, explained
from cai_conformance.suites.suite import Suite
from cai_conformance.verdicts import Report
from cai_reference.errors import CaiReferenceError

FILE: Final = Path(__file__)
ROOTS: Final = (Path(cai_conformance.__file__ or "").parent, FILE.parent.parent, FILE.parent)
"""The folders between the package and the file, from above."""


def folder(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return a collector of a folder on the way to the checks; None for any other."""
    return Folder.from_parent(parent, path=path, name=PACKAGE, nodeid=PACKAGE) if path in ROOTS else None


def file_of_checks(path: Path, parent: pytest.Collector, judging: PluginJudging) -> pytest.Collector | None:
    """Return the collector of the checks; None for any other file."""
    if path != FILE:
        return None
    # The node id depends on no place of installation, and names, by which -k selects, say nothing of this file.
    checks: ChecksFile = ChecksFile.from_parent(parent, path=path, name=PACKAGE, nodeid=PACKAGE)
    checks.judging = judging
    return checks


class Folder(pytest.Directory):
    """A folder on the way to the checks, in which nothing else is looked for."""

    def collect(self) -> Iterator[pytest.Collector]:
        """Collect the next folder, or the file."""
        if self.path == FILE.parent:
            yield self.ihook.pytest_pycollect_makemodule(module_path=FILE, parent=self)
        else:
            yield self.ihook.pytest_collect_directory(path=ROOTS[ROOTS.index(self.path) + 1], parent=self)


class ChecksFile(pytest.File):
    """All suites that were asked for."""

    judging: PluginJudging

    def collect(self) -> Iterator[SuiteCollector]:
        """Collect the suites, in the order of the registry."""
        for suite in self.judging.settings.suites:
            collector: SuiteCollector = SuiteCollector.from_parent(self, name=suite.identifier)
            collector.suite, collector.judging = suite, self.judging
            if self.config.pluginmanager.hasplugin("xdist"):
                # For those who choose --dist loadgroup.
                collector.add_marker(pytest.mark.xdist_group(suite.identifier))
            yield collector


class SuiteCollector(pytest.Collector):
    """One suite."""

    suite: Suite
    judging: PluginJudging

    def collect(self) -> Iterator[CheckItem]:
        """Collect the checks, in the order of judging."""
        for check in self.suite.check_ids():
            local = check.partition("::")[2]
            # Given as a string, because pytest reads brackets as parameters only where it parses them.
            item: CheckItem = CheckItem.from_parent(self, name=local, nodeid=f"{PACKAGE}::{check}")
            item.suite, item.judging, item.check = self.suite, self.judging, check
            yield item


class CheckItem(pytest.Item):
    """One check, or one case of it: `check` is its full id."""

    suite: Suite
    judging: PluginJudging
    check: str
    report: Report

    def setup(self) -> None:
        """Have the check judged, which for the first one of a suite includes asking the backend."""
        try:
            self.report = self.judging.report(self.suite, self.check)
        except (ConformanceError, CaiReferenceError) as error:
            pytest.fail(f"errored: {explained(error)}", pytrace=False)
        except Exception:
            # From here on: what stands above is pytest's, and there is a lot of it.
            pytest.fail(f"a defect, and no verdict\n{traceback.format_exc()}", pytrace=False)
        self.user_properties.extend(outcomes.properties(self.report))
        # In this phase, pytest calls a failure an error.
        outcomes.stop_if_errored(self.report)

    def runtest(self) -> None:
        """Fail, skip or pass by the verdict."""
        note = outcomes.settle(self.report, self.judging.settings.backend)
        if note:
            self.add_report_section("call", "near tie", note)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the file, no line in it, and the full id as the headline."""
        return self.path, None, self.check
