"""Stories from a seed: TinyStories-like English with few words and many repeated phrases.

Each story has its own SplitMix64 stream, seeded by the next draw of the seed's stream; so a story depends on the seed
and its number alone, never on how many are asked for. The sentences are this project's own; the idea of stories in the
words of a small child is that of Eldan and Li, "TinyStories" (2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from cai_conformance.stories.errors import NegativeStoryCount
from cai_conformance.stories.plots import BRIEF_PLOTS, PLOTS, Plot
from cai_conformance.stories.vocabulary import CHARACTERS, ELDERS, PLACES, SPOTS, TREES, Character
from cai_reference.splitmix import RandomBits, SplitMix64, below

Choice = TypeVar("Choice")

BRIEF_EVERY: Final = 6


@dataclass(frozen=True)
class Story:
    """A story with what was drawn for it.

    Attributes:
        text: the story on one line.
        plot: the name of its plot.
        hero, friend, elder: who is in it; the friend and the elder of a short story may stay unmentioned.
        goal: what it turns on, as "red ball".
        patterns: the pattern of each part, in order.
    """

    text: str
    plot: str
    hero: Character
    friend: Character
    elder: str
    goal: str
    patterns: tuple[str, ...]


def generate_stories(count: int, seed: int) -> tuple[str, ...]:
    """Return the texts of the first `count` stories of a seed.

    `generate_stories(n, seed)[:m] == generate_stories(m, seed)` for every m up to n. One story in six is very short.

    Raises:
        NegativeStoryCount: `count` is below 0.
        InvalidSeed: the seed is negative or does not fit into 64 bits.
    """
    return tuple(story.text for story in compose_stories(count, seed))


def compose_stories(count: int, seed: int) -> tuple[Story, ...]:
    """Return the first `count` stories of a seed with what was drawn for each.

    Raises:
        NegativeStoryCount: `count` is below 0.
        InvalidSeed: the seed is negative or does not fit into 64 bits.
    """
    if count < 0:
        raise NegativeStoryCount(count)
    seeds = SplitMix64(seed)
    return tuple(_any_story(SplitMix64(seeds.next_u64())) for _ in range(count))


def compose(plot: Plot, draws: RandomBits) -> Story:
    """Return one story of a plot: draw the characters and things first, then one pattern a part."""
    hero = _choose(CHARACTERS, draws)
    friend = _choose([other for other in CHARACTERS if other != hero], draws)
    elder = _choose(ELDERS, draws)
    noun = _choose(plot.goals.nouns, draws)
    goal = f"{_choose(plot.goals.adjectives, draws)} {noun}".strip()
    place = _choose(PLACES, draws)
    gaps = {
        "hero": hero.name,
        "kind": hero.kind,
        "he": hero.subject,
        "him": hero.object,
        "his": hero.possessive,
        "friend": friend.name,
        "fkind": friend.kind,
        "fhim": friend.object,
        "elder": elder,
        "goal": goal,
        "noun": noun,
        "place": place.name,
        "at": f"{place.preposition} {place.name}",
        "spot": _choose(SPOTS, draws),
        "tree": _choose(TREES, draws),
    }
    patterns = tuple(_choose(part, draws) for part in plot.parts)
    text = " ".join(pattern.format_map(gaps) for pattern in patterns)
    return Story(text, plot.name, hero, friend, elder, goal, patterns)


def _any_story(draws: RandomBits) -> Story:
    plots = BRIEF_PLOTS if below(draws, BRIEF_EVERY) == 0 else PLOTS
    return compose(_choose(plots, draws), draws)


def _choose(choices: Sequence[Choice], draws: RandomBits) -> Choice:
    return choices[below(draws, len(choices))]
