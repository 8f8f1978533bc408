"""A sequence in the calls in which a slot is given it: what is fed, dropped, cleared and copied, in this order.

In text, a number is a call that feeds so many tokens of a prompt, a negative one drops as many, and words do the rest::

    3,-1,2      three tokens in a call, the newest one dropped, two more in a call
    4,clear,4   four tokens, an emptied slot, four more
    4,copy,other,2,other,2
                four tokens in a slot, which is copied; two in the copy, and two in the slot itself
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice, pairwise
from typing import Final, TypeAlias

from cai_conformance.errors import InputError

MOST_TOKENS: Final = 4096
"""A longer prompt is none that somebody shrank."""
LARGEST: Final = 1 << 31
"""No id, and no position, is as large."""


@dataclass(frozen=True)
class Feed:
    """A call that feeds tokens."""

    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Drop:
    """Forget the newest tokens of the slot."""

    count: int


class Turn(StrEnum):
    """What needs no number."""

    CLEAR = "clear"
    """Empty the slot."""
    COPY = "copy"
    """Make the other slot hold what this one holds."""
    OTHER = "other"
    """Go on in the other slot."""


Step: TypeAlias = Feed | Drop | Turn


@dataclass(frozen=True)
class Held:
    """What a slot holds behind one call that feeds.

    Attributes:
        step: the place of the call among the steps.
        tokens: all that the slot then holds.
        fed: how many of them, the newest, were fed by this call.
    """

    step: int
    tokens: tuple[int, ...]
    fed: int


@dataclass(frozen=True)
class Calls:
    """A sequence in calls.

    Attributes:
        steps: in their order; at least one feeds.
        start: the position of the first token.

    Raises:
        InputError (calls-unreadable): a call feeds nothing, more is dropped than is held, or nothing is fed at all.
    """

    steps: tuple[Step, ...]
    start: int = 0

    def __post_init__(self) -> None:
        if not self.holdings():
            raise InputError("calls-unreadable", text=self.text, problem="nothing is fed")
        if not 0 <= self.start < LARGEST:
            raise InputError("calls-unreadable", text=self.text, problem=f"it starts at {self.start}")

    @classmethod
    def at_once(cls, ids: Sequence[int], start: int = 0) -> Calls:
        """Return a sequence in one call."""
        return cls((Feed(tuple(ids)),), start)

    @classmethod
    def cut(cls, ids: Sequence[int], cuts: Sequence[int], start: int = 0) -> Calls:
        """Return a sequence in several calls, cut before some places."""
        bounds = [0, *cuts, len(ids)]
        return cls(tuple(Feed(tuple(ids[first:last])) for first, last in pairwise(bounds)), start)

    @classmethod
    def of(cls, prompt: Sequence[int], text: str, start: int = 0) -> Calls:
        """Read calls; the prompt has to be as long as what they feed.

        Raises:
            InputError (calls-unreadable): they cannot be read, do not fit the prompt, or cannot be made.
        """
        steps: list[Step] = []
        place = 0
        for word in text.replace(" ", "").split(","):
            if word in _TURNS:
                steps.append(Turn(word))
                continue
            count = integer(word, text)
            if count < 0:
                steps.append(Drop(-count))
            else:
                steps.append(Feed(tuple(prompt[place : place + count])))
                place += count
        if place != len(prompt):
            raise InputError(
                "calls-unreadable",
                text=text,
                problem=f"the calls feed {place} tokens, and the prompt has {len(prompt)}",
            )
        return cls(tuple(steps), start)

    @property
    def prompt(self) -> tuple[int, ...]:
        """Everything that is fed, in order."""
        return tuple(token for feed in self.feeds for token in feed.tokens)

    @property
    def feeds(self) -> tuple[Feed, ...]:
        """The calls that feed."""
        return tuple(step for step in self.steps if isinstance(step, Feed))

    @property
    def drops(self) -> bool:
        """Whether something is dropped."""
        return any(isinstance(step, Drop) for step in self.steps)

    @property
    def text(self) -> str:
        """The calls without their tokens, as `of` reads them."""
        return ",".join(map(_word, self.steps))

    def holdings(self) -> tuple[Held, ...]:
        """Return what the slot in use holds behind each call that feeds, if nothing is refused.

        Raises:
            InputError (calls-unreadable): a call feeds nothing, or more is dropped than is held.
        """
        found: list[Held] = []
        slots: list[tuple[int, ...]] = [(), ()]
        slot = 0
        for place, step in enumerate(self.steps):
            if isinstance(step, Feed):
                if not step.tokens:
                    raise InputError("calls-unreadable", text=self.text, problem="a call feeds nothing")
                slots[slot] += step.tokens
                found.append(Held(place, slots[slot], len(step.tokens)))
            elif isinstance(step, Drop):
                if not 0 < step.count <= len(slots[slot]):
                    raise InputError(
                        "calls-unreadable",
                        text=self.text,
                        problem=f"{step.count} tokens are dropped of {len(slots[slot])}",
                    )
                slots[slot] = slots[slot][: -step.count]
            elif step is Turn.CLEAR:
                slots[slot] = ()
            elif step is Turn.COPY:
                slots[1 - slot] = slots[slot]
            else:
                slot = 1 - slot
        return tuple(found)

    def with_ids(self, ids: Sequence[int]) -> Calls:
        """Return the same calls of other tokens, as many."""
        following = iter(ids)
        steps = (
            Feed(tuple(islice(following, len(step.tokens)))) if isinstance(step, Feed) else step for step in self.steps
        )
        return replace(self, steps=tuple(steps))


_TURNS: Final = frozenset(turn.value for turn in Turn)


def read_ids(text: str, option: str = "--prompt") -> tuple[int, ...]:
    """Read ids, separated by commas or blanks.

    Raises:
        InputError (calls-unreadable): there are none, one is no id, or there are too many.
    """
    words = text.replace(",", " ").split()
    if not words or len(words) > MOST_TOKENS:
        raise InputError("calls-unreadable", text=text, problem=f"{option} takes 1 to {MOST_TOKENS} ids")
    found = tuple(integer(word, text) for word in words)
    if min(found) < 0:
        raise InputError("calls-unreadable", text=text, problem="an id is negative")
    return found


def integer(word: str, text: str) -> int:
    """Return a number of moderate size.

    Raises:
        InputError (calls-unreadable): it is none.
    """
    digits = word.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10 and int(digits) < LARGEST):
        raise InputError(
            "calls-unreadable", text=text, problem=f"{word[:20]!r} is none of the numbers and words that are expected"
        )
    return int(word)


def _word(step: Step) -> str:
    if isinstance(step, Feed):
        return str(len(step.tokens))
    return f"-{step.count}" if isinstance(step, Drop) else step.value
