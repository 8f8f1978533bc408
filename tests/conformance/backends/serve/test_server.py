"""Client and server held against each other: what is asked arrives, and what is answered comes back, bit by bit."""

from __future__ import annotations

import io
import json
import math
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cai_conformance.backends.serve.__main__ import engine_of, main
from cai_conformance.backends.serve.client import ServeEngine
from cai_conformance.backends.serve.errors import ProtocolViolation
from cai_conformance.backends.serve.server import described, serve
from cai_conformance.engine import Generated, GenerationOrder, Piece, Refused, SavedTraining, TrainingSettings
from cai_conformance.errors import BackendError
from support_refusals import refuses
from support_serving_engine import BATCH, DESCRIPTION, SETTINGS, ArithmeticEngine, SmallEngine

TESTS = Path(__file__).resolve().parents[3]

PROGRAM = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from cai_conformance.backends.serve.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def served(spec: str) -> ServeEngine:
    """Start this package's own server with an engine of these tests, validating on both sides."""
    return ServeEngine([sys.executable, "-c", PROGRAM, spec, "--validate"], validate=True)


def talk(engine: ArithmeticEngine | SmallEngine, *lines: bytes, validate: bool = False) -> list[dict[str, object]]:
    """Serve lines without a process, and return the answers."""
    answers = io.BytesIO()
    serve(engine, io.BytesIO(b"\n".join([*lines, b""])), answers, validate=validate)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


def line(number: int, do: str, **content: object) -> bytes:
    """Return a message."""
    return json.dumps({"id": number, "do": do, "seconds": 5, **content}).encode()


START = line(1, "start", protocol="1", client="test", scratch=".")


@pytest.fixture(scope="module")
def engine() -> Iterator[ServeEngine]:
    """The engine with all features, behind a process."""
    with served("support_serving_engine:ArithmeticEngine") as engine:
        yield engine
    assert "" == engine.farewell


class TestBothSides:
    """One process, asked for everything there is."""

    def test_description(self, engine: ServeEngine) -> None:
        """Field by field."""
        assert DESCRIPTION == engine.description

    def test_load(self, engine: ServeEngine, tmp_path: Path) -> None:
        """A size beyond 2^53 keeps its last bit; what is printed does not come between."""
        folder = tmp_path / "noisy"
        folder.mkdir()
        loaded = engine.load(folder, "float16")
        assert {"folder": "noisy", "precision": "float16"} == loaded.conventions
        assert {"cache_bytes": 1 << 63, "rows": 7} == loaded.claimed
        assert loaded.context is None

    def test_evaluate(self, engine: ServeEngine) -> None:
        """Positions from 0 and from far on, no row wanted, NaN."""
        pieces = [Piece(0, 3000, (5, 9), (1,)), Piece(2, 0, (7,), ()), Piece(1, 0, (8, 2), (0, 1))]
        first, second, third = engine.evaluate(pieces)
        assert [3000 + 9 / 8] * 5 == first.logits[0, 0].tolist()
        assert (1, 0, 5) == second.logits.shape
        assert np.isnan(third.logits[0, 0]).all()
        assert [1 + 2 / 8] * 5 == third.logits[0, 1].tolist()
        assert {} == first.stages

    def test_observe(self, engine: ServeEngine) -> None:
        """Stages in their order, also one without numbers."""
        (answer,) = engine.evaluate([Piece(1, 4, (3,), (0,))], observe=True)
        assert ["embedding", "blocks.0/out"] == list(answer.stages)
        assert np.array_equal(2 * answer.logits[0], answer.stages["embedding"])
        assert (2, 0, 3) == answer.stages["blocks.0/out"].shape

    def test_what_is_large_travels_in_a_file(self, engine: ServeEngine) -> None:
        """Which is gone when the next answer begins."""
        scratch = Path(engine._scratch.name)
        for _ in range(2):
            assert 160_000 == engine.training_state().weights["w"].nbytes
            assert [160_000] == [file.stat().st_size for file in scratch.iterdir()]
        engine.clear(0)
        assert [] == list(scratch.iterdir())

    def test_slots(self, engine: ServeEngine) -> None:
        """Done, or refused with the engine's reason."""
        engine.clear(2)
        engine.copy(0, 1)
        engine.drop(1, 7)
        with pytest.raises(Refused, match=r"refuses drop: only the end of a slot can be dropped$"):
            engine.drop(1, 7, 9)

    def test_generate(self, engine: ServeEngine) -> None:
        """Ids, and log-probabilities with all their bits."""
        generated = engine.generate(GenerationOrder((1, 2, 3), 2, "scripted", 2, 2))
        step = ((0, -0.0), (1, -1 / 3))
        assert Generated((3, 2), (step, step)) == generated
        with pytest.raises(Refused, match="the arm full: the program does not list it"):
            engine.generate(GenerationOrder((1,), 2, "full"))

    def test_training(self, engine: ServeEngine) -> None:
        """Settings, batches and tensors."""
        found = engine.gradients(BATCH)
        assert 0.1 == found.loss
        assert [[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]] == found.gradients["w"].tolist()
        assert () == found.gradients["b"].shape
        engine.start_training(SETTINGS)
        assert math.isnan(engine.train_step(BATCH))
        state = engine.training_state()
        assert np.array_equal(np.arange(20_000).reshape(100, 200) / 7, state.weights["w"])
        assert [(1, 200), (0, 200)] == [state.first_moments["w"].shape, state.second_moments["w"].shape]

    def test_checkpoints(self, engine: ServeEngine, tmp_path: Path) -> None:
        """What it claims comes back, and a refusal with its reason; the program lives on."""
        assert engine.save_training(tmp_path) == SavedTraining(checksums=True)
        engine.resume_training(tmp_path)
        with pytest.raises(Refused, match=r"refuses resume-training: a file is cut$"):
            engine.resume_training(tmp_path / "damaged")

    def test_faults_on_demand(self, engine: ServeEngine) -> None:
        """Both are done without an answer of their own."""
        engine.poison(math.nan)
        engine.fail_after(1)


class TestWithoutAProcess:
    """What arrives is what was sent, and what cannot be read is said."""

    def test_everything_arrives(self, tmp_path: Path) -> None:
        """Types and values of each argument."""
        from cai_conformance.backends.serve.tensors import write_pieces
        from cai_conformance.backends.serve.training_messages import write_batch, write_order, write_settings

        engine = ArithmeticEngine()
        piece, order = Piece(2, 3000, (5, 9), (1,)), GenerationOrder((1, 2), 3, "cached", None, 1)
        settings = TrainingSettings(0.1, 0.2, 0.3, 1e-300, 0.5, 1.0, ())
        answers = talk(
            engine,
            line(1, "start", protocol="1", client="test", scratch=str(tmp_path)),
            line(2, "load", folder="/a/b", precision=None),
            line(3, "evaluate", **write_pieces([piece], observe=True)),
            line(4, "drop", slot=1, first=7, last=None),
            line(5, "generate", **write_order(order)),
            line(6, "train-step", **write_batch(BATCH)),
            line(7, "start-training", **write_settings(settings)),
            line(8, "poison", value="7ff8000000000001", x_reason="ignored"),
            line(9, "fail-after", layers=2),
            line(10, "copy", source=2, target=0),
            line(11, "save-training", directory="/a/c"),
            line(12, "resume-training", directory="/a/d"),
            validate=True,
        )
        assert list(range(1, 13)) == [answer["id"] for answer in answers]
        assert all("ok" in answer for answer in answers)
        assert [
            ("load", Path("/a/b"), None),
            ("evaluate", (piece,), True),
            ("drop", 1, 7, None),
            ("generate", order),
            ("train_step", BATCH),
            ("start_training", settings),
            ("poison", bytes.fromhex("010000000000f87f")),
            ("fail_after", 2),
            ("copy", 2, 0),
            ("save_training", Path("/a/c")),
            ("resume_training", Path("/a/d")),
        ] == engine.asked
        assert engine.closed

    @pytest.mark.parametrize(
        ("message", "outcome", "reason"),
        [
            (line(2, "dance"), "skipped", "dance is not known here"),
            (line(2, "clear"), "errored", "the message has no 'slot'"),
            (line(2, "clear", slot=3), "errored", "'slot' of the message is 3, not an integer from 0 to 2"),
            (line(2, "clear", slot=0, kind=1), "errored", "has the key 'kind', which the protocol does not know"),
            (line(2, "start", protocol="2", client="t", scratch="."), "errored", "is '2', not one of 1"),
            (line(2, "load", folder="/a", precision="int4"), "errored", "is 'int4', not one of float64"),
            (line(2, "evaluate", pieces=[], observe=False), "errored", "'pieces' of the message has 0 entries"),
            (line(2, "poison", value=1), "errored", "is 1, not the sixteen hex digits of a double"),
            (b'{"id": 2, "do": "clear", "slot": 0}', "errored", "'seconds' of the message is None"),
            (b'{"id": 2, "seconds": 1}', "errored", "'do' of the message is None, not a text"),
            (line(2, "cancel", request="all"), "errored", "'request' of the message is 'all'"),
        ],
    )
    def test_a_message_that_cannot_be_done(self, message: bytes, outcome: str, reason: str) -> None:
        """It is answered, and the next one is done."""
        answers = talk(ArithmeticEngine(), START, message, line(3, "clear", slot=0))
        # What cancels others does not wait for its turn.
        by_id = {answer["id"]: answer for answer in answers}
        assert reason in str(by_id[2][outcome])
        assert {"id": 3, "ok": {}} == by_id[3]

    def test_what_an_engine_raises(self) -> None:
        """It is `errored`, and on one line; the engine is asked further."""
        message = line(2, "evaluate", pieces=[{"slot": 0, "position": 0, "tokens": [666], "wanted": []}], observe=False)
        answers = talk(ArithmeticEngine(), START, message, line(3, "clear", slot=0))
        assert {"id": 2, "errored": "RuntimeError: out of memory"} == answers[1]
        assert {"id": 3, "ok": {}} == answers[2]

    def test_nothing_comes_before_start(self) -> None:
        """There is no folder for files, and no version."""
        assert "before start" in str(talk(ArithmeticEngine(), line(1, "clear", slot=0))[0]["errored"])

    @pytest.mark.parametrize("text", [b"hello", b'{"do": "stop"}', b'{"id": 1.5}', b"\xff", b"[]"])
    def test_a_line_without_an_id_ends_everything(self, text: bytes) -> None:
        """There is nothing to answer."""
        engine = ArithmeticEngine()
        with pytest.raises(ProtocolViolation):
            talk(engine, START, text)
        assert engine.closed

    def test_an_id_that_waits_already(self) -> None:
        """Two requests with one id could not be told apart; one that was answered may come again."""
        engine, reading, writing = ArithmeticEngine(), *os.pipe()
        message = line(2, "evaluate", pieces=[{"slot": 0, "position": 0, "tokens": [777], "wanted": []}], observe=False)
        os.write(writing, START + b"\n" + message + b"\n")
        threading.Thread(target=_feed, args=(engine, writing, line(2, "clear", slot=0))).start()
        with os.fdopen(reading, "rb") as stdin, pytest.raises(ProtocolViolation, match="the id 2, which waits"):
            serve(engine, stdin, io.BytesIO())

    def test_stop_is_the_end(self) -> None:
        """What comes behind it is not read."""
        assert [1, 2] == [answer["id"] for answer in talk(ArithmeticEngine(), START, line(2, "stop"), b"hello")]

    def test_cancel_is_answered_at_once(self) -> None:
        """The request and its cancelling are answered while the engine still works."""
        engine, answers = ArithmeticEngine(), io.BytesIO()
        reading, writing = os.pipe()
        message = line(2, "evaluate", pieces=[{"slot": 0, "position": 0, "tokens": [777], "wanted": []}], observe=False)
        os.write(writing, b"\n".join([START, message, line(3, "clear", slot=0), b""]))
        feeding = threading.Thread(target=_feed, args=(engine, writing, line(4, "cancel", request=2)))
        feeding.start()
        with os.fdopen(reading, "rb") as stdin:
            serve(engine, stdin, answers)
        feeding.join()
        found = [json.loads(text) for text in answers.getvalue().splitlines()]
        assert [1, 2, 4, 3] == [answer["id"] for answer in found]
        assert {"id": 2, "errored": "it was cancelled"} == found[1]

    def test_features_are_those_that_the_engine_has(self) -> None:
        """Whatever it says; to observe is part of evaluating."""
        assert frozenset({"observe"}) == described(SmallEngine()).features
        assert frozenset() == described(SmallEngine()).arms
        answers = talk(SmallEngine(), START, line(2, "drop", slot=0, first=0, last=None))
        assert "does not have the feature drop" in str(answers[1]["skipped"])


class TestCommandLine:
    """`python -m cai_conformance.backends.serve`."""

    def test_an_engine_by_name(self) -> None:
        """A class, or what makes one."""
        assert isinstance(engine_of("support_serving_engine:ArithmeticEngine"), ArithmeticEngine)

    @pytest.mark.parametrize(
        ("spec", "problem"),
        [
            ("nothing", "a specification is module:attribute"),
            ("no_such_module:engine", "ModuleNotFoundError"),
            ("support_serving_engine:nobody", "AttributeError"),
            ("support_serving_engine:DESCRIPTION", "it has no description"),
        ],
    )
    def test_what_names_no_engine(self, spec: str, problem: str) -> None:
        """Is said in one sentence."""
        with refuses(BackendError, "engine-not-importable", match=problem):
            engine_of(spec)

    def test_it_ends_with_a_sentence(self, capfd: pytest.CaptureFixture[str]) -> None:
        """And exit code 2."""
        saved = os.dup(1)
        try:
            assert 2 == main(["nothing"])
        finally:
            os.dup2(saved, 1)
            os.close(saved)
        assert "engine 'nothing' cannot be loaded: a specification is module:attribute\n" == capfd.readouterr().err


def _feed(engine: ArithmeticEngine, writing: int, message: bytes) -> None:
    """Write a message while the engine is busy, and let it go on when that has been read."""
    engine.busy.wait(10)
    os.write(writing, message + b"\n")
    os.close(writing)
    # The server takes it within a few milliseconds; a test of what happens at once cannot wait for an answer.
    threading.Event().wait(0.1)
    engine.go_on.set()
