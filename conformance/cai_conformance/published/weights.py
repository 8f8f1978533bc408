"""How many weights the published models have: totals of the phases, and what phases 7 and 9 save.

The published totals leave out biases; how many there are follows from the published layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cai_conformance.published.figure import BAKE_OFF, DERIVED, Figure, percent
from cai_conformance.published.models import Models
from cai_reference.autograd import Parameter
from cai_reference.models.registry import parameter_count, weight_count

PHASES: Final = {
    1: (1_309_700, 6_456),
    2: (2_077_700, 12_456),
    3: (1_245_188, 5_944),
    4: (1_287_172, 6_664),
    5: (1_309_700, 6_456),
    6: (1_496_582, 7_712),
    7: (541_574, 8_992),
    8: (1_309_700, 6_456),
    9: (1_309_186, 6_456),
}
DRAFT: Final = (976_448, 3_256)


def weight_figures(models: Models) -> Iterator[Figure]:
    """Count the weights and biases of every model, and compare dense with grouped, sequential with parallel."""
    counted: dict[int, int] = {}
    for phase, published in PHASES.items():
        parameters = models.of_phase(phase).parameters
        counted[phase] = weight_count(parameters)
        yield from _totals(f"phase {phase}, {'target' if phase == 5 else 'model'}", parameters, published)
        if phase == 5:
            yield from _totals("phase 5, draft", models.draft().parameters, DRAFT)
    grouped, dense = counted[7], counted[6]
    yield Figure(BAKE_OFF, "phase 7, of phase 6", "%", 36.2, percent(grouped, dense))
    yield Figure(BAKE_OFF, "phase 7, smaller than phase 6", "times", 2.76, round(dense / grouped, 2))
    yield Figure(BAKE_OFF, "phase 9, fewer than phase 1", "weights", 514, counted[1] - counted[9])


def _totals(name: str, parameters: Sequence[Parameter], published: tuple[int, int]) -> Iterator[Figure]:
    weights, biases = published
    counted = weight_count(parameters)
    yield Figure(BAKE_OFF, name, "weights", weights, counted)
    yield Figure(DERIVED, name, "biases", biases, parameter_count(parameters) - counted)
