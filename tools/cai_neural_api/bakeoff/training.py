"""What a training leaves behind, whoever trained.

Training as a textbook has it: masked mean cross-entropy, AdamW, no weights thrown away.

The decoder family's own training, on the same rows: each epoch shuffles them, padding does not count, and every row
ends with the stop id 1, which the decode arms show nothing behind. A loss is the mean over real targets. The library's
loss counts padding, looked up in row 0, so that the two do not compare.

Training as the library does it, until a limit is reached; the weights of the last full epoch are kept.

The limit is asked behind each step, never behind a validation: a box that ends with the last step of an epoch loses
that epoch, as in the library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from cai_conformance.backends.reference.story_training import optimizer_for
from cai_conformance.verdicts import Clock
from cai_neural_api.bakeoff.settings import BakeSettings, TrainingLimit
from cai_neural_api.conversion import Model, decoder_to_net, initial_model
from cai_neural_api.format import NetFile
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.net.graph import Net
from cai_neural_api.tokenizer import Rows
from cai_neural_api.training import AdamSettings, LegacyFit, LegacyTrainer
from cai_reference.models.decoder import DecoderConfiguration
from cai_reference.models.token_shift_draft import DraftConfiguration
from cai_reference.splitmix import SplitMix64
from cai_reference.text.story_batches import StoryBatch, shuffled_story_batches
from cai_reference.training.decoder_training import DecoderStep, DecoderTraining

Log: TypeAlias = Callable[[str], None]
"""Takes a line that is worth keeping."""

LOG_EVERY: Final = 25
"""Steps from one line of the log to the next, as published."""


@dataclass(frozen=True)
class Course:
    """How a training went.

    Attributes:
        ending: why it ended.
        seconds: how long it took, validation included.
        steps, kept: the steps that were taken, and the one whose weights are kept.
        examples: those of all steps.
        first_loss: of the first batch, before anything was learned.
        logged_loss: of the batch of step 25, the first that the published program logs; None of a shorter training.
        loss: of the last batch, as published: of weights that are thrown away where `kept` is less than `steps`.
        kept_loss: of the batch of step `kept`.
        accuracy: the best of all validations; None where there was none.
    """

    ending: str
    seconds: float
    steps: int
    kept: int
    examples: int
    first_loss: float
    logged_loss: float | None
    loss: float
    kept_loss: float
    accuracy: float | None

    @property
    def thrown_away(self) -> int:
        """The steps whose weights are lost."""
        return self.steps - self.kept

    @property
    def throughput(self) -> float:
        """Examples a second."""
        return self.examples / max(self.seconds, 1e-9)

    @property
    def sentence(self) -> str:
        """What is kept and what is lost, in words."""
        ended = f"ended behind step {self.steps} ({self.ending}), loss of its batch {self.loss:.4f}"
        if not self.thrown_away:
            return f"{ended}; the weights after it are kept"
        lost = "the last step is" if self.thrown_away == 1 else f"the last {self.thrown_away} steps are"
        return (
            f"{ended}; {lost} thrown away with that loss, "
            f"the weights of step {self.kept} are kept, loss of its batch {self.kept_loss:.4f}"
        )


STOP: Final = 1
"""Stands behind every row."""


def train_cleanly(
    configuration: DecoderConfiguration | DraftConfiguration,
    rows: Rows,
    settings: BakeSettings,
    limit: TrainingLimit,
    clock: Clock,
    log: Log,
) -> tuple[NetFile, Course]:
    """Train a new model, and return it as a net.

    Raises:
        AutogradError, AdamWError: training diverged.
        NetError (weight-beyond-single): a weight does not fit into the net.
    """
    model = initial_model(configuration, settings.seed)
    rate, batch = settings.sizes.optimizer.learning_rate, settings.schedule.batch
    log(f"rate {rate:g}, {batch} examples a step, AdamW, mean loss over real targets")
    start, losses, examples, ending = clock(), list[float](), 0, ""
    for step, stories in _steps(model, rows, settings):
        assert step.batch_loss is not None
        losses.append(step.batch_loss)
        examples += stories.rows
        taken = len(losses)
        ending = limit.reached(taken)
        if taken % LOG_EVERY == 0 or taken == 1:
            log(f"step {taken}: loss {losses[-1]:.4f}, {examples} examples, {clock() - start:.1f} s")
        if ending:
            break
    taken, seconds = len(losses), clock() - start
    logged = losses[LOG_EVERY - 1] if taken >= LOG_EVERY else None
    course = Course(ending, seconds, taken, taken, examples, losses[0], logged, losses[-1], losses[-1], None)
    return decoder_to_net(model), course


def _steps(model: Model, rows: Rows, settings: BakeSettings) -> Iterator[tuple[DecoderStep, StoryBatch]]:
    """Train without an end, epoch by epoch; yield each step with its batch."""
    stories = tuple((*row, STOP) for row in rows)
    sizes, size = settings.sizes, settings.schedule.batch
    optimizer, order = optimizer_for(model, sizes), SplitMix64(settings.seed + 1)
    while True:
        batches = shuffled_story_batches(stories, size, sizes.context, order, -(-len(stories) // size))
        training = DecoderTraining(batches, (), (), frozenset(), sizes.clip)
        for step in training.run(model, optimizer, settings.arithmetic):
            # Step 0 tells what was before the epoch.
            if step.step:
                yield step, batches[step.step - 1]


def train_as_library(
    initial: NetFile,
    rate: float,
    rows: Rows,
    settings: BakeSettings,
    generator: MersenneTwister,
    limit: TrainingLimit,
    clock: Clock,
    log: Log,
) -> tuple[NetFile, Course]:
    """Train a net on rows drawn by a generator, which moves on.

    Raises:
        LegacyError: the net or a row cannot be trained on, or the schedule is too small.
        NetError (non-finite-output): training diverged.
    """
    trainer = LegacyTrainer(Net.from_file(initial), AdamSettings(rate), settings.arithmetic)
    fit = LegacyFit(trainer, rows, settings.schedule, generator)
    log(f"rate {rate:g}, {fit.examples} examples a step, {fit.steps} steps an epoch")
    start, ending = clock(), ""
    losses: dict[int, float] = {}
    logged: float | None = None
    for progress in fit.run():
        batch, validation = progress.batch, progress.validation
        if validation is not None:
            losses[progress.step] = batch.loss
            log(
                f"epoch {progress.epoch}, step {progress.step}: validation loss {validation.loss:.4f}, "
                f"error {validation.error:.3f}, accuracy {validation.accuracy:.4f}; weights saved"
            )
            continue
        if progress.step == LOG_EVERY:
            logged = batch.loss
        ending = limit.reached(progress.step)
        if progress.step % LOG_EVERY == 0 or progress.step == 1:
            log(
                f"step {progress.step}: loss {batch.loss:.4f}, error {batch.error:.3f}, accuracy {batch.accuracy:.4f}, "
                f"{progress.step * fit.examples} examples, {clock() - start:.1f} s"
            )
        if ending:
            break
    result, seconds = fit.result(), clock() - start
    assert result.first is not None
    assert result.last is not None
    course = Course(
        ending or result.ending.value,
        seconds,
        result.steps,
        result.kept,
        result.steps * fit.examples,
        result.first.loss,
        logged,
        result.last.loss,
        losses.get(result.kept, result.last.loss),
        result.best_accuracy if losses else None,
    )
    return result.net, course
