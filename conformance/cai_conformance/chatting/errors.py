"""What can go wrong before a text is continued.

::

    InputError
    └── ChatInputError
        ├── UnsuitableNet         a net that cannot continue texts
        ├── UnusablePrompt        a prompt that the tokenizer or the net cannot take
        ├── PromptFillsContext    a prompt that leaves no room for a token
        ├── EmptyStopText         a text to stop at that is everywhere
        ├── SettingUnused         an option that the chosen sampler does not look at
        └── SeedBeyondGenerator   a seed that the generator would cut
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.errors import InputError


@dataclass(eq=False)
class ChatInputError(InputError):
    """A text cannot be continued."""


@dataclass(eq=False)
class UnsuitableNet(ChatInputError):
    """The net is no language model for this, whatever the prompt."""

    template = "{path!r} cannot continue a text: {problem}"
    path: str
    problem: str


@dataclass(eq=False)
class UnusablePrompt(ChatInputError):
    """The tokenizer or the net cannot take the prompt."""

    template = "the prompt cannot be continued: {problem}"
    problem: str


@dataclass(eq=False)
class PromptFillsContext(ChatInputError):
    """There is no room for a token behind the prompt."""

    template = "the prompt is too long: it has {tokens} tokens, and the net has room for {most} and one to come"
    tokens: int
    most: int


@dataclass(eq=False)
class EmptyStopText(ChatInputError):
    """An empty text stands before every other one."""

    template = "a text to stop at cannot be empty"


@dataclass(eq=False)
class SettingUnused(ChatInputError):
    """An option without an effect is a misunderstanding."""

    template = "{option} has no effect on {chosen}"
    option: str
    chosen: str


@dataclass(eq=False)
class SeedBeyondGenerator(ChatInputError):
    """The library takes the low 32 bits of a seed."""

    template = "seed {seed} is too large for the library's generator; the largest is {largest}"
    seed: int
    largest: int
