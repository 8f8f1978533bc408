"""The library's fitting loop: batches drawn at random, epochs, validation, and which weights are left at the end.

**Lost last epoch**: when training is stopped from outside (a time box), the net is loaded back from the file written at
the last completed and validated epoch, so that everything after it is thrown away, the reported loss included. Only
before the first validation the current weights are kept. A stop on the very last step of a later epoch loses that whole
epoch. When training ends by itself, the weights of the best validation are loaded; without a record the library would
load whatever an earlier program left there, and this loop keeps the last ones.

**Validation skips**: of its nominal number of samples each thread leaves out its last one. This loop is one thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from cai_reference.arithmetic import Arithmetic
from cai_reference.legacy.mersenne import MersenneTwister
from cai_reference.legacy.training.adam import AdamSettings, LegacyAdam
from cai_reference.legacy.training.errors import NoStories, NotALanguageModel
from cai_reference.legacy.training.pairs import TokenMemory, make_pairs
from cai_reference.legacy.training.reporting import BatchReport, difference, report
from cai_reference.nets.format import NetFile
from cai_reference.nets.graph.layers.embedding import Embedding
from cai_reference.nets.graph.layers.layer import GradientRules, Learned
from cai_reference.nets.graph.net import Net

Stories: TypeAlias = Sequence[Sequence[int]]

GRADIENT_LIMIT: Final = 100.0
"""The library's limit of gradients that enter a convolution or a sum."""


class LegacyTrainer:
    """One net in training, as one thread of the library trains it.

    Attributes:
        net: changed in place.
        heads: how many future tokens it predicts.

    Raises:
        NotALanguageModel: the net does not end in rows of probabilities over its embedding's ids.
    """

    def __init__(self, net: Net, settings: AdamSettings, arithmetic: Arithmetic) -> None:
        self.net = net
        self._arithmetic = arithmetic
        self._optimizer = LegacyAdam(net, settings, arithmetic)
        self._memory = TokenMemory(net.context)
        self.vocabulary, self.heads = language_model(net)

    def gradients(self, stories: Stories) -> tuple[BatchReport, tuple[Learned | None, ...]]:
        """Return the report and the gradients of a batch, summed over its examples; nothing is learned.

        Raises:
            LegacyTrainingError: a story cannot be paired.
        """
        pairs = make_pairs(stories, self.net.context, self.vocabulary, self.heads)
        rows = self._memory.see(pairs.inputs)
        run = self.net.run(self._arithmetic, pairs.inputs)
        rules = GradientRules(GRADIENT_LIMIT, rows)
        gradient = difference(run.output, pairs.targets)
        gradients = self.net.gradients(self._arithmetic, run, gradient, rules)
        return report(self._arithmetic, run.output, pairs.targets), gradients

    def step(self, stories: Stories) -> BatchReport:
        """Learn from one batch, and return the report from before the step."""
        reported, gradients = self.gradients(stories)
        self._optimizer.step(gradients)
        return reported

    def evaluate(self, stories: Stories) -> BatchReport:
        """Report without learning; the embedding's memory of ids is overwritten all the same."""
        pairs = make_pairs(stories, self.net.context, self.vocabulary, self.heads)
        self._memory.see(pairs.inputs)
        return report(self._arithmetic, self.net.run(self._arithmetic, pairs.inputs).output, pairs.targets)


def language_model(net: Net) -> tuple[int, int]:
    """Return the vocabulary of a net, and for how many future tokens it gives probabilities.

    Raises:
        NotALanguageModel: its output is not as deep as that.
    """
    depth = net.shapes[-1].depth
    tables = [layer.learned.weights[0] for layer in net.layers if isinstance(layer, Embedding)]
    vocabulary = tables[0].shape[0] if tables else 0
    if vocabulary == 0 or depth % vocabulary:
        raise NotALanguageModel(depth, vocabulary)
    return vocabulary, depth // vocabulary


class Ending(StrEnum):
    """Why a fit ended."""

    STOPPED = "stopped"
    PERFECT = "accuracy 1"
    EPOCHS = "all epochs"


@dataclass(frozen=True)
class FitSchedule:
    """The loop; the defaults are the published program's.

    Attributes:
        batch: examples a step.
        steps: steps an epoch.
        epochs: at most so many.
        validation: samples a validation, nominally; one fewer is evaluated.
        stride: validation sample k is row k · stride, modulo the number of rows.
    """

    batch: int = 32
    steps: int = 100
    epochs: int = 500
    validation: int = 160
    stride: int = 20


@dataclass(frozen=True)
class FitProgress:
    """One step that was taken, or the validation after an epoch (`validation` is not None then).

    `step` counts from 1 over all epochs.
    """

    step: int
    epoch: int
    batch: BatchReport
    validation: BatchReport | None = None


@dataclass(frozen=True)
class FitResult:
    """What a fit leaves behind.

    Attributes:
        net: the weights that the library would load back.
        final: the weights after the last step, which it throws away.
        ending: why it ended.
        steps: steps taken.
        kept: the step whose weights `net` holds.
        first, last: the reports of the first and the last batch; None of a fit without steps.
        best_accuracy: of all validations, 0 without any.
    """

    net: NetFile
    final: NetFile
    ending: Ending
    steps: int
    kept: int
    first: BatchReport | None
    last: BatchReport | None
    best_accuracy: float


class LegacyFit:
    """A fit that is advanced step by step, so that whoever runs it decides when the time is over.

    Raises:
        NoStories: there are none.
    """

    def __init__(
        self, trainer: LegacyTrainer, stories: Stories, schedule: FitSchedule, generator: MersenneTwister
    ) -> None:
        if not len(stories):
            raise NoStories
        self._trainer = trainer
        self._stories = stories
        self._schedule = schedule
        self._generator = generator
        self._reports: list[BatchReport] = []
        self._saved: tuple[NetFile, int] | None = None
        self._best: tuple[NetFile, int] | None = None
        self._record = 0.0
        self._ending = Ending.STOPPED

    def run(self) -> Iterator[FitProgress]:
        """Take one step after the other; whoever stops asking stops the fit."""
        for epoch in range(1, self._schedule.epochs + 1):
            for _ in range(self._schedule.steps):
                yield FitProgress(self._step(), epoch, self._reports[-1])
            validation = self._validate()
            yield FitProgress(len(self._reports), epoch, self._reports[-1], validation)
            if validation.accuracy >= 1.0:
                self._ending = Ending.PERFECT
                return
        self._ending = Ending.EPOCHS

    def result(self) -> FitResult:
        """Return what is left if the fit ends here."""
        steps, final = len(self._reports), self._trainer.net.to_file()
        loaded = self._saved if self._ending is Ending.STOPPED else self._best or self._saved
        net, kept = loaded or (final, steps)
        first, last = (self._reports[0], self._reports[-1]) if self._reports else (None, None)
        return FitResult(net, final, self._ending, steps, kept, first, last, self._record)

    def _step(self) -> int:
        rows = [self._generator.below(len(self._stories)) for _ in range(self._schedule.batch)]
        self._reports.append(self._trainer.step([self._stories[row] for row in rows]))
        return len(self._reports)

    def _validate(self) -> BatchReport:
        schedule, count = self._schedule, len(self._stories)
        rows = [(schedule.stride * sample) % count for sample in range(max(1, schedule.validation - 1))]
        reports = [
            self._trainer.evaluate([self._stories[row] for row in rows[first : first + schedule.batch]])
            for first in range(0, len(rows), schedule.batch)
        ]
        sizes = [min(schedule.batch, len(rows) - first) for first in range(0, len(rows), schedule.batch)]
        validation = BatchReport(*(_mean(values, sizes) for values in zip(*map(_numbers, reports), strict=True)))
        self._saved = (self._trainer.net.to_file(), len(self._reports))
        if validation.accuracy > self._record:
            self._record, self._best = validation.accuracy, self._saved
        return validation


def _numbers(reported: BatchReport) -> tuple[float, float, float]:
    return reported.loss, reported.error, reported.accuracy


def _mean(values: Sequence[float], sizes: Sequence[int]) -> float:
    total = 0.0
    for value, size in zip(values, sizes, strict=True):
        total += value * size
    return total / float(sum(sizes))
