"""What an engine says about itself before it is given anything."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PRECISIONS: Final = ("float64", "float32", "bfloat16", "float16")
"""The formats of numbers that are judged, from fine to coarse."""

MANTISSA_BITS: Final = {"float64": 52, "float32": 23, "bfloat16": 7, "float16": 10}
"""Stored bits of the significand."""


class Feature(StrEnum):
    """What an engine can do besides loading a model and evaluating tokens. What it lacks is skipped, never passed."""

    DROP = "drop"
    """Forget the newest positions of a slot, or a range of them."""
    COPY = "copy"
    """Copy a slot into another one."""
    OBSERVE = "observe"
    """Show the stages of a forward pass."""
    GENERATE = "generate"
    """Generate by a loop of its own."""
    TRAIN = "train"
    """Take optimiser steps, and show loss, gradients, moments and weights."""
    CHECKPOINT = "checkpoint"
    """Write a training to a directory, and go on from there."""
    POISON = "poison"
    """Fill memory that no position owns with a value."""
    FAIL_AFTER = "fail-after"
    """Raise in the middle of a call, to show that nothing is lost."""


class Nondeterminism(StrEnum):
    """What an engine says that its bits may depend on; each includes the ones before it."""

    NONE = "none"
    """On nothing but the model and the tokens of a slot."""
    SHAPE = "shape"
    """On how many tokens and slots are evaluated in one call."""
    BATCH = "batch"
    """On what the other slots of a call hold."""
    RUN = "run"
    """On chance: two runs may differ."""


@dataclass(frozen=True)
class Precision:
    """In which format an engine keeps what; each is one of `PRECISIONS`."""

    weights: str
    activations: str
    cache: str
    accumulation: str
    logits: str

    @classmethod
    def uniform(cls, name: str) -> Precision:
        """Return one format for everything."""
        return cls(name, name, name, name, name)

    @property
    def coarsest(self) -> str:
        """The coarsest of the five formats."""
        used = (self.weights, self.activations, self.cache, self.accumulation, self.logits)
        return min(used, key=lambda name: MANTISSA_BITS[name])


@dataclass(frozen=True)
class Description:
    """Who an engine is, and what it can do.

    Attributes:
        name: what reports call it.
        version: its own.
        arithmetic: `strict/1` or another arithmetic whose bits are defined, or the coarsest of its formats.
        precision: the formats it computes in.
        precisions: the formats it can be asked to load a model in, finest first; empty if it has no choice.
        nondeterminism: what its bits may depend on.
        features: what it can do.
        arms: the decode arms that it runs by a loop of its own, such as `cached`; empty without `generate`.
        slots: how many sequences it can hold at once.
    """

    name: str
    version: str
    arithmetic: str
    precision: Precision
    precisions: tuple[str, ...] = ()
    nondeterminism: Nondeterminism = Nondeterminism.NONE
    features: frozenset[Feature] = frozenset()
    arms: frozenset[str] = frozenset()
    slots: int = 1
