"""Every kind of model that is trained, by its configuration."""

from __future__ import annotations

from typing import TypeAlias

from cai_reference.models import NeuralNgram, NeuralNgramConfiguration
from cai_reference.models.decoder import Decoder
from cai_reference.models.decoder_configuration import DecoderConfiguration, DraftConfiguration, LatentSpec
from cai_reference.models.llama import Llama
from cai_reference.models.llama_configuration import LlamaConfiguration
from cai_reference.models.token_shift_draft import TokenShiftDraft
from cai_reference.splitmix import SplitMix64

AnyModel: TypeAlias = NeuralNgram | Decoder | Llama | TokenShiftDraft
AnyConfiguration: TypeAlias = NeuralNgramConfiguration | DecoderConfiguration | LlamaConfiguration | DraftConfiguration


def new_model(configuration: AnyConfiguration) -> AnyModel:
    """Return a model of a configuration, with values of no meaning.

    Raises:
        MixerError: widths, heads or windows do not fit.
    """
    generator = SplitMix64(0)
    if isinstance(configuration, NeuralNgramConfiguration):
        return NeuralNgram.initialize(configuration, generator)
    if isinstance(configuration, DecoderConfiguration):
        return Decoder.initialize(configuration, generator)
    if isinstance(configuration, LlamaConfiguration):
        return Llama.initialize(configuration, generator)
    return TokenShiftDraft.initialize(configuration, generator)


def least_weights(configuration: AnyConfiguration) -> int:
    """Return a number of weights that a model of these sizes has at least, without making one.

    Sizes that were read from somewhere are compared with what came with them by this, so that no size makes an array
    that nothing could have filled. For a neural n-gram and for Llama models it is their exact number.
    """
    sizes = configuration
    if isinstance(sizes, NeuralNgramConfiguration):
        return sizes.parameters
    if isinstance(sizes, DraftConfiguration):
        return sizes.vocabulary * sizes.width + sizes.width * sizes.hidden + sizes.hidden * sizes.vocabulary
    table, inner = sizes.vocabulary * sizes.width, sizes.feed_forward
    if isinstance(sizes, LlamaConfiguration):
        queries, keys = sizes.heads * sizes.features, sizes.groups * sizes.features
        layer = sizes.width * (2 * queries + 2 * keys) + 3 * sizes.width * inner + 2 * sizes.width
        return table * (1 if sizes.tied else 2) + sizes.layers * layer + sizes.width
    # A grouped map has for each output at least the inputs of the smallest group.
    inputs = min(sizes.width, sizes.channels_per_group or sizes.width)
    latents = sum(
        sizes.width * (3 * mixer.latent + (sizes.heads + 1) * mixer.rope)
        for mixer in sizes.mixers
        if isinstance(mixer, LatentSpec)
    )
    outputs = sizes.width + sizes.futures * sizes.vocabulary
    return table + len(sizes.mixers) * inner * inputs + latents + outputs * inputs
