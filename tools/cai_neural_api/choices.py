"""What the command line offers to choose from; nothing heavy is imported here, so that help comes at once."""

from __future__ import annotations

from enum import StrEnum


class SamplerKind(StrEnum):
    """Which tokens stay."""

    GREEDY = "greedy"
    TOP_K = "top-k"
    TOP_P = "top-p"
    MIN_P = "min-p"


class Semantics(StrEnum):
    """What a name means: what the library does, or what everybody else does."""

    LIBRARY = "library"
    STANDARD = "standard"


class TrainerName(StrEnum):
    """Who trains: what imitates the library, or the family's own training."""

    LEGACY = "legacy"
    CLEAN = "clean"
