"""Programs that answer, but not what the protocol allows: each is ended, with a sentence that says what was wrong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from cai_conformance.backends.serve.client import ServeEngine
from cai_conformance.engine import EngineBroken, EngineError, Piece, Refused
from support_refusals import refuses
from support_serving import PIECE, WORDS, Workshop

SELDOM = pytest.mark.exhaustive
"""Each kind of mistake is looked at without a process, too."""

GOOD = "tensor([1.0, 2.0, 3.0, 4.0], 1, 2, 2)"


class TestLines:
    """What is no line of the protocol."""

    @pytest.mark.parametrize(
        ("line", "problem"),
        [
            (r"b'\xff\xfe{}'", "is not UTF-8"),
            ("b'hello'", "is not JSON"),
            ("""b'{"id": ' + b'[' * 100000""", "is nested deeper than 32"),
            ("""b'{"id": 3, "ok": {}}'""", "is to request 3 instead, where 2 waits"),
            pytest.param("b''", "is not JSON", marks=SELDOM),
            pytest.param("b'[2]'", "is not an object", marks=SELDOM),
            pytest.param("""b'{"id": 1' + b'0' * 400 + b'}'""", "of 401 digits", marks=SELDOM),
            pytest.param("""b'{"id": 2, "ok": {"loss": NaN}}'""", "has NaN, which JSON does not know", marks=SELDOM),
            pytest.param("""b'{"id": 2, "id": 2, "ok": {}}'""", "duplicate key 'id'", marks=SELDOM),
            pytest.param("""b'{"id": 1, "ok": {}}'""", "is to request 1 again, where 2 waits", marks=SELDOM),
            pytest.param("""b'{"id": 2, "ok": {}, "time": 3}'""", "has the key 'time', which", marks=SELDOM),
            pytest.param("""b'{"id": 2}'""", "has neither ok nor skipped nor errored", marks=SELDOM),
        ],
    )
    def test_is_refused(self, shop: Workshop, line: str, problem: str) -> None:
        """And shown, as far as it fits."""
        found = shop.broken(f"begin(); hear(); raw({line} + b'\\n'); sleep(60)")
        assert found.startswith("the program broke the protocol at evaluate: ")
        assert problem in found
        assert found.endswith(WORDS)
        assert len(found) < 400

    def test_answers_twice(self, shop: Workshop) -> None:
        """The second answer is taken for one to the next request, and is not."""
        engine = shop.engine("begin(); message = hear(); say(message, ok={}); say(message, ok={}); rest()")
        engine.clear(0)
        with pytest.raises(EngineBroken, match="is to request 2 again, where 3 waits"):
            engine.clear(0)

    def test_own_keys_are_ignored(self, shop: Workshop) -> None:
        """Those that begin with x_, everywhere."""
        found = shop.evaluated(f"begin(x_mood='good'); answer({{**{GOOD}, 'x_a': 1}}, x_b=[2.0][:0]); rest()")
        assert isinstance(found, np.ndarray)


class TestStart:
    """What a program says of itself must go together."""

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ("protocol='2'", "'protocol' of the answer to start is '2', not '1'"),
            pytest.param("features=['fly']", "'fly' among the features is 'fly', not one of drop", marks=SELDOM),
        ],
    )
    def test_is_refused(self, shop: Workshop, changes: str, problem: str) -> None:
        """With the key and what was wanted there."""
        assert problem in shop.broken(f"begin({changes}); rest()")

    def test_refuses_to_start(self, shop: Workshop) -> None:
        """Nothing can be asked of such a program."""
        assert "the program refuses to start: no licence" in shop.broken("say(hear(), skipped='no licence'); rest()")


class TestShapes:
    """What has another shape than was asked for is named; the program lives on."""

    def test_logits(self, shop: Workshop) -> None:
        """Rows, axes, and what was seen before."""
        shapes = ([1, 3, 2], [2, 3], [0, 2, 3], [1, 2, 3], [1, 2, 6], [2, 2, 3])
        body = "begin()\n" + "".join(f"answer(tensor([0.0] * {math.prod(s)}, *{s}))\n" for s in shapes) + "rest()"
        with shop.engine(body) as engine:
            sentence = r"answered logits of the shape \[1, 3, 2\] where \[heads, 2, vocabulary\] was asked for"
            with refuses(EngineError, "answer-out-of-shape", match=sentence):
                engine.evaluate([PIECE])
            for _ in shapes[1:3]:
                with refuses(EngineError, "answer-out-of-shape"):
                    engine.evaluate([PIECE])
            assert (1, 2, 3) == engine.evaluate([PIECE])[0].logits.shape
            for _ in shapes[4:]:
                with refuses(EngineError, "answer-out-of-shape", match=r"where \[1, 2, 3\] was asked for"):
                    engine.evaluate([PIECE])
        assert "" == engine.farewell

    def test_logits_of_two_pieces_differ(self, shop: Workshop) -> None:
        """One model has one vocabulary."""
        body = "begin(slots=2); answer(tensor([0.0] * 4, 1, 2, 2), tensor([0.0] * 3, 1, 1, 3)); rest()"
        with (
            shop.engine(body) as engine,
            refuses(EngineError, "answer-out-of-shape", match=r"where \[1, 1, 2\] was asked for"),
        ):
            engine.evaluate([PIECE, Piece(1, 0, (5,), (0,))])

    def test_nan_is_a_number(self, shop: Workshop) -> None:
        """It reaches the judges, as infinities do."""
        body = "begin(); answer(tensor([float('nan'), float('inf'), -float('inf'), -0.0], 1, 2, 2)); rest()"
        with shop.engine(body) as engine:
            values = engine.evaluate([PIECE])[0].logits.ravel().tolist()
        assert math.isnan(values[0])
        assert [math.inf, -math.inf, "-0.0"] == [*values[1:3], str(values[3])]

    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            pytest.param(f"answer({GOOD}, {GOOD})", "has 2 entries, not 1", marks=SELDOM),
            (f"answer({GOOD}, stages=[{{'name': 'embedding', 'value': {GOOD}}}])", "nobody asked to observe"),
            ("answer(tensor([1.0] * 4, 1, -2, 2))", "entry 1 of 'shape' of 'logits' of answer 0 is -2, not an integer"),
            pytest.param("answer(tensor([1.0] * 4, 1, 2, 2, dtype='int8'))", "is 'int8', not one of", marks=SELDOM),
            ("answer({'dtype': 'float64', 'shape': [1, 2, 2], 'file': '/etc/passwd', 'offset': 0, 'sha256': '0'})",
             "the file '/etc/passwd' is no name below the folder 'scratch'"),
        ],
    )  # fmt: skip
    def test_what_is_no_answer_at_all(self, shop: Workshop, body: str, problem: str) -> None:
        """That breaks the protocol."""
        assert problem in shop.broken(f"begin(); {body}; rest()")


class TestFiles:
    """Large tensors stand in files."""

    def test_a_file_is_read(self, shop: Workshop) -> None:
        """From an offset, in a format of its own, with a digest."""
        body = """
import hashlib, struct
scratch = begin()
data = struct.pack("<4f", 1.0, -2.5, 3.0, 0.1)
os.mkdir(scratch + "/inner")
open(scratch + "/inner/rows.bin", "wb").write(b"........" + data + b"rest")
answer({"dtype": "float32", "shape": [1, 2, 2], "file": "inner/rows.bin", "offset": 8,
        "sha256": hashlib.sha256(data).hexdigest()})
rest()
"""
        found = shop.evaluated(body)
        assert isinstance(found, np.ndarray)
        assert [1.0, -2.5, 3.0, float(np.float32(0.1))] == found.ravel().tolist()
        assert np.float64 == found.dtype

    def test_scratch_is_gone_afterwards(self, shop: Workshop) -> None:
        """With everything that the program left there, also where it did not end well."""
        for end in ("rest()", "hear(); sys.exit(5)"):
            body = "scratch = begin(); open(scratch + '/left', 'w').close(); note(0); hear_folder = scratch; "
            body = body.replace("note(0)", "open(sys.argv[1] + '.scratch', 'w').write(scratch)")
            program = shop.program(body + end)
            engine = ServeEngine(program.command)
            engine.close()
            assert not Path(Path(f"{program.notes}.scratch").read_text()).exists()


class TestFeatures:
    """What a program does not list is refused without asking."""

    def test_is_not_asked(self, shop: Workshop) -> None:
        """The program would answer anything."""
        with shop.engine("begin(); rest()") as engine:
            for call in (
                lambda: engine.drop(0, 1),
                lambda: engine.copy(0, 1),
                lambda: engine.poison(math.nan),
                lambda: engine.fail_after(1),
                lambda: engine.evaluate([PIECE], observe=True),
                engine.training_state,
            ):
                with pytest.raises(Refused, match="does not list the feature"):
                    call()
            engine.clear(0)
        assert "" == engine.farewell

    def test_skipping_is_a_refusal(self, shop: Workshop) -> None:
        """The program is as it was, and the next thing is asked."""
        with shop.engine("begin(); say(hear(), skipped='not\\tnow'); rest()") as engine:
            with pytest.raises(Refused, match=r"^the program refuses clear: not now$"):
                engine.clear(0)
            engine.clear(0)
