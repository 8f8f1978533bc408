"""The Llama model of the example in C, behind the serve protocol: the bits of the reference, whatever is asked."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cai_conformance.backends.engine.backend import EngineBackend
from cai_conformance.backends.engine.given_model import GivenModel
from cai_conformance.backends.reference.engine import ReferenceEngine
from cai_conformance.backends.serve.client import ServeEngine
from cai_conformance.engine import Feature, GenerationOrder, Piece, Refused
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.questions import Options, question_for
from cai_conformance.suites import find_suite
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from support_c99 import Program

SUITES = ("llama.dense", "llama.gqa-window")
SAMPLED = ("llama.dense", pytest.param("llama.gqa-window", marks=pytest.mark.exhaustive))
IDS = (0, 166, 183, 240, 31, 88, 140, 260, 256, 72, 68, 273, 47, 166, 183, 240)
VALIDATE = importlib.util.find_spec("jsonschema") is not None
NOT_ASKED = {"decoder.sample"}
"""Operations that the protocol has no message for."""


@pytest.fixture(scope="module")
def engine(program: Program) -> Iterator[ServeEngine]:
    """The program, serving; it has to end well."""
    with ServeEngine([str(program.path), "serve"], validate=VALIDATE) as started:
        yield started
    assert started.farewell == ""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model folder for each suite."""
    found = {}
    for name in SUITES:
        request = question_for(find_suite(name), GoldenStore(locate()), Options(profile="edges")).request
        given = GivenModel.of(request)
        assert given is not None
        found[name] = tmp_path_factory.mktemp("model")
        for file, data in given.files().items():
            (found[name] / file).write_bytes(data)
    return found


def fed(engine: ServeEngine, ids: tuple[int, ...], *, slot: int = 0, position: int = 0) -> Array:
    """Feed tokens and return the logits behind each of them."""
    (answer,) = engine.evaluate([Piece(slot, position, ids, tuple(range(len(ids))))])
    rows: Array = answer.logits[0]
    return rows


def same(one: Array, other: Array) -> bool:
    """Whether two arrays have the same shape and bits."""
    return one.shape == other.shape and one.tobytes() == other.tobytes()


@pytest.mark.parametrize("suite", SUITES)
class TestCasesOfTheSuites:
    def test_every_case_that_can_be_asked_has_the_expected_answer(
        self, suite: str, program: Program, engine: ServeEngine
    ) -> None:
        """Only sampling, and choices that are not the program's own, have no answer."""
        request = question_for(find_suite(suite), GoldenStore(locate()), Options(profile="edges")).request
        backend = EngineBackend("c99", lambda: engine)
        samples = {record.get("case"): record for record in parse(backend.trace(request), grammar_of).all("SAMPLE")}
        cases = {case["id"]: case for case in json.loads(request.vectors)["cases"]}
        for name, record in samples.items():
            ((field, wanted),) = cases[name]["expected"].items()
            assert (name, record.get(field)) == (name, f"[{', '.join(map(str, wanted))}]")
        left = {name: case for name, case in cases.items() if name not in samples}
        assert all(case["operation"] in NOT_ASKED or case["input"]["tied"] for case in left.values())
        assert {"fwd.oracle.last", "fwd.oracle.far", "kv.split.far", "gen.given.cached", "smp.tie.full"} <= set(samples)


@pytest.mark.parametrize("suite", SAMPLED)
class TestBitsOfTheReference:
    @pytest.mark.parametrize("start", [0, 3000])
    def test_every_stage_has_the_bits_of_the_reference(
        self, suite: str, start: int, engine: ServeEngine, folders: dict[str, Path]
    ) -> None:
        """Names, shapes and bits of all stages agree, far from position 0, too."""
        reference = ReferenceEngine(STRICT)
        piece = Piece(3, start, IDS, (0, 7, 15))
        for one in (reference, engine):
            one.load(folders[suite])
        (expected,) = reference.evaluate([piece], observe=True)
        (found,) = engine.evaluate([piece], observe=True)
        assert list(found.stages) == list(expected.stages)
        differing = [name for name, value in expected.stages.items() if not same(found.stages[name], value)]
        assert differing == []
        assert same(found.logits, expected.logits)

    @pytest.mark.parametrize("arm", ["cached", "full"])
    def test_its_own_loops_generate_what_the_reference_does(
        self, suite: str, arm: str, engine: ServeEngine, folders: dict[str, Path]
    ) -> None:
        """So do a budget, and an id that ends the generation."""
        reference = ReferenceEngine(STRICT)
        for one in (reference, engine):
            one.load(folders[suite])
        whole = reference.generate(GenerationOrder(IDS, 6, arm)).ids
        assert engine.generate(GenerationOrder(IDS, 6, arm)).ids == whole
        assert engine.generate(GenerationOrder(IDS, 0, arm)).ids == ()
        ended = engine.generate(GenerationOrder(IDS, 6, arm, stop=whole[3])).ids
        assert ended == whole[: whole.index(whole[3]) + 1]

    def test_the_conventions_are_those_of_the_suite(
        self, suite: str, engine: ServeEngine, folders: dict[str, Path]
    ) -> None:
        """What the program states stands word for word in the golden; it says nothing about training."""
        golden = parse(GoldenStore(locate()).read(suite).trace, grammar_of).all("CONVENTION")[0]
        loaded = engine.load(folders[suite])
        assert set(loaded.conventions) == {name for name, _ in golden.fields} - {"adamw", "loss", "padding"}
        assert {name: golden.get(name) for name in loaded.conventions} == dict(loaded.conventions)
        assert loaded.context == 4096
        assert set(loaded.claimed) == {"cache_bytes", "weight_bytes"}

    def test_any_cutting_into_calls_gives_the_same_bits(
        self, suite: str, engine: ServeEngine, folders: dict[str, Path]
    ) -> None:
        """One call, token by token, or unevenly."""
        engine.load(folders[suite])
        whole = fed(engine, IDS)
        for borders in ((0, *range(1, 17)), (0, 1, 9, 16), (0, 15, 16)):
            engine.clear(0)
            rows = [fed(engine, IDS[first:last], position=first) for first, last in pairwise(borders)]
            assert same(np.concatenate(rows), whole)

    def test_slots_do_not_disturb_each_other(self, suite: str, engine: ServeEngine, folders: dict[str, Path]) -> None:
        """Sequences in one call, at positions of their own, have the bits that each has alone."""
        engine.load(folders[suite])
        alone = [fed(engine, IDS[place:], slot=place, position=100 * place) for place in range(3)]
        engine.load(folders[suite])
        pieces = [Piece(place, 100 * place, IDS[place:], tuple(range(16 - place))) for place in range(3)]
        together = engine.evaluate(pieces[::-1])[::-1]
        assert all(same(answer.logits[0], rows) for answer, rows in zip(together, alone, strict=True))

    def test_a_cut_is_as_if_the_rest_had_never_been_fed(
        self, suite: str, engine: ServeEngine, folders: dict[str, Path]
    ) -> None:
        """Rows of forgotten tokens are not seen any more."""
        engine.load(folders[suite])
        rows = fed(engine, IDS, position=50)
        engine.drop(0, 55)
        assert not same(fed(engine, (9, 9, 9), position=55), rows[5:8])
        engine.drop(0, 55, 58)
        assert same(fed(engine, IDS[5:], position=55), rows[5:])

    def test_a_copy_is_independent(self, suite: str, engine: ServeEngine, folders: dict[str, Path]) -> None:
        """Both go on alone."""
        engine.load(folders[suite])
        rows = fed(engine, IDS[:8])
        engine.copy(0, 5)
        first = fed(engine, IDS[8:], position=8)
        assert same(fed(engine, IDS[8:], slot=5, position=8), first)
        engine.drop(5, 8)
        engine.copy(2, 0)
        assert same(fed(engine, IDS[:8]), rows)
        assert same(fed(engine, IDS[8:], slot=5, position=8), first)

    def test_poison_is_never_read(self, suite: str, engine: ServeEngine, folders: dict[str, Path]) -> None:
        """Memory that no position owns may hold anything, before it grows and after."""
        engine.load(folders[suite])
        rows = fed(engine, IDS)
        engine.clear(0)
        engine.poison(float("nan"))
        assert same(fed(engine, IDS), rows)
        assert same(fed(engine, IDS, slot=1), rows)
        engine.poison(0.0)

    @pytest.mark.parametrize("layers", [0, 1, 2, 7])
    def test_a_failing_call_leaves_the_slots_as_they_were(
        self, layers: int, suite: str, engine: ServeEngine, folders: dict[str, Path]
    ) -> None:
        """Behind however many blocks it is refused, and the next call is not."""
        engine.load(folders[suite])
        rows = fed(engine, IDS)
        engine.drop(0, 8)
        engine.fail_after(layers)
        with pytest.raises(Refused, match="as it was asked to be"):
            fed(engine, IDS[8:], position=8)
        assert same(fed(engine, IDS[8:], position=8), rows[8:])

    def test_large_tensors_come_by_file(self, suite: str, engine: ServeEngine, folders: dict[str, Path]) -> None:
        """Rows that are too large for a line have the same bits; the context may be filled, and not more."""
        engine.load(folders[suite])
        long = IDS * 8
        rows = fed(engine, long)
        assert rows.nbytes > 64 << 10
        engine.clear(0)
        pieces = [fed(engine, long[first : first + 16], position=first) for first in range(0, 128, 16)]
        assert same(np.concatenate(pieces), rows)


class TestWhatIsSaidAboutItself:
    def test_the_description_is_that_of_strict_arithmetic(self, engine: ServeEngine) -> None:
        """Float64 throughout, bits that depend on nothing, and everything but training."""
        description = engine.description
        assert (description.name, description.arithmetic) == ("cai-c99", "strict/1")
        assert description.precision.coarsest == "float64"
        assert description.nondeterminism == "none"
        assert description.features == frozenset(Feature) - {Feature.TRAIN, Feature.CHECKPOINT}
        assert (sorted(description.arms), description.slots) == (["cached", "full"], 16)

    def test_the_likeliest_ids_come_with_their_log_probabilities(
        self, engine: ServeEngine, folders: dict[str, Path]
    ) -> None:
        """Likeliest first; the whole vocabulary sums to 1."""
        engine.load(folders["llama.dense"])
        rows = fed(engine, IDS)
        generated = engine.generate(GenerationOrder(IDS, 1, "cached", top=1000))
        ((*step,),) = generated.top
        assert [token for token, _ in step] == np.argsort(-rows[-1], kind="stable").tolist()
        assert sum(np.exp(value) for _, value in step) == pytest.approx(1.0, abs=1e-12)
        assert generated.ids == (step[0][0],)

    def test_the_context_is_not_exceeded(self, engine: ServeEngine, folders: dict[str, Path], tmp_path: Path) -> None:
        """A slot takes as many tokens as config.json says, and generation ends there."""
        settings = json.loads((folders["llama.dense"] / "config.json").read_text())
        weights = (folders["llama.dense"] / "model.safetensors").read_bytes()
        (tmp_path / "config.json").write_text(json.dumps({**settings, "max_position_embeddings": 20}))
        (tmp_path / "model.safetensors").write_bytes(weights)
        assert engine.load(tmp_path).context == 20
        fed(engine, IDS)
        with pytest.raises(Refused, match="no room for 5 tokens"):
            fed(engine, IDS[:5], position=16)
        assert len(engine.generate(GenerationOrder(IDS, 100, "cached")).ids) == 4
        with pytest.raises(Refused, match="leaves no room"):
            engine.generate(GenerationOrder(IDS + IDS[:4], 1, "full"))


class TestRefusals:
    @pytest.fixture(autouse=True)
    def loaded(self, engine: ServeEngine, folders: dict[str, Path]) -> None:
        """Load a model, and let slot 0 hold eight tokens from position 10 on."""
        engine.load(folders["llama.dense"])
        fed(engine, IDS[:8], position=10)

    @pytest.mark.parametrize(
        ("piece", "reason"),
        [
            (Piece(0, 17, (1,), ()), "slot 0 goes on at position 18"),
            (Piece(0, 18, (1, 320), ()), "token 320 at place 1 is beyond a vocabulary of 320"),
            (Piece(1, 999_999, (1, 1), (0,)), "no rotation in strict/1"),
            (Piece(1, 2**53, (1,), (0,)), "no rotation in strict/1"),
        ],
    )
    def test_a_piece_that_does_not_fit_is_skipped(self, piece: Piece, reason: str, engine: ServeEngine) -> None:
        """The slot goes on as if nothing had been asked, and so do its neighbours of the same call."""
        with pytest.raises(Refused, match=reason):
            engine.evaluate([Piece(2, 0, (1, 2), (0,)), piece])
        fed(engine, (5,), position=18)
        fed(engine, (5,), slot=2, position=7)

    @pytest.mark.parametrize(("first", "last"), [(9, None), (19, None), (12, 14), (0, None)])
    def test_only_the_newest_positions_can_be_dropped(self, first: int, last: int | None, engine: ServeEngine) -> None:
        """What the slot does not hold, or what stands in the middle, is not dropped."""
        with pytest.raises(Refused):
            engine.drop(0, first, last)
        fed(engine, (5,), position=18)

    def test_an_empty_slot_has_nothing_to_drop(self, engine: ServeEngine) -> None:
        """Of a slot without tokens."""
        with pytest.raises(Refused):
            engine.drop(4, 0)

    def test_another_format_is_skipped_and_the_model_stays(self, engine: ServeEngine, folders: dict[str, Path]) -> None:
        """Only float64 is computed in."""
        with pytest.raises(Refused, match="float64"):
            engine.load(folders["llama.dense"], "float32")
        fed(engine, (5,), position=18)
        engine.load(folders["llama.dense"], "float64")

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"model_type": "gpt2"}, "llama or mistral"),
            ({"hidden_act": "gelu"}, "another activation"),
            ({"attention_bias": True}, "biases"),
            ({"rope_scaling": {"factor": 2}}, "scales"),
            ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 500000.0}}, "scales"),
        ],
    )
    def test_another_model_is_skipped(
        self, changes: dict[str, object], reason: str, engine: ServeEngine, folders: dict[str, Path], tmp_path: Path
    ) -> None:
        """A model whose formula is another one is not computed wrongly."""
        settings = json.loads((folders["llama.dense"] / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps({**settings, **changes}))
        with pytest.raises(Refused, match=reason):
            engine.load(tmp_path)
        with pytest.raises(Refused, match="no model is loaded"):
            fed(engine, (5,))
