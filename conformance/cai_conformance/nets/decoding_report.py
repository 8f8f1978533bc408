"""Decoded prompts as lines for a terminal, and as objects for a program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from cai_conformance.nets.arms import Speculation
from cai_conformance.nets.decoding import ArmOutcome, Decoding, Difference
from cai_conformance.nets.screens import Column, Line, paragraph, table_lines

Spell = Callable[[Sequence[int]], str]
"""From ids to the text that they stand for."""


def decoding_lines(found: Decoding, prompts: Sequence[str], spell: Spell, width: int) -> Iterator[Line]:
    """Yield for each prompt its continuation, a table of the arms and what differs; skipped arms and verdict last."""
    for prompt, outcomes in zip(prompts, found.outcomes, strict=True):
        yield from _prompt_lines(prompt, outcomes, spell, width)
        yield Line("")
    for skipped in found.skipped:
        yield from paragraph(f"no arm {skipped.name}: {skipped.reason}", width, "dim")
    if found.skipped:
        yield Line("")
    judged = [outcome for outcomes in found.outcomes for outcome in outcomes[1:] if outcome.exact]
    equal = sum(outcome.equal for outcome in judged)
    verdict, style = ("they agree", "bold green") if found.passed else ("they differ", "bold red")
    yield Line(f"{equal} of {len(judged)} runs of exact arms have the tokens of the full one: {verdict}.", style)


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


def _prompt_lines(prompt: str, outcomes: Sequence[ArmOutcome], spell: Spell, width: int) -> Iterator[Line]:
    full = outcomes[0].run
    assert full is not None
    yield from paragraph(f"{prompt}{spell(full.new)}", width, "bold", indent="")
    yield from paragraph(f"{len(full.prompt)} tokens, then {len(full.new)} new ones", width, "dim")
    columns = (
        Column("arm"),
        Column("tokens"),
        Column("forwards", right=True),
        Column("ms/token", right=True),
        Column("logits off", right=True),
        Column("guesses", folded=True),
    )
    rows = [_row(place, outcome) for place, outcome in enumerate(outcomes)]
    styles = ["" if outcome.passed else "bold red" for outcome in outcomes]
    yield from table_lines(columns, rows, width, styles)
    for outcome in outcomes:
        if outcome.failure:
            style = "" if outcome.passed else "bold red"
            yield from paragraph(f"{outcome.arm}: {outcome.failure}", width, style)
        if outcome.difference is not None:
            style = "" if outcome.passed else "bold red"
            yield from paragraph(f"{outcome.arm}: {_difference_words(outcome.difference)}", width, style)


def _row(place: int, outcome: ArmOutcome) -> tuple[str, ...]:
    if outcome.run is None:
        return (outcome.arm, "failed", "", "", "", "")
    return (
        outcome.arm,
        "" if place == 0 else _verdict(outcome),
        str(outcome.run.forwards),
        f"{outcome.run.milliseconds_per_token:.2f}",
        "" if outcome.deviation is None else f"{outcome.deviation:.0e}",
        "" if outcome.run.speculation is None else _guesses(outcome.run.speculation),
    )


def _verdict(outcome: ArmOutcome) -> str:
    if outcome.exact:
        return "equal" if outcome.equal else "DIFFER"
    return "equal here" if outcome.equal else "differ, not exact"


def _guesses(speculation: Speculation) -> str:
    each = [
        f"{accepted}/{verified}" for accepted, verified in zip(speculation.accepted, speculation.verified, strict=True)
    ]
    text = f"{', '.join(each)} right, {speculation.passes} passes"
    return f"{text}, {speculation.draft_forwards} draft forwards" if speculation.draft_forwards else text


def _difference_words(found: Difference) -> str:
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
        "first_difference": None
        if difference is None
        else {
            "position": difference.position,
            "expected": difference.expected,
            "found": difference.found,
            "expected_margin": _finite(difference.expected_margin),
            "found_margin": _finite(difference.found_margin),
        },
    }
    if run is None:
        return shared
    speculation = run.speculation
    return {
        **shared,
        "ids": list(run.ids),
        "prompt_tokens": len(run.prompt),
        "new_tokens": len(run.new),
        "text": spell(run.new),
        "forwards": run.forwards,
        "prefill_forwards": run.prefill_forwards,
        "ms_per_token": run.milliseconds_per_token,
        "speculation": None
        if speculation is None
        else {
            "passes": speculation.passes,
            "verified": list(speculation.verified),
            "accepted": list(speculation.accepted),
            "committed": speculation.committed,
            "draft_forwards": speculation.draft_forwards,
        },
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
