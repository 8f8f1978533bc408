"""What an engine that trains is asked: ragged batches with repeated ids, and settings in which every term shows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cai_conformance.backends.decoder.given import read_given
from cai_conformance.engines.given_model import GivenModel
from cai_conformance.engines.reference_training import loss_and_gradients
from cai_conformance.engines.tensor_names import file_names
from cai_conformance.engines.training import TrainingBatch, TrainingSettings
from cai_reference.arithmetic import STRICT
from cai_reference.models.registry import decayed_names
from cai_reference.models.stack import DecoderStack
from cai_reference.splitmix import SplitMix64, below
from cai_reference.text import BOS, EOS
from cai_reference.text.story_batches import StoryBatch

LENGTHS: Final = ((12, 6, 9), (5, 11, 10), (9, 5, 7))
"""How many tokens the stories of each batch have: ragged, so that there is padding."""
FIRST_CONTENT: Final = 2
SEED: Final = 301
RATE, BETA_1, BETA_2, EPSILON, DECAY = 0.01, 0.9, 0.99, 1e-4, 0.1
"""Epsilon and decay are large, so that a wrong place for either shows."""


@dataclass(frozen=True)
class TrainingProbe:
    """Batches, one a step, and settings whose decayed tensors have the reference's names."""

    batches: tuple[StoryBatch, ...]
    settings: TrainingSettings
    heads: int

    @classmethod
    def of(cls, given: GivenModel) -> TrainingProbe:
        """Draw batches, and clip at half the first gradient's norm, so that clipping is active."""
        heads = given.sizes.futures if given.phase.futures else 1
        generator, vocabulary = SplitMix64(SEED), given.model.configuration.vocabulary
        batches = tuple(
            StoryBatch(tuple(_story(generator, vocabulary, length) for length in lengths), max(lengths) - 1)
            for lengths in LENGTHS
        )
        first = TrainingBatch.of(batches[0], heads)
        _, gradients = loss_and_gradients(fresh_model(given), first.inputs, first.targets, STRICT)
        norm = float(np.sqrt(sum(float(np.sum(value * value)) for value in gradients.values())))
        decayed = decayed_names(given.model.parameters)
        settings = TrainingSettings(RATE, BETA_1, BETA_2, EPSILON, DECAY, round(norm / 2.0, 3), decayed)
        return cls(batches, settings, heads)

    def rotated(self) -> TrainingProbe:
        """Return the same question with the rows of each batch in another order."""
        batches = tuple(StoryBatch((*each.stories[1:], each.stories[0]), each.width) for each in self.batches)
        return replace(self, batches=batches)

    def batch(self, step: int) -> TrainingBatch:
        """Return the batch of a step, from 0."""
        return TrainingBatch.of(self.batches[step], self.heads)

    def settings_for(self, given: GivenModel) -> TrainingSettings:
        """Return the settings with the names of the model folder's file."""
        return replace(self.settings, decayed=file_names(given.phase.weights_layout, self.settings.decayed))


def fresh_model(given: GivenModel) -> DecoderStack:
    """Return a copy of the reference's model that may be trained."""
    return read_given(given.phase, given.sizes, given.weights)


def _story(generator: SplitMix64, vocabulary: int, length: int) -> tuple[int, ...]:
    """Return BOS, drawn ids of which the last repeats the first, and EOS."""
    drawn = [FIRST_CONTENT + below(generator, vocabulary - FIRST_CONTENT) for _ in range(length - 3)]
    return (BOS, *drawn, drawn[0], EOS)
