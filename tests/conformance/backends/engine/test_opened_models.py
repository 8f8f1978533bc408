"""A suite's model in an engine: what is loaded when, and by whom an engine is held."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cai_conformance.backends.engine.given_model import GivenModel, Holding, OpenedModel, model_folder
from cai_conformance.backends.engine.session import full_logits
from cai_conformance.engine import Loaded, Refused
from cai_conformance.fixtures.given_weights import Tensors
from cai_reference.arithmetic import Array
from support_engines import HEADS, NATIVE, SUITE, Wrapped, opened_in, question
from support_foreign_engines import DECODERS, given
from support_traces import question as question_of_the_ngram


class Noting(Wrapped):
    """An engine that notes the files and the format of every load."""

    def __init__(self, refused: Sequence[int] = ()) -> None:
        super().__init__()
        self.seen: list[tuple[dict[str, bytes], str | None]] = []
        self._refused = refused

    def load(self, folder: Path, precision: str | None = None) -> Loaded:
        """Note, and refuse some loads."""
        self.seen.append(({path.name: path.read_bytes() for path in folder.iterdir()}, precision))
        if len(self.seen) in self._refused:
            raise Refused("noting", "this folder", "it was told to")
        return super().load(folder)


def row(opened: OpenedModel) -> Array:
    """Return the last logits of a short sequence."""
    found: Array = full_logits(opened.engine, (0, 17, 9))[0, -1]
    return found


class TestLoading:
    """A model is loaded when it is not there."""

    def test_a_model_is_loaded_once(self) -> None:
        """With the shipped bytes; the folder is gone afterwards."""
        engine = Noting()
        opened = opened_in(engine)
        assert opened.loaded == Loaded()
        first, second = opened.load(), opened.load()
        assert first is second is opened.loaded
        assert engine.loads == 1
        files, precision = engine.seen[0]
        assert precision is None
        assert given(SUITE).weights == files["model.safetensors"]
        assert given(SUITE).files() == files

    def test_pairs_are_another_folder(self) -> None:
        """Ids 2i and 2i + 1 have the logits of 2i then; before and after they have their own."""
        engine = Noting()
        opened = opened_in(engine, "llama.dense")
        opened.load()
        plain = row(opened)
        opened.load(tied=True)
        opened.load(tied=True)
        paired = row(opened)
        opened.load()
        assert engine.loads == 3
        assert np.array_equal(paired[0::2], paired[1::2])
        assert np.allclose(plain[0::2], paired[0::2], rtol=0.0, atol=1e-12)
        assert not np.allclose(plain[0::2], plain[1::2])
        assert np.array_equal(plain, row(opened))

    def test_a_changed_model_is_wanted_for_a_while(self) -> None:
        """By name, values and format; whatever happens within, the suite's own is wanted afterwards."""
        engine = Noting()
        opened = opened_in(engine)
        values: Tensors = {name: 2.0 * value for name, value in given(SUITE).tensors.items()}
        with pytest.raises(ZeroDivisionError), opened.changed("doubled", values, "float32"):
            opened.load()
            opened.load()
            raise ZeroDivisionError
        opened.load()
        assert ["float32", None] == [precision for _, precision in engine.seen]
        assert engine.seen[0][0]["config.json"] == engine.seen[1][0]["config.json"]
        assert engine.seen[0][0]["model.safetensors"] != engine.seen[1][0]["model.safetensors"]

    def test_what_was_forgotten_is_loaded_anew(self) -> None:
        """The engine has trained its weights."""
        engine = Noting()
        opened = opened_in(engine)
        opened.load()
        opened.forget()
        opened.load()
        assert engine.loads == 2

    def test_a_load_that_is_refused_is_tried_again(self) -> None:
        """Nobody knows what the engine holds then."""
        engine = Noting(refused=(2,))
        opened = opened_in(engine)
        opened.load()
        with pytest.raises(Refused):
            opened.load(tied=True)
        opened.load()
        assert len(engine.seen) == 3

    def test_two_models_in_one_engine_do_not_mistake_each_other(self) -> None:
        """Each is loaded again where the other one was asked about in between."""
        engine, holding = Noting(), Holding()
        one, other = (OpenedModel(engine, given(suite), holding) for suite in (SUITE, "llama.dense"))
        one.load()
        before = row(one)
        other.load()
        assert not np.array_equal(before, row(other))
        one.load()
        one.load()
        assert np.array_equal(before, row(one))
        assert engine.loads == 3


class TestFolders:
    """What engines are given."""

    @pytest.mark.parametrize("suite", DECODERS)
    def test_a_folder_holds_settings_and_weights(self, suite: str) -> None:
        """And no more than engines look for."""
        files = given(suite).files()
        assert {given(suite).phase.weights_layout.file, "config.json"} <= set(files)
        assert isinstance(json.loads(files["config.json"]), dict)

    def test_other_values_stand_under_the_same_names(self) -> None:
        """In single precision, which the shipped values are exact in."""
        for suite in (SUITE, NATIVE, HEADS):
            model = given(suite)
            again = GivenModel(model.phase, model.sizes, model.files(model.tensors)[model.phase.weights_layout.file])
            assert all(np.array_equal(value, again.tensors[name]) for name, value in model.tensors.items())

    def test_a_suite_without_a_decoder_has_none(self) -> None:
        """Its weights stand alone, if there are any."""
        request = question_of_the_ngram().request
        assert GivenModel.of(request) is None
        assert {"weights.safetensors": request.weights} == model_folder(request)
        assert set(model_folder(question().request)) == set(given(SUITE).files())
