"""What can go wrong with nets that are asked about, and with what they are asked.

::

    InputError
    └── NetInputError
        ├── SampleDamaged            a measured sample that is not of a known layout, or not sound
        ├── StoriesMissing           gradients without the file that holds their stories
        ├── NothingToVerify          a sample that states nothing that could be verified
        ├── EmptyNetPrompt           a prompt without tokens
        ├── NetPromptTooLong         a prompt that leaves no room in the context
        ├── PromptIdTooLarge         a prompt with an id that the net does not know
        ├── VocabularyTooLarge       a vocabulary with more ids than the net knows
        ├── NetTooLarge              a net that takes too much memory
        ├── DraftDiffers             a draft of another size than its target
        └── InvalidDecodeSetting     a budget or block below 1
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cai_conformance.errors import InputError


@dataclass(eq=False)
class NetInputError(InputError):
    """A net, or what it is asked, cannot be used."""


@dataclass(eq=False)
class SampleDamaged(NetInputError):
    """A file of measurements is no JSON, of no known layout, or holds what a measurement cannot be."""

    template: ClassVar[str] = "{path}: {problem}"
    path: str
    problem: str


@dataclass(eq=False)
class StoriesMissing(NetInputError):
    """Gradients alone do not say what they are gradients of."""

    template: ClassVar[str] = "{path} holds gradients, but not the stories that they are of; {wanted} is not beside it"
    hint: ClassVar[str] = "put {wanted} beside it"
    path: str
    wanted: str


@dataclass(eq=False)
class NothingToVerify(NetInputError):
    """A sample that states nothing has not been verified."""

    template: ClassVar[str] = "{path} states nothing that could be verified"
    path: str


@dataclass(eq=False)
class EmptyNetPrompt(NetInputError):
    """A prompt without tokens. `number` counts from 1."""

    template: ClassVar[str] = "prompt {number} has no tokens"
    number: int


@dataclass(eq=False)
class NetPromptTooLong(NetInputError):
    """A prompt that fills the context leaves nothing to generate. `number` counts from 1."""

    template: ClassVar[str] = "prompt {number} has {tokens} tokens, which leaves none of the context of {context}"
    number: int
    tokens: int
    context: int


@dataclass(eq=False)
class PromptIdTooLarge(NetInputError):
    """A prompt holds an id that the net does not know. `number` counts from 1, positions from 0."""

    template: ClassVar[str] = (
        "prompt {number}, position {position}: id {token} is not among the {vocabulary} of the net"
    )
    number: int
    position: int
    token: int
    vocabulary: int


@dataclass(eq=False)
class VocabularyTooLarge(NetInputError):
    """The net was trained with another vocabulary: it has no rows for some of the ids."""

    template: ClassVar[str] = "the vocabulary has {given} ids, the net knows {known}: it belongs to another net"
    given: int
    known: int


@dataclass(eq=False)
class NetTooLarge(NetInputError):
    """A net with such a context would take more memory than anybody wants to spend on it, both in GiB."""

    template: ClassVar[str] = "running a net with a context of {context:,} takes {needed:,} GiB, more than {most}"
    context: int
    needed: int
    most: int


@dataclass(eq=False)
class DraftDiffers(NetInputError):
    """A draft must know exactly the ids of its target, and as long a context where it reads all of it."""

    template: ClassVar[str] = "the draft has {draft} {what}, the net {target}: they cannot work together"
    what: str
    draft: int
    target: int


@dataclass(eq=False)
class InvalidDecodeSetting(NetInputError):
    """A number of tokens that makes no sense."""

    template: ClassVar[str] = "{name} must be 1 or more, not {value}"
    name: str
    value: int
