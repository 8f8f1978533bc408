"""How the vector cases write settings of samplers, logits and draws down: doubles as sixteen hex digits."""

from __future__ import annotations

from collections.abc import Iterable

from cai_conformance.vectors import Json
from cai_reference.arithmetic import hex_bits


def settings(
    temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0, min_p: float = 0.0
) -> dict[str, Json]:
    """Return the settings of a sampler; null keeps all ids."""
    return {
        "temperature": hex_bits(temperature),
        "top_k": top_k,
        "top_p": hex_bits(top_p),
        "min_p": hex_bits(min_p),
    }


def doubles(values: Iterable[float]) -> list[Json]:
    """Return doubles as sixteen hex digits each."""
    return [hex_bits(value) for value in values]
