"""Faults of the loss and of gradients: what is counted, divided by what, and which part of a gradient is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from cai_conformance.faults.fault import TRAINING, Family
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import DENSE, NGRAM, Sight, exact, given, run
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable, probability
from cai_reference.autograd.operations import gather, mean_of, reshape, scale
from cai_reference.autograd.probability import NormalizedRows, mean_nll, normalize_rows
from cai_reference.models import stack
from cai_reference.models.neural_ngram import NeuralNgram
from cai_reference.text.batches import Window
from cai_reference.text.story_batches import StoryBatch

OfHead = Callable[[Tape, Variable, StoryBatch, int], Variable]
"""Returns the loss of one head from its flat logits [rows · width, vocabulary]."""


def _of_heads(patch: Patch, of_head: OfHead, summed: bool = False) -> None:
    def wrong(tape: Tape, logits: Sequence[Variable], batch: StoryBatch) -> Variable:
        flat = [reshape(tape, values, (batch.rows * batch.width, values.shape[-1])) for values in logits]
        losses = [of_head(tape, values, batch, future) for future, values in enumerate(flat)]
        mean = losses[0] if len(losses) == 1 else mean_of(tape, losses)
        return scale(tape, mean, float(len(losses))) if summed else mean

    patch.replace(stack.heads_loss, wrong)


def _mean(tape: Tape, flat: Variable, places: list[int], targets: list[int]) -> Variable:
    return mean_nll(tape, gather(tape, flat, places, (len(places),)), targets)


def _token_mean(tape: Tape, flat: Variable, batch: StoryBatch, future: int) -> Variable:
    return _mean(tape, flat, *batch.targets(future))


def _pads_in_denominator(tape: Tape, flat: Variable, batch: StoryBatch, future: int) -> Variable:
    places, targets = batch.targets(future)
    return scale(tape, _mean(tape, flat, places, targets), len(places) / (batch.rows * batch.width))


def _pads_scored(tape: Tape, flat: Variable, batch: StoryBatch, future: int) -> Variable:
    everywhere = [0] * (batch.rows * batch.width)
    for place, target in zip(*batch.targets(future), strict=True):
        everywhere[place] = target
    return mean_nll(tape, flat, everywhere)


def _mean_of_rows(tape: Tape, flat: Variable, batch: StoryBatch, future: int) -> Variable:
    rows: dict[int, tuple[list[int], list[int]]] = {}
    for place, target in zip(*batch.targets(future), strict=True):
        places, targets = rows.setdefault(place // batch.width, ([], []))
        places.append(place)
        targets.append(target)
    return mean_of(tape, [_mean(tape, flat, places, targets) for places, targets in rows.values()])


def _sum(tape: Tape, flat: Variable, batch: StoryBatch, future: int) -> Variable:
    places, targets = batch.targets(future)
    return scale(tape, _mean(tape, flat, places, targets), float(len(places)))


def _unshifted(tape: Tape, flat: Variable, batch: StoryBatch, future: int) -> Variable:
    places, _ = batch.targets(future)
    ids = batch.flat_ids
    return _mean(tape, flat, places, [ids[place] for place in places])


def _tails(patch: Patch, tail: Callable[[Arithmetic, Array], Array]) -> None:
    """Replace the tail of a row, given the exponentials of the row."""

    def wrong(right: Callable[..., NormalizedRows], arithmetic: Arithmetic, *logits: Array) -> NormalizedRows:
        rows = right(arithmetic, *logits)
        return NormalizedRows(rows.maximum, rows.exponentials, tail(arithmetic, rows.exponentials))

    patch.around(normalize_rows, wrong)


def _without_any_maximum(arithmetic: Arithmetic, exponentials: Array) -> Array:
    return arithmetic.sum(np.where(exponentials == 1.0, 0.0, exponentials), axis=-1, keepdims=True)


def _row_losses(patch: Patch, of_rows: Callable[[Arithmetic, NormalizedRows, Array], Array]) -> None:
    """Replace the loss of each row, given the row and its target's logit; the gradient stays right."""

    def wrong(arithmetic: Arithmetic, logits: Array, targets: Sequence[int]) -> tuple[NormalizedRows, float]:
        rows = normalize_rows(arithmetic, logits)
        with np.errstate(all="ignore"):
            losses = of_rows(arithmetic, rows, logits[np.arange(len(targets)), list(targets)])
            return rows, float(arithmetic.sum(losses) / len(targets))

    patch.replace(probability._mean_nll, wrong)


def _plain(arithmetic: Arithmetic, rows: NormalizedRows, chosen: Array) -> Array:
    return (rows.maximum[:, 0] - chosen) + arithmetic.log1p(rows.tail)[:, 0]


def _log_of_the_sum(arithmetic: Arithmetic, rows: NormalizedRows, chosen: Array) -> Array:
    return (rows.maximum[:, 0] + arithmetic.log(arithmetic.sum(rows.exponentials, axis=-1))) - chosen


def _log_of_probability(arithmetic: Arithmetic, rows: NormalizedRows, chosen: Array) -> Array:
    return -arithmetic.log(arithmetic.exp(chosen - rows.maximum[:, 0]) / (1.0 + rows.tail[:, 0]))


_loss = Family(TRAINING, exact(NGRAM))


@_loss(
    "loss.pads-counted",
    "padding in the denominator",
    "loss.given eval.batch grad.accum",
    seen_in="tracel-ai/burn#5568; PaddlePaddle/Paddle#48663",
    knob="loss",
    kinds="L01",
    workloads=(*given(DENSE), *run("cai.kv-cache")),
)
def _pads_counted(patch: Patch) -> None:
    """The sum over real targets is divided by all places, padding included. Rows of one length hide it."""
    _of_heads(patch, of_head=_pads_in_denominator)


@_loss(
    "loss.pads-scored",
    "padding scored",
    "loss.given eval.batch grad.accum",
    seen_in="ml-explore/mlx-lm#1855",
    knob="loss",
    kinds="E03",
    workloads=given(DENSE),
)
def _pads_scored_loss(patch: Patch) -> None:
    """Padding is a target like any other."""
    _of_heads(patch, of_head=_pads_scored)


@_loss(
    "loss.mean-of-means",
    "mean of the rows' means",
    "loss.given eval.batch grad.accum",
    seen_in="huggingface/transformers#34191; axolotl-ai-cloud/axolotl#2262",
    knob="loss",
    kinds="L02",
    workloads=given(DENSE),
)
def _mean_of_means(patch: Patch) -> None:
    """Short rows weigh as much as long ones. Rows of one length hide it."""
    _of_heads(patch, of_head=_mean_of_rows)


@_loss("loss.sum", "sum instead of mean", "loss.given eval.batch grad.accum", knob="loss", workloads=given(DENSE))
def _sum_loss(patch: Patch) -> None:
    """The loss is not divided at all; Adam hides it in the weights, and clipping does not."""
    _of_heads(patch, of_head=_sum)


@_loss(
    "loss.heads-summed",
    "losses of heads added up",
    "loss.given",
    knob="loss of heads",
    workloads=given("cai.multi-token"),
)
def _heads_summed(patch: Patch) -> None:
    """Several heads weigh as their sum, where their mean is asked for. One head hides it."""
    _of_heads(patch, of_head=_token_mean, summed=True)


@_loss(
    "loss.unshifted",
    "targets not shifted",
    "loss.given",
    seen_in="tamangmilan/llama3#1; Project-MONAI/GenerativeModels#314",
    knob="targets",
    kinds="D01",
    workloads=given(DENSE),
)
def _unshifted_loss(patch: Patch) -> None:
    """Each token predicts itself."""
    _of_heads(patch, of_head=_unshifted)


@_loss(
    "loss.no-maximum",
    "the maximum is not subtracted",
    "loss.shift",
    seen_in="pytorch/pytorch#11752; FluxML/NNlib.jl#68",
    kinds="F08",
    sight=Sight(("loss.shift[large]",), "exp(10⁴) does not exist"),
)
def _without_maximum(patch: Patch) -> None:
    """The exponential of a large logit does not exist. Small logits hide it."""
    # Take the logarithm of a plain sum of exponentials; what overflows gives an infinite loss.
    right = probability._mean_nll

    def wrong(
        arithmetic: Arithmetic, logits: Array, targets: Sequence[int]
    ) -> tuple[probability.NormalizedRows, float]:
        rows, _ = right(arithmetic, logits, targets)
        flat = logits.reshape(len(targets), -1)
        with np.errstate(over="ignore", invalid="ignore"):
            normalizers = arithmetic.log(arithmetic.sum(arithmetic.exp(flat), axis=1))
            losses = normalizers - flat[np.arange(len(targets)), list(targets)]
            return rows, float(arithmetic.sum(losses) / len(targets))

    patch.replace(right, wrong)


@_loss.seen(
    "loss.sum-minus-one",
    "the tail is the sum over all classes, minus 1",
    "loss.weights[dominated] loss.weights[tail]",
    "a tail of 1e-26 vanishes beside 1",
)
def _sum_minus_one(patch: Patch) -> None:
    _tails(patch, tail=lambda arithmetic, row: arithmetic.sum(row, axis=-1, keepdims=True) - 1.0)


@_loss.seen(
    "loss.log-sum",
    "the loss is max + log(Σ exp) − target, no maximum skipped",
    "loss.weights[dominated] loss.weights[tail]",
    "a tail of 1e-26 vanishes beside 1",
)
def _log_sum(patch: Patch) -> None:
    _row_losses(patch, of_rows=_log_of_the_sum)


@_loss.seen(
    "loss.all-ties-skipped",
    "every tie of the maximum is skipped",
    "loss.weights[ties] loss.weights[uniform]",
    "three logits share the maximum",
)
def _all_ties_skipped(patch: Patch) -> None:
    _tails(patch, tail=_without_any_maximum)


@_loss.seen(
    "loss.log-of-probability",
    "the loss is −log of the target's probability",
    "loss.weights[dominated]",
    "a probability that rounds to 1",
)
def _log_of_probability_loss(patch: Patch) -> None:
    _row_losses(patch, of_rows=_log_of_probability)


@_loss.seen(
    "loss.overflows",
    "a mean whose sum overflows is infinite",
    "loss.shift[gap] loss.shift[total]",
    "finite logits near the end of the range",
)
def _overflows(patch: Patch) -> None:
    _row_losses(patch, of_rows=_plain)


@_loss.seen(
    "loss.first-target",
    "the first shifted target is scored, not the last",
    "grad.golden[output]",
    "two targets a window that differ",
    printed="both",
)
def _first_target(patch: Patch) -> None:
    patch.arguments(
        (NeuralNgram, "loss"),
        windows=lambda call: [Window(window.inputs, window.targets[:1]) for window in call.windows],
    )


LOSS: Final = tuple(_loss)
"""What is wrong with a loss, or with a gradient whose loss is right."""
