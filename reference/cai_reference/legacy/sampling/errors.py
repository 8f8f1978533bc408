"""Errors of the samplers: rows that are no probabilities, and settings that leave nothing to choose from."""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.legacy.errors import LegacyError


class LegacySamplingError(LegacyError):
    """No token can be chosen."""


@dataclass(eq=False)
class SamplingRowShape(LegacySamplingError):
    """What was given is not one row."""

    template = "probabilities of shape {shape} are not one row"
    shape: tuple[int, ...]


@dataclass(eq=False)
class EmptySamplingRow(LegacySamplingError):
    """A row holds no token."""

    template = "a row without tokens leaves nothing to choose"


@dataclass(eq=False)
class NotAProbability(LegacySamplingError):
    """A value is negative, above 1 or not a number."""

    template = "token {token_id} has probability {value}, which is none"
    token_id: int
    value: float


@dataclass(eq=False)
class NothingProbable(LegacySamplingError):
    """Every probability is zero, for the library as float32."""

    template = "all {size} probabilities are zero"
    size: int


@dataclass(eq=False)
class TopKTooSmall(LegacySamplingError):
    """Fewer than one token would be left."""

    template = "top-k with k = {k} keeps no token; k must be at least 1"
    k: int


@dataclass(eq=False)
class TopKBeyondRow(LegacySamplingError):
    """The library would choose from memory behind the row."""

    template = "top-k with k = {k} reads past a row of {size} tokens"
    k: int
    size: int


@dataclass(eq=False)
class TopPOutOfRange(LegacySamplingError):
    """A bound on a sum of probabilities lies in (0, 1]."""

    template = "top-p with p = {p} does not exist; p must be above 0 and at most 1"
    p: float


@dataclass(eq=False)
class MinPOutOfRange(LegacySamplingError):
    """A share of the largest probability lies in (0, 1]."""

    template = "min-p with q = {q} does not exist; q must be above 0 and at most 1"
    q: float


@dataclass(eq=False)
class TemperatureOutOfRange(LegacySamplingError):
    """Probabilities cannot be raised to the power of one by this."""

    template = "temperature {temperature} does not exist; it must be finite and above 0"
    temperature: float
