"""What all tests share: hypothesis without a clock, goldens as syrupy snapshots, and the option that changes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from syrupy.assertion import SnapshotAssertion

from cai_conformance.errors import GoldenError
from cai_conformance.goldens import GoldenStore, locate, refusals
from golden_extension import golden_extension

# The same examples in every run, however slow the machine and however many workers share it.
settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--snapshot-reason`."""
    parser.getgroup("syrupy").addoption(
        "--snapshot-reason",
        default="",
        metavar="TEXT",
        help="Why goldens change; required with --snapshot-update, and kept in golden/ledger.jsonl",
    )


    parser.addoption(
        "--every-golden",
        action="store_true",
        help="Record every suite anew, which takes minutes; without it two suites stand for all",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse an update under CI or without a reason before any test runs."""
    updates = ("update_snapshots", "update_new_snapshots_only")
    if not any(config.getoption(name, default=False) for name in updates):
        return
    try:
        refusals.check_not_ci()
        refusals.check_reason(config.getoption("snapshot_reason"))
    except GoldenError as error:
        raise pytest.UsageError(f"{error} {error.next_command}") from error


@pytest.fixture
def golden(snapshot: SnapshotAssertion, pytestconfig: pytest.Config) -> SnapshotAssertion:
    """What a suite is compared with.

    Use: `assert golden(name="course.ngram") == candidate`, with a `cai_conformance.goldens.Candidate`.
    """
    return snapshot.use_extension(golden_extension(locate(), pytestconfig.getoption("snapshot_reason")))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GoldenStore:
    """An empty golden store of the test's own, in an environment in which goldens may be written."""
    monkeypatch.delenv("CI", raising=False)
    root = tmp_path / "golden"
    root.mkdir()
    return GoldenStore(root)
