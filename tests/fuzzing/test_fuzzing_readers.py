"""Every reader of foreign input: valid files are read, and any others refused in its own words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzzing.catalogue import TARGETS
from fuzzing.target import problem_of

MANY = 400
"""So many inputs a target of the usual share gets where there is time."""

NUMBERS = st.integers(0, (1 << 40) - 1)
QUICK = settings(
    max_examples=4,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

SLOW = {name for name, target in TARGETS.items() if target.share <= 20}
"""Readers that compute, too; they get fewer inputs."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.exhaustive] if name in SLOW else []) for name in TARGETS]
)
def test_valid_files_are_read(name: str) -> None:
    """They are what the others are made from, so that these are almost right; what is written again is the same."""
    target = TARGETS[name]
    target.read(target.seeds[0])
    for data in target.seeds[1:]:
        assert problem_of(target, data) is None


@pytest.mark.parametrize("name", [name for name in TARGETS if name not in SLOW])
@QUICK
@given(number=NUMBERS)
def test_almost_valid_files_are_read_or_refused(name: str, number: int) -> None:
    """By errors of this project that can be printed, soon, and without a warning."""
    assert problem_of(TARGETS[name], TARGETS[name].given(1, number)) is None


@pytest.mark.parametrize("name", sorted(SLOW))
@settings(QUICK, max_examples=1)
@given(number=NUMBERS)
def test_slow_readers_too(name: str, number: int) -> None:
    """One file each."""
    assert problem_of(TARGETS[name], TARGETS[name].given(2, number)) is None


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", TARGETS)
def test_hundreds_of_files_are_read_or_refused(name: str) -> None:
    """In the shares of `run.py`, which gives far more, from another seed."""
    target = TARGETS[name]
    for number in range(MANY * target.share // 100):
        assert problem_of(target, target.given(3, number)) is None, number


def run(folder: Path, *arguments: str) -> list[str]:
    """Run `run.py` in a folder, and return its lines."""
    command = [sys.executable, str(Path(__file__).parent / "run.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.exhaustive
def test_the_long_run(tmp_path: Path) -> None:
    """It ends without a finding, and tells what it did."""
    lines = run(
        tmp_path, *["--inputs", "600", "--seed", "4", "--jobs", "2", "--target", "text", "--target", "serve.answer"]
    )
    assert "0 findings, seed 4" in lines[-2]
    assert "peak memory of a worker" in lines[-1]


@pytest.mark.exhaustive
def test_a_single_input_can_be_repeated(tmp_path: Path) -> None:
    """By its number; so a finding is looked into."""
    lines = run(tmp_path, *["--seed", "4", "--target", "text.json", "--only", "17"])
    assert [repr(TARGETS["text.json"].given(4, 17)), "read as it should be"] == lines
