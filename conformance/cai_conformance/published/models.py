"""The models of the nine phases at their published size, each made once.

Only shapes are of interest, so nothing is drawn: every matrix is constant, and not zero, so that an array element that
stays zero is one that holds nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from cai_conformance.backends.decoder.plan import PHASES, PUBLISHED_SIZES, Sizes
from cai_reference.arithmetic import Array
from cai_reference.models.decoder import Decoder
from cai_reference.models.decoder_configuration import DecoderConfiguration
from cai_reference.models.token_shift_draft import TokenShiftDraft
from cai_reference.splitmix import SplitMix64

VOCABULARY: Final = 3000
SMALL_VOCABULARY: Final = 8
"""For models of no phase, of which only the caches are counted: none depends on it, nor on the feed-forward layers."""


class Constant(SplitMix64):
    """A generator that costs nothing: every draw is the same."""

    def next_units(self, count: int) -> Array:
        """Return ¾ so many times, so that a matrix is half its limit everywhere."""
        return np.full(count, 0.75)


class Models:
    """Models by phase, 1 to 9, and by configuration."""

    def __init__(self, sizes: Sizes = PUBLISHED_SIZES) -> None:
        self.sizes = sizes
        self._made: dict[DecoderConfiguration, Decoder] = {}

    def of_phase(self, number: int) -> Decoder:
        """Return the decoder of a phase."""
        return self.of(PHASES[number - 1].decoder(self.sizes, VOCABULARY))

    def of_mixers(self, mixers: str) -> Decoder:
        """Return a decoder that is no phase: a letter a block, as in the phases, and nothing else of any size."""
        sizes = replace(self.sizes, feed_forward=1)
        return self.of(replace(PHASES[0], mixers=mixers).decoder(sizes, SMALL_VOCABULARY))

    def of(self, configuration: DecoderConfiguration) -> Decoder:
        """Return the decoder of a configuration."""
        if configuration not in self._made:
            self._made[configuration] = Decoder.initialize(configuration, Constant(0))
        return self._made[configuration]

    def with_still_positions(self, configuration: DecoderConfiguration) -> Decoder:
        """Return a decoder of its own whose rotary keys are zero, as where there are none."""
        model = Decoder.initialize(configuration, Constant(0))
        for parameter in model.parameters:
            if ".rope_key." in parameter.name:
                parameter.assign(np.zeros(parameter.shape))
        return model

    def draft(self) -> TokenShiftDraft:
        """Return the draft of phase 5."""
        return TokenShiftDraft.initialize(PHASES[4].draft_model(self.sizes, VOCABULARY), Constant(0))
