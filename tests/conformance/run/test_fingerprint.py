"""The fingerprint: what bits may depend on is named, and what is wrong makes it unsound."""

from __future__ import annotations

import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run import fingerprint as module
from cai_conformance.run.fingerprint import fingerprint
from cai_conformance.run.portability.table import write
from cai_conformance.suites import SUITES
from cai_reference.arithmetic.selftest import CLibrarySelfTest, SelfTestResult
from support_portability import table_of

GOOD = (SelfTestResult("exp", 3, ()), SelfTestResult("sum", 4, ()))
BAD = (SelfTestResult("exp", 3, ("exp(0) is 2",)), SelfTestResult("sum", 4, ()))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Self-tests whose results are known; they have their own tests."""
    monkeypatch.setattr(module, "run_selftest", lambda: GOOD)
    monkeypatch.setattr(module, "c_library_selftest", lambda: CLibrarySelfTest("glibc 9 on Test", GOOD))


def test_it_names_versions_libraries_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a fixed order, settings only where they are set."""
    for name in module.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    values = fingerprint().values
    assert ["cai-conform", "grammar", "protocol", "suites", "python", "platform", "processors"] == list(values)[:7]
    assert [version(name) for name in ("numpy", "scipy", "safetensors")] == [
        values[name] for name in ("numpy", "scipy", "safetensors")
    ]
    assert "Prescott" == values["OPENBLAS_CORETYPE"]
    assert "OMP_NUM_THREADS" not in values
    names = list(values)
    assert ["strict/1", "libm/1", "goldens", "portability"] == names[names.index("strict/1") :][:4]
    assert "7 vectors pass" == values["strict/1"]
    assert "glibc 9 on Test: the published bits" == values["libm/1"]


def test_everything_right_is_sound() -> None:
    """Self-tests pass and the goldens agree."""
    found = fingerprint()
    assert found.sound
    assert f"{locate()}: {len(SUITES)} agree" == found.values["goldens"]


def test_a_failed_selftest_is_unsound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The faulty groups are named."""
    monkeypatch.setattr(module, "run_selftest", lambda: BAD)
    found = fingerprint()
    assert (False, "FAULTY: exp") == (found.sound, found.values["strict/1"])


def test_another_c_library_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its functions with other bits are named, and all stays sound."""
    monkeypatch.setattr(module, "c_library_selftest", lambda: CLibrarySelfTest("musl", BAD))
    found = fingerprint()
    assert (True, "musl: other bits than published for exp") == (found.sound, found.values["libm/1"])


def test_a_library_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fingerprint never fails for want of metadata."""

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", missing)
    assert "not installed" == fingerprint().values["numpy"]


def test_several_blas_libraries_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy and SciPy may bring one each; other thread pools do not count."""
    pool = {"user_api": "blas", "internal_api": "openblas", "version": "0.3", "num_threads": 2}
    pools = [pool | {"architecture": "Haswell"}, {"user_api": "openmp"}, pool]
    monkeypatch.setattr(module, "threadpool_info", lambda: pools)
    values = fingerprint().values
    assert "openblas 0.3, Haswell, 2 threads" == values["blas"]
    assert "openblas 0.3, unknown kernel, 2 threads" == values["blas 2"]


class TestGoldens:
    """The last line: whether the goldens agree."""

    def test_none_is_unsound(self, store: GoldenStore, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every missing suite is named."""
        monkeypatch.setattr(module, "locate", lambda: store.root)
        found = fingerprint()
        missing = ", ".join(sorted(suite.identifier for suite in SUITES))
        assert (False, f"{store.root}: wrong or missing: {missing}") == (found.sound, found.values["goldens"])

    def test_a_changed_file_is_unsound(self, store: GoldenStore, monkeypatch: pytest.MonkeyPatch) -> None:
        """Suite and kind of disagreement."""
        candidate = {"trace.txt": b"LOSS|value=one\n"}
        store.accept(
            "course.ngram",
            candidate,
            reason="test",
            suite_version="1",
            arithmetic="strict/1",
            command="none",
            records=1,
        )
        (store.root / "course.ngram" / "trace.txt").write_bytes(b"other")
        monkeypatch.setattr(module, "locate", lambda: store.root)
        found = fingerprint()
        assert not found.sound
        assert found.values["goldens"].startswith(f"{store.root}: wrong or missing: course.ngram modified")

    def test_a_missing_folder_is_unsound(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The sentence of the error is the value."""
        monkeypatch.setenv("CAI_CONFORM_GOLDEN", str(tmp_path / "nothere"))
        found = fingerprint()
        assert not found.sound
        assert found.values["goldens"].startswith(f"No golden folder at {tmp_path}")


class TestPortability:
    """What follows the goldens: how far they move under other settings."""

    @pytest.fixture
    def copied(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GoldenStore:
        """The goldens of this repository, copied without their table."""
        folder = shutil.copytree(locate(), tmp_path / "golden")
        (folder / "portability.json").unlink(missing_ok=True)
        monkeypatch.setenv("CAI_CONFORM_GOLDEN", str(folder))
        return GoldenStore(folder)

    def test_no_table_is_no_fault(self, copied: GoldenStore) -> None:
        """But it is told."""
        found = fingerprint()
        assert (True, "no table") == (found.sound, found.values["portability"])

    def test_the_table_is_told_by_arithmetic(self, copied: GoldenStore) -> None:
        """The counts of its classes."""
        (copied.root / "portability.json").write_bytes(write(table_of(copied, "course.ngram")))
        found = fingerprint()
        assert (True, "3 invariant under 2 settings") == (found.sound, found.values["portable strict/1"])
        assert found.values["portability"].startswith("1 suite, 2 settings, NumPy 2.9.0; not recorded: ")
        assert found.values["portable fast"].startswith(
            "1 invariant, 2 within 3 ULP, 1 token-stable under 2 settings; most: "
        )

    def test_a_table_of_other_goldens_is_told_and_no_fault(self, copied: GoldenStore) -> None:
        """The goldens are right; it only says nothing of them."""
        (copied.root / "portability.json").write_bytes(write(table_of(copied, "course.ngram", golden="0" * 64)))
        found = fingerprint()
        assert found.sound
        assert "; OTHER GOLDENS than now: course.ngram; " in found.values["portability"]

    def test_a_damaged_table_is_unsound(self, copied: GoldenStore) -> None:
        """The sentence of the error is the value."""
        (copied.root / "portability.json").write_bytes(b"?")
        found = fingerprint()
        assert not found.sound
        assert found.values["portability"].startswith(
            f"The portability table {copied.root}/portability.json is damaged"
        )
