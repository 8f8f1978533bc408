"""Every arm of a net on the same prompts: what each makes of them, and where one leaves the full arm.

Decoded prompts as lines for a terminal, and as objects for a program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
from rich.text import Text
from threadpoolctl import threadpool_limits

from cai_conformance.report.terminal import Column, paragraph, right_columns, table_lines
from cai_neural_api.decode.arm_list import Arm, ArmList, Ids, SkippedArm
from cai_neural_api.decode.arms import ArmRun, Speculation
from cai_neural_api.errors import NetInputError
from cai_reference.errors import CaiReferenceError


@dataclass(frozen=True)
class TokenDifference:
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
    difference: TokenDifference | None
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
        NetInputError (empty-net-prompt, net-prompt-too-long, prompt-id-too-large): before anything is run.
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
        NetInputError (empty-net-prompt, net-prompt-too-long, prompt-id-too-large): one cannot be continued.
    """
    for number, prompt in enumerate(prompts, 1):
        if not len(prompt):
            raise NetInputError("empty-net-prompt", number=number)
        if len(prompt) >= context:
            raise NetInputError("net-prompt-too-long", number=number, tokens=len(prompt), context=context)
        for position, token in enumerate(prompt):
            if not 0 <= token < vocabulary:
                raise NetInputError(
                    "prompt-id-too-large", number=number, position=position, token=token, vocabulary=vocabulary
                )


def _outcomes(arms: Sequence[Arm], prompt: Ids, advance: Callable[[str], None]) -> Iterator[ArmOutcome]:
    full = arms[0].run(prompt)
    advance(arms[0].name)
    yield ArmOutcome(arms[0].name, True, full, None, None)
    for arm in arms[1:]:
        try:
            run = arm.run(prompt)
        except CaiReferenceError as error:
            yield ArmOutcome(arm.name, arm.exact, None, None, None, str(error))
        else:
            yield ArmOutcome(arm.name, arm.exact, run, first_difference(full, run), _deviation(full, run))
        advance(arm.name)


def first_difference(full: ArmRun, run: ArmRun) -> TokenDifference | None:
    """Return the first place at which two runs of one prompt differ, with the margins of both choices there."""
    for step in range(max(len(full.new), len(run.new))):
        expected, found = (each.new[step] if step < len(each.new) else None for each in (full, run))
        if expected != found:
            margins = (each.predictions[step].margin if step < len(each.predictions) else None for each in (full, run))
            return TokenDifference(len(full.prompt) + step, expected, found, *margins)
    return None


def _deviation(full: ArmRun, run: ArmRun) -> float | None:
    largest: float | None = None
    for step, (wanted, found) in enumerate(zip(full.predictions, run.predictions, strict=False)):
        if full.new[:step] != run.new[:step]:
            break
        largest = max(largest or 0.0, float(np.max(np.abs(wanted.logits - found.logits))))
    return largest


Spell = Callable[[Sequence[int]], str]
"""From ids to the text that they stand for."""

TOKENS: Final = {
    (True, True): "equal",
    (True, False): "DIFFER",
    (False, True): "equal here",
    (False, False): "differ, not exact",
}
"""What is said of an arm, by whether it is exact and whether its tokens are equal."""

COLUMNS: Final = (
    Column("arm"),
    Column("tokens"),
    *right_columns("forwards", "ms/token", "logits off"),
    Column("guesses", folded=True),
)


def decoding_lines(found: Decoding, prompts: Sequence[str], spell: Spell, width: int) -> Iterator[Text]:
    """Yield for each prompt its continuation, a table of the arms and what differs; skipped arms and verdict last."""
    for prompt, outcomes in zip(prompts, found.outcomes, strict=True):
        full = outcomes[0].run
        assert full is not None
        yield from paragraph(f"{prompt}{spell(full.new)}", width, "bold", indent="")
        yield from paragraph(f"{len(full.prompt)} tokens, then {len(full.new)} new ones", width, "dim")
        styles = ["" if outcome.passed else "bold red" for outcome in outcomes]
        rows = [_row(place, outcome) for place, outcome in enumerate(outcomes)]
        yield from table_lines(COLUMNS, rows, width, styles)
        for outcome, style in zip(outcomes, styles, strict=True):
            if outcome.failure:
                yield from paragraph(f"{outcome.arm}: {outcome.failure}", width, style)
            if outcome.difference is not None:
                yield from paragraph(f"{outcome.arm}: {_difference_words(outcome.difference)}", width, style)
        yield Text("")
    for skipped in found.skipped:
        yield from paragraph(f"no arm {skipped.name}: {skipped.reason}", width, "dim")
    if found.skipped:
        yield Text("")
    judged = [outcome for outcomes in found.outcomes for outcome in outcomes[1:] if outcome.exact]
    equal = sum(outcome.equal for outcome in judged)
    verdict, style = ("they agree", "bold green") if found.passed else ("they differ", "bold red")
    yield Text(f"{equal} of {len(judged)} runs of exact arms have the tokens of the full one: {verdict}.", style)


def decoding_objects(found: Decoding, prompts: Sequence[str], spell: Spell) -> Iterator[dict[str, object]]:
    """Yield one object an arm and prompt, and a summary."""
    for number, (prompt, outcomes) in enumerate(zip(prompts, found.outcomes, strict=True), 1):
        for outcome in outcomes:
            yield {"type": "arm", "prompt": number, "prompt_text": prompt, **_object(outcome, spell)}
    judged = [outcome for outcomes in found.outcomes for outcome in outcomes[1:] if outcome.exact]
    yield {
        "type": "summary",
        "passed": found.passed,
        "counts": {
            "prompts": len(found.outcomes),
            "exact_runs": len(judged),
            "equal": sum(outcome.equal for outcome in judged),
        },
        "skipped": [{"arm": skipped.name, "reason": skipped.reason} for skipped in found.skipped],
        "exit_code": 0 if found.passed else 1,
    }


def _row(place: int, outcome: ArmOutcome) -> tuple[str, ...]:
    if outcome.run is None:
        return (outcome.arm, "failed", "", "", "", "")
    return (
        outcome.arm,
        "" if place == 0 else TOKENS[outcome.exact, outcome.equal],
        str(outcome.run.forwards),
        f"{outcome.run.milliseconds_per_token:.2f}",
        "" if outcome.deviation is None else f"{outcome.deviation:.0e}",
        "" if outcome.run.speculation is None else _guesses(outcome.run.speculation),
    )


def _guesses(made: Speculation) -> str:
    each = [f"{accepted}/{verified}" for accepted, verified in zip(made.accepted, made.verified, strict=True)]
    text = f"{', '.join(each)} right, {made.passes} passes"
    return f"{text}, {made.draft_forwards} draft forwards" if made.draft_forwards else text


def _difference_words(found: TokenDifference) -> str:
    wanted, given = (
        "the end" if token is None else f"id {token} by {margin:.3g}" if margin is not None else f"id {token}"
        for token, margin in ((found.expected, found.expected_margin), (found.found, found.found_margin))
    )
    return f"at position {found.position} the full arm has {wanted}, this one {given} (margins of logits)"


def _object(outcome: ArmOutcome, spell: Spell) -> dict[str, object]:
    run, difference = outcome.run, outcome.difference
    shared: dict[str, object] = {
        "arm": outcome.arm,
        "exact": outcome.exact,
        "equal": outcome.equal,
        "failure": outcome.failure or None,
        "largest_logit_difference": outcome.deviation,
        "first_difference": None if difference is None else _finite(asdict(difference)),
    }
    if run is None:
        return shared
    return {
        **shared,
        "ids": list(run.ids),
        "prompt_tokens": len(run.prompt),
        "new_tokens": len(run.new),
        "text": spell(run.new),
        "forwards": run.forwards,
        "prefill_forwards": run.prefill_forwards,
        "ms_per_token": run.milliseconds_per_token,
        "speculation": run.speculation and asdict(run.speculation),
    }


def _finite(values: dict[str, float | None]) -> dict[str, float | None]:
    """Return the values with None in place of infinity, which is a margin over no other id: JSON has no word for it."""
    return {name: value if value is None or math.isfinite(value) else None for name, value in values.items()}
