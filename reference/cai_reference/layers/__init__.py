"""Layers: a file each; what all share is here, how a forward pass is observed.

Layers name what they compute, whoever is interested keeps it. A trace records these stages in the order in which they
are computed, so that the first one that differs tells where two implementations part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from cai_reference.autograd import Parameter, Variable

Observe = Callable[[str, Variable], None]
"""Takes the name of a stage and its value."""


class HasParameters(Protocol):
    """What has parameters."""

    def parameters(self) -> Iterator[Parameter]:
        """Yield weights, biases and gains, in registry order."""
        ...


def ignore(name: str, value: Variable) -> None:
    """Keep nothing."""


def within(observe: Observe, prefix: str) -> Observe:
    """Return an observer that puts a prefix before every name."""
    if observe is ignore:
        return ignore
    return lambda name, value: observe(f"{prefix}.{name}", value)
