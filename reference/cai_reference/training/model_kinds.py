"""Every kind of model that is trained, by its configuration."""

from __future__ import annotations

from typing import TypeAlias

from cai_reference.models import NeuralNgram, NeuralNgramConfiguration
from cai_reference.models.decoder import Decoder
from cai_reference.models.decoder_configuration import DecoderConfiguration, DraftConfiguration
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
