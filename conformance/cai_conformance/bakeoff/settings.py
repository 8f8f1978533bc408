"""How a bake-off is run; everything that tests make small is here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cai_conformance.backends.decoder.plan import PUBLISHED_SIZES, Sizes
from cai_conformance.bakeoff.errors import InvalidBakeSetting, InvalidBudget, LimitsConflict
from cai_conformance.bakeoff.limits import Limit, StepCount, TimeBox
from cai_conformance.bakeoff.phases import BakePhase
from cai_conformance.timing import Clock
from cai_reference.arithmetic import FAST, Arithmetic
from cai_reference.legacy.training import FitSchedule
from cai_reference.models.decoder_configuration import DecoderConfiguration, DraftConfiguration

SEED: Final = 424_242
"""The published program's."""
PROMPTS: Final = ("one day", "once upon a time")
"""The published program's."""
NEW_TOKENS: Final = 40
"""The published program's."""
SIZES: Final = PUBLISHED_SIZES
SCHEDULE: Final = FitSchedule()


class TrainerName(StrEnum):
    """Who trains: what imitates the library, or the family's own training."""

    LEGACY = "legacy"
    CLEAN = "clean"


@dataclass(frozen=True)
class BakeSettings:
    """The settings of a run; the defaults are the published program's.

    Attributes:
        budget: seconds of training a phase; None for the published box of each.
        steps: steps of training a phase instead of a time.
        trainer: who trains.
        seed: of everything that is drawn.
        prompts: what is continued.
        new_tokens: the budget of each prompt.
        arithmetic: of training and decoding.
        threads: threads of BLAS; more than one are slower on products of this size.
        sizes: of the nets; `vocabulary` must be stated.
        schedule: batches, epochs and validation.

    Raises:
        LimitsConflict: there is a time and a number of steps.
        InvalidBudget, InvalidBakeSetting: a number makes no sense.
    """

    budget: float | None = None
    steps: int | None = None
    trainer: TrainerName = TrainerName.LEGACY
    seed: int = SEED
    prompts: tuple[str, ...] = PROMPTS
    new_tokens: int = NEW_TOKENS
    arithmetic: Arithmetic = FAST
    threads: int = 1
    sizes: Sizes = SIZES
    schedule: FitSchedule = SCHEDULE

    def __post_init__(self) -> None:
        if self.budget is not None and self.steps is not None:
            raise LimitsConflict
        if self.budget is not None and not (math.isfinite(self.budget) and self.budget >= 0.0):
            raise InvalidBudget(self.budget)
        for name, value in (("steps", self.steps), ("new tokens", self.new_tokens), ("threads", self.threads)):
            if value is not None and value < 1:
                raise InvalidBakeSetting(name, value)

    @property
    def vocabulary(self) -> int:
        """How many ids the nets know."""
        assert self.sizes.vocabulary is not None
        return self.sizes.vocabulary

    @property
    def published_size(self) -> bool:
        """Whether the nets are as large as the published ones."""
        return self.sizes == PUBLISHED_SIZES

    def box(self, phase: BakePhase) -> str:
        """Return in words what ends the training of a phase."""
        if self.steps is not None:
            return f"{self.steps} steps"
        return f"{self._seconds(phase):g} s"

    def limit(self, phase: BakePhase, clock: Clock) -> Limit:
        """Return what ends the training of a phase; a time starts now."""
        return TimeBox(self._seconds(phase), clock) if self.steps is None else StepCount(self.steps)

    def decoder(self, phase: BakePhase) -> DecoderConfiguration:
        """Return the net that a phase decodes."""
        return phase.suite.decoder(self.sizes, self.vocabulary)

    def trained(self, phase: BakePhase) -> DecoderConfiguration | DraftConfiguration:
        """Return the net that a phase trains."""
        if phase.trains_draft:
            return phase.suite.draft_model(self.sizes, self.vocabulary)
        return self.decoder(phase)

    def _seconds(self, phase: BakePhase) -> float:
        return float(phase.box) if self.budget is None else self.budget
