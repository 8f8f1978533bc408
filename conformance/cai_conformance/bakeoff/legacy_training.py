"""Training as the library does it, until a limit is reached; the weights of the last full epoch are kept.

The limit is asked behind each step, never behind a validation: a box that ends with the last step of an epoch loses
that epoch, as in the library.
"""

from __future__ import annotations

from cai_conformance.bakeoff.limits import Limit
from cai_conformance.bakeoff.settings import BakeSettings
from cai_conformance.bakeoff.trained import LOG_EVERY, Course, Log, Trained
from cai_conformance.timing import Clock
from cai_reference.legacy.mersenne import MersenneTwister
from cai_reference.legacy.tokenizer import Rows
from cai_reference.legacy.training import AdamSettings, FitProgress, LegacyFit, LegacyTrainer
from cai_reference.nets.format import NetFile
from cai_reference.nets.graph.net import Net


def train_as_library(
    initial: NetFile,
    rate: float,
    rows: Rows,
    settings: BakeSettings,
    generator: MersenneTwister,
    limit: Limit,
    clock: Clock,
    log: Log,
) -> Trained:
    """Train a net on rows drawn by a generator, which moves on.

    Raises:
        LegacyTrainingError: the net or a row cannot be trained on, or the schedule is too small.
        NonFiniteOutput: training diverged.
    """
    trainer = LegacyTrainer(Net.from_file(initial), AdamSettings(rate), settings.arithmetic)
    fit = LegacyFit(trainer, rows, settings.schedule, generator)
    log(f"rate {rate:g}, {fit.examples} examples a step, {fit.steps} steps an epoch")
    start, ending = clock(), ""
    losses: dict[int, float] = {}
    logged: float | None = None
    for progress in fit.run():
        if progress.validation is not None:
            losses[progress.step] = progress.batch.loss
            log(_validated(progress))
            continue
        if progress.step == LOG_EVERY:
            logged = progress.batch.loss
        ending = limit.reached(progress.step)
        if progress.step % LOG_EVERY == 0 or progress.step == 1:
            log(_stepped(progress, fit.examples, clock() - start))
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
    return Trained(result.net, course)


def _stepped(progress: FitProgress, examples: int, seconds: float) -> str:
    batch = progress.batch
    return (
        f"step {progress.step}: loss {batch.loss:.4f}, error {batch.error:.3f}, accuracy {batch.accuracy:.4f}, "
        f"{progress.step * examples} examples, {seconds:.1f} s"
    )


def _validated(progress: FitProgress) -> str:
    validation = progress.validation
    assert validation is not None
    return (
        f"epoch {progress.epoch}, step {progress.step}: validation loss {validation.loss:.4f}, "
        f"error {validation.error:.3f}, accuracy {validation.accuracy:.4f}; weights saved"
    )
