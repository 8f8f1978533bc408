"""Who and what the stories are about: characters, goals and places.

The words of the sentences themselves stand with the patterns. All is lower case. Every word that follows "a" begins
with a consonant, so that no sentence has to choose between "a" and "an". Grown-ups have no pronoun of their own: every
"he" and "she" of a story is its hero or the hero's friend.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Character:
    """A hero or friend: a name, what they are ("girl"), and the pronouns they keep."""

    name: str
    kind: str
    subject: str
    object: str
    possessive: str


@dataclass(frozen=True)
class Goals:
    """What a hero can want in one kind of plot: any adjective before any noun; an empty adjective stands for none."""

    adjectives: tuple[str, ...]
    nouns: tuple[str, ...]


@dataclass(frozen=True)
class Place:
    """A place, as in "went to the park" and "played in the park"."""

    name: str
    preposition: str


def _he(name: str, kind: str) -> Character:
    return Character(name, kind, "he", "him", "his")


def _she(name: str, kind: str) -> Character:
    return Character(name, kind, "she", "her", "her")


CHARACTERS: Final = (
    _he("tom", "boy"),
    _he("ben", "boy"),
    _she("lily", "girl"),
    _she("mia", "girl"),
    _she("sue", "girl"),
    _he("max", "dog"),
    _she("kitty", "cat"),
    _he("bobo", "bear"),
    _she("dot", "duck"),
    _he("pip", "fox"),
)

ELDERS: Final = ("mom", "dad", "grandma", "grandpa")

COLOURS: Final = ("red", "blue", "green", "yellow", "big")
TOYS: Final = Goals(COLOURS, ("ball", "car", "hat", "drum", "doll", "boat", "truck", "bell"))
FLYING: Final = Goals(COLOURS, ("ball", "kite", "hat"))
MADE: Final = Goals(("big", "nice", "pretty"), ("cake", "card", "kite", "boat", "pie", "castle"))
SMALL_ANIMALS: Final = Goals(("little", "small"), ("bird", "mouse", "frog", "bunny", "lamb", "turtle"))
FEARS: Final = Goals(("",), ("the dark", "the big slide", "the water", "the tall hill", "the old bridge"))

PLACES: Final = (
    Place("the park", "in"),
    Place("the garden", "in"),
    Place("the forest", "in"),
    Place("the farm", "at"),
    Place("the beach", "at"),
    Place("the lake", "by"),
    Place("the river", "by"),
    Place("the school", "by"),
)

SPOTS: Final = (
    "under the tree",
    "behind the tree",
    "in the tall grass",
    "behind a rock",
    "under a bench",
    "under a leaf",
)

TREES: Final = ("the tall tree", "the old tree", "the big tree")
