"""Training pairs as the library's programs make them, and the ids that its embedding remembers.

A story s becomes the input s[0 … cut−1], cut to the context and padded with id 0. With one head, row t has the target
s[t+1]; **every row without a following token, padding included, has the target 0**, and none is masked. With several
heads, head h of row t has the target s[t+1+h], rows beyond the cut and targets beyond the end have none, and their
outputs are pushed towards 0.

What the library reports of a batch: loss, error and accuracy, none of which is quite what its name says.

* **Loss**: the mean over the rows that have a target of −ln p(target), in nats; of several heads only the first. Where
  the target is id 0, the probability is looked up in **row 0** instead of the row's own. Where p is 0 in binary32, the
  row counts 100.
* **Error**: Σ |output − target| over a whole example.
* **Accuracy**: whether the largest output of the **last row** stands where the largest target does; for a short story
  that row is padding.

All three are means over the examples of one batch.

Which nets read ids and score ids, and which of them can be trained on stories.

The loop of the library would take any net. Its pairs, however, make one-hot rows of ids, and its report reads outputs
as probabilities, so that a net with another end would be trained towards something that nobody meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cai_neural_api.errors import LegacyError
from cai_neural_api.net.graph import Net
from cai_neural_api.net.layers.learned import Embedding
from cai_neural_api.net.layers.pointwise import Concatenation, Softmax
from cai_reference.arithmetic import Arithmetic, Array

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
        LegacyError (empty-story, story-token-out-of-range): a story cannot be paired.
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
        raise LegacyError("empty-story", story=number)
    for position, token in enumerate(story):
        if not 0 <= token < vocabulary:
            raise LegacyError(
                "story-token-out-of-range", story=number, position=position, token=token, vocabulary=vocabulary
            )


UNDERFLOW_LOSS: Final = 100.0
"""What a row counts whose target has probability 0."""


@dataclass(frozen=True)
class BatchReport:
    """Loss in nats, error, and accuracy from 0 to 1: means over the examples of one batch."""

    loss: float
    error: float
    accuracy: float


def difference(output: Array, targets: Ids) -> Array:
    """Return output − target [examples, tokens, heads · vocabulary], which the library takes for the gradient."""
    heads = targets.shape[2]
    vocabulary = output.shape[2] // heads
    result = output.copy()
    example, token, head = np.nonzero(targets != NO_TARGET)
    result[example, token, head * vocabulary + targets[example, token, head]] -= 1.0
    return result


def report(arithmetic: Arithmetic, output: Array, targets: Ids, gradient: Array) -> BatchReport:
    """Report a batch of outputs [examples, tokens, heads · vocabulary], given their `difference` from the targets."""
    magnitudes = np.empty(output.shape[1:])
    errors = np.array([arithmetic.sum(np.abs(example, out=magnitudes)) for example in gradient])
    examples = float(output.shape[0])
    losses = [_loss(arithmetic, *example) for example in zip(output, targets[..., 0], strict=True)]
    right = _largest_target(targets[:, -1], output.shape[2]) == np.argmax(output[:, -1], axis=1)
    return BatchReport(
        float(arithmetic.sum(np.array(losses))) / examples,
        float(arithmetic.sum(errors)) / examples,
        float(np.count_nonzero(right)) / examples,
    )


def combine(reports: Sequence[BatchReport], sizes: Sequence[int]) -> BatchReport:
    """Return the report of several parts of a batch together; `sizes` are the examples of each part."""
    if len(reports) == 1:
        return reports[0]
    loss = error = accuracy = 0.0
    for part, size in zip(reports, sizes, strict=True):
        loss += part.loss * size
        error += part.error * size
        accuracy += part.accuracy * size
    examples = float(sum(sizes))
    return BatchReport(loss / examples, error / examples, accuracy / examples)


def _loss(arithmetic: Arithmetic, output: Array, targets: Ids) -> float:
    """Return the mean over the rows of one example that have a target."""
    (rows,) = np.nonzero(targets != NO_TARGET)
    if not rows.size:
        return 0.0
    hot = targets[rows]
    # Binary32 decides where a probability is 0.
    p = output[np.where(hot == 0, 0, rows), hot].astype(np.float32).astype(np.float64)
    losses = np.where(p > 0.0, -arithmetic.log(np.where(p > 0.0, p, 1.0)), UNDERFLOW_LOSS)
    return float(arithmetic.sum(losses)) / float(rows.size)


def _largest_target(targets: Ids, depth: int) -> Ids:
    """Return, for targets [examples, heads], the first channel of the largest one, 0 where there is none."""
    heads = targets.shape[1]
    channels = np.where(targets == NO_TARGET, depth, targets + np.arange(heads) * (depth // heads))
    first = np.min(channels, axis=1)
    return np.where(first == depth, 0, first)


def language_model(net: Net) -> tuple[int, int]:
    """Return the vocabulary of a net, and for how many future tokens it scores every id of it.

    Raises:
        LegacyError: a leaf that says why it is none; the end may be something else than a softmax.
    """
    embeddings = _embeddings(net)
    if not embeddings:
        raise LegacyError("no-embedding")
    first, vocabulary = embeddings[0]
    for index, known in embeddings:
        source = net.specs[index].inputs[0]
        if source:
            raise LegacyError("embedding-elsewhere", layer=index, source=source)
        if known != vocabulary:
            raise LegacyError("vocabulary-mismatch", layer=index, found=known, other=first, expected=vocabulary)
    depth = net.shapes[-1].depth
    if depth % vocabulary:
        raise LegacyError("output-depth", depth=depth, vocabulary=vocabulary)
    return vocabulary, depth // vocabulary


def require_probabilities(net: Net) -> None:
    """Make sure that a language model ends in a softmax, or in a concatenation of one softmax a future token.

    Raises:
        LegacyError (no-probabilities): it does not.
        LegacyError (vocabulary-mismatch): a softmax is over another number of ids than the embedding.
    """
    last = len(net.layers) - 1
    ends = net.specs[last].inputs if isinstance(net.layers[last], Concatenation) else (last,)
    if not all(isinstance(net.layers[index], Softmax) for index in ends):
        raise LegacyError("no-probabilities", layer=last, kind=net.specs[last].kind)
    first, vocabulary = _embeddings(net)[0]
    for index in ends:
        if net.shapes[index].depth != vocabulary:
            raise LegacyError(
                "vocabulary-mismatch", layer=index, found=net.shapes[index].depth, other=first, expected=vocabulary
            )


def _embeddings(net: Net) -> list[tuple[int, int]]:
    """Return each embedding with the ids that it knows."""
    return [
        (index, net.specs[index].integers[0]) for index, layer in enumerate(net.layers) if isinstance(layer, Embedding)
    ]
