"""The phases whose models are Llama models: what real engines run, and the decoder of the course."""

from __future__ import annotations

from typing import Final

from cai_conformance.backends.decoder.phases import DecodePhase

LLAMA_PHASES: Final[tuple[DecodePhase, ...]] = ()
