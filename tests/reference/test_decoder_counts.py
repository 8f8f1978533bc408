"""How many parameters decoders have, and how they start: the published totals, one stream, the fans of a block."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from cai_reference.autograd import Parameter
from cai_reference.errors import LayerError, ModelError
from cai_reference.models.decoder import (
    AttentionSpec,
    Decoder,
    DecoderConfiguration,
    LatentSpec,
    MixerSpec,
    SsmSpec,
    Wiring,
)
from cai_reference.models.registry import decayed_names, parameter_count, weight_count
from cai_reference.models.token_shift_draft import DraftConfiguration, TokenShiftDraft
from cai_reference.splitmix import INCREMENT, MASK, SplitMix64
from support_decoder_models import CONFIGURATIONS, DRAFT, PLAIN, small, small_draft
from support_refusals import raises

FULL, SSM, LATENT = AttentionSpec(), SsmSpec(), LatentSpec(32, 8)
PUBLISHED = DecoderConfiguration(3000, 48, 128, 8, 512, (FULL, FULL))

# CAI NEURAL API, decode-features bake-off: weights as the library counts them, and the biases that it leaves out.
PHASES: dict[str, tuple[DecoderConfiguration | DraftConfiguration, int, int]] = {
    "1": (PUBLISHED, 1_309_700, 6_456),
    "2": (replace(PUBLISHED, futures=3), 2_077_700, 12_456),
    "3": (replace(PUBLISHED, mixers=(SSM, SSM)), 1_245_188, 5_944),
    "4": (replace(PUBLISHED, mixers=(LATENT, LATENT)), 1_287_172, 6_664),
    "5 draft": (DraftConfiguration(3000, 48, 64, 256), 976_448, 3_256),
    "6": (replace(PUBLISHED, mixers=(SSM, LATENT, SSM)), 1_496_582, 7_712),
    "7": (replace(PUBLISHED, mixers=(SSM, LATENT, SSM), channels_per_group=16), 541_574, 8_992),
    "8": (replace(PUBLISHED, mixers=(AttentionSpec(12), FULL)), 1_309_700, 6_456),
    "9": (replace(PUBLISHED, wiring=Wiring.PARALLEL), 1_309_186, 6_456),
}


def made(sizes: DecoderConfiguration | DraftConfiguration, generator: SplitMix64) -> tuple[Parameter, ...]:
    """Return the parameters of a new model."""
    if isinstance(sizes, DraftConfiguration):
        return TokenShiftDraft.initialize(sizes, generator).parameters
    return Decoder.initialize(sizes, generator).parameters


@pytest.mark.exhaustive
@pytest.mark.parametrize(("sizes", "weights", "biases"), PHASES.values(), ids=PHASES)
def test_the_published_totals(sizes: DecoderConfiguration | DraftConfiguration, weights: int, biases: int) -> None:
    """Counted on a model that is really made, at the published size."""
    parameters = made(sizes, SplitMix64(0))
    assert (weights, weights + biases) == (weight_count(parameters), parameter_count(parameters))


def test_a_small_model_counted_by_hand() -> None:
    """Width 8, 13 ids, 2 heads, inner 5, one attention block."""
    embedding, norm, slab, output = 13 * 8, 8 + 8 + 1, 8 * 24, 8 * 8
    feed_forward, head = 8 * 10 + 5 * 8, 8 * 8 + 8 * 13
    weights = embedding + 2 * norm + slab + output + feed_forward + head
    biases = 24 + 8 + 10 + 8 + 8 + 13
    parameters = made(PLAIN, SplitMix64(0))
    assert (weights, weights + biases) == (weight_count(parameters), parameter_count(parameters))


def test_names_in_registry_order() -> None:
    """A hybrid's names, spelled out."""
    mixers: tuple[MixerSpec, ...] = (SSM, LatentSpec(3, 4), AttentionSpec(3))
    names = [parameter.name for parameter in made(replace(PLAIN, mixers=mixers, futures=2), SplitMix64(0))]

    def projections(prefix: str, *parts: str) -> list[str]:
        return [f"{prefix}.{part}.{kind}" for part in parts for kind in ("weight", "bias")]

    def vectors(prefix: str, *parts: str) -> list[str]:
        return [f"{prefix}.{part}" for part in parts]

    def block(number: int, mixer: list[str]) -> list[str]:
        norm1, norm2 = (vectors(f"blocks.{number}.{norm}", "gamma", "beta", "alpha") for norm in ("norm1", "norm2"))
        return [*norm1, *mixer, *norm2, *projections(f"blocks.{number}.feed_forward", "up", "down")]

    one, two, three = (f"blocks.{number}.mixer" for number in range(3))
    ssm = [*projections(one, "inner"), *vectors(one, "a_raw", "b", "c", "e"), *projections(one, "output")]
    latent = projections(two, "query", "latent", "key", "value", "rope_query", "rope_key", "output")
    expected = ["embedding.weight", *block(0, ssm), *block(1, latent), *block(2, projections(three, "slab", "output"))]
    expected += [*projections("head", "hidden"), *projections("head.outputs", "0", "1")]
    assert expected == names


def test_a_grouped_registry() -> None:
    """A stack names both of its maps; a parallel block has one norm; latents stay dense."""
    mixers: tuple[MixerSpec, ...] = (LatentSpec(3, 4),)
    sizes = replace(CONFIGURATIONS["grouped"], mixers=mixers, wiring=Wiring.PARALLEL)
    shapes = {parameter.name: parameter.shape for parameter in made(sizes, SplitMix64(0))}
    assert not [name for name in shapes if "norm2" in name]
    assert [(4, 2, 2), (4, 2, 2)] == [shapes[f"blocks.0.mixer.query.{part}.weight"] for part in ("first", "second")]
    assert (8, 3) == shapes["blocks.0.mixer.latent.weight"]
    assert (4, 2, 6) == shapes["blocks.0.feed_forward.up.first.weight"]
    assert "blocks.0.feed_forward.up.second.weight" not in shapes
    assert (4, 3, 2) == shapes["blocks.0.feed_forward.down.first.weight"]
    assert (4, 2, 2) == shapes["blocks.0.feed_forward.down.second.weight"]
    assert (4, 2, 5) == shapes["head.outputs.0.first.weight"]
    assert "head.outputs.0.second.weight" not in shapes


# How they start.

STARTS = {"gamma": 1.0, "beta": 0.0, "alpha": 1.0, "a_raw": 0.0, "b": 1.0, "c": 1.0, "e": 1.0, "bias": 0.0, "mix": 0.5}


@pytest.mark.parametrize("name", [*CONFIGURATIONS, "draft"])
def test_one_stream_in_registry_order(name: str) -> None:
    """Matrices take unit doubles in turn, within ±√(6/(fan in + fan out)) of one block; nothing else draws."""
    generator, again, draws = SplitMix64(77), SplitMix64(77), 0
    for parameter in made(DRAFT if name == "draft" else CONFIGURATIONS[name], generator):
        kind = parameter.name.rpartition(".")[2]
        if kind != "weight":
            assert [STARTS[kind]] * parameter.value.size == parameter.value.tolist()
            continue
        limit = math.sqrt(6.0 / sum(parameter.shape[-2:]))
        drawn = [limit * (2.0 * again.unit() - 1.0) for _ in range(parameter.value.size)]
        assert drawn == parameter.value.ravel().tolist()
        draws += len(drawn)
    assert (77 + draws * INCREMENT) & MASK == generator.state


def test_grouped_matrices_fill_the_bounds_of_their_blocks() -> None:
    """At the published size each of the eight blocks of 16 by 128 comes within a hundredth of ±√(6/144)."""
    sizes = replace(PUBLISHED, vocabulary=8, mixers=(SSM,), channels_per_group=16)
    up = next(p for p in made(sizes, SplitMix64(5)) if p.name == "blocks.0.feed_forward.up.first.weight")
    assert (8, 16, 128) == up.shape
    limit = math.sqrt(6.0 / 144.0)
    for block in up.value:
        assert -limit <= block.min() < -0.99 * limit
        assert 0.99 * limit < block.max() <= limit


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_matrices_decay_and_nothing_else(name: str) -> None:
    """Everything with two axes or more, embedding included; no bias, no gain, no vector of a recurrence."""
    parameters = small(name).parameters
    assert tuple(p.name for p in parameters if p.value.ndim >= 2) == decayed_names(parameters)


def test_the_vector_of_a_token_shift_does_not_decay() -> None:
    """Three matrices do."""
    names = ("embedding.weight", "hidden.weight", "output.weight")
    assert names == decayed_names(small_draft().parameters)


# What cannot be made.


def test_other_configurations_that_cannot_be_made() -> None:
    """No blocks, no channels a group, heads that do not divide or are odd, odd rotary widths, no window."""
    with raises(ModelError("empty-decoder")):
        replace(PLAIN, mixers=())
    with raises(ModelError("size-too-small", name="channels_per_group", size=0)):
        replace(PLAIN, channels_per_group=0)
    refused = [
        (replace(PLAIN, heads=3), LayerError("heads-do-not-divide", width=8, heads=3)),
        (replace(PLAIN, heads=8), LayerError("odd-rope-width", width=1)),
        (replace(PLAIN, width=12, heads=4), LayerError("odd-rope-width", width=3)),
        (replace(PLAIN, mixers=(LatentSpec(3, 4),), heads=3), LayerError("heads-do-not-divide", width=8, heads=3)),
        (replace(PLAIN, mixers=(LatentSpec(3, 5),)), LayerError("odd-rope-width", width=5)),
        (replace(PLAIN, mixers=(FULL, AttentionSpec(0))), LayerError("window-too-small", window=0)),
        (replace(PLAIN, mixers=(AttentionSpec(-2),)), LayerError("window-too-small", window=-2)),
    ]
    for sizes, error in refused:
        with raises(error):
            Decoder.initialize(sizes, SplitMix64(0))


def test_heads_do_not_matter_to_recurrences() -> None:
    """A stack of recurrences has none, so any number is accepted."""
    sizes = replace(PLAIN, heads=3, mixers=(SSM, SSM))
    assert np.isfinite(made(sizes, SplitMix64(0))[0].value).all()
