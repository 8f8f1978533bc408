"""Small Llama models with drawn parameters: shared keys, windows, both layouts, both norms, tied heads and others."""

from __future__ import annotations

from dataclasses import replace

from cai_reference.layers.rms_norm import InverseForm
from cai_reference.layers.rope import Frequencies, RopeLayout
from cai_reference.models.llama import Llama, LlamaConfiguration
from cai_reference.splitmix import SplitMix64
from support_decoder_models import stir

ADJACENT, HALF_SPLIT = RopeLayout.ADJACENT, RopeLayout.HALF_SPLIT
EXPONENTIAL, INVERSE_ROOT = InverseForm.EXPONENTIAL, InverseForm.INVERSE_ROOT

# Heads of four features, wider together than the model, two query heads a key; every matrix is rectangular.
PLAIN = LlamaConfiguration(
    vocabulary=13,
    context=24,
    width=6,
    heads=4,
    feed_forward=5,
    layers=2,
    key_value_heads=2,
    head_width=4,
    rope_base=50.0,
)

CONFIGURATIONS: dict[str, LlamaConfiguration] = {
    "grouped": PLAIN,
    "multi-head": replace(PLAIN, width=8, heads=2, key_value_heads=None, head_width=None, rope_base=10000.0),
    "multi-query": replace(PLAIN, heads=3, key_value_heads=1, tied=True, norm=EXPONENTIAL),
    "window": replace(PLAIN, window=3, layers=3),
    "window-of-one": replace(PLAIN, window=1, layers=1),
    "course": replace(
        PLAIN,
        width=8,
        heads=2,
        key_value_heads=None,
        head_width=None,
        tied=True,
        rope_layout=ADJACENT,
        rope_frequencies=Frequencies.NEAREST,
        epsilon=1e-6,
        norm=EXPONENTIAL,
    ),
    "adjacent": replace(PLAIN, rope_layout=ADJACENT, epsilon=0.0, window=4),
    "nearest": replace(PLAIN, rope_frequencies=Frequencies.NEAREST, rope_base=500000.0, epsilon=0.3),
    "no-layers": replace(PLAIN, layers=0, tied=True),
}


def small(name: str, seed: int = 1) -> Llama:
    """Return the model of this name with parameters of no special value."""
    return stirred(CONFIGURATIONS[name], seed)


def stirred(configuration: LlamaConfiguration, seed: int = 1) -> Llama:
    """Return a model in which no gain is 1, and embeddings are large."""
    model = Llama.initialize(configuration, SplitMix64(seed))
    stir(model.parameters, seed)
    return model
