"""The example in plain Python: its logits against the goldens of two models, and that it keeps to the protocol."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cai_conformance.backends.serve.client import ServeEngine
from cai_conformance.engine import EngineBroken, Piece, Refused
from cai_reference.arithmetic.bits import from_hex_bits

ROOT = Path(__file__).resolve().parents[4]
EXAMPLE = ROOT / "conformance" / "examples" / "plain_python" / "engine.py"
SUITES = ("llama.dense", "llama.gqa-window")


def start() -> ServeEngine:
    """Start the example; every message is held against its schema."""
    return ServeEngine([sys.executable, "-I", "-S", str(EXAMPLE)], validate=True)


@pytest.fixture(scope="module")
def engine() -> Iterator[ServeEngine]:
    """The example, behind a process."""
    with start() as engine:
        yield engine
    assert "" == engine.farewell


def cases(suite: str) -> list[tuple[str, dict[str, object], list[float]]]:
    """Return the cases of logits of a suite's golden: id, input, expected values."""
    found = json.loads((ROOT / "golden" / suite / "vectors.json").read_bytes())["cases"]
    return [
        (case["id"], case["input"], [from_hex_bits(bits) for bits in case["expected"]["values"]])
        for case in found
        if case["operation"] in ("decoder.logits", "decoder.session-logits")
    ]


class TestGoldens:
    """What the reference recorded, computed without NumPy."""

    @pytest.mark.parametrize("suite", SUITES)
    def test_logits(self, engine: ServeEngine, suite: str) -> None:
        """In one call and in two, from 0 and from far on."""
        loaded = engine.load(ROOT / "golden" / suite)
        assert 4096 == loaded.context
        seen = set()
        for name, asked, expected in cases(suite):
            ids, start = asked["ids"], asked["start"]
            assert isinstance(ids, list)
            assert isinstance(start, int)
            cut, row = int(str(asked.get("first_chunk", 0))), int(str(asked.get("row", len(ids) - 1)))
            engine.clear(1)
            if cut:
                engine.evaluate([Piece(1, start, tuple(ids[:cut]), ())])
            (answer,) = engine.evaluate([Piece(1, start + cut, tuple(ids[cut:]), (row - cut,))])
            # Measured: 2.2e-14 at most, for logits between -10 and 10.
            assert np.abs(answer.logits[0, 0] - expected).max() < 1e-12, name
            seen.add(name.rpartition(".")[0])
        assert {"fwd.oracle", "kv.split"} == seen


class TestSlots:
    """Slots are independent, can be cut and copied, and a refusal changes nothing."""

    def test_cutting_and_copying(self, engine: ServeEngine) -> None:
        """The same bits as a slot that never held anything else."""
        engine.load(ROOT / "golden" / "llama.gqa-window")
        (fresh,) = engine.evaluate([Piece(0, 7, (0, 5, 9, 3), (3,))])
        engine.evaluate([Piece(1, 7, (0, 5, 8, 8, 8), ())])
        engine.drop(1, 9)
        engine.copy(1, 2)
        engine.evaluate([Piece(1, 9, (1,), ())])
        with pytest.raises(Refused, match="only the end"):
            engine.drop(2, 7, 8)
        with pytest.raises(Refused, match="does not know one of them"):
            engine.evaluate([Piece(3, 0, (4,), ()), Piece(2, 9, (320,), ())])
        again, _ = engine.evaluate([Piece(2, 9, (9, 3), (1,)), Piece(3, 40, (4,), (0,))])
        assert fresh.logits.tobytes() == again.logits.tobytes()
        engine.drop(2, 7)
        (far,) = engine.evaluate([Piece(2, 100, (5,), ())])
        assert (1, 0, 320) == far.logits.shape

    def test_many_rows_stand_in_a_file(self, engine: ServeEngine) -> None:
        """More than 64 KiB of logits."""
        engine.load(ROOT / "golden" / "llama.dense")
        tokens = tuple(range(30))
        (rows,) = engine.evaluate([Piece(0, 0, tokens, tuple(range(30)))])
        (last,) = engine.evaluate([Piece(1, 0, tokens, (29,))])
        assert (1, 30, 320) == rows.logits.shape
        assert np.array_equal(rows.logits[0, 29], last.logits[0, 0])

    def test_what_it_does_not_have(self, engine: ServeEngine, tmp_path: Path) -> None:
        """It is skipped; what is no model folder is an error."""
        with pytest.raises(Refused, match="no choice of formats"):
            engine.load(ROOT / "golden" / "llama.dense", "float32")
        with pytest.raises(Refused, match="only Llama and Mistral"):
            (tmp_path / "config.json").write_text("{}")
            engine.load(tmp_path)
        with start() as other, pytest.raises(EngineBroken, match="failed at load: FileNotFoundError"):
            other.load(tmp_path / "nothing")


class TestText:
    """It is there to be read."""

    def test_one_sitting(self) -> None:
        """At most 250 lines, and nothing to install."""
        text = EXAMPLE.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 250
        imported = {
            name.split(".")[0]
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        }
        assert imported <= sys.stdlib_module_names
