"""The action for GitHub's workflows, and what the documentation shows: read as data, and its shell run for real."""

from __future__ import annotations

import os
import re
import subprocess
import venv
from pathlib import Path
from typing import Any, Final

import pytest

from cai_conformance.run.pytest_plugin.options import PREFIX, add_options
from support_pytest_runs import cases_of

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed, which reads the action")

ROOT: Final = Path(__file__).parents[4]
ACTION: Final = ROOT / ".github" / "actions" / "cai-conform" / "action.yml"
PAGE: Final = ROOT / "conformance" / "docs" / "pytest-and-ci.md"

pytestmark = pytest.mark.skipif(not ACTION.is_file(), reason="no checkout: the action stands at its top")


def action() -> dict[str, Any]:
    """Return the action, parsed."""
    return dict(yaml.safe_load(ACTION.read_text(encoding="utf-8")))


def step(name: str) -> dict[str, Any]:
    """Return the step of this name."""
    return next(found for found in action()["runs"]["steps"] if found["name"] == name)


def options() -> set[str]:
    """Return the options that the plugin adds."""
    parser = pytest.Parser(_ispytest=True)
    add_options(parser)
    text = parser.optparser.format_help()
    return set(re.findall(rf"{PREFIX}[a-z-]+", text))


def run_step(name: str, folder: Path, python: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the shell of a step as a runner does, with inputs over the defaults, and `python` in front of the path."""
    values = {f"inputs.{key}": entry.get("default", "") for key, entry in action()["inputs"].items()}
    values |= {f"inputs.{key.replace('_', '-')}": value for key, value in inputs.items()}
    values["github.action_path"] = str(ACTION.parent)
    variables = {
        key: re.sub(r"\$\{\{ *([^ }]+) *\}\}", lambda match: values[match[1]], text)
        for key, text in step(name)["env"].items()
    }
    kept = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    environment = {**kept, **variables, "RUNNER_TEMP": str(folder), "GITHUB_OUTPUT": str(folder / "output")}
    environment["PATH"] = os.pathsep.join([str(python.parent), environment["PATH"]])
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step(name)["run"]]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


class TestAction:
    """`.github/actions/cai-conform`."""

    def test_every_input_is_used_and_every_used_one_is_there(self) -> None:
        """And each has a default, so that nothing must be given."""
        declared = action()["inputs"]
        used = set(re.findall(r"inputs\.([a-z-]+)", ACTION.read_text(encoding="utf-8")))
        assert set(declared) == used
        assert [] == [name for name, entry in declared.items() if "default" not in entry]

    def test_it_names_only_options_that_there_are(self) -> None:
        """An option renamed here would break every workflow."""
        assert set(re.findall(rf"{PREFIX}[a-z-]+", ACTION.read_text(encoding="utf-8"))) <= options()

    def test_no_input_is_read_as_a_command(self) -> None:
        """Shell steps get inputs as variables."""
        assert [] == [found["name"] for found in action()["runs"]["steps"] if "${{" in found.get("run", "")]

    def test_the_output_is_that_of_a_step(self) -> None:
        """The report's path."""
        assert "${{ steps.judge.outputs.report }}" == action()["outputs"]["report"]["value"]
        assert "judge" == step("Judge")["id"]
        assert "${{ steps.judge.outputs.report }}" == step("Keep the report")["with"]["path"]

    @pytest.mark.exhaustive
    def test_its_shell_installs_judges_and_leaves_a_report(self, tmp_path: Path) -> None:
        """In a fresh environment; suites, level, expectations quoted arguments reach pytest, whose failure it is."""
        (tmp_path / "known.toml").write_text("", encoding="utf-8")
        venv.create(tmp_path / "fresh", with_pip=True)
        python = tmp_path / "fresh" / ("Scripts" if os.name == "nt" else "bin") / "python"
        installed = run_step("Install", tmp_path, python)
        assert 0 == installed.returncode, installed.stderr
        selection = "-k 'ngram and (tok.fit or published.text)'"
        judged = run_step(
            "Judge", tmp_path, python, suites="ngram kv-cache", args=selection, expect_failures="known.toml"
        )
        report = tmp_path / "cai-conform.xml"
        assert 0 == judged.returncode, judged.stdout + judged.stderr
        assert f"report={report}\n" == (tmp_path / "output").read_text(encoding="utf-8")
        assert {"course.ngram"} == {check.partition("::")[0] for check in cases_of(report)}
        refused = run_step("Judge", tmp_path, python, args=f"{selection} -n0", require="T3")
        assert 1 == refused.returncode
        assert "(required by T3)" in refused.stdout


class TestPage:
    """`conformance/docs/pytest-and-ci.md`."""

    def test_it_describes_every_option(self) -> None:
        """And none that there is not."""
        assert options() == set(re.findall(rf"{PREFIX}[a-z-]+", PAGE.read_text(encoding="utf-8")))

    def test_its_workflows_are_valid_and_use_inputs_that_there_are(self) -> None:
        """Each has a trigger and jobs; what it passes to the action is declared there."""
        blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert 2 == len(blocks)
        for block in blocks:
            workflow = yaml.safe_load(block)
            # YAML 1.1 reads the key `on` as true.
            assert {True, "jobs", "name"} == set(workflow)
            steps = [found for job in workflow["jobs"].values() for found in job["steps"]]
            passed = [set(found.get("with", {})) for found in steps if "actions/cai-conform" in found.get("uses", "")]
            assert all(names <= set(action()["inputs"]) for names in passed)
            assert set(re.findall(rf"{PREFIX}[a-z-]+", block)) <= options()
