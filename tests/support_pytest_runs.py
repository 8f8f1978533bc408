"""Runs of pytest inside tests of the pytest plugin, as strict as this project's own."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

import pytest

# Imported here, so that a run inside a test does not import it anew each time.
import cai_conformance.run.pytest_plugin.activation  # noqa: F401
from cai_conformance.suites import registry
from support_cli import environment_of
from support_pytest_suites import ASKED, KNOWN, SUITES

MODULE: Final = "cai_conformance.pytest_plugin"

LOADED: Final = ("-p", MODULE, "-p", "xdist", "--strict-markers", "--strict-config", "-W", "error")
"""What every run loads, and nothing else that is installed; warnings are errors, as in this project's own tests."""


class Runs:
    """Runs pytest in a folder of its own, on the two small suites of `support_pytest_suites`."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        self.folder = pytester.path
        self._asked = self.folder / "asked.txt"
        monkeypatch.setattr(registry, "SUITES", SUITES)
        monkeypatch.setenv(ASKED, str(self._asked))
        # Processes of their own find the packages and the support modules where this one does.
        roots = os.pathsep.join([environment_of()["PYTHONPATH"], str(Path(__file__).parent)])
        monkeypatch.setenv("PYTHONPATH", roots)
        monkeypatch.delenv("CI", raising=False)
        monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        (self.folder / "known.toml").write_text(KNOWN, encoding="utf-8")

    def plain(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in this process, with the plugin and nothing else said."""
        return self.pytester.runpytest_inprocess(*LOADED, *arguments)

    def judge(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in this process on the checks and the small suites' own backend."""
        return self.plain("--pyargs", "cai_conformance", "--cai-backend=support_pytest_suites:backend", *arguments)

    def apart(self, *arguments: str) -> pytest.RunResult:
        """Run the same in a process of its own, which may start workers."""
        command = ("-p", "support_pytest_suites", *LOADED, "--pyargs", "cai_conformance")
        return self.pytester.runpytest_subprocess(
            *command, "--cai-backend=support_pytest_suites:backend", *arguments, timeout=120
        )

    def asked(self) -> list[list[str]]:
        """Return process, suite and arithmetic of every question that the backend was asked."""
        return [words for words in self.noted() if "closed" not in words]

    def noted(self) -> list[list[str]]:
        """Return the same, and the process in which a backend was closed."""
        if not self._asked.exists():
            return []
        return [line.split() for line in self._asked.read_text(encoding="utf-8").splitlines()]


def cases_of(report: Path) -> dict[str, ET.Element]:
    """Return the test cases of a JUnit report by the id of their check."""
    root = ET.parse(report).getroot()
    prefix = "cai_conformance."
    return {
        f"{case.attrib['classname'].removeprefix(prefix)}::{case.attrib['name']}": case
        for case in root.iter("testcase")
    }


def properties_of(case: ET.Element) -> dict[str, str]:
    """Return the properties of a test case."""
    return {found.attrib["name"]: found.attrib["value"] for found in case.iter("property")}
