"""Weights files, `.nn` files, and what a text on the command line can name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load

from cai_conformance.fixtures.configurations import tensor_shapes
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.suites import SUITES
from cai_neural_api.conversion import Model, decoder_to_net
from cai_neural_api.exchange import (
    import_net,
    load_source,
    published_configuration,
    read_net,
    read_weights,
    write_net,
    write_weights,
)
from cai_neural_api.format import NetFile
from cai_neural_api.initialization import initialize
from cai_neural_api.mersenne import MersenneTwister
from cai_reference.models.decoder import Decoder
from support_net_models import PUBLISHED, TINY, drawn, layers_of
from support_nn_file import KINDS, SAMPLES, needs_samples


def bits(model: Model) -> list[tuple[str, tuple[int, ...], bytes]]:
    """Return name, shape and bytes of every parameter, in order."""
    return [(each.name, each.shape, np.ascontiguousarray(each.value).tobytes()) for each in model.parameters]


class TestWeightsFiles:
    """Our own format: safetensors with the configuration in the metadata."""

    @pytest.mark.parametrize("name", TINY)
    def test_a_model_comes_back_with_every_bit(self, name: str, tmp_path: Path) -> None:
        """In double precision, so that nothing is rounded."""
        model = drawn(TINY[name])
        for parameter in model.parameters:
            parameter.assign(parameter.value / 3.0)
        write_weights(tmp_path / "model.safetensors", model)
        back = read_weights(tmp_path / "model.safetensors")
        assert (model.configuration, bits(model)) == (back.configuration, bits(back))

    def test_a_model_has_one_file(self, tmp_path: Path) -> None:
        """The header is in the order of names, which the safetensors library leaves to chance."""
        for name in ("first", "second"):
            write_weights(tmp_path / name, drawn(TINY["hybrid"]))
        data = (tmp_path / "first").read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        assert data == (tmp_path / "second").read_bytes()
        assert ["configuration", "format", "version"] == list(header["__metadata__"])
        assert sorted(header) == list(header)

    def test_the_file_says_in_json_what_it_holds(self, tmp_path: Path) -> None:
        """Other programs read it without this one."""
        write_weights(tmp_path / "w", drawn(TINY["hybrid"]))
        with safe_open(tmp_path / "w", "numpy") as file:
            metadata = file.metadata()
            assert np.float64 == file.get_tensor("blocks.1.mixer.latent.weight").dtype
        assert ("cai-conform weights", "1") == (metadata["format"], metadata["version"])
        assert {
            "model": "decoder",
            "vocabulary": 13,
            "context": 7,
            "width": 12,
            "heads": 3,
            "feed_forward": 10,
            "mixers": [
                {"mixer": "diagonal-ssm"},
                {"mixer": "latent-attention", "latent": 5, "rope": 2},
                {"mixer": "diagonal-ssm"},
            ],
            "wiring": "sequential",
            "channels_per_group": None,
            "futures": 1,
            "rope_base": 10000.0,
        } == json.loads(metadata["configuration"])

    @pytest.mark.parametrize("name", TINY)
    def test_the_expected_tensors_are_the_parameters_of_the_model(self, name: str) -> None:
        """Names, order and shapes are told without making a model; here one is made."""
        model = drawn(TINY[name])
        assert [(each.name, each.shape) for each in model.parameters] == list(tensor_shapes(TINY[name]))

    def test_writing_again_replaces_the_file_and_leaves_nothing_else(self, tmp_path: Path) -> None:
        """No temporary file stays."""
        for seed in (1, 2):
            write_weights(tmp_path / "w", drawn(TINY["draft"], seed))
        assert ["w"] == [path.name for path in tmp_path.iterdir()]
        assert bits(drawn(TINY["draft"], 2)) == bits(read_weights(tmp_path / "w"))

    def test_a_link_goes_on_pointing_at_the_file(self, tmp_path: Path) -> None:
        """The file is written, not the link."""
        (tmp_path / "link").symlink_to(tmp_path / "w")
        write_weights(tmp_path / "link", drawn(TINY["draft"]))
        assert (tmp_path / "link").is_symlink()
        assert bits(drawn(TINY["draft"])) == bits(read_weights(tmp_path / "w"))


class TestNetFiles:
    """Files of the library."""

    @needs_samples
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_net_is_read_imported_exported_and_written_without_a_change(self, kind: str, tmp_path: Path) -> None:
        """Through a weights file as well."""
        net = read_net(SAMPLES / f"{kind}.nn")
        write_weights(tmp_path / "w", import_net(net))
        write_net(tmp_path / "out.nn", load_source(str(tmp_path / "w"), seed=0))
        assert (SAMPLES / f"{kind}.nn").read_bytes() == (tmp_path / "out.nn").read_bytes()


class TestSources:
    """What `load_source` takes."""

    @pytest.mark.parametrize("phase", PUBLISHED)
    def test_published_configurations_are_those_of_the_phases(self, phase: str) -> None:
        """The draft of phase 5 has a name of its own; `phase5` is its target, which is that of phase 1."""
        name = "draft" if phase == "phase5draft" else phase
        assert PUBLISHED[phase] == published_configuration(name)
        assert PUBLISHED["phase1"] == published_configuration("phase5")

    @pytest.mark.parametrize("other", ["phase0", "phase10", "phase", "Phase1", "phase1 ", "drafts", ""])
    def test_other_names_are_no_published_net(self, other: str) -> None:
        """Exactly these ten."""
        assert published_configuration(other) is None

    @pytest.mark.exhaustive
    def test_a_published_net_starts_with_what_the_library_draws_from_the_seed(self) -> None:
        """At full size; another seed gives another net."""
        expected = initialize(layers_of(PUBLISHED["phase5draft"]), MersenneTwister(424242))
        self._same(expected, load_source("draft", 424242))
        other = load_source("draft", 424243)
        assert expected.specs == other.specs
        assert not np.array_equal(expected.neurons[1][0].weights, other.neurons[1][0].weights)

    @pytest.mark.parametrize("suite", [suite.identifier for suite in SUITES if suite.identifier.startswith("cai.")])
    def test_a_suite_stands_for_its_golden_weights(self, suite: str) -> None:
        """All of them, by the full id; single precision holds each, so the way back is exact."""
        model = import_net(load_source(suite, seed=0))
        assert isinstance(model, Decoder)
        data = GoldenStore(locate()).read(suite).files["weights.safetensors"]
        stored = load(data)
        assert set(stored) == {parameter.name for parameter in model.parameters}
        for parameter in model.parameters:
            assert np.array_equal(stored[parameter.name].astype(np.float64), parameter.value)

    def test_a_unique_ending_will_do(self) -> None:
        """As everywhere on the command line."""
        self._same(load_source("cai.kv-cache", 0), load_source("kv-cache", 0))

    def test_a_file_comes_before_a_published_net_of_its_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever has a file `phase1` means it."""
        monkeypatch.chdir(tmp_path)
        model = drawn(TINY["draft"])
        write_weights("phase1", model)
        self._same(decoder_to_net(model), load_source("phase1", 0))

    def _same(self, expected: NetFile, found: NetFile) -> None:
        assert expected.specs == found.specs
        for ours, theirs in zip(expected.neurons, found.neurons, strict=True):
            for one, other in zip(ours, theirs, strict=True):
                assert (one.bias, one.shape) == (other.bias, other.shape)
                assert np.array_equal(one.weights, other.weights)
