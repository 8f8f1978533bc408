"""The plots: which parts follow each other, from an opening over a problem, an attempt and a turn to an ending.

A plot with more parts makes a longer story; that is the only control of length. Which sentence stands for a part, and
who the characters are, is drawn elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cai_conformance.stories import patterns as part
from cai_conformance.stories.vocabulary import FEARS, FLYING, MADE, SMALL_ANIMALS, TOYS, Goals


@dataclass(frozen=True)
class Plot:
    """A name, what the hero can want in it, and the parts in order."""

    name: str
    goals: Goals
    parts: tuple[part.Part, ...]


PLOTS: Final = (
    Plot(
        "lost",
        TOYS,
        (part.OPENING, part.HAS_TOY, part.LOST, part.ASK_FRIEND, part.SEARCH, part.FIND, part.THANKS),
    ),
    Plot(
        "stuck",
        FLYING,
        (part.OPENING, part.HAS_TOY, part.COMPANY, part.STUCK, part.JUMP, part.RESCUE, part.END_TOGETHER),
    ),
    Plot(
        "quarrel",
        TOYS,
        (part.OPENING, part.COMPANY, part.QUARREL, part.PULL, part.SHARE, part.LESSON, part.END_TOGETHER),
    ),
    Plot(
        "afraid",
        FEARS,
        (part.OPENING, part.COMPANY, part.AFRAID, part.COURAGE, part.DARE, part.BRAVE_LESSON, part.END_HOME),
    ),
    Plot(
        "make",
        MADE,
        (part.OPENING, part.WISH, part.MISHAP, part.COMFORT, part.REMAKE, part.GIVE_MADE, part.END_MADE),
    ),
    Plot(
        "animal",
        SMALL_ANIMALS,
        (part.OPENING, part.COMPANY, part.FOUND_ANIMAL, part.FEED, part.TAKE_HOME, part.END_HOME),
    ),
    Plot(
        "rain",
        TOYS,
        (part.OPENING, part.COMPANY, part.RAIN, part.INSIDE, part.SUN, part.END_TOGETHER),
    ),
    Plot(
        "birthday",
        TOYS,
        (part.OPENING, part.COMPANY, part.BIRTHDAY, part.THINK, part.GIVE_GIFT, part.END_TOGETHER),
    ),
)

BRIEF_PLOTS: Final = (
    Plot("brief-lost", TOYS, (part.BRIEF_LOST, part.BRIEF_FIND, part.BRIEF_END)),
    Plot("brief-want", TOYS, (part.BRIEF_WANT, part.BRIEF_GET, part.BRIEF_END)),
    Plot("brief-trip", TOYS, (part.BRIEF_TRIP, part.BRIEF_PLAY, part.BRIEF_JOY)),
)
