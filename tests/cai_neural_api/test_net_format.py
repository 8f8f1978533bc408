"""Reading and writing `.nn` files: what the library wrote comes back, byte for byte and value for value."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cai_neural_api.errors import NetError, NetFormatError
from cai_neural_api.format import NetFile, Neuron, format_net, format_structure, parse_net, parse_structure
from cai_neural_api.net.structure import LayerSpec
from support_net_format import (
    EVERY_CLASS,
    SMALL,
    attention_decoder,
    full_size,
    layer,
    net_text,
    net_values,
    structure_line,
)
from support_nn_file import SAMPLES, load_nn, needs_samples
from support_refusals import values_of

STRUCTURES = SAMPLES / "structures"
FIRST_PHASE = "fffa3114911496c1fed464182a45ab8a25a4a40133efd079684582094e265807"
"""SHA-256 of the structure line in the checkpoint that the library's program wrote for its first phase."""


def sample_files() -> list[Path]:
    """Return the sample nets."""
    return sorted(SAMPLES.glob("*.nn"))


class TestSamples:
    """Files that the library wrote."""

    @needs_samples
    def test_every_file_is_written_as_it_was_read(self) -> None:
        """Byte for byte, of which there are four for each of six kinds."""
        files = sample_files()
        assert len(files) >= 24
        for path in files:
            data = path.read_bytes()
            assert data == format_net(parse_net(data)), path.name

    @needs_samples
    def test_every_value_is_the_float32_nearest_to_its_decimal(self) -> None:
        """In the order in which a plain splitting of the text finds them."""
        for path in sample_files()[::3]:
            net = parse_net(path.read_bytes())
            for stated, spec, neurons in zip(load_nn(path), net.specs, net.neurons, strict=True):
                assert (stated.name, stated.integers) == (spec.kind, list(spec.integers))
                assert stated.predecessors == (list(spec.inputs) if spec.inputs else [-1])
                assert [np.float32(bias) for bias, _ in stated.neurons] == [neuron.bias for neuron in neurons]
                for (_, weights), neuron in zip(stated.neurons, neurons, strict=True):
                    assert np.array(weights, np.float32).tolist() == neuron.weights.tolist()

    @needs_samples
    def test_a_net_has_as_many_weights_as_the_library_counted(self) -> None:
        """Its count leaves biases out."""
        for path in sample_files():
            if "." in path.stem:
                continue
            net = parse_net(path.read_bytes())
            counted = json.loads(path.with_suffix(".json").read_text("ascii"))["count_weights"]
            assert counted == sum(neuron.weights.size for layer in net.neurons for neuron in layer), path.name

    @pytest.mark.exhaustive
    @pytest.mark.skipif(not STRUCTURES.is_dir(), reason="the structure lines do not lie beside this checkout")
    def test_every_structure_line_is_written_as_it_was_read(self) -> None:
        """Those of the nine nets at full size."""
        files = sorted(STRUCTURES.iterdir())
        assert len(files) == 9
        for path in files:
            line = path.read_text("ascii").rstrip("\n")
            assert line == format_structure(parse_structure(line)), path.name


class TestOwnNets:
    """Nets whose text and values were put together by hand."""

    @pytest.mark.parametrize("net", [SMALL, EVERY_CLASS, attention_decoder(5, 8, 2, 6, 7, 1)])
    def test_text_is_written_as_it_was_read(self, net: list[tuple[str, list[tuple[int, int, int]]]]) -> None:
        """A layer of every known class among them."""
        assert net_text(net) == format_net(parse_net(net_text(net)))

    @pytest.mark.parametrize("net", [SMALL, EVERY_CLASS])
    def test_values_and_sizes_are_those_that_were_spelled(
        self, net: list[tuple[str, list[tuple[int, int, int]]]]
    ) -> None:
        """Raw order, and the sizes of each neuron."""
        read = parse_net(net_text(net))
        assert net_values(net) == [[(one.bias, one.weights.tolist()) for one in neurons] for neurons in read.neurons]
        assert [volumes for _, volumes in net] == [[one.shape for one in neurons] for neurons in read.neurons]

    def test_a_layer_is_what_its_text_says(self) -> None:
        """Class, predecessor, integers, list and floats."""
        specs = parse_structure(structure_line(EVERY_CLASS))
        assert LayerSpec("TNNetSum", 9, listed=(9, 8, 1)) == specs[10]
        assert LayerSpec("TNNetDotProducts", 20, integers=(19, 17, 1, 0, 0, 0, 0, 0)) == specs[21]
        assert LayerSpec("TNNetNegate", 16, floats=(-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)) == specs[17]
        assert (0.019999999552965164, 0.0) == specs[1].floats[:2]

    def test_neurons_of_one_shape_share_one_array(self) -> None:
        """A layer of thousands costs no array each, and nobody writes into what was read."""
        first, second = parse_net(net_text(SMALL)).neurons[2]
        assert first.weights.base is not None
        assert first.weights.base is second.weights.base
        assert not first.weights.flags.writeable

    def test_any_decimal_is_read_as_the_nearest_float32(self) -> None:
        """Long and short ones, with signs and exponents; what is too small becomes zero."""
        texts = [
            "0.1",
            "+.5",
            "-5.",
            "1e0",
            "1E+1",
            "25e-2",
            "0.1000000000000000055511151231257827",
            "16777217",
            "1e-46",
            "000.5",
        ]
        expected = [0.10000000149011612, 0.5, -5.0, 1.0, 10.0, 0.25, 0.10000000149011612, 16777216.0, 0.0, 0.5]
        line = f"{layer(-1, 'Input', '3;1;10')}#{layer(0, 'TokenShift')}"
        net = parse_net(f"{line}\n!{texts[0]}]1;1;1;10;{';'.join(texts)}\n".encode("ascii"))
        assert expected == net.neurons[1][0].weights.tolist()
        assert expected[0] == net.neurons[1][0].bias


class TestWriting:
    """What could not be read is not written."""

    NET = parse_net(net_text(SMALL))

    def refused(self, net: NetFile) -> NetError:
        """Return what writing a net raises."""
        with pytest.raises(NetError) as raised:
            format_net(net)
        return raised.value

    def with_neuron(self, **changes: object) -> NetFile:
        """Change neuron 1 of layer 2."""
        neurons = [list(layer) for layer in self.NET.neurons]
        neurons[2][1] = replace(neurons[2][1], **changes)  # type: ignore[arg-type]
        return NetFile(self.NET.specs, tuple(map(tuple, neurons)))

    def with_spec(self, **changes: object) -> NetFile:
        """Change what layer 2 states."""
        specs = list(self.NET.specs)
        specs[2] = replace(specs[2], **changes)  # type: ignore[arg-type]
        return NetFile(tuple(specs), self.NET.neurons)

    def test_neurons_must_fit_their_layer(self) -> None:
        """Their number, their sizes and how many weights they have."""
        few = NetFile(self.NET.specs, (*self.NET.neurons[:2], self.NET.neurons[2][:1], *self.NET.neurons[3:]))
        found = [
            self.refused(few),
            self.refused(NetFile(self.NET.specs, self.NET.neurons[:-1])),
            self.refused(self.with_neuron(shape=(1, 2, 1))),
            self.refused(self.with_neuron(weights=np.zeros(3))),
        ]
        expected: list[NetError] = [
            NetFormatError("neuron-count-mismatch", layer=2, kind="TNNetPointwiseConvLinear", expected=2, found=1),
            NetFormatError("layer-count-mismatch", structure=5, data=4),
            NetFormatError("volume-mismatch", layer=2, neuron=1, expected="1;1;2", found="1;2;1"),
            NetFormatError("weight-count-mismatch", layer=2, neuron=1, expected=2, found=3),
        ]
        assert [(type(error), values_of(error)) for error in expected] == [(type(e), values_of(e)) for e in found]

    def test_numbers_must_be_finite_in_float32(self) -> None:
        """A weight, a bias, a float of the structure line."""
        found = [
            self.refused(self.with_neuron(weights=np.array([0.0, 1e39]))),
            self.refused(self.with_neuron(bias=float("nan"))),
            self.refused(self.with_spec(floats=(0.0, float("inf"), *[0.0] * 6))),
        ]
        assert ["invalid-weight", "invalid-bias", "invalid-structure-float"] == [error.code for error in found]
        assert values_of(found[0])["position"] == 1

    def test_integers_must_fit_and_be_supported(self) -> None:
        """As they must in a file."""
        found = [
            self.refused(self.with_spec(integers=(2**31, 1, 0, 1, 0, 0, 0, 0))),
            self.refused(self.with_spec(integers=(2, 3, 0, 1, 0, 0, 0, 0))),
        ]
        assert ["integer-out-of-range", "unsupported-option"] == [error.code for error in found]

    def test_other_values_are_rounded_to_float32(self) -> None:
        """Weights of any layout, too."""
        net = self.with_neuron(weights=np.array([[0.1], [0.2]]), bias=1 / 3)
        read = parse_net(format_net(net)).neurons[2][1]
        assert np.array([0.1, 0.2], np.float32).tolist() == read.weights.tolist()
        assert np.float32(1 / 3) == read.bias

    def test_neurons_of_other_arrays_are_written_alike(self) -> None:
        """Whoever makes a net need not keep a layer in one array."""
        copies = tuple(
            tuple(Neuron(one.bias, one.weights.copy(), one.shape) for one in neurons) for neurons in self.NET.neurons
        )
        assert net_text(SMALL) == format_net(NetFile(self.NET.specs, copies))


class TestFullSize:
    """A net of the published size: 19 MB of text."""

    def test_the_structure_is_that_of_the_first_phase(self) -> None:
        """So that the size is the real one: the fingerprint of its structure line is."""
        net = attention_decoder(context=48, width=128, heads=8, hidden=512, vocabulary=3000, blocks=2)
        line = structure_line(net)
        assert hashlib.sha256(line.encode("ascii")).hexdigest() == FIRST_PHASE
        assert line == format_structure(parse_structure(line))

    @pytest.mark.exhaustive
    def test_reading_holds_little_more_than_the_values(self) -> None:
        """1,309,700 weights are 10 MB; the file itself has 19."""
        data = full_size()
        assert len(data) > 19_000_000
        tracemalloc.start()
        net = parse_net(data)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert sum(neuron.weights.size for layer in net.neurons for neuron in layer) == 1_309_700
        assert peak < 100_000_000
        assert format_net(parse_net(format_net(net))) == format_net(net)
