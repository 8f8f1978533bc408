"""The nine phases as data: what each trains, for how long, how it decodes, and what it prints beside that.

The nets themselves are those of the decode suites at their published size; phase n is suite n. (CAI NEURAL API,
decode-features bake-off.)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cai_conformance.backends.decoder.plan import PHASES as SUITES
from cai_conformance.backends.decoder.plan import Phase
from cai_conformance.bakeoff.errors import UnknownBakePhase


class ArmName(StrEnum):
    """The ways to decode, each as `cai_conformance.nets.arms` runs it."""

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
        UnknownBakePhase: the text is neither.
    """
    if text.strip().lower() == ALL:
        return PHASES
    found = tuple(phase for phase in PHASES if str(phase.number) == text.strip())
    if not found:
        raise UnknownBakePhase(text)
    return found
