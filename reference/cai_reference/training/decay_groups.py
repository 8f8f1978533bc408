"""Which parameters weight decay shrinks, by the ends of their names.

Matrices and the embedding table decay. Gains of norms do not, because a gain of 0 is no more natural than one of 1
(course, chapter 33).
"""

from __future__ import annotations

from collections.abc import Sequence

from cai_reference.autograd import Parameter
from cai_reference.training.adamw import ParameterGroups


def all_but_gains(parameters: Sequence[Parameter]) -> ParameterGroups:
    """Return groups in which everything decays whose name does not end with `.gain`."""
    names = [parameter.name for parameter in parameters]
    gains = tuple(name for name in names if name.endswith(".gain"))
    return ParameterGroups(tuple(name for name in names if name not in gains), gains)


def everything(parameters: Sequence[Parameter]) -> ParameterGroups:
    """Return groups in which everything decays."""
    return ParameterGroups(tuple(parameter.name for parameter in parameters))
