"""Backends: requests as they travel, the reference here and in a fresh process, files, and names on a command line."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import types
from importlib.metadata import EntryPoint, EntryPoints
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.backends import registry, worker
from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.protocol import TraceRequest, ask, ask_again
from cai_conformance.backends.reference import ngram_run as experiment
from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.backends.registry import ListedBackend, list_backends, resolve
from cai_conformance.backends.trace_file import TraceFileBackend
from cai_conformance.errors import BackendError, FixtureError
from cai_reference import CaiReferenceError
from cai_reference.errors import AutogradError
from cai_reference.models.neural_ngram import NgramError
from cai_reference.training.errors import AdamWError
from support_refusals import refuses
from support_traces import conforming, edges_bytes, golden_bytes, question, question_of

NAMES = st.text(max_size=12)
DATA = st.binary(max_size=40)


@given(st.tuples(NAMES, NAMES, NAMES, NAMES), st.tuples(DATA, DATA, DATA, DATA))
def test_a_request_survives_the_way_to_another_process(names: tuple[str, ...], data: tuple[bytes, ...]) -> None:
    """`from_json` is the inverse of `to_json`, which is one line of ASCII."""
    request = TraceRequest(*names, *data)  # type: ignore[arg-type]  # eight values, four of each type
    line = request.to_json()
    assert line.isascii()
    assert "\n" not in line
    assert request == TraceRequest.from_json(line)


class TestReference:
    """The NumPy reference as a backend."""

    @pytest.mark.exhaustive
    def test_it_answers_with_the_golden(self) -> None:
        """In `strict/1`, on the suite's own input, its trace is the accepted one."""
        assert golden_bytes() == ReferenceBackend().trace(question().request)

    def test_its_replay_runs_elsewhere_and_gives_the_same_bytes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A fresh process has another hash seed and two threads, and changes nothing."""
        environments: list[dict[str, str]] = []
        run = subprocess.run

        def spy(*args: object, env: dict[str, str], **others: object) -> object:
            environments.append(env)
            return run(*args, env=env, **others)  # type: ignore[call-overload]  # passed through

        monkeypatch.setenv("PYTHONHASHSEED", "1")
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        monkeypatch.setattr(subprocess, "run", spy)
        request = question_of("edges").request
        assert edges_bytes() == ReferenceBackend().replay(request)
        kept = ("PYTHONHASHSEED", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        assert ["2", "1", "2"] == [environments[0][name] for name in kept]

    def test_it_offers_its_own_suites_only(self) -> None:
        """Another suite is not offered, with the reason."""
        request = TraceRequest("cai.unheard", "1", "golden", "strict/1", b"", b"", b"{}", b"")
        with pytest.raises(NotOffered, match=r"^reference does not offer cai\.unheard: the reference has no"):
            ReferenceBackend().trace(request)

    @pytest.mark.exhaustive
    def test_a_replay_that_fails_is_a_crash_with_its_last_line(self) -> None:
        """The fresh process ends with a traceback, of which the last line is told."""
        request = TraceRequest("cai.unheard", "1", "golden", "strict/1", b"", b"", b"{}", b"")
        with refuses(
            BackendError, "backend-crashed", match=r"ended with exit code 1: .*NotOffered: reference does not"
        ):
            ReferenceBackend().replay(request)

    def test_a_silent_crash_is_told_as_such(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process that was killed has left no message."""
        ended = subprocess.CompletedProcess([], -9, b"", b"")
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
        with refuses(
            BackendError, "backend-crashed", match=r"^reference crashed: .* ended with exit code -9: no message$"
        ):
            ReferenceBackend().replay(question().request)

    def test_a_replay_that_hangs_is_a_crash(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """There is a limit of time."""

        def hang(*_: object, **__: object) -> object:
            raise subprocess.TimeoutExpired("python", 600)

        monkeypatch.setattr(subprocess, "run", hang)
        with refuses(BackendError, "backend-crashed", match=r"^reference crashed: .* took longer than [0-9]+ s$"):
            ReferenceBackend().replay(question().request)

    def test_the_worker_answers_the_request_on_standard_input(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """JSON in, the bytes of a trace out."""
        request = question_of("edges").request
        taken, given = io.BytesIO(), io.BytesIO(request.to_json().encode())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given))
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(taken, write_through=True))
        worker.main()
        assert edges_bytes() == taken.getvalue()


class TestExperiment:
    """The stage at which a run of the neural n-gram stops."""

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (AdamWError("invalid-learning-rate", value=-1.0), "Optimizer: the learning rate must be "),
            (AutogradError("empty-targets"), "Autodiff: "),
            (NgramError("empty-batch"), "Model: "),
        ],
    )
    def test_its_error_names_the_stage(
        self, monkeypatch: pytest.MonkeyPatch, error: CaiReferenceError, text: str
    ) -> None:
        """The optimiser's and the tape's errors are theirs, wherever they come up."""

        def fail(*_: object) -> None:
            raise error

        monkeypatch.setattr(experiment, "probe_model", fail)
        with pytest.raises(FixtureError) as caught:
            ReferenceBackend().trace(question().request)
        assert str(caught.value).startswith(text)


class TestAsking:
    """The guard around foreign code."""

    def test_it_returns_the_bytes(self) -> None:
        """Nothing is changed on the way."""
        backend = conforming(second=b"another")
        assert golden_bytes() == ask(backend, question().request)
        assert b"another" == ask_again(backend, question().request)

    def test_what_is_not_offered_stays_so(self) -> None:
        """The runner tells it from a crash."""
        with pytest.raises(NotOffered):
            ask(conforming(), question_of("foreign").request)


class TestTraceFile:
    """A file as a backend."""

    def test_it_answers_what_it_records(self, tmp_path: Path) -> None:
        """The bytes of the file, for its suite and profile."""
        path = tmp_path / "trace.txt"
        path.write_bytes(golden_bytes())
        backend = TraceFileBackend.open(str(path))
        assert (f"trace:{path}", golden_bytes()) == (backend.name, backend.trace(question().request))

    def test_it_does_not_offer_another_profile(self) -> None:
        """The reason names what it records."""
        backend = TraceFileBackend("a", golden_bytes())
        expected = r"^trace:a does not offer profile edges: the file records profile golden$"
        with pytest.raises(NotOffered, match=expected):
            backend.trace(question_of("edges").request)

    def test_it_cannot_be_run_again(self) -> None:
        """A replay is not offered."""
        with pytest.raises(NotOffered, match=r"a trace file cannot be run again"):
            TraceFileBackend("a", golden_bytes()).replay(question().request)

    @pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"suite\n", b"TRACE|suite\n"])
    def test_what_states_nothing_goes_to_the_judge_of_the_grammar(self, data: bytes) -> None:
        """Garbage is returned as it is."""
        stated = TraceFileBackend("a", data)
        if "suite" in stated.stated:
            assert "" == stated.stated["suite"]
        else:
            assert data == stated.trace(question().request)

    def test_a_missing_file_is_an_error_of_its_own(self) -> None:
        """The path and the system's reason."""
        with refuses(BackendError, "trace-file-unreadable", path="nothere"):
            TraceFileBackend.open("nothere")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module of somebody else, importable as `foreign_backends`."""
    made = types.ModuleType("foreign_backends")

    class Conforming:
        name = "mine"

        def trace(self, request: TraceRequest) -> bytes:
            return b"first"

        def replay(self, request: TraceRequest) -> bytes:
            return b"second"

    class Nameless(Conforming):
        name = None  # type: ignore[assignment]  # that is what is tested

    class Once:
        name = "once"

        def trace(self, request: TraceRequest) -> bytes:
            return b""

    def leave() -> None:
        raise SystemExit(0)

    def fail() -> None:
        raise OSError("no weights\nfound")

    made.Conforming, made.made, made.make = Conforming, Conforming(), lambda: Conforming()  # type: ignore[attr-defined]
    made.Nameless, made.Once, made.number = Nameless, Once, 7  # type: ignore[attr-defined]
    made.leave, made.fail = leave, fail  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "foreign_backends", made)
    return made


@pytest.mark.usefixtures("module")
class TestRegistry:
    """From a specification to a backend."""

    def test_the_reference_is_built_in(self) -> None:
        """It needs no import by name."""
        assert "reference" == resolve("reference").name

    @pytest.mark.parametrize("attribute", ["Conforming", "made", "make"])
    def test_a_class_an_object_and_a_function_will_do(self, attribute: str) -> None:
        """`module:attribute` names a backend or what makes one."""
        backend = resolve(f"foreign_backends:{attribute}")
        assert ("mine", b"first") == (backend.name, backend.trace(question().request))

    @pytest.mark.parametrize(
        ("attribute", "problem"),
        [
            ("Nameless", "it has no name, or one that is not a string"),
            ("Once", "it has no method replay"),
            ("number", "it has no name, or one that is not a string"),
            ("nothing", "AttributeError: module 'foreign_backends' has no attribute 'nothing'"),
            ("leave", "SystemExit: 0"),
            ("fail", "OSError: no weights found"),
        ],
    )
    def test_what_cannot_be_used_says_why(self, attribute: str, problem: str) -> None:
        """On one line, and without ending the program."""
        with refuses(BackendError, "backend-not-importable") as caught:
            resolve(f"foreign_backends:{attribute}")
        assert problem == caught.value.fields["problem"]

    def test_a_module_that_is_not_there_says_so(self) -> None:
        """The import error is the reason."""
        with refuses(
            BackendError, "backend-not-importable", match=r"ModuleNotFoundError: No module named 'nosuchmodule'$"
        ):
            resolve("nosuchmodule:backend")

    def test_a_file_is_opened_at_once(self) -> None:
        """A mistyped path is found before anything runs."""
        with refuses(BackendError, "trace-file-unreadable"):
            resolve("trace:nothere")

    @pytest.mark.parametrize("spec", ["", ":", "nothing", "a b:c", "module:", "1:2", "exec"])
    def test_other_specifications_are_unknown(self, spec: str) -> None:
        """The message lists what is known."""
        with refuses(BackendError, "unknown-backend") as caught:
            resolve(spec)
        libraries, programs = "torch[:FORMAT], transformers[:FORMAT]", "exec:COMMAND, serve:COMMAND"
        assert f"reference, {libraries}, {programs}, trace:FILE, module:attribute" == caught.value.fields["known"]
        assert "cai-conform backends list" == caught.value.next_command

    def test_entry_points_are_found_by_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """They are listed too, those that cannot be loaded with the reason."""
        group = registry.ENTRY_POINT_GROUP
        points = EntryPoints(
            [
                EntryPoint("works", "foreign_backends:Conforming", group),
                EntryPoint("broken", "foreign_backends:fail", group),
            ]
        )
        monkeypatch.setattr(registry, "entry_points", lambda group: points)
        assert "mine" == resolve("works").name
        first, *libraries = list_backends()[:3]
        assert ListedBackend("reference", "built in") == first
        assert ["torch", "transformers"] == [listed.name for listed in libraries]
        for listed in libraries:
            missing = "" if find_spec(listed.name) else f"not installed; pip install 'cai-conform[{listed.name}]'"
            assert ListedBackend(listed.name, "built in", missing) == listed
        assert [
            ListedBackend("broken", "foreign_backends:fail", "OSError: no weights found"),
            ListedBackend("works", "foreign_backends:Conforming"),
        ] == list_backends()[3:]
        with refuses(BackendError, "unknown-backend") as caught:
            resolve("nothing")
        assert str(caught.value.fields["known"]).endswith("broken, works")


@pytest.mark.exhaustive
def test_a_fresh_interpreter_finds_the_packages_from_anywhere(tmp_path: Path) -> None:
    """The worker needs no installation beside it: the replay names the source roots."""
    request = question_of("edges").request
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert edges_bytes() == ReferenceBackend().replay(request)
    finally:
        os.chdir(before)
