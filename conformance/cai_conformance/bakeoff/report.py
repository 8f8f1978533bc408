"""What came of a phase and of a run, ready for a screen or a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cai_conformance.bakeoff.counting import distinct
from cai_conformance.bakeoff.data import BakeData
from cai_conformance.bakeoff.figures import BakeFigure
from cai_conformance.bakeoff.phases import ArmName, BakePhase
from cai_conformance.bakeoff.settings import BakeSettings
from cai_conformance.bakeoff.showdown import PromptResult
from cai_conformance.bakeoff.trained import Course
from cai_conformance.bakeoff.verdicts import Verdict
from cai_conformance.nets.decoding import Difference

EXACT: Final = "token-identical"
DIFFERENT: Final = "ARMS DIFFER"
INCOMPLETE: Final = "interrupted"

VARIED: Final = 8
"""Fewer distinct tokens than that are a loop that any two arms would agree on."""

INTERRUPTED: Final = 130
"""The exit code of a program that was interrupted, as shells count it: 128 and the number of SIGINT."""


@dataclass(frozen=True)
class PhaseReport:
    """One phase.

    Attributes:
        phase: which one.
        box: what ended its training, in words.
        course: how its training went.
        figures: in the order of the published output, groups together.
        prompts: what the arms made of each, as far as they came.
        texts: what is shown of each continuation.
        verdicts: by the published rules.
        complete: whether all arms ran on all prompts.
        net: where the trained net is.
    """

    phase: BakePhase
    box: str
    course: Course
    figures: tuple[BakeFigure, ...]
    prompts: tuple[PromptResult, ...]
    texts: tuple[str, ...]
    verdicts: tuple[Verdict, ...]
    complete: bool
    net: str

    @property
    def differences(self) -> tuple[tuple[PromptResult, ArmName, Difference], ...]:
        """Every arm that left the full one, with the prompt and the place."""
        return tuple((result, name, found) for result in self.prompts for name, found in result.differences.items())

    @property
    def identical(self) -> bool:
        """Whether no arm left the full one."""
        return not any(result.differences for result in self.prompts)

    @property
    def word(self) -> str:
        """What came of it, in a word."""
        if not self.identical:
            return DIFFERENT
        return EXACT if self.complete else INCOMPLETE

    @property
    def margin(self) -> float | None:
        """The smallest margin of all choices, in logits."""
        return min((result.margin for result in self.prompts if result.margin is not None), default=None)

    @property
    def distinct(self) -> int:
        """How many different ids all continuations hold together."""
        return distinct([token for result in self.prompts for token in result.full.new])

    def figure(self, name: str) -> BakeFigure | None:
        """Return the figure of a name; None if there is none."""
        return next((figure for figure in self.figures if figure.name == name), None)


@dataclass(frozen=True)
class RunReport:
    """A run as far as it came.

    Attributes:
        settings, data: of all phases.
        phases: those that were begun.
        asked: how many were asked for.
    """

    settings: BakeSettings
    data: BakeData
    phases: Sequence[PhaseReport]
    asked: int

    @property
    def complete(self) -> bool:
        """Whether everything was done that was asked for."""
        return len(self.phases) == self.asked and all(report.complete for report in self.phases)

    @property
    def exit_code(self) -> int:
        """1 if arms differ, 130 if the run was interrupted, else 0; a verdict on a loss or a cost decides nothing."""
        if not all(report.identical for report in self.phases):
            return 1
        return 0 if self.complete else INTERRUPTED

    @property
    def cautions(self) -> Iterator[str]:
        """Why figures may not be held against the published ones."""
        if not self.data.comparable:
            yield "Trained on generated stories: losses, accepted guesses and texts do not compare with published ones."
        if self.settings.trainer.value != "legacy":
            yield "Trained by AdamW on the mean over real targets: losses do not compare with published ones."
        if not self.settings.published_size:
            yield "The nets are smaller than the published ones."
        uniform = [str(report.phase.number) for report in self.phases if report.prompts and report.distinct < VARIED]
        if uniform:
            yield (
                f"Phase {', '.join(uniform)}: fewer than {VARIED} distinct tokens in all continuations, so that equal "
                "tokens say little there; train for longer."
            )
