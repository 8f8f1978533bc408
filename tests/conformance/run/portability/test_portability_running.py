"""Interpreters and settings: what proves something is told from what has no effect or cannot run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.errors import BackendError, InputError
from cai_conformance.run.portability import processes as running
from cai_conformance.run.portability.processes import Interpreter, examine, examine_all, record
from cai_conformance.run.portability.settings import NO_SETTING, Facts, MachineSetting, gather, settings_table
from support_portability import FACTS, RUN
from support_refusals import refuses

Answer = tuple[Facts | None, tuple[bytes, ...]]


def answering(path: str, setting: MachineSetting, requests: Sequence[TraceRequest]) -> Answer:
    """Answer as a machine whose own kernel is Oak, with two others, of which one takes the place of every third."""
    kernel = setting.variables.get("OPENBLAS_CORETYPE", "Oak")
    if kernel == "SkylakeX":
        return None, ()
    known = {"Oak": "Oak", "Prescott": "Prescott", "Haswell": "Haswell"}
    facts = replace(FACTS, kernel=known.get(kernel, "Oak"), threads=str(setting.threads), numpy=f"{path}.0")
    return facts, tuple(b"trace" for _ in requests)


def arithmetics_of(interpreter: Interpreter) -> dict[bool, set[tuple[str, ...]]]:
    """Return in which arithmetics the runs are recorded that count, and those that do not."""
    found: dict[bool, set[tuple[str, ...]]] = {True: set(), False: set()}
    for run in interpreter.runs:
        found[run.standing == "recorded"].add(run.arithmetics)
    return found


class TestExamining:
    """What each setting makes of an interpreter."""

    def test_effects_are_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A kernel that takes effect counts; one that another replaces, and one that cannot run, do not."""
        monkeypatch.setattr(running, "_answer", answering)
        found = {run.setting: run.standing for run in examine("7").runs}
        assert ["no setting", *(setting.name for setting in settings_table())] == list(found)
        assert (
            "recorded"
            == found["no setting"]
            == found["kernel Prescott, 1 thread"]
            == found["kernel Haswell, 2 threads"]
        )
        assert "same as no setting" == found["kernel Nehalem, 1 thread"] == found["NumPy without AVX-512"]
        # Two threads are another thing than one, but the same for both kernels that nobody knows.
        assert "recorded" == found["kernel Nehalem, 2 threads"]
        assert "same as kernel Nehalem, 2 threads" == found["kernel Sandybridge, 2 threads"]
        assert "does not run on the recording machine" == found["kernel SkylakeX, 1 thread"]

    def test_what_proves_nothing_is_not_recorded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """In no arithmetic; what uses no BLAS neither under another kernel, nor under any setting elsewhere."""
        monkeypatch.setattr(running, "_answer", answering)
        monkeypatch.setattr(sys, "executable", "8")
        here, there = examine_all(["7"])
        every = ("strict/1", "libm/1", "fast")
        assert {True: {every, ("fast",)}, False: {()}} == arithmetics_of(here)
        assert {"kernel" in run.setting for run in here.runs if run.arithmetics == ("fast",)} == {True}
        assert {"kernel" in run.setting for run in here.runs if run.arithmetics == every} == {False}
        assert {True: {every, ("fast",)}, False: {()}} == arithmetics_of(there)
        assert every == there.runs[0].arithmetics

    def test_two_interpreters_need_two_numpys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Names would be ambiguous."""
        monkeypatch.setattr(running, "_answer", answering)
        with refuses(InputError, "interpreter-unusable", path="7"):
            list(examine_all(["7", "7"]))

    def test_another_version_of_the_project_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It may record something else."""
        monkeypatch.setattr(running, "_answer", lambda *_: (replace(FACTS, project="9.9"), ()))
        with refuses(InputError, "interpreter-unusable", match=r"it has version 9\.9 of this project"):
            examine("7")

    @pytest.mark.parametrize(
        ("path", "problem"), [("/nothere", "No such file or directory"), ("/bin/false", "exit code 1: no message")]
    )
    def test_what_is_no_interpreter_is_a_sentence(self, path: str, problem: str) -> None:
        """With the system's words, or its exit code."""
        with refuses(InputError, "interpreter-unusable") as caught:
            examine(path)
        assert f"interpreter {path!r} cannot record: {problem}" == str(caught.value)


class TestRecording:
    """A run must be what it was when it was examined."""

    def test_other_facts_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Say, where a library was replaced meanwhile."""
        monkeypatch.setattr(running, "_answer", lambda *_: (replace(FACTS, kernel="Elm"), ()))
        with refuses(BackendError, "recording-failed", match="something else"):
            record("7", RUN, [])

    @pytest.mark.exhaustive
    def test_a_process_says_what_it_computes_with(self) -> None:
        """The environment of the caller plays no part, and the threads are those of the setting."""
        facts, traces = running._answer(sys.executable, NO_SETTING, ())
        assert (gather(1), ()) == (facts, traces)


def test_facts_are_read_as_they_are_written() -> None:
    """And nothing else is taken for facts."""
    assert FACTS == Facts.of(FACTS.texts, "facts")
    with pytest.raises(ValueError, match="facts lacks the key simd"):
        Facts.of({name: text for name, text in FACTS.texts.items() if name != "simd"}, "facts")
