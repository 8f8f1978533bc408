"""The reference as an engine: slots, refusals that leave everything as it was, folders that are none, its answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from safetensors.numpy import load, save

from cai_conformance.backends.reference.engine import SLOTS, ReferenceEngine
from cai_conformance.engine import GenerationOrder, Piece, Refused, TrainingBatch, TrainingSettings
from cai_reference.arithmetic.instances import FAST, STRICT
from support_engines import HEADS, SUITE, vector_case
from support_foreign_engines import case, distances, double, fed_afresh, feed, given, observed, write_folder

IDS: Final = (0, 17, 300, 17, 5)
SETTINGS: Final = TrainingSettings(0.01, 0.9, 0.99, 1e-4, 0.1, None, ())


@pytest.fixture
def engine(tmp_path: Path) -> ReferenceEngine:
    """The model of a suite, in fast arithmetic."""
    made = ReferenceEngine(FAST)
    made.load(write_folder(tmp_path, SUITE))
    return made


def refused(call: Callable[[], object]) -> str:
    """Return why a call is refused."""
    with pytest.raises(Refused) as caught:
        call()
    return str(caught.value)


class TestAnswers:
    """What it computes is what the suites ship."""

    def test_strict_rows_have_the_shipped_bits(self, tmp_path: Path) -> None:
        """From a whole sequence, from two calls, and from far away."""
        strict = ReferenceEngine(STRICT)
        strict.load(write_folder(tmp_path, SUITE))
        assert "strict/1" == strict.description.arithmetic
        given_input = case(SUITE, "fwd.oracle.far")["input"]
        row = fed_afresh(strict, given_input["ids"], given_input["start"])[0, given_input["row"]]
        assert [double(bits) for bits in case(SUITE, "fwd.oracle.far")["expected"]["values"]] == row.tolist()
        given_input = case(SUITE, "kv.split.half")["input"]
        ids, first = given_input["ids"], given_input["first_chunk"]
        fed_afresh(strict, ids[:first])
        row = feed(strict, ids[first:], first)[0, -1]
        assert [double(bits) for bits in case(SUITE, "kv.split.half")["expected"]["values"]] == row.tolist()

    def test_fast_rows_lie_close(self, engine: ReferenceEngine) -> None:
        """To every row that the suite ships."""
        found = dict(distances(engine, SUITE))
        assert {"fwd.oracle.last", "fwd.oracle.far", "kv.split.one", "kv.split.half", "kv.split.far"} == set(found)
        assert all(value < 1e-11 for value in found.values())

    @pytest.mark.parametrize("arm", ["full", "cached"])
    def test_it_generates_by_both_arms(self, engine: ReferenceEngine, arm: str) -> None:
        """The shipped tokens; a stop is part of what is generated."""
        asked = vector_case(SUITE, f"gen.given.{arm}")
        assert asked.expected is not None and asked.expected.ids is not None
        prompt, right = tuple(case(SUITE, f"gen.given.{arm}")["input"]["prompt"]), asked.expected.ids
        assert right == engine.generate(GenerationOrder(prompt, 16, arm)).ids
        stop = right[2]
        assert right[: right.index(stop) + 1] == engine.generate(GenerationOrder(prompt, 16, arm, stop=stop)).ids

    def test_every_head_is_shown(self, tmp_path: Path) -> None:
        """One for each token ahead."""
        several = ReferenceEngine(FAST)
        several.load(write_folder(tmp_path, HEADS))
        assert (given(HEADS).sizes.futures, 5, 320) == feed(several, IDS).shape

    def test_stages_are_those_of_the_whole_pass(self, engine: ReferenceEngine) -> None:
        """In the order of computing, without a batch axis, the logits last; none where none are asked for."""
        seen = observed(engine, IDS)
        names = list(seen.stages)
        assert ["embedding", "logits.0"] == [names[0], names[-1]]
        assert (5, 320) == seen.stages["logits.0"].shape
        assert np.array_equal(seen.logits[0, 0], seen.stages["logits.0"][-1])
        engine.clear(0)
        assert {} == engine.evaluate([Piece(0, 0, IDS, (0,))])[0].stages

    def test_only_wanted_rows_are_answered(self, engine: ReferenceEngine) -> None:
        """By their places among the tokens of the call; none may be wanted."""
        whole = feed(engine, IDS)
        for wanted in ((), (1,), (0, 2, 4)):
            engine.clear(0)
            (found,) = engine.evaluate([Piece(0, 0, IDS, wanted)])
            assert np.array_equal(whole[:, list(wanted)], found.logits)


class TestSlots:
    """Each holds a sequence of its own."""

    def test_slots_do_not_know_of_each_other(self, engine: ReferenceEngine) -> None:
        """Sequences of one call, and calls of one slot between those of another."""
        alone = feed(engine, IDS)
        first, second = engine.evaluate([Piece(3, 0, IDS[:2], (0, 1)), Piece(4, 7, IDS[::-1], (4,))])
        rest = feed(engine, IDS[2:], 2, slot=3)
        # A product of another shape is rounded in another way by most kernels.
        assert np.allclose(alone[:, :2], first.logits, rtol=0.0, atol=1e-11)
        assert np.allclose(alone[:, 2:], rest, rtol=0.0, atol=1e-11)
        assert not np.allclose(alone[:, 4], second.logits[:, 0])

    def test_a_slot_goes_on_where_it_is(self, engine: ReferenceEngine) -> None:
        """An empty one may start anywhere, and again when it was emptied."""
        feed(engine, IDS, 3000)
        assert "slot 0 goes on at 3005" in refused(lambda: feed(engine, (1,), 5))
        engine.clear(0)
        feed(engine, IDS, 7)
        engine.clear(SLOTS - 1)

    @pytest.mark.parametrize(
        "bad",
        [
            Piece(2, 9, (), ()),
            Piece(2, 9, (1, 320), (0,)),
            Piece(2, 9, (1, -1), (0,)),
            Piece(2, -1, (1,), (0,)),
            Piece(2, 0, tuple(range(49)), (0,)),
            Piece(2, 0, (1, 2), (2,)),
            Piece(2, 0, (1, 2), (-1,)),
            Piece(0, 9, (1,), (0,)),
        ],
    )
    def test_a_refused_call_leaves_all_slots_as_they_were(self, engine: ReferenceEngine, bad: Piece) -> None:
        """Pieces in front of the bad one are forgotten again: no tokens, no such id, no room, no such row or place."""
        feed(engine, IDS[:3])
        call = [Piece(0, 3, IDS[3:4], (0,)), Piece(1, 0, (4,), (0,)), bad]
        assert refused(lambda: engine.evaluate(call)).startswith("reference refuses a ")
        after = feed(engine, IDS[3:], 3)
        engine.clear(0)
        feed(engine, IDS[:3])
        assert np.array_equal(after, feed(engine, IDS[3:], 3))
        feed(engine, (4,), 12, slot=1)

    def test_a_cut_is_as_if_the_rest_had_never_been_fed(self, engine: ReferenceEngine) -> None:
        """From wherever the slot starts, and down to nothing."""
        feed(engine, IDS[:3], 100)
        right = feed(engine, IDS[3:], 103)
        engine.drop(0, 103)
        assert np.array_equal(right, feed(engine, IDS[3:], 103))
        engine.drop(0, 104, 105)
        assert np.allclose(right[:, 1:], feed(engine, IDS[4:], 104), rtol=0.0, atol=1e-11)
        engine.drop(0, 100)
        whole = feed(engine, IDS, 100)
        assert np.allclose(right, whole[:, 3:], rtol=0.0, atol=1e-11)

    def test_cuts_that_are_refused(self, engine: ReferenceEngine) -> None:
        """Of an empty slot, in the middle, in front of the beginning, and behind the end; the slot goes on."""
        assert "slot 0 is empty" in refused(lambda: engine.drop(0, 0))
        feed(engine, IDS, 100)
        assert "at the end only" in refused(lambda: engine.drop(0, 101, 103))
        for first in (99, 106):
            refused(lambda first=first: engine.drop(0, first))  # type: ignore[misc]
        feed(engine, IDS, 105)

    def test_a_copy_goes_its_own_way(self, engine: ReferenceEngine) -> None:
        """Also one of an empty slot, which empties the other."""
        feed(engine, IDS[:3], 50)
        engine.copy(0, 1)
        feed(engine, (9, 9), 53)
        right = feed(engine, IDS[3:], 53, slot=1)
        engine.clear(0)
        feed(engine, IDS[:3], 50)
        assert np.array_equal(right, feed(engine, IDS[3:], 53))
        engine.copy(7, 1)
        feed(engine, IDS, 0, slot=1)


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Return what edits the settings of a folder."""

    def edit(folder: Path) -> None:
        settings = json.loads((folder / "config.json").read_bytes())
        change(settings)
        (folder / "config.json").write_text(json.dumps(settings))

    return edit


def renamed(folder: Path) -> None:
    """Rename a tensor of a folder."""
    tensors = load((folder / "model.safetensors").read_bytes())
    tensors["model.layers.0.self_attn.q_norm.weight"] = tensors.pop("model.norm.weight")
    (folder / "model.safetensors").write_bytes(save(tensors))


class TestFolders:
    """What it loads, and what it refuses."""

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda folder: (folder / "config.json").unlink(),
            lambda folder: (folder / "model.safetensors").unlink(),
            lambda folder: (folder / "config.json").write_bytes(b"\xff\xfe"),
            lambda folder: (folder / "config.json").write_text("{"),
            lambda folder: (folder / "config.json").write_text("[]"),
            lambda folder: (folder / "model.safetensors").write_bytes(b"no tensors"),
            edited(lambda settings: settings.pop("vocab_size")),
            edited(lambda settings: settings.update(hidden_size="32")),
            edited(lambda settings: settings.update(hidden_size=36)),
            edited(lambda settings: settings.update(num_hidden_layers=1)),
            edited(lambda settings: settings.update(tie_word_embeddings=False)),
            renamed,
        ],
    )
    def test_a_folder_that_is_no_model_is_refused(self, tmp_path: Path, spoil: Callable[[Path], object]) -> None:
        """With a reason; what was loaded before is still there."""
        engine = ReferenceEngine(FAST)
        engine.load(write_folder(tmp_path / "good", SUITE))
        before = feed(engine, IDS)
        spoil(write_folder(tmp_path / "bad", SUITE))
        assert len(refused(lambda: engine.load(tmp_path / "bad"))) > len("reference refuses the folder: ")
        assert np.array_equal(before, fed_afresh(engine, IDS))

    def test_it_has_one_format(self, tmp_path: Path) -> None:
        """Which may be named."""
        engine, folder = ReferenceEngine(FAST), write_folder(tmp_path, SUITE)
        engine.load(folder, "float64")
        assert "refuses the format float32: it computes in float64" in refused(lambda: engine.load(folder, "float32"))

    @pytest.mark.parametrize("suite", [SUITE, HEADS])
    def test_it_says_what_it_follows(self, tmp_path: Path, suite: str) -> None:
        """In the words of the suite whose model it is, in either layout."""
        phase, sizes = given(suite).phase, given(suite).sizes
        assert dict(phase.conventions(sizes)) == ReferenceEngine(FAST).load(write_folder(tmp_path, suite)).conventions

    def test_nothing_is_answered_before_a_folder_is_loaded(self) -> None:
        """Nor after it was closed."""
        engine = ReferenceEngine(FAST)
        for call in (
            lambda: feed(engine, IDS),
            lambda: engine.generate(GenerationOrder(IDS, 3)),
            lambda: engine.gradients(TrainingBatch((IDS,), ((IDS,),))),
            lambda: engine.start_training(SETTINGS),
        ):
            assert "no model is loaded" in refused(call)
        engine.clear(0)
        engine.close()


class TestOrders:
    """Generations and training that are refused."""

    @pytest.mark.parametrize(
        "order",
        [
            GenerationOrder((), 3),
            GenerationOrder((0, 320), 3),
            GenerationOrder(tuple(range(60)), 3),
            GenerationOrder(IDS, 3, "scripted"),
            GenerationOrder(IDS, 3, top=2),
        ],
    )
    def test_generations_that_it_does_not_make(self, engine: ReferenceEngine, order: GenerationOrder) -> None:
        """No prompt, no such id, no room, another arm, and log-probabilities."""
        assert refused(lambda: engine.generate(order)).startswith("reference refuses a generation: ")

    @pytest.mark.parametrize(
        "batch",
        [
            TrainingBatch(((0, 1), (1,)), (((1, 2), (1,)),)),
            TrainingBatch(((0, 1),), (((-1, -1),),)),
            TrainingBatch(((0, 320),), (((1, 1),),)),
            TrainingBatch(((0, 1),), (((1, 320),),)),
            TrainingBatch((), ((),)),
            TrainingBatch(((0, 1),), ()),
        ],
    )
    def test_batches_that_are_none(self, engine: ReferenceEngine, batch: TrainingBatch) -> None:
        """Rows of unequal length, nothing to predict, no such id, no rows, no targets for a head."""
        refused(lambda: engine.gradients(batch))
        engine.start_training(SETTINGS)
        refused(lambda: engine.train_step(batch))

    @pytest.mark.parametrize(
        "settings",
        [
            TrainingSettings(-0.01, 0.9, 0.99, 1e-4, 0.1, None, ()),
            TrainingSettings(float("nan"), 0.9, 0.99, 1e-4, 0.1, None, ()),
            TrainingSettings(0.01, 1.0, 0.99, 1e-4, 0.1, None, ()),
            TrainingSettings(0.01, 0.9, 0.99, 1e-4, 0.1, None, ("no.such.tensor",)),
        ],
    )
    def test_settings_out_of_range(self, engine: ReferenceEngine, settings: TrainingSettings) -> None:
        """And a tensor that is none of the file's; no training has begun."""
        assert refused(lambda: engine.start_training(settings)).startswith("reference refuses these settings: ")
        assert "no training was started" in refused(lambda: engine.train_step(TrainingBatch(((0, 1),), (((1, 2),),))))
        assert "no training was started" in refused(engine.training_state)

    def test_gradients_change_nothing(self, engine: ReferenceEngine) -> None:
        """Neither weights nor slots; a step changes weights, and empties the slots."""
        before, batch = feed(engine, IDS), TrainingBatch(((0, 5, 9),), (((5, 9, -1),),))
        engine.gradients(batch)
        feed(engine, (1,), 5)
        engine.start_training(SETTINGS)
        engine.train_step(batch)
        assert not np.array_equal(before, feed(engine, IDS))
