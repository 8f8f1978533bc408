"""The arms of a phase on the same prompts, and where one of them leaves the full one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cai_conformance.verdicts import Clock
from cai_neural_api.bakeoff.settings import ArmName
from cai_neural_api.bakeoff.verdicts import smallest_margin
from cai_neural_api.decode import arms
from cai_neural_api.decode.arms import ArmRun, Budget
from cai_neural_api.decode.decoding import TokenDifference, first_difference
from cai_neural_api.net.graph import Net
from cai_reference.arithmetic import Arithmetic


@dataclass(frozen=True)
class Contestants:
    """What the arms of a phase run.

    Attributes:
        net: the net that is decoded.
        draft: what guesses for it; None where no arm needs one.
        block: guesses a pass.
        new_tokens: the budget of a prompt.
        arithmetic, clock: of all arms.
    """

    net: Net
    draft: Net | None
    block: int
    new_tokens: int
    arithmetic: Arithmetic
    clock: Clock

    def run(self, arm: ArmName, prompt: Sequence[int]) -> ArmRun:
        """Run one arm on one prompt."""
        budget = Budget(self.new_tokens, self.net.context)
        if arm is ArmName.FULL:
            return arms.run_full(self.net, self.arithmetic, prompt, budget, self.clock)
        if arm is ArmName.CACHED:
            return arms.run_cached(self.net, self.arithmetic, prompt, budget, self.clock)
        if arm is ArmName.HEADS:
            return arms.run_heads(self.net, self.arithmetic, prompt, budget, self.clock)
        assert self.draft is not None
        return arms.run_draft(self.net, self.draft, self.arithmetic, prompt, budget, self.block, self.clock)


@dataclass(frozen=True)
class PromptResult:
    """What the arms made of one prompt.

    Attributes:
        prompt: its text.
        runs: of each arm, the full one first; without what the choices were made from.
        differences: of each arm that left the full one, where.
        margin: the smallest by which the full arm made a choice, in logits; None where it made none.
    """

    prompt: str
    runs: Mapping[ArmName, ArmRun]
    differences: Mapping[ArmName, TokenDifference]
    margin: float | None

    @property
    def full(self) -> ArmRun:
        """The run that the others are held against."""
        return self.runs[ArmName.FULL]


def showdown(
    contestants: Contestants,
    names: Sequence[ArmName],
    prompts: Sequence[tuple[str, Sequence[int]]],
    stopped: Callable[[], bool],
) -> tuple[PromptResult, ...]:
    """Run all arms on all prompts; whoever asks to stop gets the prompts that are complete.

    Raises:
        NetError: an arm cannot run the net.
    """
    results: list[PromptResult] = []
    for text, ids in prompts:
        runs: dict[ArmName, ArmRun] = {}
        for name in names:
            if stopped():
                return tuple(results)
            runs[name] = contestants.run(name, ids)
        results.append(held_together(text, runs))
    return tuple(results)


def held_together(prompt: str, runs: Mapping[ArmName, ArmRun]) -> PromptResult:
    """Hold every arm against the full one."""
    full = runs[ArmName.FULL]
    found = {name: first_difference(full, run) for name, run in runs.items()}
    differences = {name: difference for name, difference in found.items() if difference is not None}
    # The logits of all choices would be kept with them.
    kept = {name: replace(run, predictions=()) for name, run in runs.items()}
    return PromptResult(prompt, kept, differences, smallest_margin(full))
