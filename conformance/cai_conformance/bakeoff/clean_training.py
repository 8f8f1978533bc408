"""Training as a textbook has it: masked mean cross-entropy, AdamW, no weights thrown away.

The decoder family's own training, on the same rows: each epoch shuffles them, padding does not count, and every row
ends with the stop id 1, which the decode arms show nothing behind. A loss is the mean over real targets. The library's
loss counts padding, looked up in row 0, so that the two do not compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cai_conformance.backends.decoder.training import optimizer_for
from cai_conformance.bakeoff.limits import Limit
from cai_conformance.bakeoff.settings import BakeSettings
from cai_conformance.bakeoff.trained import LOG_EVERY, Course, Log, Trained
from cai_conformance.timing import Clock
from cai_reference.legacy.tokenizer import Rows
from cai_reference.models.decoder import Decoder
from cai_reference.models.decoder_configuration import DecoderConfiguration, DraftConfiguration
from cai_reference.models.token_shift_draft import TokenShiftDraft
from cai_reference.nets.conversion import Model, decoder_to_net
from cai_reference.splitmix import SplitMix64
from cai_reference.text.story_batches import StoryBatch, shuffled_story_batches
from cai_reference.training.decoder_training import DecoderStep, DecoderTraining

STOP: Final = 1
"""Stands behind every row."""


def train_cleanly(
    configuration: DecoderConfiguration | DraftConfiguration,
    rows: Rows,
    settings: BakeSettings,
    limit: Limit,
    clock: Clock,
    log: Log,
) -> Trained:
    """Train a new model, and return it as a net.

    Raises:
        AutogradError, AdamWError: training diverged.
        WeightBeyondSingle: a weight does not fit into the net.
    """
    model = _initial(configuration, settings.seed)
    optimizer = settings.sizes.optimizer
    batch = settings.schedule.batch
    log(f"rate {optimizer.learning_rate:g}, {batch} examples a step, AdamW, mean loss over real targets")
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
    return Trained(decoder_to_net(model), course)


def _initial(configuration: DecoderConfiguration | DraftConfiguration, seed: int) -> Model:
    if isinstance(configuration, DraftConfiguration):
        return TokenShiftDraft.initialize(configuration, SplitMix64(seed))
    return Decoder.initialize(configuration, SplitMix64(seed))


def _steps(model: Model, rows: Rows, settings: BakeSettings) -> Iterator[tuple[DecoderStep, StoryBatch]]:
    """Train without an end, epoch by epoch; yield each step with its batch."""
    stories = tuple((*row, STOP) for row in rows)
    sizes, size = settings.sizes, settings.schedule.batch
    optimizer, order = optimizer_for(model, sizes), SplitMix64(settings.seed + 1)
    while True:
        batches = shuffled_story_batches(stories, size, sizes.context, order, _ceiling(stories, size))
        training = DecoderTraining(batches, (), (), frozenset(), sizes.clip)
        for step in training.run(model, optimizer, settings.arithmetic):
            # Step 0 tells what was before the epoch.
            if step.step:
                yield step, batches[step.step - 1]


def _ceiling(stories: Sequence[tuple[int, ...]], size: int) -> int:
    return -(-len(stories) // size)
