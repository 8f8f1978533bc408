"""Every arm of a net on the same prompts: what each makes of them, and where one leaves the full arm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from cai_conformance.nets.arm_list import Arm, ArmList, Ids, SkippedArm
from cai_conformance.nets.arms import ArmRun
from cai_conformance.nets.errors import EmptyNetPrompt, NetPromptTooLong, PromptIdTooLarge
from cai_reference.errors import CaiReferenceError


@dataclass(frozen=True)
class Difference:
    """The first place at which an arm left the full one.

    Attributes:
        position: in the sequence, prompt included.
        expected, found: the ids there; None behind the end of an arm.
        expected_margin, found_margin: how far the logit of each arm's choice was above its runner-up; None without one.
    """

    position: int
    expected: int | None
    found: int | None
    expected_margin: float | None
    found_margin: float | None


@dataclass(frozen=True)
class ArmOutcome:
    """What an arm made of one prompt, held against the full arm.

    Attributes:
        arm, exact: which arm, and whether its tokens must be equal.
        run: what it made; None if it failed.
        difference: the first difference; None if there is none.
        deviation: the largest difference of a logit, over the steps with the same tokens before; None without any.
        failure: why it made nothing; empty if it did.
    """

    arm: str
    exact: bool
    run: ArmRun | None
    difference: Difference | None
    deviation: float | None
    failure: str = ""

    @property
    def equal(self) -> bool:
        """Whether its tokens are those of the full arm."""
        return self.run is not None and self.difference is None

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong: the tokens are equal, or need not be."""
        return self.equal or not self.exact


@dataclass(frozen=True)
class Decoding:
    """All arms of a net on some prompts.

    Attributes:
        outcomes: for each prompt those of all arms, the full one first.
        skipped: the arms that the net does not allow.
    """

    outcomes: tuple[tuple[ArmOutcome, ...], ...]
    skipped: tuple[SkippedArm, ...]

    @property
    def passed(self) -> bool:
        """Whether every exact arm has the tokens of the full one."""
        return all(outcome.passed for prompt in self.outcomes for outcome in prompt)


def decode(arms: ArmList, prompts: Sequence[Ids], advance: Callable[[str], None] = lambda _: None) -> Decoding:
    """Run every arm on every prompt; `advance` is told the name of each arm that is done.

    Raises:
        EmptyNetPrompt, NetPromptTooLong, PromptIdTooLarge: before anything is run.
        NetError: the full arm failed.
    """
    check_prompts(prompts, arms.net.context, arms.heads.vocabulary)
    # A second BLAS thread costs more than it saves on products as small as these.
    with threadpool_limits(1):
        outcomes = tuple(tuple(_outcomes(arms.arms, prompt, advance)) for prompt in prompts)
    return Decoding(outcomes, tuple(arms.skipped))


def check_prompts(prompts: Sequence[Ids], context: int, vocabulary: int) -> None:
    """Check prompts, which errors number from 1.

    Raises:
        EmptyNetPrompt, NetPromptTooLong, PromptIdTooLarge: one cannot be continued.
    """
    for number, prompt in enumerate(prompts, 1):
        if not len(prompt):
            raise EmptyNetPrompt(number)
        if len(prompt) >= context:
            raise NetPromptTooLong(number, len(prompt), context)
        for position, token in enumerate(prompt):
            if not 0 <= token < vocabulary:
                raise PromptIdTooLarge(number, position, token, vocabulary)


def _outcomes(arms: Sequence[Arm], prompt: Ids, advance: Callable[[str], None]) -> Iterator[ArmOutcome]:
    full = arms[0].run(prompt)
    advance(arms[0].name)
    yield ArmOutcome(arms[0].name, True, full, None, None)
    for arm in arms[1:]:
        yield _outcome(arm, prompt, full)
        advance(arm.name)


def _outcome(arm: Arm, prompt: Ids, full: ArmRun) -> ArmOutcome:
    try:
        run = arm.run(prompt)
    except CaiReferenceError as error:
        return ArmOutcome(arm.name, arm.exact, None, None, None, str(error))
    return ArmOutcome(arm.name, arm.exact, run, first_difference(full, run), _deviation(full, run))


def first_difference(full: ArmRun, run: ArmRun) -> Difference | None:
    """Return the first place at which two runs of one prompt differ, with the margins of both choices there."""
    for step in range(max(len(full.new), len(run.new))):
        expected, found = (each.new[step] if step < len(each.new) else None for each in (full, run))
        if expected != found:
            margins = (each.predictions[step].margin if step < len(each.predictions) else None for each in (full, run))
            return Difference(len(full.prompt) + step, expected, found, *margins)
    return None


def _deviation(full: ArmRun, run: ArmRun) -> float | None:
    largest: float | None = None
    for step, (wanted, found) in enumerate(zip(full.predictions, run.predictions, strict=False)):
        if full.new[:step] != run.new[:step]:
            break
        largest = max(largest or 0.0, float(np.max(np.abs(wanted.logits - found.logits))))
    return largest
