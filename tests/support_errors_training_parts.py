"""One call for every error of clipping, schedules, accumulation, selection, and the final evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cai_reference.arithmetic import STRICT
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.errors import CaiReferenceError
from cai_reference.models.llama import Llama
from cai_reference.splitmix import SplitMix64
from cai_reference.text import EncodedDocument, Epoch, Windowing
from cai_reference.text.story_batches import StoryBatch
from cai_reference.training import errors as training
from cai_reference.training import final_errors as final
from cai_reference.training import selection_errors as selection
from cai_reference.training.accumulation import accumulate_stories
from cai_reference.training.adamw import AdamWState
from cai_reference.training.bigram import Bigram
from cai_reference.training.clipping import clip_to
from cai_reference.training.copies import Snapshot
from cai_reference.training.final_evaluation import (
    Baseline,
    FinalEvaluation,
    Provenance,
    SelectedDecoder,
    score_bigram,
)
from cai_reference.training.planned_epoch import PlannedEpoch
from cai_reference.training.schedules import ConstantRate, SteppedRate, WarmupDecay
from cai_reference.training.selection import SelectionPlan, evaluate_windows
from support_course_fixtures import MODEL, epoch, fresh, plan, sequential

Case = tuple[CaiReferenceError, Callable[[], object]]

SOURCE = Provenance("corpus", "split", "tokenizer", 2)
TEST = sequential(epoch("test"), 4)


def clipping(gradients: list[float], limit: float) -> Callable[[], object]:
    """Return a call that clips the gradients of one parameter."""
    parameter = Parameter("w", np.ones(len(gradients)))
    parameter.gradient = np.array(gradients)
    return lambda: clip_to([parameter], limit)


def running(change: Callable[[], SelectionPlan], started: int = 0) -> Callable[[], object]:
    """Return a call that trains by a changed plan, with an optimiser that has made so many steps."""

    def call() -> object:
        model, optimizer = fresh()
        optimizer.state = AdamWState(step=started)
        return change().run(model, optimizer, STRICT)

    return call


def one_document(label: str, tokens: tuple[int, ...], context: int = 2) -> PlannedEpoch:
    """Return the windows of a document called d."""
    return sequential(Epoch(label, (EncodedDocument("d", label, tokens),), Windowing(context)), 4)


class Endless:
    """A model whose losses are as large as numbers get."""

    parameters: tuple[Parameter, ...] = ()

    def loss(self, tape: Tape, batch: StoryBatch) -> Variable:
        """Return 1e308."""
        return tape.constant(np.array(1e308))


def evaluating(
    test: PlannedEpoch = TEST,
    source: Provenance = SOURCE,
    context: int = 2,
    vocabulary: int = 5,
    times: int = 1,
    moved: bool = False,
) -> Callable[[], object]:
    """Return a call that evaluates an untrained decoder beside a bigram, so often."""

    def call() -> object:
        model = Llama.initialize(replace(MODEL, context=context), SplitMix64(1))
        snapshot = Snapshot.of(4, model.parameters, fresh()[1])
        if moved:
            model.parameters[-1].assign(np.zeros(4))
        gate = FinalEvaluation(test, SOURCE)
        for _ in range(times):
            decoder = SelectedDecoder(model, snapshot, 1.0, "validation", source)
            gate.evaluate(decoder, Baseline(Bigram([(0, 1)], vocabulary), "train", source), STRICT)
        return gate

    return call


def selected(loss: float, label: str) -> object:
    """Return an untrained decoder as if a loss on some partition had selected it."""
    model, optimizer = fresh()
    return SelectedDecoder(model, Snapshot.of(0, model.parameters, optimizer), loss, label, SOURCE)


PARTS: list[Case] = [
    (training.InvalidMaximumNorm(-2.0), clipping([1.0], -2.0)),
    (training.NonFiniteStoredGradient("w", 1, math.inf), clipping([1.0, math.inf], 1.0)),
    (training.UnrepresentableGradientClip(5e-324, 3.0), clipping([1.0] * 9, 5e-324)),
    (training.EmptySchedule(), lambda: SteppedRate(())),
    (training.InvalidScheduledRate(4, -1.0), lambda: SteppedRate(((0.5, 3), (-1.0, 1)))),
    (training.InvalidScheduleFloor(0.75, 0.5), lambda: WarmupDecay(0.5, 0.75, 1, 2)),
    (training.InvalidScheduleLength("the schedule", 3, 4), lambda: WarmupDecay(0.5, 0.25, 4, 3)),
    (training.StepBeforeFirst(-6), lambda: ConstantRate(0.5).rate(-6, STRICT)),
    (training.StepBehindSchedule(8, 3), lambda: SteppedRate(((0.5, 3),)).rate(8, STRICT)),
    (training.NothingToAccumulate(), lambda: accumulate_stories(fresh()[0], [], STRICT)),
]

SELECTION: list[Case] = [
    (selection.OptimizerNotFresh(3), running(plan, 3)),
    (selection.NoCheckpointSteps(), lambda: replace(plan(), checkpoints=())),
    (selection.FirstCheckpointNotZero(2), lambda: replace(plan(), checkpoints=(2, 8))),
    (selection.CheckpointBeyondUpdates(9, 8), lambda: replace(plan(), checkpoints=(0, 9))),
    (selection.CheckpointStepsNotIncreasing(6, 4), lambda: replace(plan(), checkpoints=(0, 6, 4, 8))),
    (selection.LastCheckpointNotFinal(8, 6), lambda: replace(plan(), checkpoints=(0, 6))),
    (
        selection.WrongPartition("validation selection", "validation", "test"),
        running(lambda: replace(plan(), validation=TEST)),
    ),
    (selection.NoWindows("update"), running(lambda: replace(plan(), updates=one_document("train", (0,))))),
    (
        selection.WindowLengthDiffers("train evaluation", 2, 1),
        running(lambda: replace(plan(), train_evaluation=one_document("train", (0, 1), 1))),
    ),
    (
        selection.WindowExceedsContext("update", 3, 2),
        running(lambda: replace(plan(), updates=one_document("train", (0, 1, 2, 3), 3))),
    ),
    (
        selection.WindowTokenOutOfRange("update", "d", 2, 9, 5),
        running(lambda: replace(plan(), updates=one_document("train", (0, 1, 9)))),
    ),
    (selection.NonFiniteEvaluation("test", math.inf), lambda: evaluate_windows(Endless(), TEST, STRICT)),
]

FINAL: list[Case] = [
    (final.NoBigramVocabulary(-1), lambda: Bigram([], -1)),
    (final.InvalidSmoothing(-0.5), lambda: Bigram([], 2, -0.5)),
    (final.BigramTokenOutOfRange(7, 3), lambda: Bigram([(0, 7)], 3)),
    (final.BlankProvenance("split"), lambda: replace(SOURCE, split=" ")),
    (final.NoProvenanceContext(-3), lambda: replace(SOURCE, context=-3)),
    (final.NotTheTestPartition("train"), lambda: FinalEvaluation(sequential(epoch("train"), 4), SOURCE)),
    (final.NoTestWindows(), lambda: FinalEvaluation(one_document("test", (0, 1)), SOURCE)),
    (final.WindowsOfAnotherLength(2, 1), lambda: FinalEvaluation(one_document("test", (0, 1), 1), SOURCE)),
    (final.SelectedElsewhere("test"), lambda: selected(1.0, "test")),
    (final.InvalidSelectionLoss(-0.25), lambda: selected(-0.25, "validation")),
    (final.BaselineFittedElsewhere("validation"), lambda: Baseline(Bigram([(0,)], 2), "validation", SOURCE)),
    (final.BaselineWithoutDocuments(), lambda: Baseline(Bigram([], 2), "train", SOURCE)),
    (final.AlreadyEvaluated(), evaluating(times=2)),
    (
        final.ProvenanceMismatch("selected decoder", "tokenizer", "tokenizer", "words"),
        evaluating(source=replace(SOURCE, tokenizer="words")),
    ),
    (final.SelectedStateChanged(4), evaluating(moved=True)),
    (final.DecoderContextDiffers(2, 3), evaluating(context=3)),
    (final.BaselineVocabularyMismatch(5, 6), evaluating(vocabulary=6)),
    (final.EvaluatedTokenOutOfRange("target", 0, 1, 8, 5), evaluating(one_document("test", (0, 1, 8)))),
    (
        final.NonFiniteTestScore("bigram", math.inf, math.inf),
        lambda: score_bigram(Bigram([(0,) * 9], 2, 5e-324), [(0, 1)], STRICT),
    ),
]

CASES: list[Case] = [*PARTS, *SELECTION, *FINAL]
