"""What every trained model offers: its parameters in registry order, and how they are counted.

`parameters` counts every trained scalar. `weights` leaves out biases of projections, as the published totals do;
vectors of normalisations and recurrences are counted by both.
"""

from __future__ import annotations

from collections.abc import Sequence

from cai_reference.autograd import Parameter


def parameter_count(parameters: Sequence[Parameter]) -> int:
    """Return how many scalars are trained."""
    return sum(parameter.value.size for parameter in parameters)


def weight_count(parameters: Sequence[Parameter]) -> int:
    """Return how many scalars are trained, biases of projections left out."""
    return sum(parameter.value.size for parameter in parameters if not parameter.name.endswith(".bias"))


def decayed_names(parameters: Sequence[Parameter]) -> tuple[str, ...]:
    """Return the names of the matrices, which are the ones that weight decay shrinks."""
    return tuple(parameter.name for parameter in parameters if parameter.name.endswith(".weight"))
