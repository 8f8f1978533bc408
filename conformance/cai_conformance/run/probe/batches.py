"""The checks of training on batches that somebody asks about: loss, gradients and steps beside the reference's.

Rows are held against the reference of the same model folder, tensor by tensor. What rounding may do is not measured
here: as many units count as the order of rows may ever move a tensor by.

In text, a row is ids, rows are joined by slashes, and each batch is one step: `0,3,1/0,2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from cai_conformance.backends.engine.features import training
from cai_conformance.backends.engine.files import FolderModel, answered_tensors, file_names
from cai_conformance.backends.reference.training import loss_and_gradients
from cai_conformance.checks.check import Check
from cai_conformance.checks.optimizer import TrainingComparison, judge_gradients, judge_loss, judge_steps
from cai_conformance.checks.probe.driven import UNTRAINED
from cai_conformance.checks.probe.training_rows import most_units
from cai_conformance.checks.rows import EXACT_ARITHMETIC
from cai_conformance.checks.tolerance.policy import FACTOR, PolicyKind
from cai_conformance.checks.tolerance.training import (
    BETA_1,
    BETA_2,
    DECAY,
    EPSILON,
    FIRST_MOMENT,
    GRADIENT,
    LOSS,
    RATE,
    SECOND_MOMENT,
    WEIGHTS,
    TrainingPart,
    TrainingProbe,
    engine_steps,
    reference_steps,
    values_of,
)
from cai_conformance.engine import TrainingBatch, TrainingEngine, TrainingSettings
from cai_conformance.errors import InputError
from cai_conformance.run.probe.calls import read_ids
from cai_conformance.run.probe.judged import CheckedFolder, Judged, judged_safely
from cai_conformance.verdicts import Level, Outcome
from cai_reference.arithmetic.instances import STRICT
from cai_reference.models.decoder import Decoder
from cai_reference.models.registry import decayed_names
from cai_reference.models.stack import DecoderStack
from cai_reference.text.story_batches import StoryBatch

CLIP_DIGITS: Final = 3
"""How many digits the limit of the gradient norm has, which is half the norm of the first batch."""


@dataclass(frozen=True)
class Batches:
    """Rows of ids, batch by batch; each is one step.

    Raises:
        InputError (batch-unreadable): there is no batch, a batch has no rows, or a row has fewer than two ids.
    """

    steps: tuple[tuple[tuple[int, ...], ...], ...]

    def __post_init__(self) -> None:
        if not self.steps or not all(self.steps):
            raise InputError("batch-unreadable", text=" ".join(self.texts), problem="there are no rows")
        if min(len(row) for rows in self.steps for row in rows) < 2:
            raise InputError(
                "batch-unreadable",
                text=" ".join(self.texts),
                problem="a row has fewer than two ids, so that nothing is predicted",
            )

    @classmethod
    def of(cls, texts: Sequence[str]) -> Batches:
        """Read batches, one a text.

        Raises:
            InputError (batch-unreadable): one cannot be read.
        """
        try:
            steps = tuple(tuple(read_ids(row, "a row") for row in text.split("/")) for text in texts)
        except InputError as error:
            if error.code != "calls-unreadable":
                raise
            raise InputError(
                "batch-unreadable", text=str(error.fields["text"]), problem=str(error.fields["problem"])
            ) from None
        return cls(steps)

    @property
    def texts(self) -> tuple[str, ...]:
        """The batches as `of` reads them."""
        return tuple("/".join(",".join(map(str, row)) for row in rows) for rows in self.steps)

    @property
    def ids(self) -> tuple[int, ...]:
        """All ids, in order."""
        return tuple(token for rows in self.steps for row in rows for token in row)

    def with_ids(self, ids: Sequence[int]) -> Batches:
        """Return rows of the same lengths with other ids."""
        following = iter(ids)
        return Batches(tuple(tuple(tuple(islice(following, len(row))) for row in rows) for rows in self.steps))

    def stories(self) -> tuple[StoryBatch, ...]:
        """Return the batches as the judges of training know them."""
        return tuple(StoryBatch(rows, max(map(len, rows)) - 1) for rows in self.steps)


@dataclass(frozen=True)
class BatchCheck:
    """A check of training: the parts that it looks at in the first step, and those in later ones."""

    declared: Check
    first: frozenset[str]
    later: frozenset[str]

    @property
    def level(self) -> Level:
        """Where it stands in its track."""
        return self.declared.level

    @property
    def identifier(self) -> str:
        """Its name, for there are no cases."""
        return self.declared.name


OWN: Final = frozenset({FIRST_MOMENT, SECOND_MOMENT, WEIGHTS})

BATCH_CHECKS: Final = (
    BatchCheck(judge_loss, frozenset({LOSS}), frozenset()),
    BatchCheck(judge_gradients, frozenset({GRADIENT}), frozenset()),
    BatchCheck(judge_steps, OWN, OWN | {LOSS, GRADIENT}),
)
"""In the order of judging."""


def judge_batches(check: BatchCheck, batches: Batches, folder: CheckedFolder) -> Judged:
    """Take a step on each batch, and compare its parts with the reference's.

    Raises:
        InputError (folder-unreadable): the reference cannot read the folder.
    """
    return judged_safely(lambda: _judged(check, batches, folder))


def heads_of(model: DecoderStack) -> int:
    """Return how many tokens a model predicts at once."""
    return model.configuration.futures if isinstance(model, Decoder) else 1


def _judged(check: BatchCheck, batches: Batches, folder: CheckedFolder) -> Judged:
    probe = folder.probe
    engine = training(probe.engine)
    if engine is None:
        return Judged.skipped(UNTRAINED)
    # It is trained, so the one that others share will not do.
    held = folder.read()
    asked = _asked(held.model, batches)
    right = reference_steps(held.model, asked)
    found = _found(folder, engine, held, asked)
    precision = probe.description.precision.coarsest
    comparison = TrainingComparison(right, found, asked, *_allowed(folder, len(right), precision), precision)
    for step in range(1, len(batches.steps) + 1):
        difference = comparison.first_difference(step, check.first if step == 1 else check.later)
        if difference is not None:
            return Judged(Outcome.FAIL, difference[1], (difference[0],))
    steps = "1 step" if len(batches.steps) == 1 else f"{len(batches.steps)} steps"
    return Judged(Outcome.PASS, f"{steps} as the reference's")


def _asked(model: DecoderStack, batches: Batches) -> TrainingProbe:
    """Return the batches with settings in which every term counts, and clipping as well."""
    heads, stories = heads_of(model), batches.stories()
    first = TrainingBatch.of(stories[0], heads)
    _, gradients = loss_and_gradients(model, first.inputs, first.targets, STRICT)
    norm = float(np.sqrt(sum(float(np.sum(value * value)) for value in gradients.values())))
    # A gradient that is nothing has no norm to be clipped at.
    clip = float(f"{norm / 2.0:.{CLIP_DIGITS}g}") or None
    settings = TrainingSettings(RATE, BETA_1, BETA_2, EPSILON, DECAY, clip, decayed_names(model.parameters))
    return TrainingProbe(stories, settings, heads)


def _found(
    folder: CheckedFolder, engine: TrainingEngine, held: FolderModel, asked: TrainingProbe
) -> tuple[TrainingPart, ...]:
    settings = replace(asked.settings, decayed=file_names(held.layout, asked.settings.decayed))
    name, wanted = folder.probe.description.name, values_of(held.model)
    folder.probe.engine.load(folder.path)
    try:
        return engine_steps(engine, settings, asked, lambda found: answered_tensors(held.layout, found, wanted, name))
    finally:
        # What was trained is no longer what was loaded.
        folder.probe.engine.load(folder.path)


def _allowed(folder: CheckedFolder, count: int, precision: str) -> tuple[tuple[float, ...], float]:
    """Return floors and their factor; no floors where bits are compared."""
    policy = folder.probe.policy
    exact = policy.is_exact(bitwise=folder.probe.description.arithmetic == EXACT_ARITHMETIC)
    if exact and not folder.clearly:
        return (), 0.0
    units = 0.0 if exact else policy.ulps if policy.kind is PolicyKind.ULP else FACTOR * most_units(precision)
    return (1.0,) * count, folder.allowed(units)
