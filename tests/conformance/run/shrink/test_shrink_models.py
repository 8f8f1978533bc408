"""Smaller models: of every family, readable as folders, each way smaller than before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cai_conformance.backends.engine.files import read_folder
from cai_conformance.fixtures.inputs import exact_everywhere
from cai_conformance.run.probe.calls import Calls
from cai_conformance.run.shrink.models import MODEL_REDUCERS, SEEDS, SmallModel, of_models, redrawn
from cai_conformance.run.shrink.reducers import reducers_for
from cai_conformance.run.shrink.search import Case
from cai_reference.errors import CaiReferenceError
from cai_reference.models.decoder import AttentionSpec, DecoderConfiguration, LatentSpec, SsmSpec
from cai_reference.models.llama import LlamaConfiguration
from support_shrinking import ADJACENT, DECODER, LLAMA, PROMPT, given_model, sequence_check, write_model


class TestFolders:
    """What engines load."""

    @pytest.mark.parametrize("model", [LLAMA, ADJACENT, DECODER])
    def test_a_folder_has_the_model(self, model: SmallModel, tmp_path: Path) -> None:
        """Sizes and settings, read back from its files alone."""
        found = read_folder(write_model(model, tmp_path / "model")).model.configuration
        assert isinstance(found, LlamaConfiguration | DecoderConfiguration)
        assert model.configuration == found

    @pytest.mark.parametrize("model", [LLAMA, DECODER])
    def test_weights_hide_nothing(self, model: SmallModel, tmp_path: Path) -> None:
        """No gain is 1, no bias is 0, and every value is exact in bfloat16 and float16."""
        for parameter in read_folder(write_model(model, tmp_path / "model")).model.parameters:
            value = parameter.value
            assert value.tobytes() == exact_everywhere(value).tobytes()
            if value.ndim == 1:
                assert not np.isin(value, (0.0, 1.0)).all(), parameter.name

    def test_weights_are_drawn_by_their_seed(self) -> None:
        """The same ones again, and others."""
        given = given_model()
        one, again, other = (dict(replace(LLAMA, seed=seed).files(given)) for seed in (1, 1, 2))
        assert one == again
        assert one["model.safetensors"] != other["model.safetensors"]
        assert one["config.json"] == other["config.json"]

    def test_a_suite_s_own_model_is_the_golden_s(self) -> None:
        """Byte by byte."""
        given = given_model()
        assert given.weights == SmallModel.of(given).files(given)["model.safetensors"]

    def test_settings_are_those_of_engines(self) -> None:
        """In the words of their files."""
        settings = json.loads(LLAMA.files(given_model())["config.json"])
        names = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "sliding_window")
        assert [2, 4, 2, 4, 3] == [settings[name] for name in names]

    def test_sizes_that_do_not_fit_are_refused(self) -> None:
        """The search tries them, and goes on."""
        sizes = DECODER.configuration
        assert isinstance(sizes, DecoderConfiguration)
        with pytest.raises(CaiReferenceError):
            SmallModel(replace(sizes, width=7), DECODER.layout, 1).files(given_model())


class TestReducers:
    """Ways to a smaller model."""

    def test_the_smallest_llama_model_is_reached(self) -> None:
        """One layer, one head of two channels, nothing special: where everything fails, nothing else is left."""
        found = smallest_of(LLAMA)
        assert isinstance(found, LlamaConfiguration)
        sizes = found.layers, found.heads, found.groups, found.features, found.width, found.feed_forward, found.window
        assert (1, 1, 1, 2, 2, 1, None) == sizes

    def test_the_smallest_decoder_is_reached(self) -> None:
        """One mixer, which is the first."""
        found = smallest_of(DECODER)
        assert isinstance(found, DecoderConfiguration)
        assert ((SsmSpec(),), 1, 2, 1, 1, None) == (
            found.mixers, found.heads, found.width, found.feed_forward, found.futures, found.channels_per_group,
        )  # fmt: skip

    def test_each_kind_of_layer_is_tried_alone(self) -> None:
        """And made smaller in what it alone has."""
        sizes = DECODER.configuration
        tried = [each.mixers for reducer in MODEL_REDUCERS for each in reducer(sizes) if hasattr(each, "mixers")]
        for mixers in ((SsmSpec(),), (LatentSpec(3, 2),), (AttentionSpec(2),)):
            assert mixers in tried
        assert (SsmSpec(), LatentSpec(1, 2), AttentionSpec(2)) in tried
        assert (SsmSpec(), LatentSpec(3, 2), AttentionSpec(1)) in tried
        assert (SsmSpec(), LatentSpec(3, 2), AttentionSpec(None)) in tried

    def test_shared_heads_keep_their_share_or_lose_it(self) -> None:
        """Four query heads on two key heads become two on one, four on four, or two on two."""
        found = {
            (each.heads, each.groups)
            for reducer in MODEL_REDUCERS
            for each in reducer(LLAMA.configuration)
            if isinstance(each, LlamaConfiguration)
        }
        assert {(2, 1), (4, 4), (2, 2)} <= found
        assert all(heads % groups == 0 for heads, groups in found)

    def test_a_suite_s_weights_are_left_first(self) -> None:
        """At its own size; drawn ones stay as they are drawn."""
        own = replace(LLAMA, seed=None)
        assert list(SEEDS) == [each.seed for each in redrawn(own)]
        assert [] == list(redrawn(LLAMA))
        assert {2} == {each.seed for each in of_models(MODEL_REDUCERS[0])(replace(LLAMA, seed=2))}

    def test_ids_stay_below_the_vocabulary(self) -> None:
        """Those beyond a smaller one wrap around."""
        case = Case(LLAMA, Calls.at_once(PROMPT))
        for reducer in reducers_for(sequence_check("fwd.oracle"), models=True):
            for smaller in reducer(case):
                assert max(smaller.ids) < smaller.model.configuration.vocabulary

    def test_other_models_can_be_left_out(self) -> None:
        """Then calls and ids alone are made smaller."""
        case = Case(LLAMA, Calls.at_once(PROMPT))
        found = [each for reducer in reducers_for(sequence_check("fwd.oracle"), models=False) for each in reducer(case)]
        assert found
        assert {LLAMA} == {each.model for each in found}


def smallest_of(model: SmallModel) -> object:
    """Walk down the first smaller model of each way, as long as there is one."""
    sizes = model.configuration
    while True:
        for reducer in MODEL_REDUCERS:
            smaller = next(iter(reducer(sizes)), None)
            if smaller is not None:
                sizes = smaller
                break
        else:
            return sizes
