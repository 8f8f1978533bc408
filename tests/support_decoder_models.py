"""Small decoders and drafts with drawn parameters, of every mixer, wiring and grouping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cai_reference.autograd import Parameter
from cai_reference.models.decoder import AttentionSpec, Decoder, DecoderConfiguration, LatentSpec, SsmSpec, Wiring
from cai_reference.models.token_shift_draft import DraftConfiguration, TokenShiftDraft
from cai_reference.splitmix import SplitMix64

FULL, SSM = AttentionSpec(), SsmSpec()
PLAIN = DecoderConfiguration(vocabulary=13, context=24, width=8, heads=2, feed_forward=5, mixers=(FULL,))
GROUPED = replace(PLAIN, vocabulary=20, feed_forward=12, channels_per_group=2)

# Every mixer, wiring and grouping, windows that fill, several heads; small enough for loops in Python.
CONFIGURATIONS: dict[str, DecoderConfiguration] = {
    "attention": replace(PLAIN, mixers=(FULL, FULL)),
    "one-head": replace(PLAIN, heads=1, rope_base=50.0),
    "local": replace(PLAIN, mixers=(AttentionSpec(1), AttentionSpec(3), AttentionSpec(2))),
    "local-global": replace(PLAIN, width=12, vocabulary=11, mixers=(AttentionSpec(4), FULL)),
    "ssm": replace(PLAIN, mixers=(SSM, SSM)),
    "latent": replace(PLAIN, mixers=(LatentSpec(3, 4), LatentSpec(5, 2))),
    "hybrid": replace(PLAIN, mixers=(SSM, LatentSpec(3, 4), AttentionSpec(3))),
    "parallel": replace(PLAIN, mixers=(FULL, AttentionSpec(2)), wiring=Wiring.PARALLEL),
    "parallel-hybrid": replace(PLAIN, mixers=(LatentSpec(3, 4), SSM), wiring=Wiring.PARALLEL),
    "futures": replace(PLAIN, futures=3),
    "grouped": replace(GROUPED, mixers=(SSM, LatentSpec(3, 4), AttentionSpec(3))),
    "grouped-futures": replace(GROUPED, vocabulary=11, mixers=(FULL,), futures=2, wiring=Wiring.PARALLEL),
}
DRAFT = DraftConfiguration(vocabulary=13, context=24, width=6, hidden=10)


def small(name: str, seed: int = 1) -> Decoder:
    """Return the decoder of this name with parameters of no special value."""
    model = Decoder.initialize(CONFIGURATIONS[name], SplitMix64(seed))
    stir(model.parameters, seed)
    return model


def small_draft(seed: int = 1) -> TokenShiftDraft:
    """Return a draft with parameters of no special value."""
    model = TokenShiftDraft.initialize(DRAFT, SplitMix64(seed))
    stir(model.parameters, seed)
    return model


def stir(parameters: Sequence[Parameter], seed: int) -> None:
    """Move every parameter from where it starts, so that no gain is 1, no bias 0, and embeddings are large."""
    generator = SplitMix64(seed + 1000)
    for parameter in parameters:
        drawn = np.array([2.0 * generator.unit() - 1.0 for _ in range(parameter.value.size)]).reshape(parameter.shape)
        factor = 1.0 if parameter.name.endswith("embedding.weight") else 0.6
        parameter.assign(parameter.value + factor * drawn)


def sequence(vocabulary: int, length: int, seed: int = 5) -> list[int]:
    """Return ids with repetitions and the zero id among them."""
    generator = SplitMix64(seed)
    ids = [generator.next_u64() % vocabulary for _ in range(length)]
    if length > 4:
        ids[3], ids[4] = 0, ids[1]
    return ids
