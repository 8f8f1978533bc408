"""Every kind of model that is trained: made by its configuration, and copied.

A run can so leave its inputs alone and keep an earlier state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter
from cai_reference.models.decoder import Decoder, DecoderConfiguration, LatentSpec
from cai_reference.models.llama import Llama, LlamaConfiguration
from cai_reference.models.neural_ngram import NeuralNgram, NeuralNgramConfiguration
from cai_reference.models.token_shift_draft import DraftConfiguration, TokenShiftDraft
from cai_reference.splitmix import SplitMix64
from cai_reference.training.adamw import AdamW, AdamWState

AnyModel: TypeAlias = NeuralNgram | Decoder | Llama | TokenShiftDraft
AnyConfiguration: TypeAlias = NeuralNgramConfiguration | DecoderConfiguration | LlamaConfiguration | DraftConfiguration


def new_model(configuration: AnyConfiguration) -> AnyModel:
    """Return a model of a configuration, with values of no meaning.

    Raises:
        LayerError: widths, heads or windows do not fit.
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


Model = TypeVar("Model", NeuralNgram, Decoder, Llama, TokenShiftDraft)
"""Any model that is trained."""


@dataclass(frozen=True)
class ParameterSnapshot:
    """A model and its optimiser as they were after a step.

    Values are never written to in place, so nothing needs to be copied here.

    Attributes:
        step: how many updates had been made.
        values: of all parameters, in registry order.
        optimizer: the optimiser's state, its moments included.
    """

    step: int
    values: tuple[Array, ...]
    optimizer: AdamWState

    @classmethod
    def of(cls, step: int, parameters: Sequence[Parameter], optimizer: AdamW) -> ParameterSnapshot:
        """Return the state of these parameters and this optimiser."""
        return cls(step, tuple(parameter.value for parameter in parameters), optimizer.state)

    def matches(self, parameters: Sequence[Parameter]) -> bool:
        """Tell whether parameters have these values, bit for bit."""
        return [values.tobytes() for values in self.values] == [
            parameter.value.tobytes() for parameter in parameters
        ] and [values.shape for values in self.values] == [parameter.shape for parameter in parameters]


def copy_of(model: Model) -> Model:
    """Return a model of the same configuration and values that shares no parameter with it; gradients are zero."""
    copy = type(model).initialize(model.configuration, SplitMix64(0))
    assign_all(copy.parameters, [parameter.value for parameter in model.parameters])
    return copy


def copy_of_optimizer(optimizer: AdamW) -> AdamW:
    """Return an optimiser that goes on from the same state."""
    copy = AdamW(optimizer.configuration, optimizer.groups)
    copy.state = optimizer.state
    return copy


def assign_all(parameters: Sequence[Parameter], values: Sequence[Array]) -> None:
    """Give every parameter its value, in registry order."""
    for parameter, value in zip(parameters, values, strict=True):
        parameter.assign(value)
