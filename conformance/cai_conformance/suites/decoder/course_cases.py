"""The vector cases of the course's decoder about its optimiser: clipping by one norm, scheduled rates, undecayed gains.

Weights and gradients are drawn; every setting is one at which a wrong order of operations shows.
"""

from __future__ import annotations

from collections.abc import Iterator

from cai_conformance.suites.decoder.sampling_inputs import doubles
from cai_conformance.vectors import Json, VectorCase
from cai_reference.arithmetic import hex_bits
from cai_reference.splitmix import SplitMix64

SHAPES = {"matrix.weight": 6, "norm.gain": 3}
"""Two parameters, by name, and how many values each has; gains do not decay."""


def course_cases() -> tuple[VectorCase, ...]:
    """Return all cases, in the order in which they are answered."""
    return tuple(_updates())


def _updates() -> Iterator[VectorCase]:
    yield _case(
        "clipped", 0.35, 1.0, "each tensor is clipped by itself, by the squared norm, or by a norm plus epsilon"
    )
    yield _case("kept", 100.0, 1.0, "gradients within the limit are scaled, too")
    yield _case("tiny", 1e-3, 1e-160, "squares of small gradients underflow, so that they have no norm")
    yield _case("large", 0.35, 1e160, "squares of large gradients overflow")


def _case(name: str, limit: float, size: float, sees: str) -> VectorCase:
    generator = SplitMix64(401)

    def drawn(count: int, factor: float) -> list[Json]:
        return doubles(factor * (2.0 * generator.unit() - 1.0) for _ in range(count))

    weights: dict[str, Json] = {parameter: drawn(count, 1.0) for parameter, count in SHAPES.items()}
    gradients: list[Json] = [{parameter: drawn(count, size) for parameter, count in SHAPES.items()} for _ in range(3)]
    given: dict[str, Json] = {
        "weights": weights,
        "gradients": gradients,
        "rates": doubles((0.04, 0.025, 0.015)),
        "maximum_norm": hex_bits(limit),
        "beta1": hex_bits(0.9),
        "beta2": hex_bits(0.999),
        "epsilon": hex_bits(1e-4),
        "weight_decay": hex_bits(0.1),
    }
    return VectorCase(name, "opt.step", "course.update", given, sees)
