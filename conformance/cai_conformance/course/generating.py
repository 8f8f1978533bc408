"""Sampled generation as the course does it: temperature, top-k, and limits of the model's positions (chapter 36).

A prompt may fill all positions, and the last token that is chosen may lack one: nothing is predicted from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.decoding.generation import DecoderStop, Limits, Path, ReencodingPath
from cai_reference.decoding.sampling import SampledGeneration, SamplingSettings, sample_generation
from cai_reference.models.llama import Llama
from cai_reference.models.llama_configuration import LlamaConfiguration
from cai_reference.splitmix import SplitMix64

GENERATED: Final = 4
"""How many new tokens chapters 36 and 38 allow."""

SETTINGS: Final = SamplingSettings(1.0, 3)
"""Temperature and top-k of chapters 36 and 38."""

STOPS: Final = {DecoderStop.EOS: "eos", DecoderStop.LIMIT: "token-limit", DecoderStop.CONTEXT: "context-limit"}
"""What the course calls the reasons to stop."""


class PrefixPath(ReencodingPath):
    """Encodes the whole sequence every time, and notes how long it was."""

    def __init__(self, model: Llama, arithmetic: Arithmetic) -> None:
        super().__init__(model, arithmetic)
        self.prefixes: list[int] = []

    def after(self, ids: Sequence[int], newest: int) -> list[Array]:
        """Encode all of `ids` and return the last rows."""
        self.prefixes.append(len(ids))
        return super().after(ids, newest)


def decisions(generation: SampledGeneration) -> tuple[object, ...]:
    """Return what two paths have to agree on: tokens, numbers drawn, intervals, and why it ended."""
    return generation.stop, [(choice.token, choice.unit, choice.interval) for choice in generation.choices]


def sampled(
    path: Path,
    sizes: LlamaConfiguration,
    prompt: Sequence[int],
    eos: int | None,
    generator: SplitMix64,
    arithmetic: Arithmetic,
    settings: SamplingSettings = SETTINGS,
    new_tokens: int = GENERATED,
) -> SampledGeneration:
    """Continue a prompt."""
    limits = Limits(eos, new_tokens, sizes.context + 1)
    return sample_generation(path, prompt, limits, settings, generator, arithmetic)
