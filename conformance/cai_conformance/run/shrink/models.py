"""Smaller numbers: to the least, halfway there, and by one step.

The models of cases: a suite's own, or one of its family at another size with drawn weights, as a model folder.

Ways to make a model smaller: vocabulary, layers, what makes layers special, heads, widths, windows.

The width of a model stays the number of heads times their width, as it is in every suite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

import numpy as np

from cai_conformance.backends.engine.given_model import SETTINGS, GivenModel, settings_of
from cai_conformance.fixtures import weight_files
from cai_conformance.fixtures.given_weights import native_file
from cai_conformance.fixtures.inputs import exact_everywhere
from cai_conformance.fixtures.llama_phases import POSITIONS
from cai_conformance.fixtures.weight_files import WeightsLayout
from cai_reference.arithmetic import Array
from cai_reference.models.decoder import AttentionSpec, Decoder, DecoderConfiguration, LatentSpec, MixerSpec, Wiring
from cai_reference.models.llama import Llama, LlamaConfiguration
from cai_reference.splitmix import SplitMix64


def smaller(value: int, least: int, step: int = 1) -> Iterator[int]:
    """Yield smaller numbers down to `least`, all of them some steps above it, the smallest first."""
    halfway = least + (value - least) // 2 // step * step
    for candidate in dict.fromkeys((least, halfway, value - step)):
        if least <= candidate < value:
            yield candidate


Configuration: TypeAlias = DecoderConfiguration | LlamaConfiguration

SPREAD: Final = 0.5
"""By how much vectors are moved: gains of 1 and biases of 0 hide what forgets them."""


@dataclass(frozen=True)
class SmallModel:
    """A model of a suite's family.

    Attributes:
        configuration: its sizes.
        layout: how its file names tensors.
        seed: of its weights; None for the suite's own.
    """

    configuration: Configuration
    layout: WeightsLayout
    seed: int | None = None

    @classmethod
    def of(cls, given: GivenModel) -> SmallModel:
        """Return the model that a suite gives."""
        found = given.model.configuration
        assert isinstance(found, DecoderConfiguration | LlamaConfiguration)
        if isinstance(found, LlamaConfiguration):
            found = replace(found, key_value_heads=found.groups, head_width=found.features)
        return cls(found, given.phase.weights_layout)

    @property
    def layers(self) -> int:
        """How many blocks there are."""
        sizes = self.configuration
        return sizes.layers if isinstance(sizes, LlamaConfiguration) else len(sizes.mixers)

    @property
    def head_width(self) -> int:
        """How many channels a head has."""
        sizes = self.configuration
        return sizes.features if isinstance(sizes, LlamaConfiguration) else sizes.width // sizes.heads

    @property
    def window(self) -> int | None:
        """The narrowest window; None where there is none."""
        sizes = self.configuration
        if isinstance(sizes, LlamaConfiguration):
            return sizes.window
        windows = (spec.window for spec in sizes.mixers if isinstance(spec, AttentionSpec))
        return min((window for window in windows if window is not None), default=None)

    def files(self, given: GivenModel) -> Mapping[str, bytes]:
        """Return the files of its folder, by name.

        Args:
            given: the model of the suite.

        Raises:
            CaiReferenceError: the sizes do not fit each other.
        """
        if self.seed is None:
            return given.files()
        model = _drawn(self.configuration, SplitMix64(self.seed))
        values = {each.name: each.value for each in model.parameters}
        if self.layout is WeightsLayout.HUGGING_FACE:
            assert isinstance(self.configuration, LlamaConfiguration)
            beside = weight_files.model_files(self.configuration, POSITIONS)
            return {self.layout.file: weight_files.write_tensors(values), **beside}
        return {self.layout.file: native_file(values), SETTINGS: f"{settings_of(model)}\n".encode()}


def _drawn(configuration: Configuration, generator: SplitMix64) -> Decoder | Llama:
    """Draw matrices as the suites do, then move every vector, so that none is ones or zeros."""
    model: Decoder | Llama = (
        Llama.initialize(configuration, generator)
        if isinstance(configuration, LlamaConfiguration)
        else Decoder.initialize(configuration, generator)
    )
    for parameter in model.parameters:
        value = parameter.value
        if len(parameter.shape) == 1:
            value = value + _moves(parameter.shape[0], generator)
        parameter.assign(exact_everywhere(value))
    return model


def _moves(count: int, generator: SplitMix64) -> Array:
    return np.array([SPREAD * (2.0 * generator.unit() - 1.0) for _ in range(count)])


ModelReducer: TypeAlias = Callable[[Configuration], Iterator[Configuration]]
Sizes = TypeVar("Sizes", DecoderConfiguration, LlamaConfiguration)

SEEDS: Final = (1, 2, 3)
"""With which weights a model of the same size is drawn; smaller ones have the first of them, or the one that failed."""
LEAST_HEAD: Final = 2
"""Channels come in pairs where they are turned."""


def redrawn(model: SmallModel) -> Iterator[SmallModel]:
    """Yield the model with drawn weights, if it has the suite's own."""
    if model.seed is None:
        for seed in SEEDS:
            yield replace(model, seed=seed)


def of_models(reducer: ModelReducer) -> Callable[[SmallModel], Iterator[SmallModel]]:
    """Return a way to make models smaller: of a smaller size all weights are drawn."""

    def reduced(model: SmallModel) -> Iterator[SmallModel]:
        seed = SEEDS[0] if model.seed is None else model.seed
        for configuration in reducer(model.configuration):
            yield replace(model, configuration=configuration, seed=seed)

    return reduced


def fewer_ids(least: int) -> ModelReducer:
    """Return a way to a smaller vocabulary."""

    def reduced(sizes: Configuration) -> Iterator[Configuration]:
        for vocabulary in smaller(sizes.vocabulary, least):
            yield replace(sizes, vocabulary=vocabulary)

    return reduced


def fewer_layers(sizes: Configuration) -> Iterator[Configuration]:
    """Yield one layer, half of them, or one less; of unlike layers each alone, and all without each."""
    if isinstance(sizes, LlamaConfiguration):
        for layers in smaller(sizes.layers, 1):
            yield replace(sizes, layers=layers)
        return
    count = len(sizes.mixers)
    if count > 1:
        for mixer in dict.fromkeys(sizes.mixers):
            yield replace(sizes, mixers=(mixer,))
        for place in range(count):
            yield replace(sizes, mixers=sizes.mixers[:place] + sizes.mixers[place + 1 :])


def plainer(sizes: Configuration) -> Iterator[Configuration]:
    """Yield the model without a window, without shared keys, with one head of output, without groups, in sequence."""
    if isinstance(sizes, LlamaConfiguration):
        if sizes.window is not None:
            yield replace(sizes, window=None)
        if sizes.groups != sizes.heads:
            yield replace(sizes, key_value_heads=sizes.heads)
        return
    for futures in smaller(sizes.futures, 1):
        yield replace(sizes, futures=futures)
    if sizes.channels_per_group is not None:
        yield replace(sizes, channels_per_group=None)
    if sizes.wiring is not Wiring.SEQUENTIAL:
        yield replace(sizes, wiring=Wiring.SEQUENTIAL)
    yield from _with_mixers(sizes, lambda mixer: iter([AttentionSpec()] if _window(mixer) is not None else []))


def fewer_heads(sizes: Configuration) -> Iterator[Configuration]:
    """Yield fewer heads of keys and values with as many query heads each, then fewer query heads each."""
    if isinstance(sizes, DecoderConfiguration):
        width = sizes.width // sizes.heads
        for heads in smaller(sizes.heads, 1):
            yield replace(sizes, heads=heads, width=heads * width)
        return
    shared = sizes.heads // sizes.groups
    for groups in smaller(sizes.groups, 1):
        yield _llama_heads(sizes, groups, groups * shared)
    for queries in smaller(shared, 1):
        yield _llama_heads(sizes, sizes.groups, sizes.groups * queries)


def narrower_heads(sizes: Configuration) -> Iterator[Configuration]:
    """Yield narrower heads, and with them a narrower model."""
    if isinstance(sizes, DecoderConfiguration):
        for width in smaller(sizes.width // sizes.heads, LEAST_HEAD, 2):
            yield replace(sizes, width=sizes.heads * width)
        return
    for width in smaller(sizes.features, LEAST_HEAD, 2):
        yield replace(sizes, head_width=width, width=sizes.heads * width)


def narrower_feed_forward(sizes: Configuration) -> Iterator[Configuration]:
    """Yield narrower feed-forward layers."""
    for width in smaller(sizes.feed_forward, 1):
        yield replace(sizes, feed_forward=width)


def narrower_mixers(sizes: Configuration) -> Iterator[Configuration]:
    """Yield smaller windows, latents and rotary keys, and smaller groups."""
    if isinstance(sizes, LlamaConfiguration):
        for window in smaller(sizes.window or 1, 1):
            yield replace(sizes, window=window)
        return
    yield from _with_mixers(sizes, _narrower_mixer)
    for channels in smaller(sizes.channels_per_group or 1, 1):
        yield replace(sizes, channels_per_group=channels)


MODEL_REDUCERS: Final[tuple[ModelReducer, ...]] = (
    fewer_layers,
    plainer,
    fewer_heads,
    narrower_heads,
    narrower_feed_forward,
    narrower_mixers,
)
"""All but the vocabulary, in the order in which they are tried."""


def _llama_heads(sizes: LlamaConfiguration, groups: int, heads: int) -> LlamaConfiguration:
    return replace(sizes, heads=heads, key_value_heads=groups, width=heads * sizes.features)


def _with_mixers(
    sizes: DecoderConfiguration, reducer: Callable[[MixerSpec], Iterator[MixerSpec]]
) -> Iterator[DecoderConfiguration]:
    """Yield the model with each kind of mixer made smaller, wherever it stands."""
    for mixer in dict.fromkeys(sizes.mixers):
        for other in reducer(mixer):
            yield replace(sizes, mixers=tuple(other if each == mixer else each for each in sizes.mixers))


def _narrower_mixer(mixer: MixerSpec) -> Iterator[MixerSpec]:
    if isinstance(mixer, AttentionSpec):
        for window in smaller(mixer.window or 1, 1):
            yield replace(mixer, window=window)
    elif isinstance(mixer, LatentSpec):
        for latent in smaller(mixer.latent, 1):
            yield replace(mixer, latent=latent)
        for rope in smaller(mixer.rope, LEAST_HEAD, 2):
            yield replace(mixer, rope=rope)


def _window(mixer: MixerSpec) -> int | None:
    return mixer.window if isinstance(mixer, AttentionSpec) else None
