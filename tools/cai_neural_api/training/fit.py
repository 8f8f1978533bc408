"""The library's fitting loop: batches drawn at random, epochs, validation, and which weights are left at the end.

**Lost last epoch**: when training is stopped from outside (a time box), the net is loaded back from the file written
with the weights of the last completed and validated epoch, so that everything after it is thrown away, the reported
loss included. Only before the first validation the current weights are kept. A stop on the very last step of a later
epoch loses that whole epoch. When training ends by itself, the weights of the best validation are loaded; without a
record the library would load whatever an earlier program left there, and this loop keeps those of the last epoch.

**Batch and epoch**: a batch is cut down to a multiple of the number of threads, and an epoch has as many steps as such
batches fit into its samples: 32 examples and 100 steps with one thread, 24 and 133 with twelve.

**Validation skips**: each thread takes an equal share of the nominal number of samples, and leaves out its last one.

**Draws**: one number an example, in their order. Several threads of the library draw from the same generator without a
lock, so that its order cannot be told; here it is thread by thread. The library also draws as many numbers as a fresh
net needs each time it copies a net: once a thread and once more before the first batch, again behind the first epoch.
That was read in its source. Nothing of it is drawn here: whoever follows its generator draws them himself.

**Not the loss of `cai_reference.training`**: there, a loss is the mean cross-entropy over real targets, which AdamW
descends as it is. Here padding counts with target 0, looked up in row 0, and the error of all rows is descended as a
sum, so that the losses of the two do not compare, not even of the same weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from cai_neural_api.errors import LegacyError
from cai_neural_api.format import NetFile
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.training.pairs import BatchReport, combine
from cai_neural_api.training.trainer import LegacyTrainer, Stories


class Ending(StrEnum):
    """Why a fit ended."""

    STOPPED = "stopped"
    PERFECT = "accuracy 1"
    EPOCHS = "all epochs"


@dataclass(frozen=True)
class FitSchedule:
    """The loop; the defaults are the published program's.

    Attributes:
        batch: examples a step, nominally.
        samples: examples an epoch, nominally.
        epochs: at most so many.
        validation: samples a validation, nominally.
        stride: validation sample k is row k · stride, modulo the number of rows.
    """

    batch: int = 32
    samples: int = 3200
    epochs: int = 500
    validation: int = 160
    stride: int = 20

    def examples(self, threads: int) -> int:
        """Return the examples of a step: the batch, cut down to a multiple of the number of threads."""
        return self.batch // threads * threads

    def steps(self, threads: int) -> int:
        """Return the steps of an epoch."""
        return self.samples // self.examples(threads)


@dataclass(frozen=True)
class FitProgress:
    """One step that was taken, or the validation after an epoch (`validation` is not None then).

    `step` and `epoch` count from 1, the step over all epochs.
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

    Attributes:
        examples: examples a step.
        steps: steps an epoch.

    Args:
        trainer: the net, the optimiser and the number of threads.
        stories: the rows to draw from, and to validate on.
        schedule: the numbers of the loop.
        generator: where rows are drawn; it moves on.
        rates: the learning rate of each epoch, counted from 0; without it the trainer's rate stays.

    Raises:
        StoryError (no-stories): there are none.
        LegacyError (schedule-too-small): a batch, an epoch or a validation is too small for the threads.
    """

    def __init__(
        self,
        trainer: LegacyTrainer,
        stories: Stories,
        schedule: FitSchedule,
        generator: MersenneTwister,
        rates: Callable[[int], float] | None = None,
    ) -> None:
        if not len(stories):
            raise LegacyError("no-stories")
        _check(schedule, trainer.threads)
        self.examples = schedule.examples(trainer.threads)
        self.steps = schedule.steps(trainer.threads)
        self._trainer = trainer
        self._stories = stories
        self._schedule = schedule
        self._generator = generator
        self._rates = rates
        self._taken = self._epochs = 0
        self._first: BatchReport | None = None
        self._last: BatchReport | None = None
        self._saved: tuple[NetFile, int] | None = None
        self._best: tuple[NetFile, int] | None = None
        self._record = 0.0
        self._ending = Ending.STOPPED

    def run(self) -> Iterator[FitProgress]:
        """Take one step after the other; whoever stops asking stops the fit, and who asks anew goes on with it."""
        batch = self._last
        while self._ending is Ending.STOPPED:
            if self._rates is not None:
                self._trainer.change_rate(self._rates(self._epochs))
            while batch is None or self._taken < (self._epochs + 1) * self.steps:
                batch = self._step()
                yield FitProgress(self._taken, self._epochs + 1, batch)
            yield self._end_of_epoch(batch)

    def result(self) -> FitResult:
        """Return what is left if the fit ends here."""
        final = self._trainer.net.to_file()
        loaded = self._saved if self._ending is Ending.STOPPED else self._best
        net, kept = loaded or (final, self._taken)
        return FitResult(net, final, self._ending, self._taken, kept, self._first, self._last, self._record)

    def _step(self) -> BatchReport:
        rows = [self._generator.below(len(self._stories)) for _ in range(self.examples)]
        self._last = self._trainer.step([self._stories[row] for row in rows])
        self._first = self._first or self._last
        self._taken += 1
        return self._last

    def _end_of_epoch(self, batch: BatchReport) -> FitProgress:
        """Validate, and save the weights as the library does."""
        validation = self._validate()
        self._epochs += 1
        self._saved = (self._trainer.net.to_file(), self._taken)
        if validation.accuracy > self._record:
            self._record, self._best = validation.accuracy, self._saved
        if validation.accuracy >= 1.0:
            self._ending = Ending.PERFECT
        elif self._epochs == self._schedule.epochs:
            self._ending = Ending.EPOCHS
        return FitProgress(self._taken, self._epochs, batch, validation)

    def _validate(self) -> BatchReport:
        """Evaluate all samples, in batches that bound the memory and change nothing else."""
        reports, sizes = [], []
        share, count = self._schedule.validation // self._trainer.threads, len(self._stories)
        for thread in range(self._trainer.threads):
            samples = range(thread * share, (thread + 1) * share - 1)
            rows = [self._stories[self._schedule.stride * sample % count] for sample in samples]
            for first in range(0, len(rows), self._schedule.batch):
                batch = rows[first : first + self._schedule.batch]
                reports.append(self._trainer.evaluate(batch, thread))
                sizes.append(len(batch))
        return combine(reports, sizes)


def _check(schedule: FitSchedule, threads: int) -> None:
    """Refuse what leaves a thread without work; the library would use fewer threads, or validate nothing."""
    for name, value, least in (
        ("batch", schedule.batch, threads),
        ("samples", schedule.samples, schedule.examples(threads)),
        ("epochs", schedule.epochs, 1),
        ("validation", schedule.validation, 2 * threads),
    ):
        if value < least:
            raise LegacyError("schedule-too-small", name=name, value=value, least=least)
