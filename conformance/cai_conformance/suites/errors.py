"""Errors of selecting suites and checks."""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.errors import InputError, SelectionError


@dataclass(eq=False)
class UnknownSuite(SelectionError):
    """No suite id ends like this."""

    template = "suite {name!r} is unknown; known are {known}"
    hint = "cai-conform list"
    name: str
    known: str


@dataclass(eq=False)
class AmbiguousSuite(SelectionError):
    """Several suite ids end like this."""

    template = "suite {name!r} could be any of {candidates}"
    hint = "cai-conform list"
    name: str
    candidates: str


@dataclass(eq=False)
class NothingSelected(SelectionError):
    """A filter matches no check."""

    template = "no check matches -k {expression!r}"
    hint = "cai-conform list"
    expression: str


@dataclass(eq=False)
class InvalidExpression(SelectionError):
    """A filter cannot be read."""

    template = "-k {expression!r} cannot be read: {problem}"
    hint = "cai-conform run -k 'golden and not bits'"
    expression: str
    problem: str


@dataclass(eq=False)
class UnknownProfile(SelectionError):
    """A suite has no such profile."""

    template = "profile {profile!r} is unknown; {suite} has {known}"
    profile: str
    suite: str
    known: str


@dataclass(eq=False)
class UnknownLevel(SelectionError):
    """No level has this name."""

    template = "level {name!r} is unknown; known are {known}"
    name: str
    known: str


@dataclass(eq=False)
class UnknownCheck(SelectionError):
    """An id names neither a suite nor a check."""

    template = "{name!r} names no suite and no check"
    hint = "cai-conform list"
    name: str


@dataclass(eq=False)
class UnusedInput(InputError):
    """A file was given that none of the chosen suites can use."""

    template = "{option} is of no use to {suites}"
    hint = "cai-conform list"
    option: str
    suites: str


@dataclass(eq=False)
class IncompleteInput(InputError):
    """A corpus was given without its manifest, or the other way round."""

    template = "{given} needs {missing} beside it"
    hint = "cai-conform run --corpus CORPUS.json --splits SPLITS.json"
    given: str
    missing: str
