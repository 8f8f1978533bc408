"""The core without the two published systems: they are built on it, and nothing in it needs them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS: Final = ("reference/cai_reference", "conformance/cai_conformance", "tools/cai_conform", "golden")
POINTS: Final = (
    "[cai_conform.commands]\ncai-course = cai_course.command:app\ncai-neural-api = cai_neural_api.commands:app\n"
)

SELECTION: Final = "kv.split or kv.rollback or causal or gen.given or loss.given"
"""A few checks of forward passes, caches and losses; all of them take most of a minute."""


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree without `tools/cai_neural_api` and `tools/cai_course`, whose entry points still name them."""
    copy = tmp_path_factory.mktemp("core")
    for part in PARTS:
        shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    installed = copy / "tools" / "cai_conform-0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: cai-conform\nVersion: 0\n", encoding="utf-8")
    (installed / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    return copy


def program(core: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line of the copy, which must not find the packages elsewhere either."""
    code = (
        "import sys; from importlib import abc\n"
        "class Gone(abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('cai_neural_api', 'cai_course'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}')\n"
        "sys.meta_path.insert(0, Gone())\n"
        "from cai_conform.main import main; main()"
    )
    paths = os.pathsep.join(str(core / room) for room in ("tools", "conformance", "reference"))
    environment = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "100"}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=core, timeout=300, check=False)


def test_the_llama_suites_are_judged(core: Path) -> None:
    """The reference conforms, as ever."""
    done = program(core, "run", "llama.dense", "llama.gqa-window", "--format", "json", "-k", SELECTION)
    assert (0, "") == (done.returncode, done.stderr), done.stderr
    *_, summary = map(json.loads, done.stdout.splitlines())
    assert 0 == summary["exit_code"]


def test_help_names_our_own_commands_and_says_what_is_left_out(core: Path) -> None:
    """A package that is gone takes none of our commands with it."""
    done = program(core, "--help")
    assert 0 == done.returncode
    assert "explain" in done.stdout
    assert "bakeoff" not in done.stdout
    assert [
        "cai-conform: the commands of cai-course are left out: No module named 'cai_course'",
        "cai-conform: the commands of cai-neural-api are left out: No module named 'cai_neural_api'",
    ] == done.stderr.splitlines()
