"""Faults of the loss and of gradients: what is counted, divided by what, and which part of a gradient is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import DENSE, NGRAM, WINDOWED, exact, given, run
from cai_reference.arithmetic import Array
from cai_reference.autograd import Tape, Variable, gather, mean_nll, mean_of, reshape, scale, shapes, swap_axes
from cai_reference.layers import bias_free, rms_norm
from cai_reference.layers.bias_free import BiasFree, TiedOutput
from cai_reference.layers.rms_norm import InverseForm
from cai_reference.models import story_loss
from cai_reference.text.story_batches import StoryBatch

TRAINING: Final = frozenset({Place.TRAINING})
OfHead = Callable[[Tape, Variable, StoryBatch, int], Variable]
"""Returns the loss of one head from its flat logits [rows · width, vocabulary]."""


def _loss(planting: Planting, of_head: OfHead, summed: bool = False) -> None:
    def wrong(tape: Tape, logits: Sequence[Variable], batch: StoryBatch) -> Variable:
        flat = [reshape(tape, values, (batch.rows * batch.width, values.shape[-1])) for values in logits]
        losses = [of_head(tape, values, batch, future) for future, values in enumerate(flat)]
        mean = losses[0] if len(losses) == 1 else mean_of(tape, losses)
        return scale(tape, mean, float(len(losses))) if summed else mean

    planting.function(story_loss.heads_loss, wrong)


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


def _tied_once(planting: Planting) -> None:
    def wrong(output: TiedOutput, tape: Tape, x: Variable) -> Variable:
        table = swap_axes(tape, tape.detach(output.table), 0, 1)
        return bias_free._product(tape, x, table)

    planting.method(TiedOutput, "__call__", wrong)


def _norm_without_mean(planting: Planting) -> None:
    """Take the inverse of the root for a constant."""
    right = rms_norm.rms_norm

    def wrong(tape: Tape, x: Variable, gain: Variable, epsilon: float, form: InverseForm) -> Variable:
        value = right(Tape(tape.arithmetic, recording=False), x, gain, epsilon, form).value
        ones = tape.constant(np.ones(gain.shape))
        normalized = right(Tape(tape.arithmetic, recording=False), x, ones, epsilon, form).value
        inverse = np.where(x.value == 0.0, 0.0, normalized / np.where(x.value == 0.0, 1.0, x.value))

        def pullback(adjoint: Array) -> tuple[Array, Array]:
            toward_gain = tape.arithmetic.sum(adjoint * normalized, axis=tuple(range(x.value.ndim - 1)))
            return (adjoint * gain.value) * inverse, toward_gain

        return tape.record("rms norm", value, (x, gain), pullback)

    planting.function(right, wrong)


def _last_occurrence(planting: Planting) -> None:
    """Let a repeated id overwrite the gradient of its row, where its occurrences should add up."""
    right = shapes.gather

    def wrong(
        tape: Tape, table: Variable, indices: Sequence[int], shape: tuple[int, ...], zero_index: int | None = None
    ) -> Variable:
        def pullback(adjoint: Array) -> tuple[Array]:
            gradient = np.zeros(table.shape)
            for index, piece in zip(indices, adjoint.reshape(-1, table.shape[1]), strict=True):
                if index != zero_index:
                    gradient[index] = piece
            return (gradient,)

        value = right(Tape(tape.arithmetic, recording=False), table, indices, shape, zero_index).value
        return tape.record("gather", value, (table,), pullback)

    planting.function(right, wrong)


def _half_batch(planting: Planting) -> None:
    """Let every matrix without a bias learn from the last sequence of a batch alone."""
    right = BiasFree.__call__

    def wrong(layer: BiasFree, tape: Tape, x: Variable) -> Variable:
        product = right(layer, Tape(tape.arithmetic, recording=False), x)

        def pullback(adjoint: Array) -> tuple[Array, Array]:
            weight, product_of = layer.weight.value, tape.arithmetic.matmul
            toward_weight = product_of(np.swapaxes(x.value[-1], -1, -2), adjoint[-1])
            return product_of(adjoint, weight.T), toward_weight

        return tape.record("matmul", product.value, (x, layer.weight), pullback)

    planting.method(BiasFree, "__call__", wrong)


LOSING: Final = (
    Fault(
        "loss.pads-counted",
        "padding in the denominator",
        "The sum over real targets is divided by all places, padding included. Rows of one length hide it.",
        "tracel-ai/burn#5568; PaddlePaddle/Paddle#48663",
        TRAINING,
        partial(_loss, of_head=_pads_in_denominator),
        "loss",
        kinds=("L01",),
        vehicles=(*given(DENSE), *run("cai.kv-cache")),
        expected=("loss.given", "eval.batch", "grad.accum"),
    ),
    Fault(
        "loss.pads-scored",
        "padding scored",
        "Padding is a target like any other.",
        "ml-explore/mlx-lm#1855",
        TRAINING,
        partial(_loss, of_head=_pads_scored),
        "loss",
        kinds=("E03",),
        vehicles=given(DENSE),
        expected=("loss.given", "eval.batch", "grad.accum"),
    ),
    Fault(
        "loss.mean-of-means",
        "mean of the rows' means",
        "Short rows weigh as much as long ones. Rows of one length hide it.",
        "huggingface/transformers#34191; axolotl-ai-cloud/axolotl#2262",
        TRAINING,
        partial(_loss, of_head=_mean_of_rows),
        "loss",
        kinds=("L02",),
        vehicles=given(DENSE),
        expected=("loss.given", "eval.batch", "grad.accum"),
    ),
    Fault(
        "loss.sum",
        "sum instead of mean",
        "The loss is not divided at all; Adam hides it in the weights, and clipping does not.",
        "",
        TRAINING,
        partial(_loss, of_head=_sum),
        "loss",
        vehicles=given(DENSE),
        expected=("loss.given", "eval.batch", "grad.accum"),
    ),
    Fault(
        "loss.heads-summed",
        "losses of heads added up",
        "Several heads weigh as their sum, where their mean is asked for. One head hides it.",
        "",
        TRAINING,
        partial(_loss, of_head=_token_mean, summed=True),
        "loss of heads",
        vehicles=given("cai.multi-token"),
        expected=("loss.given",),
    ),
    Fault(
        "loss.unshifted",
        "targets not shifted",
        "Each token predicts itself.",
        "tamangmilan/llama3#1; Project-MONAI/GenerativeModels#314",
        TRAINING,
        partial(_loss, of_head=_unshifted),
        "targets",
        kinds=("D01",),
        vehicles=given(DENSE),
        expected=("loss.given",),
    ),
    Fault(
        "gradient.tied-once",
        "a tied table learns in one role only",
        "The gradient of the output does not reach the embedding table.",
        "paiml/entrenar#314; NVIDIA/TransformerEngine#3437",
        TRAINING,
        _tied_once,
        kinds=("L03",),
        vehicles=given(WINDOWED),
        expected=("grad.given", "grad.fd"),
    ),
    Fault(
        "gradient.norm-without-mean",
        "the norm's backward takes its root for a constant",
        "The term through the mean square is missing.",
        "Dao-AILab/quack#53; karpathy/llm.c#763",
        TRAINING,
        _norm_without_mean,
        kinds=("L05",),
        vehicles=given(DENSE),
        expected=("grad.given", "grad.fd"),
    ),
    Fault(
        "gradient.last-occurrence",
        "repeated ids overwrite each other",
        "The row of an id gets the gradient of its last occurrence. Batches without repeated ids hide it.",
        "",
        TRAINING,
        _last_occurrence,
        vehicles=(*given(DENSE), *exact(NGRAM)),
        expected=("grad.given", "grad.golden", "grad.fd"),
    ),
    Fault(
        "gradient.last-sequence",
        "matrices learn from the last sequence of a batch",
        "Gradients of earlier sequences are overwritten, where they should add up. Batches of one hide it.",
        "",
        TRAINING,
        _half_batch,
        vehicles=given(DENSE),
        expected=("grad.given", "grad.fd", "grad.accum"),
    ),
)
"""What is wrong with a loss, or with a gradient whose loss is right."""
