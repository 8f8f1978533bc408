"""Damaged, foreign and almost right files: each is refused by one sentence, with its values as fields."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from cai_conformance.errors import ConformanceError, InputError
from cai_conformance.fixtures.configurations import write_configuration
from cai_conformance.fixtures.files import InterchangeError, read_file
from cai_neural_api.conversion import decoder_to_net
from cai_neural_api.errors import ExchangeError
from cai_neural_api.exchange import (
    import_net,
    load_source,
    parse_bare_weights,
    parse_weights,
    read_net,
    read_weights,
    write_net,
    write_weights,
)
from cai_neural_api.format import NetFile, Neuron
from cai_reference.models.token_shift_draft import DraftConfiguration
from support_net_models import TINY, drawn
from support_refusals import refuses

PATH = "some/file"
DRAFT = TINY["draft"]
METADATA = {"format": "cai-conform weights", "version": "1"}

Object = dict[str, Any]  # JSON that is about to be bent


def tensors(name: str = "draft") -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Return the tensors of a small model."""
    return {parameter.name: np.ascontiguousarray(parameter.value) for parameter in drawn(TINY[name]).parameters}


def file_of(name: str = "draft", **bent: object) -> bytes:
    """Return a weights file with some keys of its configuration changed."""
    configuration: Object = json.loads(write_configuration(TINY[name]))
    return save(tensors(name), METADATA | {"configuration": json.dumps(configuration | bent)})


def of_vocabulary(vocabulary: int) -> DraftConfiguration:
    """Return the configuration of the small draft, with another vocabulary."""
    return DraftConfiguration(vocabulary, 7, 6, 9)


def refused(expected: ConformanceError, call: Callable[[], object]) -> None:
    """Require exactly this error with exactly these values, and one line of text."""
    with pytest.raises(ConformanceError) as caught:
        call()
    assert (type(expected), str(expected)) == (type(caught.value), str(caught.value))
    assert "\n" not in str(caught.value)


class TestWeightsFiles:
    """What is not a weights file, and what is one of something else."""

    def test_the_file_that_the_others_are_bent_from_is_read(self) -> None:
        """So that a refusal below is about what was bent."""
        for name in ("draft", "hybrid", "grouped"):
            parse_weights(file_of(name), PATH)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        """In the system's words."""
        path = str(tmp_path / "none")
        refused(
            InputError("input-unreadable", path=path, problem="No such file or directory"), lambda: read_weights(path)
        )

    @pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/urandom"])
    def test_a_device_that_does_not_end(self, device: str) -> None:
        """It is not read for ever; one that ends is a file like others."""
        if not Path(device).is_char_device():
            pytest.skip(f"this system has no {device}")
        refused(
            InputError("input-unreadable", path=device, problem="it is a device, and does not end"),
            lambda: read_net(device),
        )
        assert b"" == read_file("/dev/null")

    @pytest.mark.parametrize("size", [0, 7, 8, 100, -1])
    def test_a_file_that_is_cut_off(self, size: int) -> None:
        """Before, within and behind its header."""
        with refuses(ExchangeError, "damaged-weights", match="is not a safetensors file"):
            parse_weights(file_of()[:size], PATH)

    def test_a_header_with_a_key_twice(self) -> None:
        """The last of them would win."""
        header = b'{"__metadata__":{"a":"1","a":"2"}}'
        data = struct.pack("<Q", len(header)) + header
        with refuses(ExchangeError, "damaged-weights"):
            parse_weights(data, PATH)

    @pytest.mark.parametrize("key", ["format", "version", "configuration"])
    def test_a_file_without_a_key_of_metadata(self, key: str) -> None:
        """As other programs write them."""
        metadata = METADATA | {"configuration": write_configuration(DRAFT)}
        del metadata[key]
        refused(
            ExchangeError("foreign-weights", path=PATH, key=key), lambda: parse_weights(save(tensors(), metadata), PATH)
        )

    def test_a_file_without_metadata(self) -> None:
        """As the goldens of the suites are."""
        refused(ExchangeError("foreign-weights", path=PATH, key="format"), lambda: parse_weights(save(tensors()), PATH))

    def test_a_later_version(self) -> None:
        """Nothing of it is guessed."""
        metadata = METADATA | {"version": "2", "configuration": "{}"}
        expected = ExchangeError("unknown-weights-version", path=PATH, version="2", known="1")
        refused(expected, lambda: parse_weights(save(tensors(), metadata), PATH))

    def test_a_missing_tensor(self) -> None:
        """The first in the order of the model."""
        data = tensors()
        del data["hidden.bias"], data["output.weight"]
        refused(
            ExchangeError("missing-tensor", path=PATH, name="hidden.bias"),
            lambda: parse_weights(self._with(data), PATH),
        )

    def test_a_tensor_too_many(self) -> None:
        """The first by name."""
        data = tensors() | {"x": np.zeros(1), "blocks.0": np.zeros(1)}
        refused(
            ExchangeError("unexpected-tensor", path=PATH, name="blocks.0"),
            lambda: parse_weights(self._with(data), PATH),
        )

    def test_a_tensor_of_another_shape(self) -> None:
        """As many numbers, turned."""
        data = tensors() | {"hidden.weight": np.zeros((9, 6))}
        expected = ExchangeError(
            "tensor-differs", path=PATH, name="hidden.weight", expected="F64 [6, 9]", found="F64 [9, 6]"
        )
        refused(expected, lambda: parse_weights(self._with(data), PATH))

    def test_a_tensor_of_another_precision(self) -> None:
        """A file of ours holds doubles only."""
        data = tensors() | {"shift.mix": np.zeros(6, np.float32)}
        expected = ExchangeError("tensor-differs", path=PATH, name="shift.mix", expected="F64 [6]", found="F32 [6]")
        refused(expected, lambda: parse_weights(self._with(data), PATH))

    def test_a_number_that_is_not_finite(self) -> None:
        """Named by its place."""
        data = tensors()
        data["hidden.weight"] = data["hidden.weight"].copy()
        data["hidden.weight"][1, 2] = -np.inf
        expected = ExchangeError("tensor-not-finite", path=PATH, name="hidden.weight", index=11, value=-np.inf)
        refused(expected, lambda: parse_weights(self._with(data), PATH))

    def _with(self, data: dict[str, Any]) -> bytes:
        return save(data, METADATA | {"configuration": write_configuration(DRAFT)})


class TestConfigurations:
    """The JSON in the metadata."""

    @pytest.mark.parametrize(
        ("bent", "problem"),
        [
            ({"model": "rnn"}, "the model 'rnn' is neither 'decoder' nor 'token-shift-draft'"),
            ({"context": 0}, "context is 0, but must be at least 1"),
            ({"context": True}, "context is not a count"),
            ({"context": 7.0}, "context is not a count"),
            ({"depth": 3}, "it has the unknown key depth"),
            ({"mixers": {}}, "mixers is not a list"),
            ({"mixers": []}, "a decoder needs at least one block"),
            ({"mixers": [{"mixer": "lstm"}]}, "a mixer is {'mixer': 'lstm'}, which is none"),
            ({"mixers": ["attention"]}, "a mixer is 'attention', which is none"),
            ({"mixers": [{"mixer": "attention"}]}, "a mixer lacks the key window"),
            ({"mixers": [{"mixer": "attention", "window": 0}]}, "window is 0, but must be at least 1"),
            (
                {"mixers": [{"mixer": "latent-attention", "latent": 5, "rope": 3}]},
                "rotary embedding needs an even width",
            ),
            ({"wiring": "serial"}, "wiring is 'serial', not one of sequential, parallel"),
            ({"rope_base": 10000}, "rope_base is 10000, not a positive number with a decimal point"),
            ({"rope_base": -1.0}, "rope_base is -1.0, not a positive number with a decimal point"),
            ({"channels_per_group": 0}, "channels_per_group is 0, but must be at least 1"),
            (
                {"heads": 5, "mixers": [{"mixer": "attention", "window": None}]},
                "a width of 12 cannot be split into 5 heads",
            ),
        ],
    )
    def test_a_configuration_that_is_none(self, bent: Object, problem: str) -> None:
        """Said in words; the file is named."""
        with refuses(ExchangeError, "bad-configuration") as caught:
            parse_weights(file_of("hybrid", **bent), PATH)
        assert str(caught.value.fields["problem"]).startswith(problem)
        assert PATH in str(caught.value)

    @pytest.mark.parametrize(
        "text", ["", "[]", "{", '{"model":"decoder"}', '{"model":"decoder","model":"decoder"}', "NaN"]
    )
    def test_a_text_that_is_no_configuration(self, text: str) -> None:
        """Not JSON, no object, keys missing or twice."""
        with refuses(ExchangeError, "bad-configuration"):
            parse_weights(save(tensors(), METADATA | {"configuration": text}), PATH)

    @pytest.mark.parametrize("size", ["vocabulary", "width", "feed_forward", "futures"])
    def test_a_claim_that_the_tensors_do_not_bear_out_costs_no_memory(self, size: str) -> None:
        """A model of a billion channels is refused by the first tensor that is smaller, or is not there."""
        with refuses(ExchangeError, "tensor-differs" if size != "futures" else "missing-tensor"):
            parse_weights(file_of("hybrid", **{size: 12 * 10**9}), PATH)


class TestGoldenWeights:
    """Tensors without metadata, whose configuration is known."""

    def test_the_vocabulary_is_that_of_the_embedding(self) -> None:
        """The one size that a suite's plan leaves open."""
        data = save({name: values.astype(np.float32) for name, values in tensors().items()})
        model = parse_bare_weights(data, of_vocabulary, PATH)
        assert DRAFT == model.configuration

    def test_a_file_without_an_embedding(self) -> None:
        """There is nothing to read it off."""
        expected = ExchangeError("missing-tensor", path=PATH, name="embedding.weight")
        data = save({"x": np.zeros(1, np.float32)})
        refused(expected, lambda: parse_bare_weights(data, lambda vocabulary: DRAFT, PATH))

    def test_an_embedding_that_is_no_table(self) -> None:
        """A number has no length."""
        data = save({"embedding.weight": np.zeros((), np.float32)})
        expected = ExchangeError("bad-configuration", path=PATH, problem="vocabulary must be at least 1, found 0")
        refused(expected, lambda: parse_bare_weights(data, of_vocabulary, PATH))


class TestNets:
    """Files and nets of the library."""

    def test_a_net_that_cannot_be_read(self, tmp_path: Path) -> None:
        """The file and what is wrong with it."""
        path = tmp_path / "empty.nn"
        path.write_bytes(b"")
        with refuses(ExchangeError, "unreadable-net", match="cannot be read as a net"):
            read_net(path)

    def test_a_net_that_is_no_decoder(self) -> None:
        """The first layer that differs."""
        net = decoder_to_net(drawn(DRAFT))
        problem = "layer 6: the class is no layer, but a decoder of these sizes has TNNetPointwiseSoftMax there"
        refused(
            ExchangeError("unfit-source", source="the net", problem=problem),
            lambda: import_net(NetFile(net.specs[:6], net.neurons[:6])),
        )

    def test_a_net_that_cannot_be_written(self, tmp_path: Path) -> None:
        """Nothing is written then."""
        net = decoder_to_net(drawn(DRAFT))
        mix = Neuron(0.0, np.full(6, 1e39), (1, 1, 6))
        with refuses(ExchangeError, "unfit-source", match="the net cannot be converted"):
            write_net(tmp_path / "out.nn", NetFile(net.specs, (*net.neurons[:2], (mix,), *net.neurons[3:])))
        assert [] == list(tmp_path.iterdir())

    def test_a_model_beyond_single_precision(self, tmp_path: Path) -> None:
        """A weights file holds it, a net does not."""
        model = drawn(DRAFT)
        next(each for each in model.parameters if each.name == "shift.mix").assign(np.full(6, 1e39))
        path = str(tmp_path / "w")
        write_weights(path, model)
        expected = ExchangeError(
            "unfit-source", source=path, problem="shift.mix: 1e+39 is too large for single precision"
        )
        refused(expected, lambda: load_source(path, 0))


class TestWriting:
    """Where nothing can be written."""

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        """In the system's words."""
        path = str(tmp_path / "none" / "w")
        expected = InterchangeError("output-not-written", path=path, problem="No such file or directory")
        refused(expected, lambda: write_weights(path, drawn(DRAFT)))

    def test_a_folder_in_the_place_of_the_file(self, tmp_path: Path) -> None:
        """It stays."""
        (tmp_path / "w").mkdir()
        expected = InterchangeError(
            "output-not-written", path=str(tmp_path / "w"), problem="there is something else than a file"
        )
        refused(expected, lambda: write_weights(str(tmp_path / "w"), drawn(DRAFT)))
        assert (tmp_path / "w").is_dir()

    def test_a_write_that_fails_leaves_the_older_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """And nothing beside it."""
        (tmp_path / "w").write_bytes(b"older")

        def full(self: Path, target: Path) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", full)
        path = str(tmp_path / "w")
        refused(
            InterchangeError("output-not-written", path=path, problem="No space left on device"),
            lambda: write_weights(path, drawn(DRAFT)),
        )
        assert [("w", b"older")] == [(each.name, each.read_bytes()) for each in tmp_path.iterdir()]


class TestSources:
    """Texts that name nothing."""

    @pytest.mark.parametrize("text", ["", "phase10", "no/such/file.safetensors", "bogus", "."])
    def test_a_text_that_names_nothing(self, text: str) -> None:
        """All three kinds of names are told, and where to look."""
        with refuses(ExchangeError, "unknown-source") as caught:
            load_source(text, 0)
        assert text == caught.value.fields["text"]
        assert "cai-conform list" == caught.value.next_command

    def test_a_suite_without_a_decoder(self) -> None:
        """The n-gram is no net."""
        refused(ExchangeError("not-a-decode-suite", suite="course.ngram"), lambda: load_source("ngram", 0))
