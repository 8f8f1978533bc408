"""Are initial weights those that the library draws, bit for bit?"""

from __future__ import annotations

import numpy as np
import pytest

from cai_neural_api.builders import build_draft
from cai_neural_api.format import format_net
from cai_neural_api.initialization import initialize
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.net.structure import LayerSpec
from cai_reference.models.token_shift_draft import DraftConfiguration
from support_net_models import TINY, layers_of, sample, sample_configuration
from support_nn_file import KINDS, SAMPLES, needs_samples

FIRST_WORDS = (3499211612, 581869302, 3890346734, 3586334585, 545404204)
"""What the generator's authors print for the seed 5489."""


class Counting(MersenneTwister):
    """Counts draws; everything is drawn in bulk."""

    drawn = 0

    def below_many(self, bound: int, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """Draw, and count."""
        self.drawn += count
        return super().below_many(bound, count)


@needs_samples
@pytest.mark.parametrize("kind", KINDS)
def test_the_initial_nets_of_the_library_come_from_their_seeds(kind: str) -> None:
    """Every byte of the file, the structure from the configuration alone."""
    net = initialize(layers_of(sample_configuration(kind)), MersenneTwister(sample(kind)["seed"]))
    assert (SAMPLES / f"{kind}.init.nn").read_bytes() == format_net(net)


class TestRules:
    """Each class by itself, with numbers worked out from the first words of the generator."""

    def test_an_embedding_draws_a_number_a_weight(self) -> None:
        """(Random(10000) - 5000) / 5000 times the scale, each step in single precision."""
        specs = (LayerSpec("TNNetInput", -1, (2, 1, 1, 0, 0, 0, 0, 0)), self._embedding(1, 5))
        (neuron,) = initialize(specs, MersenneTwister(5489)).neurons[1]
        expected = [np.float32((word * 10000 // 2**32 - 5000) / 5000) * np.float32(0.02) for word in FIRST_WORDS]
        assert [float(value) for value in expected] == neuron.weights.tolist()
        assert ((1, 1, 5), 0.0) == (neuron.shape, neuron.bias)

    def test_a_convolution_divides_by_the_root_of_its_inputs(self) -> None:
        """The largest weights of 12 inputs come near to one half, the square root of 3/12."""
        net = initialize(build_draft(DraftConfiguration(4, 3, 12, 4000)), MersenneTwister(1))
        weights = np.array([neuron.weights for neuron in net.neurons[3]])
        assert -0.5 == float(np.min(weights))
        assert 0.4998 < float(np.max(weights)) < 0.5
        assert all(neuron.bias == 0.0 for neuron in net.neurons[3])

    def test_norms_and_recurrences_start_as_constants(self) -> None:
        """γ, β, α are 1, 0, 1; a_raw, b, c, e are 0, 1, 1, 1."""
        net = initialize(layers_of(TINY["hybrid"]), MersenneTwister(1))
        constants = {
            spec.kind: [sorted(set(neuron.weights.tolist())) for neuron in layer]
            for spec, layer in zip(net.specs, net.neurons, strict=True)
            if spec.kind in ("TNNetDyT", "TNNetDiagonalSSM")
        }
        assert {"TNNetDyT": [[1.0], [0.0], [1.0]], "TNNetDiagonalSSM": [[0.0], [1.0], [1.0], [1.0]]} == constants

    def test_draws_that_come_to_nothing_are_made_all_the_same(self) -> None:
        """Two and the width by a token shift, one a neuron by a grouped convolution."""
        generator = Counting(1)
        initialize(build_draft(DraftConfiguration(13, 7, 6, 9)), generator)
        assert 13 * 6 + (2 + 6) + 6 * 9 + 9 * 13 == generator.drawn
        specs = layers_of(TINY["grouped everything"])
        generator = Counting(1)
        net = initialize(specs, generator)
        grouped = [layer for spec, layer in zip(specs, net.neurons, strict=True) if "Grouped" in spec.kind]
        wasted = sum(len(layer) for layer in grouped)
        kept = sum(neuron.weights.size for layer in grouped for neuron in layer)
        assert 13 * 12 + wasted + kept == generator.drawn

    def test_the_generator_goes_on_where_the_last_layer_stopped(self) -> None:
        """Two nets from one generator differ, as they do in the library."""
        specs, generator = build_draft(DraftConfiguration(13, 7, 6, 9)), MersenneTwister(1)
        first, second = initialize(specs, generator), initialize(specs, generator)
        assert first.neurons[1][0].weights.tolist() != second.neurons[1][0].weights.tolist()

    def _embedding(self, vocabulary: int, width: int) -> LayerSpec:
        floats = (float(np.float32(0.02)), *(0.0,) * 7)
        return LayerSpec("TNNetEmbedding", 0, (vocabulary, width, 0, 0, 0, 0, 0, 0), floats)


class TestManyDraws:
    """The generator's draws in bulk."""

    @pytest.mark.parametrize("counts", [(0, 1, 623, 1, 0, 624, 1), (5, 2000, 3), (624, 624), (1300,)])
    def test_they_are_those_of_single_draws(self, counts: tuple[int, ...]) -> None:
        """Across the borders of its blocks, and mixed with single draws."""
        bulk, single = MersenneTwister(7), MersenneTwister(7)
        for count in counts:
            assert [single.below(10000) for _ in range(count)] == bulk.below_many(10000, count).tolist()
            assert single.next_u32() == bulk.next_u32()

    def test_bounds_may_have_all_32_bits(self) -> None:
        """The product has 64."""
        bulk, single = MersenneTwister(7), MersenneTwister(7)
        assert [single.below(2**32 - 1) for _ in range(50)] == bulk.below_many(2**32 - 1, 50).tolist()
