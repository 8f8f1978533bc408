"""One call for every error of clipping, schedules, selection, and the final evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cai_reference.arithmetic.instances import STRICT
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.errors import CaiReferenceError
from cai_reference.models.llama import Llama
from cai_reference.splitmix import SplitMix64
from cai_reference.text.batches import EncodedDocument, Epoch, Windowing
from cai_reference.text.story_batches import StoryBatch
from cai_reference.training.adamw import AdamWState
from cai_reference.training.clipping import clip_to
from cai_reference.training.decoder_training import PlannedEpoch
from cai_reference.training.errors import CandidateError, TrainingError
from cai_reference.training.final_evaluation import (
    Baseline,
    Bigram,
    FinalEvaluation,
    Provenance,
    SelectedDecoder,
    score_bigram,
)
from cai_reference.training.model_kinds import ParameterSnapshot
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
        snapshot = ParameterSnapshot.of(4, model.parameters, fresh()[1])
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
    return SelectedDecoder(model, ParameterSnapshot.of(0, model.parameters, optimizer), loss, label, SOURCE)


PARTS: list[Case] = [
    (TrainingError("invalid-maximum-norm", value=-2.0), clipping([1.0], -2.0)),
    (TrainingError("non-finite-stored-gradient", name="w", index=1, value=math.inf), clipping([1.0, math.inf], 1.0)),
    (TrainingError("unrepresentable-gradient-clip", maximum=5e-324, root=3.0), clipping([1.0] * 9, 5e-324)),
    (TrainingError("empty-schedule"), lambda: SteppedRate(())),
    (TrainingError("invalid-scheduled-rate", step=4, value=-1.0), lambda: SteppedRate(((0.5, 3), (-1.0, 1)))),
    (TrainingError("invalid-schedule-floor", value=0.75, peak=0.5), lambda: WarmupDecay(0.5, 0.75, 1, 2)),
    (
        TrainingError("invalid-schedule-length", what="the schedule", steps=3, least=4),
        lambda: WarmupDecay(0.5, 0.25, 4, 3),
    ),
    (TrainingError("step-before-first", step=-6), lambda: ConstantRate(0.5).rate(-6, STRICT)),
    (TrainingError("step-behind-schedule", step=8, last=3), lambda: SteppedRate(((0.5, 3),)).rate(8, STRICT)),
]

SELECTION: list[Case] = [
    (CandidateError("optimizer-not-fresh", step=3), running(plan, 3)),
    (CandidateError("no-checkpoint-steps"), lambda: replace(plan(), checkpoints=())),
    (CandidateError("first-checkpoint-not-zero", actual=2), lambda: replace(plan(), checkpoints=(2, 8))),
    (CandidateError("checkpoint-beyond-updates", step=9, last=8), lambda: replace(plan(), checkpoints=(0, 9))),
    (
        CandidateError("checkpoint-steps-not-increasing", previous=6, following=4),
        lambda: replace(plan(), checkpoints=(0, 6, 4, 8)),
    ),
    (CandidateError("last-checkpoint-not-final", expected=8, actual=6), lambda: replace(plan(), checkpoints=(0, 6))),
    (
        CandidateError("wrong-partition", role="validation selection", expected="validation", actual="test"),
        running(lambda: replace(plan(), validation=TEST)),
    ),
    (
        CandidateError("no-windows", role="update"),
        running(lambda: replace(plan(), updates=one_document("train", (0,)))),
    ),
    (
        CandidateError("window-length-differs", role="train evaluation", expected=2, actual=1),
        running(lambda: replace(plan(), train_evaluation=one_document("train", (0, 1), 1))),
    ),
    (
        CandidateError("window-exceeds-context", role="update", tokens=3, context=2),
        running(lambda: replace(plan(), updates=one_document("train", (0, 1, 2, 3), 3))),
    ),
    (
        CandidateError("window-token-out-of-range", role="update", document="d", index=2, token=9, size=5),
        running(lambda: replace(plan(), updates=one_document("train", (0, 1, 9)))),
    ),
    (
        CandidateError("non-finite-evaluation", partition="test", value=math.inf),
        lambda: evaluate_windows(Endless(), TEST, STRICT),
    ),
]

FINAL: list[Case] = [
    (TrainingError("no-bigram-vocabulary", vocabulary=-1), lambda: Bigram([], -1)),
    (TrainingError("invalid-smoothing", value=-0.5), lambda: Bigram([], 2, -0.5)),
    (TrainingError("bigram-token-out-of-range", token=7, vocabulary=3), lambda: Bigram([(0, 7)], 3)),
    (TrainingError("blank-provenance", field="split"), lambda: replace(SOURCE, split=" ")),
    (TrainingError("no-provenance-context", context=-3), lambda: replace(SOURCE, context=-3)),
    (
        TrainingError("not-the-test-partition", actual="train"),
        lambda: FinalEvaluation(sequential(epoch("train"), 4), SOURCE),
    ),
    (TrainingError("no-test-windows"), lambda: FinalEvaluation(one_document("test", (0, 1)), SOURCE)),
    (
        TrainingError("windows-of-another-length", expected=2, actual=1),
        lambda: FinalEvaluation(one_document("test", (0, 1), 1), SOURCE),
    ),
    (TrainingError("selected-elsewhere", actual="test"), lambda: selected(1.0, "test")),
    (TrainingError("invalid-selection-loss", value=-0.25), lambda: selected(-0.25, "validation")),
    (
        TrainingError("baseline-fitted-elsewhere", actual="validation"),
        lambda: Baseline(Bigram([(0,)], 2), "validation", SOURCE),
    ),
    (TrainingError("baseline-without-documents"), lambda: Baseline(Bigram([], 2), "train", SOURCE)),
    (TrainingError("already-evaluated"), evaluating(times=2)),
    (
        TrainingError(
            "provenance-mismatch", model="selected decoder", field="tokenizer", expected="tokenizer", actual="words"
        ),
        evaluating(source=replace(SOURCE, tokenizer="words")),
    ),
    (TrainingError("selected-state-changed", step=4), evaluating(moved=True)),
    (TrainingError("decoder-context-differs", expected=2, actual=3), evaluating(context=3)),
    (TrainingError("baseline-vocabulary-mismatch", decoder=5, baseline=6), evaluating(vocabulary=6)),
    (
        TrainingError("evaluated-token-out-of-range", side="target", batch=0, position=1, token=8, vocabulary=5),
        evaluating(one_document("test", (0, 1, 8))),
    ),
    (
        TrainingError("non-finite-test-score", model="bigram", mean=math.inf, perplexity=math.inf),
        lambda: score_bigram(Bigram([(0,) * 9], 2, 5e-324), [(0, 1)], STRICT),
    ),
]

CASES: list[Case] = [*PARTS, *SELECTION, *FINAL]
