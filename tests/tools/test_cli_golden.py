"""`cai-conform golden`: status, review, accept, what is refused, and what is left by kill -9."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cai_conformance.errors import GoldenError
from cai_conformance.fixtures.goldens.records import Candidate
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run import record as recording
from cai_conformance.suites import SUITES, Suite
from support_cli import environment_of, invoke
from support_traces import candidate_of, golden_bytes, with_field

REASON = ("--reason", "a test")
DRIVER = Path(__file__).parents[1] / "support_accepting.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the goldens that the program is pointed at."""
    copied = shutil.copytree(locate(), tmp_path / "golden")
    monkeypatch.setenv("CAI_CONFORM_GOLDEN", str(copied))
    return copied


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every recording give the same trace, with another learning rate."""
    changed = candidate_of(with_field("CONFIG", "lr", "0.020000"))
    for name in ("propose", "propose_checked"):
        monkeypatch.setattr(recording, name, lambda suite: replace(changed, suite=suite.identifier))


class TestStatus:
    """Do files, manifest and ledger agree?"""

    def test_the_goldens_of_this_repository_agree(self) -> None:
        """Each with its records, version and arithmetic; the number of changes on standard error."""
        result = invoke("golden", "status")
        assert 0 == result.code
        lines = result.out.splitlines()
        assert [f"{suite.identifier}: agrees" for suite in sorted(SUITES, key=lambda suite: suite.identifier)] == [
            line.partition(" (")[0] for line in lines
        ]
        assert "course.ngram: agrees (30 records, version 1.1.0, strict/1)" in lines
        assert f"cai-conform: {locate()}, " in result.err

    def test_a_changed_file_is_named(self, folder: Path) -> None:
        """Exit code 1."""
        (folder / "course.ngram" / "trace.txt").write_bytes(b"other")
        result = invoke("golden", "status")
        assert 1 == result.code
        assert "course.ngram: modified: course.ngram/trace.txt: sha256 " in result.out
        assert "cai-conform: if accepting was interrupted, run it again\n" in result.err

    def test_missing_and_unlisted_goldens_are_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A suite without golden, a golden without suite, a file that nobody listed."""
        store = GoldenStore(tmp_path)
        store.accept_all([replace(candidate_of(golden_bytes()), suite="cai.unheard")], reason="test")
        (tmp_path / "stray.txt").write_text("stray", encoding="utf-8")
        monkeypatch.setenv("CAI_CONFORM_GOLDEN", str(tmp_path))
        result = invoke("golden", "status")
        assert 1 == result.code
        assert "course.ngram: missing: no golden was accepted\n" in result.out
        assert "cai.unheard: unlisted: no suite has this name\n" in result.out
        assert "unlisted: stray.txt: the manifest does not list it\n" in result.out
        assert result.err.endswith(", 1 accepted change\n")


class TestReview:
    """What accepting would change."""

    @pytest.mark.exhaustive
    def test_nothing_changes_without_a_change(self) -> None:
        """Recording anew gives the same files; nothing is written."""
        result = invoke("golden", "review", "ngram")
        assert (0, "course.ngram: no change\n", "") == (result.code, result.out, result.err)

    @pytest.mark.usefixtures("recorded")
    def test_a_change_is_told_and_not_made(self, folder: Path) -> None:
        """Exit code 1; the folder stays as it is."""
        before = (folder / "course.ngram" / "trace.txt").read_bytes()
        result = invoke("golden", "review", "ngram")
        assert 1 == result.code
        assert "course.ngram: CONFIG, field lr: value, expected 0.010000, found 0.020000\n" in result.out
        assert before == (folder / "course.ngram" / "trace.txt").read_bytes()


class TestAccept:
    """The one way to change a golden by hand."""

    @pytest.mark.usefixtures("recorded")
    def test_a_change_is_accepted_with_its_reason(self, folder: Path) -> None:
        """Files, manifest and ledger change together; a second time there is nothing to do."""
        before = len(GoldenStore(folder).history())
        result = invoke("golden", "accept", "ngram", "--reason", "  another rate ")
        assert (0, f"course.ngram: accepted as change {before + 1} (trace.txt)\n") == (result.code, result.out)
        assert "another rate" == GoldenStore(folder).history()[-1].reason
        assert 0 == invoke("golden", "status").code
        again = invoke("golden", "accept", "ngram", *REASON)
        assert (0, "", "cai-conform: no change, nothing written\n") == (again.code, again.out, again.err)

    @pytest.mark.usefixtures("recorded")
    @pytest.mark.parametrize(
        ("reason", "environment", "mode", "sentence"),
        [
            ("", {}, 0o755, "A golden changes only with a reason, and none was given."),
            (" \n", {}, 0o755, "A golden changes only with a reason, and none was given."),
            ("x", {"CI": "true"}, 0o755, "CI never writes a golden (the environment variable CI is 'true')."),
            ("x", {}, 0o555, "Golden {folder} cannot be replaced: the folder is read-only."),
        ],
    )
    def test_what_is_refused_is_refused_before_recording(
        self, folder: Path, reason: str, environment: dict[str, str], mode: int, sentence: str
    ) -> None:
        """One sentence, exit code 2, nothing written, no time lost."""
        before = (folder / "ledger.jsonl").read_bytes()
        folder.chmod(mode)
        try:
            result = invoke("golden", "accept", "--reason", reason, environment=environment)
        finally:
            folder.chmod(0o755)
        assert (2, "") == (result.code, result.out)
        assert [f"cai-conform: {sentence.format(folder=folder)}"] == result.sentences
        assert before == (folder / "ledger.jsonl").read_bytes()

    def test_a_reason_is_asked_for(self) -> None:
        """The option is required."""
        result = invoke("golden", "accept")
        assert (2, True) == (result.code, "--reason" in result.err)

    def test_a_trace_that_fails_its_own_checks_is_refused(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is written."""

        def refuse(suite: Suite) -> Candidate:
            raise GoldenError(
                "candidate-refused",
                suite=suite.identifier,
                check=f"{suite.identifier}::run.replay",
                outcome="fail",
                problem="it changed",
            )

        monkeypatch.setattr(recording, "propose_checked", refuse)
        result = invoke("golden", "accept", "ngram", *REASON)
        assert (2, "") == (result.code, result.out)
        assert result.sentences[0].startswith("cai-conform: the new trace of course.ngram cannot become a golden: ")
        assert 0 == invoke("golden", "status").code

    @pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal here")
    @pytest.mark.exhaustive
    @pytest.mark.parametrize("share", [0.3, 0.6, 1.0])
    @pytest.mark.usefixtures("recorded")
    def test_kill_at_any_moment_is_repaired(self, folder: Path, share: float) -> None:
        """Files, manifest and ledger agree, or the status says how to go on, and the next accept succeeds."""
        process = subprocess.Popen(
            [sys.executable, str(DRIVER)], stdout=subprocess.PIPE, env=environment_of(CAI_CONFORM_GOLDEN=str(folder))
        )
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"course.ngram: accepted as change ")
        time.sleep(share * 0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        result = invoke("golden", "status")
        assert (result.code == 0) != ("if accepting was interrupted, run it again" in result.err)
        assert 0 == invoke("golden", "accept", "ngram", *REASON).code
        assert 0 == invoke("golden", "status").code
        history = GoldenStore(folder).history()
        assert list(range(1, len(history) + 1)) == [entry.sequence for entry in history]
        assert len(history) >= 2
