"""By what a loss was divided: the number that a backend reports, against every usual way to average.

Who accumulates over micro-batches, or pads, divides by something; two programs that do it differently report different
losses for the same model and the same tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cai_reference.arithmetic import FAST, Arithmetic, Array
from cai_reference.autograd import Tape
from cai_reference.models.stack import DecoderStack
from cai_reference.text.story_batches import StoryBatch


@dataclass(frozen=True)
class Normalizer:
    """One way to average.

    Attributes:
        name: in words.
        value: the loss that it gives.
        difference: the absolute difference to what was found.
    """

    name: str
    value: float
    difference: float

    def __str__(self) -> str:
        return f"{self.name}: {self.value:.9g}, off by {self.difference:.2g}"


def loss_normalizer(
    nll: Array, mask: npt.NDArray[np.bool_], found: float, parts: Sequence[Sequence[int]] = ()
) -> tuple[Normalizer, ...]:
    """Return all ways to average, the closest one first.

    Args:
        nll: negative log-likelihoods in nats, [rows, tokens]; of padding, whatever was computed there, or NaN.
        mask: which of them are real targets; at least one is.
        found: the loss that was reported.
        parts: the rows of each micro-batch; none for no micro-batches.
    """
    values = _averages(np.where(mask, nll, 0.0), nll, mask, parts)
    found_ones = [Normalizer(name, value, abs(value - found)) for name, value in values if math.isfinite(value)]
    return tuple(sorted(found_ones, key=lambda each: each.difference))


def token_losses(
    model: DecoderStack, batch: StoryBatch, head: int = 0, arithmetic: Arithmetic = FAST
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return what the reference has for a batch: negative log-likelihoods [rows, width], padding as id 0; the mask."""
    logits = model.forward(Tape(arithmetic, recording=False), batch.flat_ids, batch.rows)[head].value
    flat = logits.reshape(-1, logits.shape[-1])
    places, ids = batch.targets(head)
    targets = np.zeros(len(flat), dtype=np.int64)
    targets[places] = ids
    mask = np.zeros(len(flat), dtype=np.bool_)
    mask[places] = True
    best = np.max(flat, axis=1)
    normalizer = best + arithmetic.log(arithmetic.sum(arithmetic.exp(flat - best[:, None]), axis=1))
    shape = (batch.rows, batch.width)
    return (normalizer - flat[np.arange(len(flat)), targets]).reshape(shape), mask.reshape(shape)


def _averages(
    real: Array, nll: Array, mask: npt.NDArray[np.bool_], parts: Sequence[Sequence[int]]
) -> Iterator[tuple[str, float]]:
    counts, sums = np.count_nonzero(mask, axis=1), np.add.reduce(real, axis=1)
    total, count, rows = float(np.add.reduce(sums)), int(np.add.reduce(counts)), len(mask)
    yield "mean over real targets", total / count
    yield "padding in the denominator", total / mask.size
    yield "padding scored as targets", float(np.mean(nll))
    yield (
        "mean of the rows' means",
        _mean([float(part) / int(held) for part, held in zip(sums, counts, strict=True) if held]),
    )
    yield "sum over real targets", total
    yield "sum over real targets, divided by rows", total / rows
    if parts:
        held = [(sum(float(sums[row]) for row in part), sum(int(counts[row]) for row in part)) for part in parts]
        means = [part / number for part, number in held if number]
        yield "mean of the micro-batches' means", _mean(means)
        yield "sum of the micro-batches' means", sum(means)
    probabilities = np.exp(real[mask])
    yield "logarithm of the mean of the tokens' perplexities", math.log(float(np.mean(probabilities)))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
