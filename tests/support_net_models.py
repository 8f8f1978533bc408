"""Models and nets for the tests of builders and conversion: the published sizes, small ones, weights to tell apart."""

from __future__ import annotations

import json
from functools import cache
from typing import Final, TypedDict, cast

import numpy as np

from cai_neural_api.builders import build_decoder, build_draft
from cai_neural_api.net.structure import LayerSpec
from cai_reference.arithmetic import Array
from cai_reference.models.decoder import (
    AttentionSpec,
    Decoder,
    DecoderConfiguration,
    LatentSpec,
    MixerSpec,
    SsmSpec,
    Wiring,
)
from cai_reference.models.token_shift_draft import DraftConfiguration, TokenShiftDraft
from cai_reference.splitmix import SplitMix64
from support_nn_file import SAMPLES

Configuration = DecoderConfiguration | DraftConfiguration

FULL: Final = AttentionSpec()
LOCAL: Final = AttentionSpec(12)
LATENT: Final = LatentSpec(32, 8)
SSM: Final = SsmSpec()


def published(*mixers: MixerSpec, **changes: object) -> DecoderConfiguration:
    """Return a decoder of the published size."""
    return DecoderConfiguration(3000, 48, 128, 8, 512, mixers, **changes)  # type: ignore[arg-type]


PUBLISHED: Final[dict[str, Configuration]] = {
    "phase1": published(FULL, FULL),
    "phase2": published(FULL, FULL, futures=3),
    "phase3": published(SSM, SSM),
    "phase4": published(LATENT, LATENT),
    "phase5draft": DraftConfiguration(3000, 48, 64, 256),
    "phase6": published(SSM, LATENT, SSM),
    "phase7": published(SSM, LATENT, SSM, channels_per_group=16),
    "phase8": published(LOCAL, FULL),
    "phase9": published(FULL, FULL, wiring=Wiring.PARALLEL),
}


def tiny(*mixers: MixerSpec, **changes: object) -> DecoderConfiguration:
    """Return a decoder of a dozen channels."""
    return DecoderConfiguration(13, 7, 12, 3, 10, mixers, **changes)  # type: ignore[arg-type]


TINY: Final[dict[str, Configuration]] = {
    "attention": tiny(FULL),
    "window": tiny(AttentionSpec(2), FULL),
    "latent": tiny(LatentSpec(5, 2)),
    "hybrid": tiny(SSM, LatentSpec(5, 2), SSM),
    "parallel": tiny(FULL, FULL, wiring=Wiring.PARALLEL),
    "parallel latent": tiny(LatentSpec(3, 4), SSM, wiring=Wiring.PARALLEL),
    "futures": tiny(FULL, futures=3),
    "grouped": tiny(SSM, LatentSpec(5, 2), SSM, channels_per_group=3),
    "grouped everything": tiny(FULL, AttentionSpec(3), channels_per_group=2, futures=2),
    "too narrow to group": tiny(FULL, channels_per_group=12),
    "another base": tiny(FULL, rope_base=500.0),
    "draft": DraftConfiguration(13, 7, 6, 9),
}
"""Every mixer and every switch; not all of these combinations were ever published."""


def decoder_of(configuration: Configuration) -> DecoderConfiguration:
    """Return the same, which is a decoder's."""
    assert isinstance(configuration, DecoderConfiguration)
    return configuration


@cache
def layers_of(configuration: Configuration) -> tuple[LayerSpec, ...]:
    """Return the layers of a decoder or a draft."""
    if isinstance(configuration, DraftConfiguration):
        return build_draft(configuration)
    return build_decoder(configuration)


def drawn(configuration: Configuration, seed: int = 5) -> Decoder | TokenShiftDraft:
    """Return a model in which no two numbers are equal, nearly, and single precision holds each."""
    made: Decoder | TokenShiftDraft
    if isinstance(configuration, DraftConfiguration):
        made = TokenShiftDraft.initialize(configuration, SplitMix64(seed))
    else:
        made = Decoder.initialize(configuration, SplitMix64(seed))
    generator = SplitMix64(seed + 1)
    for parameter in made.parameters:
        noise = np.array([generator.unit() - 0.5 for _ in range(parameter.value.size)]).reshape(parameter.shape)
        parameter.assign(single(parameter.value + noise))
    return made


def single(values: Array) -> Array:
    """Round to single precision."""
    return values.astype(np.float32).astype(np.float64)


class SampleSizes(TypedDict):
    """The configuration that a sample states."""

    ctx: int
    vocab: int
    d_model: int
    heads: int
    ffn: int
    blocks: int
    latent: int
    rope: int
    min_channels_per_group: int
    num_future: int


class Sample(TypedDict):
    """The part of a sample's answers that is needed here."""

    seed: int
    config: SampleSizes
    count_weights: int
    layers: int


def sample(kind: str) -> Sample:
    """Read what the library says about a sample net."""
    return cast(Sample, json.loads((SAMPLES / f"{kind}.json").read_text("utf-8")))


def sample_configuration(kind: str) -> Configuration:
    """Return the configuration of a sample, as its file states it."""
    sizes = sample(kind)["config"]
    if kind == "draft":
        return DraftConfiguration(sizes["vocab"], sizes["ctx"], sizes["d_model"], sizes["ffn"])
    latent = LatentSpec(sizes["latent"], sizes["rope"])
    others: dict[str, tuple[MixerSpec, ...]] = {"ssm": (SSM,), "mla": (latent,), "grouped": (SSM, latent, SSM)}
    mixers = others.get(kind, (FULL,))
    return DecoderConfiguration(
        sizes["vocab"],
        sizes["ctx"],
        sizes["d_model"],
        sizes["heads"],
        sizes["ffn"],
        mixers,
        channels_per_group=sizes["min_channels_per_group"] or None,
        futures=sizes["num_future"],
    )
