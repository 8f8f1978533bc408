"""The models of cases: a suite's own, or one of its family at another size with drawn weights, as a model folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from cai_conformance.backends.decoder import hugging_face
from cai_conformance.backends.decoder.given import native_file
from cai_conformance.backends.decoder.llama_plan import POSITIONS
from cai_conformance.backends.decoder.weights_layout import WeightsLayout
from cai_conformance.engines.given_model import SETTINGS, GivenModel, settings_of
from cai_conformance.suites.rounding import exact_everywhere
from cai_reference.arithmetic import Array
from cai_reference.models.decoder import Decoder
from cai_reference.models.decoder_configuration import AttentionSpec, DecoderConfiguration
from cai_reference.models.llama import Llama
from cai_reference.models.llama_configuration import LlamaConfiguration
from cai_reference.splitmix import SplitMix64

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
            beside = hugging_face.model_files(self.configuration, POSITIONS)
            return {self.layout.file: hugging_face.write_tensors(values), **beside}
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
