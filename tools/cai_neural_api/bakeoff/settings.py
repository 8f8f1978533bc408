"""How a bake-off is run; everything that tests make small is here.

When training ends: behind a time, behind a number of steps, or because somebody asked for it.

It is asked after each step, so that the step in progress is always completed.

The nine phases as data: what each trains, for how long, how it decodes, and what it prints beside that.

The nets themselves are those of the decode suites at their published size; phase n is suite n. (CAI NEURAL API,
decode-features bake-off.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cai_conformance.fixtures.decoder_phases import PHASES as SUITES
from cai_conformance.fixtures.decoder_phases import Phase
from cai_conformance.fixtures.sizes import PUBLISHED_SIZES, Sizes
from cai_conformance.verdicts import Clock
from cai_neural_api.choices import TrainerName
from cai_neural_api.errors import BakeOffError
from cai_neural_api.training import FitSchedule
from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import FAST
from cai_reference.models.decoder import DecoderConfiguration
from cai_reference.models.token_shift_draft import DraftConfiguration

INTERRUPTED: Final = "interrupted"


class TrainingLimit:
    """Ends training behind a number of steps, or behind the step in which a time is over; or as soon as somebody asks.

    With a number of steps, the same run can be made again. The time starts now.
    """

    def __init__(self, seconds: float, steps: int | None, clock: Clock, stopped: Callable[[], bool]) -> None:
        self._seconds, self._steps, self._clock, self._stopped = seconds, steps, clock, stopped
        self._end = math.inf if steps is not None else clock() + seconds

    def reached(self, steps: int) -> str:
        """Return why training ends behind so many steps, or an empty string if it goes on."""
        if self._stopped():
            return INTERRUPTED
        if self._steps is not None:
            return f"{self._steps} steps" if steps >= self._steps else ""
        return f"time box of {self._seconds:g} s" if self._clock() >= self._end else ""


class ArmName(StrEnum):
    """The ways to decode, each as `cai_neural_api.decode.arms` runs it."""

    FULL = "full"
    CACHED = "cached"
    HEADS = "self-speculative"
    DRAFT = "speculative"


class Memory(StrEnum):
    """Which table of cache sizes a phase prints."""

    NONE = "none"
    LATENT = "latent"
    HYBRID = "hybrid"
    LOCAL = "local"


class Rule(StrEnum):
    """Which verdicts a phase gives beside the equality of its arms."""

    NONE = "none"
    HYBRID = "hybrid"
    GROUPED = "grouped"


@dataclass(frozen=True)
class BakePhase:
    """What sets a phase apart.

    Attributes:
        number: from 1 to 9.
        title: for tables.
        rate: the learning rate.
        box: the published training time in seconds.
        arms: the ways to decode; the first is what the others are held against.
        buckets: whether the cost of a step is told by the length of the sequence.
        trigrams: whether repeated trigrams are counted.
        memory: its table of cache sizes.
        rule: its verdicts.
        times_forwards: whether full-width forwards of an untrained net are timed beside those of phase 1's.
        reference_loss: whether its loss is told beside that of phase 1.
    """

    number: int
    title: str
    rate: float
    box: int
    arms: tuple[ArmName, ...] = (ArmName.FULL, ArmName.CACHED)
    buckets: bool = False
    trigrams: bool = False
    memory: Memory = Memory.NONE
    rule: Rule = Rule.NONE
    times_forwards: bool = False
    reference_loss: bool = False

    @property
    def suite(self) -> Phase:
        """Its net: mixers and wiring."""
        return SUITES[self.number - 1]

    @property
    def trains_draft(self) -> bool:
        """Whether it loads the net of phase 1 and trains a draft for it."""
        return ArmName.DRAFT in self.arms


PHASES: Final = (
    BakePhase(1, "KV cache", 0.0005, 185),
    BakePhase(2, "multi-token", 0.001, 195, (ArmName.FULL, ArmName.HEADS)),
    BakePhase(3, "recurrence", 0.0005, 195, buckets=True),
    BakePhase(4, "latent attention", 0.001, 185, memory=Memory.LATENT),
    BakePhase(5, "draft and cache", 0.001, 160, (ArmName.FULL, ArmName.CACHED, ArmName.DRAFT)),
    BakePhase(6, "hybrid", 0.001, 190, buckets=True, trigrams=True, memory=Memory.HYBRID, rule=Rule.HYBRID),
    BakePhase(7, "grouped hybrid", 0.001, 190, buckets=True, trigrams=True, rule=Rule.GROUPED),
    BakePhase(8, "local and global", 0.0005, 185, memory=Memory.LOCAL, reference_loss=True),
    BakePhase(9, "parallel blocks", 0.0005, 180, times_forwards=True, reference_loss=True),
)

ALL: Final = "all"


def chosen_phases(text: str) -> tuple[BakePhase, ...]:
    """Return the phase of a number, or all of them.

    Raises:
        BakeOffError (unknown-bake-phase): the text is neither.
    """
    if text.strip().lower() == ALL:
        return PHASES
    found = tuple(phase for phase in PHASES if str(phase.number) == text.strip())
    if not found:
        raise BakeOffError("unknown-bake-phase", text=text)
    return found


SEED: Final = 424_242
"""The published program's."""
PROMPTS: Final = ("one day", "once upon a time")
"""The published program's."""
NEW_TOKENS: Final = 40
"""The published program's."""
SIZES: Final = PUBLISHED_SIZES
SCHEDULE: Final = FitSchedule()


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
        BakeOffError (limits-conflict): there is a time and a number of steps.
        BakeOffError (invalid-budget, invalid-bake-setting): a number makes no sense.
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
            raise BakeOffError("limits-conflict")
        if self.budget is not None and not (math.isfinite(self.budget) and self.budget >= 0.0):
            raise BakeOffError("invalid-budget", seconds=self.budget)
        for name, value in (("steps", self.steps), ("new tokens", self.new_tokens), ("threads", self.threads)):
            if value is not None and value < 1:
                raise BakeOffError("invalid-bake-setting", name=name, value=value)

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

    def limit(self, phase: BakePhase, clock: Clock, stopped: Callable[[], bool]) -> TrainingLimit:
        """Return what ends the training of a phase; a time starts now."""
        return TrainingLimit(self._seconds(phase), self.steps, clock, stopped)

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
