"""The arms of a phase on the same prompts, and where one of them leaves the full one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cai_conformance.verdicts import Clock
from cai_neural_api.bakeoff.settings import ArmName, BakePhase, BakeSettings
from cai_neural_api.bakeoff.verdicts import smallest_margin
from cai_neural_api.decode import arms
from cai_neural_api.decode.arms import ArmRun, Budget
from cai_neural_api.decode.decoding import TokenDifference, first_difference
from cai_neural_api.net.graph import Net


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
    net: Net,
    draft: Net | None,
    phase: BakePhase,
    prompts: Sequence[tuple[str, Sequence[int]]],
    settings: BakeSettings,
    clock: Clock,
    stopped: Callable[[], bool],
) -> tuple[PromptResult, ...]:
    """Run all arms of a phase on all prompts; whoever asks to stop gets the prompts that are complete.

    Args:
        net: the net that is decoded.
        draft: what guesses for it; None where no arm needs one.
        phase: has the arms.
        prompts: texts and their ids.
        settings: the budget of a prompt, the guesses a pass, and the arithmetic.
        clock: times all arms.
        stopped: whether somebody wants the run to end.

    Raises:
        NetError: an arm cannot run the net.
    """
    budget, how = Budget(settings.new_tokens, net.context), settings.arithmetic
    results: list[PromptResult] = []
    for text, ids in prompts:
        runs: dict[ArmName, ArmRun] = {}
        for name in phase.arms:
            if stopped():
                return tuple(results)
            if name is ArmName.DRAFT:
                assert draft is not None
                runs[name] = arms.run_draft(net, draft, how, ids, budget, settings.sizes.block, clock)
            else:
                runners = {ArmName.FULL: arms.run_full, ArmName.CACHED: arms.run_cached, ArmName.HEADS: arms.run_heads}
                runs[name] = runners[name](net, how, ids, budget, clock)
        full = runs[ArmName.FULL]
        found = {name: first_difference(full, run) for name, run in runs.items()}
        differences = {name: difference for name, difference in found.items() if difference is not None}
        # The logits of all choices would be kept with them.
        kept = {name: replace(run, predictions=()) for name, run in runs.items()}
        results.append(PromptResult(text, kept, differences, smallest_margin(full)))
    return tuple(results)
