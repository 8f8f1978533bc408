"""The figures of a phase: what was found here, with the published figure of the same name beside it.

The cache tables of phases 4, 6 and 8, measured on sessions that were fed.

Keys and values are counted at the length at which they are of use, as published: a local layer counts its window,
although the library keeps every row of it. (CAI NEURAL API, decode-features bake-off.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from cai_conformance.fixtures.sizes import Sizes
from cai_neural_api.bakeoff.publication import MEASURED, PUBLISHED
from cai_neural_api.bakeoff.settings import ArmName, BakePhase, Memory
from cai_neural_api.bakeoff.showdown import PromptResult
from cai_neural_api.bakeoff.training import LOG_EVERY, Course
from cai_neural_api.bakeoff.verdicts import Bucket, buckets, repeated_trigrams, speedup
from cai_neural_api.decode.arms import ArmRun, Speculation
from cai_neural_api.published import Models, StageCounts
from cai_reference.decoding.latent_states import LatentCache


@dataclass(frozen=True)
class BakeFigure:
    """One figure.

    Attributes:
        group: what it belongs to.
        name: what it is of; unique within a phase.
        unit: what is counted.
        value: as found here; None where it could not be found.
        decimals: how many are printed, as published.
        published: as it was printed there, empty where it was not.
        measured: what the library itself took where somebody measured it, empty where nobody did.
    """

    group: str
    name: str
    unit: str
    value: float | None
    decimals: int = 0
    published: str = ""
    measured: str = ""

    @property
    def text(self) -> str:
        """The value as it is printed."""
        return "–" if self.value is None else f"{self.value:,.{self.decimals}f}"

    @property
    def beside(self) -> str:
        """What stands beside it; a measured figure is marked."""
        return self.published or (f"{self.measured} *" if self.measured else "–")


def quoted(prompt: str) -> str:
    """Return a prompt as names of figures hold it, so that none can be taken for another name."""
    return f'"{prompt}"'


class FigureList:
    """Collects the figures of a phase, each with what stands beside it."""

    def __init__(self, phase: BakePhase) -> None:
        self.figures: list[BakeFigure] = []
        self._phase = phase

    def add(self, group: str, name: str, unit: str, value: float | None, decimals: int = 0) -> None:
        """Add a figure, and look up its published one."""
        key = (self._phase.number, name)
        self.figures.append(
            BakeFigure(group, name, unit, value, decimals, PUBLISHED.get(key, ""), MEASURED.get(key, ""))
        )


MODEL = "net"
TRAINING = "training"
PROMPTS = "decoding, prompt by prompt"
DECODE = "decoding, all prompts"
STEPS = "cost of a step, by the tokens before it"
CACHES = "caches, in 4-byte floats"
FORWARDS = "full-width forward passes, untrained"


def training_figures(figures: FigureList, course: Course) -> None:
    """Losses, steps and speed of training."""
    figures.add(TRAINING, "first loss", "nats", course.first_loss, 2)
    figures.add(TRAINING, f"loss of step {LOG_EVERY}", "nats", course.logged_loss, 2)
    figures.add(TRAINING, "loss", "nats", course.loss, 2)
    if course.thrown_away:
        figures.add(TRAINING, "loss of the kept weights", "nats", course.kept_loss, 2)
    figures.add(TRAINING, "time", "s", course.seconds, 1)
    figures.add(TRAINING, "steps", "batches", course.steps)
    figures.add(TRAINING, "steps thrown away", "batches", course.thrown_away)
    figures.add(TRAINING, "examples", "stories", course.examples)
    figures.add(TRAINING, "throughput", "stories/s", course.throughput, 1)


def decode_figures(figures: FigureList, phase: BakePhase, prompts: Sequence[PromptResult]) -> None:
    """Times and counters of all arms: prompt by prompt, then over all prompts."""
    for result in prompts:
        for name in phase.arms:
            run = result.runs[name]
            place = f"{quoted(result.prompt)}: {name}"
            figures.add(PROMPTS, f"{place}, all", "ms", 1000.0 * run.seconds, 2)
            figures.add(PROMPTS, f"{place}, a token", "ms", run.milliseconds_per_token, 2)
            figures.add(PROMPTS, f"{place}, forwards", "passes", run.forwards)
            if name is not ArmName.FULL:
                times = speedup(1000.0 * result.full.seconds, 1000.0 * run.seconds)
                figures.add(PROMPTS, f"{place}, speedup", "times", times, 2)
            if run.speculation is not None and name is ArmName.DRAFT:
                _add_guesses(figures, PROMPTS, quoted(result.prompt), (run.speculation,), len(run.new))
        if phase.trigrams:
            count = repeated_trigrams(result.full.new)
            figures.add(PROMPTS, f"{quoted(result.prompt)}: repeated trigrams", "places", count)
    totals = {name: Total([result.runs[name] for result in prompts]) for name in phase.arms}
    _add_totals(figures, phase, totals)
    if phase.trigrams:
        count = sum(repeated_trigrams(result.full.new) for result in prompts)
        figures.add(DECODE, "all: repeated trigrams", "places", count)


def step_figures(figures: FigureList, steps: Sequence[Bucket]) -> None:
    """What a step costs by the length of the sequence before it."""
    for bucket in steps:
        figures.add(STEPS, f"prefix {bucket.name}", "ms/step", bucket.milliseconds, 3)
        figures.add(STEPS, f"prefix {bucket.name}, steps", "steps", bucket.steps)


def forward_figures(figures: FigureList, sequential: float, parallel: float) -> None:
    """The mean milliseconds of a full-width forward pass of both nets."""
    figures.add(FORWARDS, "sequential blocks", "ms", sequential, 2)
    figures.add(FORWARDS, "parallel blocks", "ms", parallel, 2)
    figures.add(FORWARDS, "parallel : sequential", "times", speedup(parallel, sequential), 3)


def streamed_buckets(phase: BakePhase, prompts: Sequence[PromptResult]) -> tuple[Bucket, ...]:
    """Return what the steps of the cached arm cost over all prompts."""
    return buckets(result.runs[ArmName.CACHED] for result in prompts) if phase.buckets else ()


@dataclass(frozen=True)
class Total:
    """The counters of one arm over all prompts."""

    runs: Sequence[ArmRun]

    @property
    def milliseconds(self) -> float:
        """The time of all runs."""
        return 1000.0 * sum(run.seconds for run in self.runs)

    @property
    def new(self) -> int:
        """The tokens that were generated."""
        return sum(len(run.new) for run in self.runs)

    @property
    def forwards(self) -> int:
        """Passes of the net, prefill included."""
        return sum(run.forwards for run in self.runs)

    @property
    def milliseconds_per_token(self) -> float:
        """The time a token."""
        return self.milliseconds / max(1, self.new)

    @property
    def speculations(self) -> Iterator[Speculation]:
        """The counters of those that speculated."""
        return (run.speculation for run in self.runs if run.speculation is not None)


def _add_totals(figures: FigureList, phase: BakePhase, totals: dict[ArmName, Total]) -> None:
    full = totals[ArmName.FULL]
    for name, total in totals.items():
        new = max(1, total.new)
        drafted = sum(speculation.draft_forwards for speculation in total.speculations)
        figures.add(DECODE, f"all: {name}, a token", "ms", total.milliseconds_per_token, 2)
        figures.add(DECODE, f"all: {name}, forwards a token", "passes", total.forwards / new, 2)
        if phase.trains_draft:
            figures.add(DECODE, f"all: {name}, draft forwards a token", "passes", drafted / new, 2)
        if name is not ArmName.FULL:
            figures.add(DECODE, f"all: {name}, speedup", "times", speedup(full.milliseconds, total.milliseconds), 1)
        if name is ArmName.CACHED:
            steps = [seconds for run in total.runs for _, seconds in run.steps]
            figures.add(DECODE, "a cached step", "ms", 1000.0 * sum(steps) / max(1, len(steps)), 2)
        elif name is ArmName.FULL:
            figures.add(DECODE, "a full forward", "ms", total.milliseconds / max(1, total.forwards), 2)
        elif name is ArmName.HEADS:
            figures.add(DECODE, f"all: {name}, fewer forwards", "times", full.forwards / max(1, total.forwards), 2)
            _add_heads(figures, tuple(total.speculations))
        else:
            _add_guesses(figures, DECODE, "all", tuple(total.speculations), total.new)


def _add_heads(figures: FigureList, speculations: Sequence[Speculation]) -> None:
    """What the later heads guessed, head by head, and how many tokens a pass committed."""
    for place in range(len(speculations[0].verified)):
        verified = sum(speculation.verified[place] for speculation in speculations)
        accepted = sum(speculation.accepted[place] for speculation in speculations)
        head = f"head {place + 1}"
        figures.add(DECODE, f"{head}, accepted", "%", 100.0 * accepted / max(1, verified), 1)
        figures.add(DECODE, f"{head}, guesses verified", "tokens", verified)
        figures.add(DECODE, f"{head}, guesses accepted", "tokens", accepted)
    committed = sum(speculation.committed for speculation in speculations)
    passes = sum(speculation.passes for speculation in speculations)
    figures.add(DECODE, "committed a pass", "tokens", committed / max(1, passes), 2)


def _add_guesses(figures: FigureList, group: str, place: str, speculations: Sequence[Speculation], new: int) -> None:
    """What a draft guessed. What was committed behind the budget does not count as a token."""
    proposed = sum(sum(speculation.verified) for speculation in speculations)
    accepted = sum(sum(speculation.accepted) for speculation in speculations)
    passes = sum(speculation.passes for speculation in speculations)
    figures.add(group, f"{place}: guesses accepted", "%", 100.0 * accepted / max(1, proposed), 1)
    figures.add(group, f"{place}: guesses right", "tokens", accepted)
    figures.add(group, f"{place}: guesses proposed", "tokens", proposed)
    figures.add(group, f"{place}: tokens a pass", "tokens", new / max(1, passes), 2)


TOKENS: Final = (12, 24, 48, 192)
"""The lengths of phase 8's table."""
FEW, MANY = 24, 48
"""Lengths between which a cache that grows is seen to grow."""
BYTES: Final = 4
"""A float of the library."""


def memory_figures(figures: FigureList, memory: Memory, sizes: Sizes) -> None:
    """Measure a table.

    Raises:
        PublishedError (cache-miscounted): a cache accounts for something else than its arrays hold.
    """
    if memory is Memory.LATENT:
        _latent(figures, Models(sizes))
    elif memory is Memory.HYBRID:
        _hybrid(figures, Models(sizes))
    elif memory is Memory.LOCAL:
        _local(figures, Models(sizes))


def _latent(figures: FigureList, models: Models) -> None:
    """Phase 4: what a token costs a layer, as keys and values of all heads and as the latent that they are made of."""
    plain = _growth(_stages(models, 1), 0)
    latent = _growth(_stages(models, 4, LatentCache.LATENT), 0)
    for name, floats in (
        ("plain attention", plain),
        ("latent attention as executed", _growth(_stages(models, 4), 0)),
        ("latent and rotary key only", latent),
    ):
        _floats(figures, name, "a token and layer", floats)
    figures.add(CACHES, "latent only, of plain attention", "%", 100.0 * latent / plain, 1)
    figures.add(CACHES, "latent only, smaller", "times", plain / latent, 1)


def _hybrid(figures: FigureList, models: Models) -> None:
    """Phase 6: two states that stay as large as they are, and a latent attention that grows."""
    session = _stages(models, 6)
    first, _, last = session.layers(MANY)
    _floats(figures, "states of both recurrences", "in all", first.floats + last.floats)
    _floats(figures, "latent attention as executed", "a token", _growth(session, 1))
    _floats(figures, "latent and rotary key only", "a token", _growth(_stages(models, 6, LatentCache.LATENT), 1))
    plain = _stages(models, 1)
    _floats(figures, "the transformer of phase 1", "a token", _growth(plain, 0) + _growth(plain, 1))


def _local(figures: FigureList, models: Models) -> None:
    """Phase 8: a local layer beside a global one, and two global ones."""
    whole, part = (StageCounts(models.of_phase(number), TOKENS) for number in (1, 8))
    for tokens in TOKENS:
        every, some = whole.floats(tokens), part.floats(tokens)
        figures.add(CACHES, f"two global layers, {tokens} tokens", "floats", every)
        figures.add(CACHES, f"local and global, {tokens} tokens", "floats", some)
        figures.add(CACHES, f"saved, {tokens} tokens", "%", 100.0 * (every - some) / every, 1)
    bound = part.layers(TOKENS[-1])[0].floats
    figures.add(CACHES, "bound of the local layer", "floats", bound)
    figures.add(CACHES, "bound of the local layer, bytes", "bytes", BYTES * bound)


def _stages(models: Models, number: int, latent: LatentCache = LatentCache.HEADS) -> StageCounts:
    return StageCounts(models.of_phase(number), (FEW, MANY), latent)


def _growth(stages: StageCounts, layer: int) -> float:
    """Return by how many floats a layer's cache grows with a token."""
    return (stages.layers(MANY)[layer].floats - stages.layers(FEW)[layer].floats) / (MANY - FEW)


def _floats(figures: FigureList, name: str, each: str, floats: float) -> None:
    figures.add(CACHES, f"{name}, {each}", "floats", floats)
    figures.add(CACHES, f"{name}, bytes", "bytes", BYTES * floats)
