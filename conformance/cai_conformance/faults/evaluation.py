"""Faults of evaluation: what is averaged over what, what is scored, and what evaluation leaves behind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Final

import numpy as np

from cai_conformance.faults.fault import FORWARD, Family, Place
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import DENSE, NGRAM, Sight, exact, given, run
from cai_reference.arithmetic import Arithmetic
from cai_reference.autograd import Tape, Variable
from cai_reference.autograd.backward import backward
from cai_reference.autograd.operations import multiply
from cai_reference.layers.matrices import embedding
from cai_reference.models.neural_ngram import NeuralNgram
from cai_reference.text.batches import Batch, Epoch
from cai_reference.text.story_batches import StoryBatch
from cai_reference.training import decoder_training, trainer
from cai_reference.training.decoder_training import StoryModel

DROPPED: Final = 5
"""Of the features one in so many is dropped."""


def _means(patch: Patch, average: Callable[[list[float]], float]) -> None:
    """Average the means of batches, whatever their sizes."""

    def wrong(model: NeuralNgram, epoch: Epoch, plan: Sequence[Batch], arithmetic: Arithmetic) -> float:
        tape = Tape(arithmetic, recording=False)
        return average([float(model.loss(tape, [epoch.window(slot) for slot in batch]).value) for batch in plan])

    def wrong_stories(
        model: StoryModel, batches: Sequence[StoryBatch], arithmetic: Arithmetic, partition: str
    ) -> float:
        tape = Tape(arithmetic, recording=False)
        return average([float(model.loss(tape, batch).value) for batch in batches])

    patch.replace(trainer.evaluate, wrong)
    patch.replace(decoder_training.evaluate_stories, wrong_stories)


def _plain_mean(means: list[float]) -> float:
    return math.fsum(means) / len(means)


def _logarithm_of_mean(means: list[float]) -> float:
    """Return the logarithm of the mean perplexity."""
    return math.log(math.fsum(map(math.exp, means)) / len(means))


def _cut_anew(call: SimpleNamespace) -> list[Batch]:
    """Return the batches of an evaluation in another size."""
    slots = [slot for batch in call.plan for slot in batch]
    return [tuple(slots[start : start + 64]) for start in range(0, len(slots), 64)]


_evaluation = Family(frozenset({Place.EVALUATION}), exact(NGRAM))


@_evaluation(
    "evaluation.mean-of-batches",
    "mean of the batches' means",
    "eval.batch",
    seen_in="facebookresearch/ParlAI#623; lisa-lab/pylearn2#1383",
    kinds="E02",
    sight=Sight(("eval.batch[narrow]",), "seven windows in batches of three", "both"),
)
def _mean_of_batches(patch: Patch) -> None:
    """A narrow batch weighs as much as a full one. Numbers that divide evenly hide it."""
    _means(patch, average=_plain_mean)


@_evaluation(
    "evaluation.mean-of-exponentials",
    "perplexities averaged instead of losses",
    "eval.batch",
    seen_in="apache/mxnet#5905; magenta/magenta#239",
    kinds="E02",
)
def _mean_of_exponentials(patch: Patch) -> None:
    """The mean of exp is above the exp of the mean. One batch hides it."""
    _means(patch, average=_logarithm_of_mean)


@_evaluation("evaluation.narrow-batch-dropped", "the last, narrower batch is not evaluated", "eval.batch")
def _narrow_dropped(patch: Patch) -> None:
    """Some windows are never looked at. Numbers that divide evenly hide it."""
    right = trainer.evaluate

    def wrong(model: NeuralNgram, epoch: Epoch, plan: Sequence[Batch], arithmetic: Arithmetic) -> float:
        widest = max(map(len, plan))
        return right(model, epoch, [batch for batch in plan if len(batch) == widest], arithmetic)

    patch.replace(right, wrong)


@_evaluation(
    "evaluation.pads-in-denominator",
    "padding counted in the evaluated loss",
    "run.golden",
    seen_in="ml-explore/mlx-lm#1855",
    kinds="E03",
    workloads=run("cai.kv-cache"),
)
def _pads_in_denominator(patch: Patch) -> None:
    """The loss of training is right, that of evaluation is divided by all places."""
    right = decoder_training.evaluate_stories

    def wrong(model: StoryModel, batches: Sequence[StoryBatch], arithmetic: Arithmetic, partition: str) -> float:
        real = sum(batch.target_count for batch in batches)
        places = sum(batch.rows * batch.width for batch in batches)
        return right(model, batches, arithmetic, partition) * real / places

    patch.replace(right, wrong)


@_evaluation(
    "evaluation.gradients-left", "evaluation leaves gradients behind", "run.golden", workloads=run("cai.kv-cache")
)
def _gradients_left(patch: Patch) -> None:
    """They are added to those of the next step, so that training depends on when it is looked at."""
    right = decoder_training.evaluate_stories

    def wrong(model: StoryModel, batches: Sequence[StoryBatch], arithmetic: Arithmetic, partition: str) -> float:
        backward(model.loss(Tape(arithmetic), batches[0]))
        return right(model, batches, arithmetic, partition)

    patch.replace(right, wrong)


@_evaluation(
    "evaluation.dropout",
    "features dropped where nothing is trained",
    "fwd.oracle eval.batch eval.pure",
    seen_in="meta-pytorch/torchtune#1049; joaopauloschuler/neural-api#137",
    kinds="E01",
    places=FORWARD,
    workloads=(*given(DENSE), *exact(NGRAM)),
)
def _dropout(patch: Patch) -> None:
    """The switch between training and evaluation is forgotten, so that two evaluations differ."""
    # Drop features of embeddings where nothing is trained, other ones in every call.
    right = embedding
    calls = 0

    def wrong(
        tape: Tape, table: Variable, ids: Sequence[int], shape: tuple[int, ...], zero_id: int | None = None
    ) -> Variable:
        nonlocal calls
        found = right(tape, table, ids, shape, zero_id)
        if tape.recording:
            return found
        calls += 1
        kept = (np.arange(found.value.size).reshape(found.shape) + calls) % DROPPED != 0
        return multiply(tape, found, tape.constant(kept * (DROPPED / (DROPPED - 1.0))))

    patch.replace(right, wrong)


@_evaluation.seen(
    "evaluation.other-batches",
    "windows are evaluated in batches of another size (64)",
    "eval.batch[rounding]",
    "30 windows in batches of 8, bit for bit",
)
def _other_batches(patch: Patch) -> None:
    patch.arguments(trainer.evaluate, plan=_cut_anew)


EVALUATION: Final = tuple(_evaluation)
"""What is wrong with looking at a model."""
