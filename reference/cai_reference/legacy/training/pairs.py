"""Training pairs as the library's programs make them, and the ids that its embedding remembers.

A story s becomes the input s[0 … cut−1], cut to the context and padded with id 0. With one head, row t has the target
s[t+1]; **every row without a following token, padding included, has the target 0**, and none is masked. With several
heads, head h of row t has the target s[t+1+h], rows beyond the cut and targets beyond the end have none, and their
outputs are pushed towards 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cai_reference.legacy.training.errors import EmptyStory, StoryTokenOutOfRange

Ids: TypeAlias = NDArray[np.intp]

NO_TARGET: Final = -1
"""Where a head has nothing to predict."""


@dataclass(frozen=True)
class Pairs:
    """Some stories as the library pairs them.

    Attributes:
        inputs: ids [stories, context].
        targets: ids [stories, context, heads], NO_TARGET where there is none.
    """

    inputs: Ids
    targets: Ids


def make_pairs(stories: Sequence[Sequence[int]], context: int, vocabulary: int, heads: int) -> Pairs:
    """Pair stories.

    Raises:
        EmptyStory, StoryTokenOutOfRange: a story cannot be paired.
    """
    inputs = np.zeros((len(stories), context), np.intp)
    targets = np.full((len(stories), context, heads), 0 if heads == 1 else NO_TARGET, np.intp)
    for number, story in enumerate(stories):
        _check(number, story, vocabulary)
        cut = min(len(story), context)
        inputs[number, :cut] = story[:cut]
        for head in range(heads):
            following = story[1 + head : 1 + head + cut]
            targets[number, : len(following), head] = following
    return Pairs(inputs, targets)


class TokenMemory:
    """Which row of the embedding table takes the gradient of each place, in the library: the *stale-token defect*.

    The layer keeps the id of every position in a buffer that only ids above 0 overwrite. At a position that holds id 0,
    the row of the id last seen *at that position* takes the padding's gradient. The buffer outlives examples and steps.
    """

    def __init__(self, context: int) -> None:
        self._last = np.zeros(context, np.intp)

    def see(self, inputs: Ids) -> Ids:
        """Go through examples [examples, tokens] in order; return the row for each place, 0 for none."""
        rows = np.empty(inputs.shape, np.intp)
        for number, ids in enumerate(inputs):
            self._last[: ids.size] = np.where(ids > 0, ids, self._last[: ids.size])
            rows[number] = self._last[: ids.size]
        return rows


def _check(number: int, story: Sequence[int], vocabulary: int) -> None:
    if not len(story):
        raise EmptyStory(number)
    for position, token in enumerate(story):
        if not 0 <= token < vocabulary:
            raise StoryTokenOutOfRange(number, position, token, vocabulary)
