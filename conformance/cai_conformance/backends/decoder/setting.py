"""What the reference's answers to vector cases have in common: the input of a case, and the given model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from cai_conformance.backends.decoder.given import read_given
from cai_conformance.backends.decoder.phases import DecodePhase
from cai_conformance.backends.decoder.sizes import Sizes
from cai_conformance.vectors import Answer
from cai_reference.arithmetic import Arithmetic
from cai_reference.decoding.generation import StreamingPath
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.models.stack import DecoderStack

Input: TypeAlias = Mapping[str, Any]  # JSON: what each operation expects is what its cases hold


@dataclass(frozen=True)
class DecoderSetting:
    """What an operation may use besides its input."""

    phase: DecodePhase
    sizes: Sizes
    arithmetic: Arithmetic
    weights: bytes

    def model(self, *, tied: bool = False) -> DecoderStack:
        """Return the suite's model with the given weights."""
        return _given_model(self.phase, self.sizes, self.weights, tied)

    def session(self, model: DecoderStack, start: int = 0, latent: LatentCache = LatentCache.HEADS) -> Session:
        """Open a session that can be rolled back by a block."""
        return Session(model, self.arithmetic, SessionOptions(start=start, slack=self.sizes.slack, latent=latent))

    def streaming(self, model: DecoderStack, latent: LatentCache = LatentCache.HEADS) -> StreamingPath:
        """Open a session and the path through it."""
        return StreamingPath(self.session(model, latent=latent))


Operation: TypeAlias = Callable[[Input, DecoderSetting], Answer]


@lru_cache(maxsize=4)
def _given_model(phase: DecodePhase, sizes: Sizes, weights: bytes, tied: bool) -> DecoderStack:
    return read_given(phase, sizes, weights, tied=tied)
