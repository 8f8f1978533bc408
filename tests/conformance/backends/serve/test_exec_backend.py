"""Programs that print traces: what they are given, what their exit code says, and what ends them."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.exec import ExecBackend, request_files
from cai_conformance.backends.protocol import Backend, TraceRequest, ask
from cai_conformance.errors import BackendError
from support_refusals import refuses
from support_serving import Workshop

GOLDEN = Path(__file__).resolve().parents[4] / "golden"

PREAMBLE = """
import json, os, signal, sys, time
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
"""


def request(suite: str = "llama.dense", **changes: object) -> TraceRequest:
    """Return a request with the files of a golden."""
    folder = GOLDEN / suite
    weights = next(iter(sorted(folder.glob("*.safetensors"))), None)
    values: dict[str, object] = {
        "suite": suite,
        "suite_version": "1.0",
        "profile": "edges",
        "arithmetic": "strict/1",
        "corpus": b"",
        "splits": b"",
        "vectors": (folder / "vectors.json").read_bytes(),
        "weights": b"" if weights is None else weights.read_bytes(),
        **changes,
    }
    return TraceRequest(**values)  # type: ignore[arg-type]


NGRAM = request("course.ngram", vectors=b'{"cases": []}', weights=b"")
"""A request that is small."""


class TestFolder:
    """What a program is given."""

    def test_a_model_that_engines_load(self) -> None:
        """The golden's own files, byte for byte."""
        files = request_files(request())
        assert {"model.safetensors", "config.json", "generation_config.json", "vectors.json", "request.json"} == set(
            files
        )
        for name in set(files) - {"request.json"}:
            assert (GOLDEN / "llama.dense" / name).read_bytes() == files[name]

    def test_a_model_of_this_project(self) -> None:
        """With its settings in this project's words."""
        files = request_files(request("cai.kv-cache"))
        assert {"weights.safetensors", "config.json", "vectors.json", "request.json"} == set(files)

    def test_the_request(self) -> None:
        """Everything that the trace must state."""
        asked = request(examples=7, profile="golden")
        assert {
            "suite": "llama.dense",
            "suite_version": "1.0",
            "profile": "golden",
            "arithmetic": "strict/1",
            "vectors": f"sha256:{hashlib.sha256(asked.vectors).hexdigest()}",
            "examples": 7,
        } == json.loads(request_files(asked)["request.json"])

    def test_a_corpus(self) -> None:
        """And its splits, where there are any."""
        files = request_files(request("course.ngram", weights=b"", corpus=b"text", splits=b"[]"))
        assert (b"text", b"[]") == (files["corpus.txt"], files["splits.json"])
        assert not any(name.endswith(".safetensors") for name in files)


class TestCalls:
    """How a program is called, and what its exit code says."""

    def test_the_command_line(self, shop: Workshop) -> None:
        """Own arguments first; the folder is gone afterwards."""
        body = "print(json.dumps([sys.argv[2:], sorted(os.listdir(sys.argv[6])), sys.stdin.read()]))"
        program = shop.program(body, PREAMBLE)
        command = " ".join([*program.command, "'a b'"])
        backend: Backend = ExecBackend(command)
        assert backend.name.startswith("exec:")
        words, names, heard = json.loads(ask(backend, NGRAM.__class__(**{**vars(NGRAM), "corpus": b"x"})))
        folder = words[4]
        rest = ["--profile", "edges", "--arithmetic", "strict/1"]
        assert ["a b", "trace", "course.ngram", "--vectors", folder, *rest] == words
        assert (["corpus.txt", "request.json", "vectors.json"], "") == (names, heard)
        assert not Path(folder).exists()

    def test_a_replay_has_another_environment(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another hash seed, another number of threads."""
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        monkeypatch.setenv("PYTHONHASHSEED", "1")
        program = shop.program("print(os.environ.get('PYTHONHASHSEED'), os.environ['OMP_NUM_THREADS'])", PREAMBLE)
        backend = ExecBackend(program.command)
        assert b"1 2\n" == backend.trace(NGRAM)
        assert b"2 1\n" == backend.replay(NGRAM)

    def test_not_offered(self, shop: Workshop) -> None:
        """The last line of standard error is the reason."""
        body = "print('half a trace'); print('thinking\\nno training / yet', file=sys.stderr); sys.exit(3)"
        with pytest.raises(NotOffered, match=r"does not offer course.ngram \(edges\): no training / yet$"):
            ExecBackend(shop.program(body, PREAMBLE).command).trace(NGRAM)

    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            ("raise ValueError('no such case')", "crashed: it ended with exit code 1; its last words on"),
            ("os.kill(os.getpid(), signal.SIGKILL); time.sleep(60)", "crashed: it was ended by the signal SIGKILL"),
            ("\nwhile True: os.write(1, b'x' * 100000)", "crashed: it printed more than 1000000 bytes"),
            ("os.close(1); os.fork() and sys.exit(4); time.sleep(60)", "crashed: it ended with exit code 4"),
        ],
    )
    def test_a_crash(self, shop: Workshop, body: str, problem: str) -> None:
        """Whatever it printed before is no trace."""
        backend = ExecBackend(shop.program("print('a trace', flush=True); " + body, PREAMBLE).command, limit=1_000_000)
        with refuses(BackendError, "backend-crashed") as caught:
            backend.trace(NGRAM)
        assert problem in str(caught.value)

    def test_a_deadline(self, shop: Workshop) -> None:
        """It is ended with what it started."""
        body = "pid = os.fork()\nif not pid: open(sys.argv[1], 'a').write(f'{os.getpid()}\\n')\ntime.sleep(60)"
        backend = ExecBackend(shop.program(body, PREAMBLE).command, seconds=0.4, name="exec:slow")
        with refuses(BackendError, "backend-crashed"):
            backend.trace(NGRAM)

    @pytest.mark.parametrize(
        ("command", "problem"),
        [("", "no program is named"), ("/no/such/program", "it cannot be started: No such file or directory")],
    )
    def test_no_program(self, command: str, problem: str) -> None:
        """The system's reason is the reason."""
        with refuses(BackendError, "backend-crashed", match=problem):
            ExecBackend(command).trace(NGRAM)

    def test_it_may_be_called_several_times_at_once(self) -> None:
        """Every call is a process of its own, in a folder of its own."""
        assert ExecBackend(sys.executable).concurrent
        assert os.fspath(sys.executable) in ExecBackend([sys.executable, "-c", "a b"]).name
