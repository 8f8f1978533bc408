"""Faults of evaluation: what is averaged over what, what is scored, and what evaluation leaves behind."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from cai_conformance.faults.fault import FORWARD, Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import DENSE, NGRAM, Vehicle, exact, given, run
from cai_reference.arithmetic import Arithmetic
from cai_reference.autograd import Tape, Variable, backward, multiply
from cai_reference.layers import embedding
from cai_reference.models import NeuralNgram
from cai_reference.text import Batch, Epoch
from cai_reference.text.story_batches import StoryBatch
from cai_reference.training import decoder_training, evaluation
from cai_reference.training.decoder_training import StoryModel

EVALUATION: Final = frozenset({Place.EVALUATION})
DROPPED: Final = 5
"""Of the features one in so many is dropped."""


def _means(planting: Planting, average: Callable[[list[float]], float]) -> None:
    """Average the means of batches, whatever their sizes."""

    def wrong(model: NeuralNgram, epoch: Epoch, plan: Sequence[Batch], arithmetic: Arithmetic) -> float:
        tape = Tape(arithmetic, recording=False)
        return average([float(model.loss(tape, [epoch.window(slot) for slot in batch]).value) for batch in plan])

    def wrong_stories(
        model: StoryModel, batches: Sequence[StoryBatch], arithmetic: Arithmetic, partition: str
    ) -> float:
        tape = Tape(arithmetic, recording=False)
        return average([float(model.loss(tape, batch).value) for batch in batches])

    planting.function(evaluation.evaluate, wrong)
    planting.function(decoder_training.evaluate_stories, wrong_stories)


def _plain_mean(means: list[float]) -> float:
    return math.fsum(means) / len(means)


def _logarithm_of_mean(means: list[float]) -> float:
    """Return the logarithm of the mean perplexity."""
    return math.log(math.fsum(map(math.exp, means)) / len(means))


def _narrow_dropped(planting: Planting) -> None:
    right = evaluation.evaluate

    def wrong(model: NeuralNgram, epoch: Epoch, plan: Sequence[Batch], arithmetic: Arithmetic) -> float:
        widest = max(map(len, plan))
        return right(model, epoch, [batch for batch in plan if len(batch) == widest], arithmetic)

    planting.function(right, wrong)


def _pads_in_denominator(planting: Planting) -> None:
    right = decoder_training.evaluate_stories

    def wrong(model: StoryModel, batches: Sequence[StoryBatch], arithmetic: Arithmetic, partition: str) -> float:
        real = sum(batch.target_count for batch in batches)
        places = sum(batch.rows * batch.width for batch in batches)
        return right(model, batches, arithmetic, partition) * real / places

    planting.function(right, wrong)


def _gradients_left(planting: Planting) -> None:
    right = decoder_training.evaluate_stories

    def wrong(model: StoryModel, batches: Sequence[StoryBatch], arithmetic: Arithmetic, partition: str) -> float:
        backward(model.loss(Tape(arithmetic), batches[0]))
        return right(model, batches, arithmetic, partition)

    planting.function(right, wrong)


def _dropout(planting: Planting) -> None:
    """Drop features of embeddings where nothing is trained, other ones in every call."""
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

    planting.function(right, wrong)


def _fault(
    slug: str,
    title: str,
    story: str,
    precedent: str,
    plant: Callable[[Planting], None],
    expected: str,
    kinds: tuple[str, ...],
    vehicles: tuple[Vehicle, ...] = exact(NGRAM),
) -> Fault:
    return Fault(f"evaluation.{slug}", title, story, precedent, EVALUATION, plant, "", kinds, vehicles, (expected,))


EVALUATING: Final = (
    _fault(
        "mean-of-batches",
        "mean of the batches' means",
        "A narrow batch weighs as much as a full one. Numbers that divide evenly hide it.",
        "facebookresearch/ParlAI#623; lisa-lab/pylearn2#1383",
        partial(_means, average=_plain_mean),
        "eval.batch",
        ("E02",),
    ),
    _fault(
        "mean-of-exponentials",
        "perplexities averaged instead of losses",
        "The mean of exp is above the exp of the mean. One batch hides it.",
        "apache/mxnet#5905; magenta/magenta#239",
        partial(_means, average=_logarithm_of_mean),
        "eval.batch",
        ("E02",),
    ),
    _fault(
        "narrow-batch-dropped",
        "the last, narrower batch is not evaluated",
        "Some windows are never looked at. Numbers that divide evenly hide it.",
        "",
        _narrow_dropped,
        "eval.batch",
        (),
    ),
    _fault(
        "pads-in-denominator",
        "padding counted in the evaluated loss",
        "The loss of training is right, that of evaluation is divided by all places.",
        "ml-explore/mlx-lm#1855",
        _pads_in_denominator,
        "run.golden",
        ("E03",),
        run("cai.kv-cache"),
    ),
    _fault(
        "gradients-left",
        "evaluation leaves gradients behind",
        "They are added to those of the next step, so that training depends on when it is looked at.",
        "",
        _gradients_left,
        "run.golden",
        (),
        run("cai.kv-cache"),
    ),
    Fault(
        "evaluation.dropout",
        "features dropped where nothing is trained",
        "The switch between training and evaluation is forgotten, so that two evaluations differ.",
        "meta-pytorch/torchtune#1049; joaopauloschuler/neural-api#137",
        FORWARD,
        _dropout,
        kinds=("E01",),
        vehicles=(*given(DENSE), *exact(NGRAM)),
        expected=("fwd.oracle", "eval.batch", "eval.pure"),
    ),
)
"""What is wrong with looking at a model."""
