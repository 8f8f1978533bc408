"""What all tests share: hypothesis without a clock, goldens as syrupy snapshots, and the option that changes them."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from syrupy.assertion import SnapshotAssertion

from cai_conformance.errors import GoldenError
from cai_conformance.fixtures.goldens.store import GoldenStore, check_change, locate
from golden_extension import golden_extension

# Read when NumPy is imported, which is later. Workers share the processors already: a second thread of each would wait.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell starts what runs in the background with interrupts ignored, and children inherit that; tests interrupt theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, however slow the machine and however many workers share it.
settings.register_profile(
    "house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=30
)
# As many as hypothesis tries by itself, where there is time for them: in CI and with `--exhaustive`.
settings.register_profile("thorough", settings.get_profile("house"), max_examples=100)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--snapshot-reason` and `--exhaustive`."""
    parser.getgroup("syrupy").addoption(
        "--snapshot-reason",
        default="",
        metavar="TEXT",
        help="Why goldens change; required with --snapshot-update, and kept in golden/ledger.jsonl",
    )
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="Run what takes minutes, too: every golden, every printed fault; otherwise a sample of each",
    )


def updates_goldens(config: pytest.Config) -> bool:
    """Tell whether this run may change goldens."""
    return any(config.getoption(name, default=False) for name in ("update_snapshots", "update_new_snapshots_only"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected: nearly all of it stays, and looking takes a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what is marked `exhaustive`, unless it was asked for or goldens are to be changed."""
    if config.getoption("exhaustive") or updates_goldens(config):
        return
    skip = pytest.mark.skip(reason="takes long, and a sample of its kind has run; --exhaustive runs it")
    for item in items:
        if item.get_closest_marker("exhaustive") is not None:
            item.add_marker(skip)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse an update without a reason or under CI before any test runs."""
    settings.load_profile("thorough" if os.environ.get("CI") or config.getoption("exhaustive") else "house")
    config.addinivalue_line("markers", "exhaustive: runs with --exhaustive only; a sample of its kind always runs")
    if not updates_goldens(config):
        return
    try:
        check_change(config.getoption("snapshot_reason"))
    except GoldenError as error:
        raise pytest.UsageError(f"{error} {error.next_command}") from error


@pytest.fixture
def golden(snapshot: SnapshotAssertion, pytestconfig: pytest.Config) -> SnapshotAssertion:
    """What a suite is compared with.

    Use: `assert golden(name="course.ngram") == candidate`, with a `cai_conformance.fixtures.goldens.Candidate`.
    """
    return snapshot.use_extension(golden_extension(locate(), pytestconfig.getoption("snapshot_reason")))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GoldenStore:
    """An empty golden store of the test's own, in an environment in which goldens may be written."""
    monkeypatch.delenv("CI", raising=False)
    root = tmp_path / "golden"
    root.mkdir()
    return GoldenStore(root)


@pytest.fixture
def without_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests decide what the program sees of the environment."""
    for name in ("CI", "NO_COLOR", "FORCE_COLOR", "CAI_CONFORM_GOLDEN"):
        monkeypatch.delenv(name, raising=False)
