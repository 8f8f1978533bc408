"""What a sampler is told: temperature, top-k, top-p, min-p."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cai_reference.decoding.sampling.errors import InvalidMinP, InvalidTemperature, InvalidTopK, InvalidTopP
from cai_reference.text.tokenizer import MAXIMUM_IDS


@dataclass(frozen=True)
class SamplingSettings:
    """How logits become a distribution; every default keeps all.

    Attributes:
        temperature: divides the logits; 0 takes the largest logit and draws nothing.
        top_k: keep so many ids; None for all.
        top_p: keep the shortest run of the likeliest ids that has at least this mass; 1 for all.
        min_p: keep ids that have at least this part of the largest probability; 0 for all.

    Raises:
        InvalidTemperature, InvalidTopK, InvalidTopP, InvalidMinP: looked for in this order.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0.0):
            raise InvalidTemperature(self.temperature)
        self.check_vocabulary(MAXIMUM_IDS)
        if not 0.0 < self.top_p <= 1.0:
            raise InvalidTopP(self.top_p)
        if not 0.0 <= self.min_p <= 1.0:
            raise InvalidMinP(self.min_p)

    @property
    def greedy(self) -> bool:
        """Whether the largest logit is taken, without chance."""
        return self.temperature == 0.0

    def check_vocabulary(self, vocabulary: int) -> None:
        """Refuse a top-k beyond a vocabulary; whoever knows its size may ask before any other work.

        Raises:
            InvalidTopK: more ids are to be kept than there are.
        """
        if self.top_k is not None and not 1 <= self.top_k <= vocabulary:
            raise InvalidTopK(self.top_k, vocabulary)
