"""Mini-batches of stories for decoders: cut to the context, padded on the right, padding never counted.

A story is its ids with BOS (0) in front and EOS (1) at the end. Input row t predicts token t + 1; head k of a
multi-token model predicts token t + 1 + k. The input holds at most `context` tokens, targets may lie one head beyond
it; the last real target of a whole story is EOS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cai_reference.splitmix import RandomBits, shuffle
from cai_reference.text.errors import BatchError


@dataclass(frozen=True)
class StoryBatch:
    """Some stories, uncut; `width` is the length of the input rows."""

    stories: tuple[tuple[int, ...], ...]
    width: int

    @property
    def rows(self) -> int:
        """How many stories there are."""
        return len(self.stories)

    @property
    def flat_ids(self) -> list[int]:
        """The input ids [rows, width], row-major, padded with 0 on the right."""
        ids: list[int] = []
        for story in self.stories:
            inputs = story[: self.width]
            ids.extend(inputs)
            ids.extend([0] * (self.width - len(inputs)))
        return ids

    def targets(self, future: int = 0) -> tuple[list[int], list[int]]:
        """Return the flat positions [rows · width] that have a real target for a head, and these targets."""
        places: list[int] = []
        targets: list[int] = []
        for row, story in enumerate(self.stories):
            for position in range(min(len(story) - 1 - future, self.width)):
                places.append(row * self.width + position)
                targets.append(story[position + 1 + future])
        return places, targets

    @property
    def target_count(self) -> int:
        """How many real targets the first head has."""
        return len(self.targets()[0])


def story_batches(stories: Sequence[tuple[int, ...]], batch_size: int, context: int) -> tuple[StoryBatch, ...]:
    """Cut stories into batches, in order; each batch is as wide as its longest cut story.

    Raises:
        BatchError (zero-batch-size): the batch size is below 1.
    """
    if batch_size < 1:
        raise BatchError("zero-batch-size")
    return tuple(_batch(stories[first : first + batch_size], context) for first in range(0, len(stories), batch_size))


def shuffled_story_batches(
    stories: Sequence[tuple[int, ...]], batch_size: int, context: int, generator: RandomBits, count: int
) -> tuple[StoryBatch, ...]:
    """Return `count` batches: whole epochs one after the other, each shuffled anew by the one generator.

    The last batch of an epoch keeps its true number of stories. Of no stories there are no batches.

    Raises:
        BatchError (zero-batch-size): the batch size is below 1.
    """
    batches: list[StoryBatch] = []
    while stories and len(batches) < count:
        order = list(stories)
        shuffle(order, generator)
        batches.extend(story_batches(order, batch_size, context))
    return tuple(batches[:count])


def _batch(stories: Sequence[tuple[int, ...]], context: int) -> StoryBatch:
    # A whole story needs no row for its last token, which predicts nothing.
    return StoryBatch(tuple(stories), max(min(len(story) - 1, context) for story in stories))
