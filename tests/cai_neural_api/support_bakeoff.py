"""A bake-off small enough for a test: narrow nets, a few rows, a schedule of tiny epochs, and a clock of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from cai_conformance.fixtures.sizes import PUBLISHED_SIZES
from cai_neural_api.bakeoff import BakeData, BakeOff, BakeSettings, OutputFolder, RunReport, chosen_phases
from cai_neural_api.bakeoff.settings import PHASES, BakePhase
from cai_neural_api.tokenizer import Vocabulary
from cai_neural_api.training import FitSchedule

TINY: Final = replace(
    PUBLISHED_SIZES,
    vocabulary=140,
    context=12,
    width=16,
    heads=2,
    feed_forward=8,
    window=4,
    latent=4,
    rope=2,
    channels_per_group=4,
    draft_width=8,
    draft_hidden=8,
    stories=12,
)
SCHEDULE: Final = FitSchedule(batch=3, samples=6, epochs=4, validation=3, stride=2)
"""Two steps an epoch."""

WORDS: Final = Vocabulary((b"cat", b"day", b"dog", b"once", b"one", b"sat", b"the", b"time", b"upon"))
"""Ids 128 to 136; the published prompts are three and seven tokens."""
ROWS: Final = (
    (134, 32, 128, 32, 133, 46),
    (132, 32, 129, 32, 134, 32, 130, 32, 133, 46),
    (131, 32, 136, 32, 97, 32, 135, 32, 134, 32, 128, 32, 133, 32, 46),
    (134, 32, 130),
)
DATA: Final = BakeData(WORDS, ROWS, "a list", len(ROWS), 0, 0, True)


class HandClock:
    """A clock that stands still until somebody moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


class StepClock(HandClock):
    """A clock that moves by a tick whenever it is read, so that everything takes a time that can be told."""

    def __init__(self, tick: float) -> None:
        super().__init__()
        self._tick = tick

    def __call__(self) -> float:
        """Move on and return the time."""
        self.now += self._tick
        return self.now


@dataclass
class After:
    """Says that it is over from the n-th question on."""

    questions: int
    asked: int = 0

    def __call__(self) -> bool:
        """Answer the next question."""
        self.asked += 1
        return self.asked > self.questions


def settings(**changes: object) -> BakeSettings:
    """Return tiny settings: three steps a phase, five new tokens."""
    base = BakeSettings(steps=3, new_tokens=5, sizes=TINY, schedule=SCHEDULE)
    return replace(base, **changes)  # type: ignore[arg-type]  # the caller names fields


def bake(
    folder: Path,
    phases: str | Sequence[BakePhase],
    wanted: BakeSettings | None = None,
    data: BakeData = DATA,
    stopped: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] | None = None,
) -> RunReport:
    """Run phases in a folder, and return what came of them."""
    clock = StepClock(0.001) if clock is None else clock
    run = BakeOff(settings() if wanted is None else wanted, data, OutputFolder(folder), clock, stopped)
    chosen = chosen_phases(phases) if isinstance(phases, str) else phases
    for _ in run.run(chosen):
        pass
    return run.report(len(chosen))


@cache
def baked() -> RunReport:
    """Return all nine phases, run once a process."""
    with tempfile.TemporaryDirectory() as folder:
        return bake(Path(folder), "all")


NUMBERS: Final = tuple(phase.number for phase in PHASES)
