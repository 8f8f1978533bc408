"""transformers as an engine for the Llama suites."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from cai_conformance.engine import (
    CopyingEngine,
    DroppingEngine,
    Feature,
    GeneratingEngine,
    GenerationOrder,
    Nondeterminism,
    Piece,
    Refused,
)
from cai_conformance.fixtures.goldens.store import locate
from support_foreign_engines import (
    NO_TORCH,
    NO_TRANSFORMERS,
    case,
    distance,
    distances,
    drawn,
    fed_afresh,
    feed,
    write_folder,
)

if TYPE_CHECKING:
    from cai_conformance.backends.transformers.engine import TransformersEngine

SUITES = ("llama.dense", "llama.gqa-window")
SAMPLED = [pytest.param("llama.dense", marks=pytest.mark.exhaustive), "llama.gqa-window"]
SINGLE = 2e-4
"""For logits of order 10; measured are 7e-6, most of it from position 3000 on."""
HALF = 0.25
"""Measured are 0.06."""


@pytest.fixture
def engine() -> Iterator[TransformersEngine]:
    """An engine in single precision."""
    pytest.importorskip("torch", reason=NO_TORCH)
    pytest.importorskip("transformers", reason=NO_TRANSFORMERS)
    from cai_conformance.backends.transformers.engine import TransformersEngine

    made = TransformersEngine()
    yield made
    made.close()


class TestLogits:
    """They are the goldens', but for the rounding of a format."""

    @pytest.mark.parametrize("suite", SAMPLED)
    def test_the_vector_cases_are_met_in_every_format(
        self, engine: TransformersEngine, suite: str, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """Double precision is no better than single precision; nothing is said on the way."""
        far: dict[str, float] = {}
        for precision in ("float64", "float32", "bfloat16"):
            engine.load(locate() / suite, precision)
            far[precision] = max(dict(distances(engine, suite)).values())
        assert 1e-9 < far["float64"] <= SINGLE
        assert 1e-9 < far["float32"] <= SINGLE
        assert 1e-3 < far["bfloat16"] <= HALF
        assert ("", "") == capfd.readouterr()

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("suite", SUITES)
    def test_both_attentions_answer(self, engine: TransformersEngine, suite: str) -> None:
        """Alike, but for rounding."""
        other = type(engine)(attention="eager")
        rows = []
        for each in (engine, other):
            each.load(locate() / suite)
            rows.append(fed_afresh(each, drawn(30, 2), 3000))
        assert 0.0 < distance(rows[0], rows[1]) <= SINGLE

    def test_it_says_what_it_computes_in(self, engine: TransformersEngine) -> None:
        """Float64 passes through float32."""
        found = engine.description
        assert ("float32", ("float64", "float32", "bfloat16")) == (found.arithmetic, found.precisions)
        engine.load(locate() / "llama.dense", "float64")
        precision = engine.description.precision
        assert ("float64", "float32", "float64") == (precision.weights, precision.activations, precision.logits)
        assert "float32" == engine.description.arithmetic
        assert {Feature.DROP, Feature.COPY, Feature.GENERATE} == found.features
        assert Nondeterminism.SHAPE is found.nondeterminism
        assert all(isinstance(engine, kind) for kind in (CopyingEngine, DroppingEngine, GeneratingEngine))


class TestSlots:
    """A cache a sequence."""

    @pytest.mark.parametrize("suite", SAMPLED)
    def test_token_by_token_is_all_at_once(self, engine: TransformersEngine, suite: str) -> None:
        """Beyond the window; beside another sequence, in one call."""
        engine.load(locate() / suite, "float64")
        ids = drawn(20, 6)
        whole = fed_afresh(engine, ids)
        engine.clear(0)
        rows = []
        for place, token in enumerate(ids):
            pieces = [Piece(1, 3000 + place, (token,), ()), Piece(0, place, (token,), (0,))]
            rows.append(engine.evaluate(pieces)[1].logits)
        assert distance(np.concatenate(rows, axis=1), whole) <= SINGLE

    def test_a_cut_is_as_if_the_rest_had_never_been_fed(self, engine: TransformersEngine) -> None:
        """Of a full cache anywhere, of one with a window as long as that is not full."""
        for suite, length, kept in (("llama.dense", 20, 9), ("llama.gqa-window", 6, 3)):
            engine.load(locate() / suite)
            ids = drawn(length, 7)
            fed_afresh(engine, ids[:kept], 40)
            expected = feed(engine, (7, 8, 9), 40 + kept)
            fed_afresh(engine, ids, 40)
            engine.drop(0, 40 + kept)
            assert distance(feed(engine, (7, 8, 9), 40 + kept), expected) <= SINGLE
            engine.drop(0, 40)
            feed(engine, ids, 5)

    def test_a_full_window_cannot_be_cut(self, engine: TransformersEngine) -> None:
        """Its cache holds no more than the next token needs; the slot goes on as it was."""
        engine.load(locate() / "llama.gqa-window")
        for slot in (0, 1):
            fed_afresh(engine, drawn(7, 1), slot=slot)
        with pytest.raises(Refused, match="caches with a window of 7 cannot be cut from 7 tokens"):
            engine.drop(0, 6)
        assert feed(engine, (5,), 7).tobytes() == feed(engine, (5,), 7, slot=1).tobytes()

    @pytest.mark.parametrize("suite", SAMPLED)
    def test_a_copy_goes_its_own_way(self, engine: TransformersEngine, suite: str) -> None:
        """Neither sees what the other is fed."""
        engine.load(locate() / suite)
        expected = []
        for token in (7, 8):
            fed_afresh(engine, drawn(12, 3), 40)
            expected.append(feed(engine, (token,), 52).tobytes())
        fed_afresh(engine, drawn(12, 3), 40)
        engine.copy(0, 2)
        assert expected == [feed(engine, (7,), 52).tobytes(), feed(engine, (8,), 52, slot=2).tobytes()]
        engine.copy(9, 2)
        feed(engine, (8,), 3, slot=2)

    def test_what_does_not_fit_is_refused(self, engine: TransformersEngine) -> None:
        """In words, and the first piece of a call is not remembered without the second."""
        with pytest.raises(Refused, match="no model is loaded"):
            feed(engine, (0,))
        engine.load(locate() / "llama.dense")
        feed(engine, (0, 5))
        calls = {
            "slot 0 goes on at position 2, not 3": [Piece(1, 0, (4,), ()), Piece(0, 3, (4,), (0,))],
            "320 is none of the ids 0 … 319": [Piece(1, 0, (320,), (0,))],
            "two pieces are for one slot": [Piece(1, 0, (4,), ()), Piece(1, 0, (5,), ())],
            "there are no tokens for slot 1": [Piece(1, 0, (), ())],
            r"\[2\] are not ascending places of 2 tokens": [Piece(1, 0, (4, 5), (2,))],
            "there are the slots 0 … 15, not 16": [Piece(16, 0, (4,), ())],
            "there is no position -1": [Piece(1, -1, (4,), ())],
        }
        for text, pieces in calls.items():
            with pytest.raises(Refused, match=text):
                engine.evaluate(pieces)
        feed(engine, (4,), 77, slot=1)
        with pytest.raises(Refused, match="slot 0 can be cut at its end, position 1, only"):
            engine.drop(0, 0, 1)


@pytest.mark.exhaustive
class TestGeneration:
    """By its own loop, which takes seconds to import, and by encoding everything each time."""

    @pytest.mark.parametrize("arm", ["full", "cached"])
    @pytest.mark.parametrize("suite", SUITES)
    def test_the_tokens_are_those_of_the_vector_cases(
        self, engine: TransformersEngine, tmp_path: Path, suite: str, arm: str
    ) -> None:
        """Ties included."""
        for kind, folder in (
            ("gen.given", locate() / suite),
            ("smp.tie", write_folder(tmp_path / "paired", suite, paired=True)),
        ):
            given = case(suite, f"{kind}.{arm}")
            engine.load(folder)
            order = GenerationOrder(tuple(given["input"]["prompt"]), given["input"]["new_tokens"], arm)
            assert tuple(given["expected"]["ids"]) == engine.generate(order).ids

    @pytest.mark.parametrize("arm", ["full", "cached"])
    def test_only_the_order_says_where_to_stop(self, engine: TransformersEngine, tmp_path: Path, arm: str) -> None:
        """The settings in the folder do not; the stop id belongs to what is generated."""
        given = case("llama.dense", f"gen.given.{arm}")
        ids = tuple(given["expected"]["ids"])
        stop = next(token for token in ids[2:] if token != ids[0])
        folder = write_folder(tmp_path / "stopping", "llama.dense")
        for name in ("config.json", "generation_config.json"):
            settings = json.loads((folder / name).read_text("utf-8"))
            (folder / name).write_text(json.dumps({**settings, "eos_token_id": stop}), "utf-8")
        engine.load(folder)
        prompt = tuple(given["input"]["prompt"])
        assert ids == engine.generate(GenerationOrder(prompt, 16, arm)).ids
        found = engine.generate(GenerationOrder(prompt, 16, arm, stop=stop, top=3))
        assert ids[: ids.index(stop) + 1] == found.ids
        assert list(found.ids) == [top[0][0] for top in found.top]
        assert all(top[0][1] >= top[1][1] >= top[2][1] for top in found.top)
        assert () == engine.generate(GenerationOrder(prompt, 0, arm)).ids

    def test_what_cannot_be_generated_is_refused(self, engine: TransformersEngine) -> None:
        """In words."""
        engine.load(locate() / "llama.dense")
        orders = {
            "it has no arm scripted": GenerationOrder((0,), 1, "scripted"),
            "the prompt is empty": GenerationOrder((), 1),
            "-1 is none of the ids": GenerationOrder((-1,), 1),
        }
        for text, order in orders.items():
            with pytest.raises(Refused, match=text):
                engine.generate(order)


class TestFolders:
    """Of the Llama suites only."""

    def test_other_folders_are_refused(self, engine: TransformersEngine, tmp_path: Path) -> None:
        """Whatever their name makes transformers guess."""
        folder = write_folder(tmp_path / "llama", "cai.kv-cache")
        with pytest.raises(Refused, match="model_type is None, not one of llama, mistral"):
            engine.load(folder)

    def test_a_tensor_without_a_place_is_refused(self, engine: TransformersEngine, tmp_path: Path) -> None:
        """And what was loaded before stays."""
        engine.load(locate() / "llama.dense")
        before = fed_afresh(engine, drawn(5, 1)).tobytes()
        folder = write_folder(tmp_path / "longer", "llama.dense")
        settings = json.loads((folder / "config.json").read_text("utf-8"))
        (folder / "config.json").write_text(json.dumps({**settings, "num_hidden_layers": 3}), "utf-8")
        with pytest.raises(Refused, match="not every tensor found its place"):
            engine.load(folder, "bfloat16")
        assert before == fed_afresh(engine, drawn(5, 1)).tobytes()
        assert "float32" == engine.description.arithmetic

    def test_other_formats_attentions_and_devices_are_refused(self, engine: TransformersEngine) -> None:
        """Before a model is there."""
        with pytest.raises(Refused, match="refuses the format float16"):
            type(engine)("float16")
        with pytest.raises(Refused, match="refuses the attention flex"):
            type(engine)(attention="flex")
        with pytest.raises(Refused, match="refuses the format float16"):
            engine.load(locate() / "llama.dense", "float16")
