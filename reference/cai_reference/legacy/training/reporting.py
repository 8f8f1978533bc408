"""What the library reports of a batch: loss, error and accuracy, none of which is quite what its name says.

* **Loss**: the mean over the rows that have a target of −ln p(target), in nats; of several heads only the first. Where
  the target is id 0, the probability is looked up in **row 0** instead of the row's own. Where p is 0 in binary32, the
  row counts 100.
* **Error**: Σ |output − target| over a whole example.
* **Accuracy**: whether the largest output of the **last row** stands where the largest target does; for a short story
  that row is padding.

All three are means over the examples of one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.legacy.training.pairs import NO_TARGET, Ids

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
