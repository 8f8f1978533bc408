"""Samplers by the names that users know, each with the generator that belongs to it, and a record of what it drew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

import numpy as np

from cai_conformance.chatting.errors import SeedBeyondGenerator, SettingUnused
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.legacy.mersenne import MASK_32, MersenneTwister
from cai_reference.legacy.sampling import (
    LibraryGreedy,
    LibraryMinP,
    LibraryTopK,
    LibraryTopP,
    Sampler,
    StandardSampler,
)
from cai_reference.legacy.sampling.errors import TopKBeyondRow
from cai_reference.splitmix import SplitMix64

Draw: TypeAlias = int | float
Number = TypeVar("Number", int, float)

DEFAULT_K: Final = 40
DEFAULT_P: Final = 0.9
DEFAULT_Q: Final = 0.1


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


@dataclass(frozen=True)
class SamplerSettings:
    """A sampler as somebody asks for it; None stands for what was not said.

    Attributes:
        kind, semantics, seed: which sampler, whose, and where its generator starts.
        k, p, q: of top-k, top-p and min-p.
        temperature: of the standard samplers but greedy.

    Raises:
        SettingUnused: a number is given that the sampler does not look at.
        SeedBeyondGenerator: the seed does not fit into the 32 bits of the library's generator.
    """

    kind: SamplerKind = SamplerKind.GREEDY
    semantics: Semantics = Semantics.LIBRARY
    k: int | None = None
    p: float | None = None
    q: float | None = None
    temperature: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        numbers = {
            SamplerKind.TOP_K: ("--k", self.k),
            SamplerKind.TOP_P: ("--p", self.p),
            SamplerKind.MIN_P: ("--q", self.q),
        }
        for kind, (option, value) in numbers.items():
            if value is not None and kind is not self.kind:
                raise SettingUnused(option, f"--sampler {self.kind}")
        if self.temperature is not None:
            if self.kind is SamplerKind.GREEDY:
                raise SettingUnused("--temperature", "--sampler greedy")
            if self.semantics is Semantics.LIBRARY:
                raise SettingUnused("--temperature", "the library's samplers; --semantics standard has one")
        if self.semantics is Semantics.LIBRARY and self.seed > MASK_32:
            raise SeedBeyondGenerator(self.seed, MASK_32)


@dataclass(frozen=True)
class Drawing:
    """A sampler, and the numbers that its generator has given it so far, in order.

    Those of the library are words of 32 bits, the standard ones doubles in [0, 1).
    """

    sampler: Sampler
    draws: list[Draw] = field(default_factory=list)

    @classmethod
    def of(cls, settings: SamplerSettings, vocabulary: int, arithmetic: Arithmetic) -> Drawing:
        """Make a sampler for rows of a net; its generator starts at the seed.

        Raises:
            TopKTooSmall, TopPOutOfRange, MinPOutOfRange, TemperatureOutOfRange: a number is out of range.
            TopKBeyondRow: the library's top-k would read past a row.
            InvalidSeed: the seed does not fit into 64 bits.
        """
        draws: list[Draw] = []
        if settings.semantics is Semantics.LIBRARY:
            return cls(_library(settings, vocabulary, draws.append), draws)
        return cls(_standard(settings, arithmetic, draws.append), draws)


class _RecordingTwister(MersenneTwister):
    """The library's generator, overheard."""

    def __init__(self, seed: int, record: Callable[[Draw], None]) -> None:
        super().__init__(seed)
        self._record = record

    def next_u32(self) -> int:
        """Return the next 32 bits, and record them."""
        word = super().next_u32()
        self._record(word)
        return word


class _RecordingSplitMix(SplitMix64):
    """SplitMix64, overheard."""

    def __init__(self, seed: int, record: Callable[[Draw], None]) -> None:
        super().__init__(seed)
        self._record = record

    def unit(self) -> float:
        """Return a double in [0, 1), and record it."""
        unit = super().unit()
        self._record(unit)
        return unit


class _Largest:
    """The largest probability as a double; the first of equal ones. The library compares singles."""

    def choose(self, row: Array) -> int:
        """Return the token."""
        return int(np.argmax(row))


def _library(settings: SamplerSettings, vocabulary: int, record: Callable[[Draw], None]) -> Sampler:
    generator = _RecordingTwister(settings.seed, record)
    if settings.kind is SamplerKind.TOP_K:
        sampler = LibraryTopK(_or(settings.k, DEFAULT_K), generator)
        if sampler.k > vocabulary:
            raise TopKBeyondRow(sampler.k, vocabulary)
        return sampler
    if settings.kind is SamplerKind.TOP_P:
        return LibraryTopP(_or(settings.p, DEFAULT_P), generator)
    if settings.kind is SamplerKind.MIN_P:
        return LibraryMinP(_or(settings.q, DEFAULT_Q), generator)
    return LibraryGreedy()


def _standard(settings: SamplerSettings, arithmetic: Arithmetic, record: Callable[[Draw], None]) -> Sampler:
    generator = _RecordingSplitMix(settings.seed, record)
    if settings.kind is SamplerKind.GREEDY:
        return _Largest()
    return StandardSampler(
        generator,
        1.0 if settings.temperature is None else settings.temperature,
        _or(settings.k, DEFAULT_K) if settings.kind is SamplerKind.TOP_K else None,
        _or(settings.p, DEFAULT_P) if settings.kind is SamplerKind.TOP_P else None,
        _or(settings.q, DEFAULT_Q) if settings.kind is SamplerKind.MIN_P else None,
        arithmetic,
    )


def _or(given: Number | None, default: Number) -> Number:
    return default if given is None else given
