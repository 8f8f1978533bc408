"""The judge of generated tokens where bits are not defined.

At the first token that differs, the reference says by how much it preferred its own. If that is no more than what the
backend's rounding explains, it is a near tie: generation is taken up again behind the reference's token, and the rest
is judged as well. If it is more, it is a fault. An exact tie is no matter of rounding: there the lower id is right,
unless the backend's own two logits differ, by no more than rounding explains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cai_conformance.backends.engine.answers import generated
from cai_conformance.backends.engine.given_model import OpenedModel
from cai_conformance.backends.engine.session import full_logits
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import Finding, counted
from cai_conformance.checks.tolerance.distance import unit_in_last_place
from cai_conformance.checks.tolerance.floor import NoiseFloor
from cai_conformance.checks.tolerance.rows import allowed_ulps
from cai_conformance.engine import Refused
from cai_conformance.fixtures.vectors import Answer, VectorCase
from cai_conformance.verdicts import Difference, Outcome, Problem
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.autograd import Tape
from cai_reference.models.stack import DecoderStack


@dataclass(frozen=True)
class TokenGap:
    """A token that differs: where, which, and by how much the reference preferred its own.

    Attributes:
        index: among the generated tokens.
        right, found: the two ids.
        gap: the reference's logit of `right` less that of `found`; 0 for an exact tie.
        allowed: what rounding explains.
    """

    index: int
    right: int
    found: int
    gap: float
    allowed: float

    @property
    def near(self) -> bool:
        """Whether rounding explains it."""
        return 0.0 < self.gap <= self.allowed


def judge_tokens(case: VectorCase, answer: Answer, evidence: Evidence, floor: NoiseFloor) -> Finding:
    """Compare the tokens of a generation with the right ones, near ties apart.

    Raises:
        EngineError: the engine failed while it was asked again.
    """
    assert case.expected is not None and case.expected.ids is not None
    given = evidence.question.given
    assert given is not None
    right, found = list(case.expected.ids), list(answer.ids or ())
    prompt = _prompt(case)
    tied, allowed = bool(case.input["tied"]), allowed_ulps(evidence.question.policy, floor.near)
    model = given.paired_model if tied else given.model
    ties: list[TokenGap] = []
    done = 0
    while right[done:] != found:
        gap = _first_gap(model, prompt, right, found, done, allowed, floor.precision)
        if gap is None:
            lengths = f"{len(right) - done} items", f"{len(found)} items"
            shape = Difference(Problem.SHAPE, case.label, "ids", None, *lengths)
            return Finding.failed(f"{shape}. Typical cause: {case.sees}", (shape,), case=case.case)
        rounded = gap.near or (gap.gap == 0.0 and _rounded_apart(evidence.opened, case, right[: gap.index], gap))
        if not rounded:
            return _fault(case, gap)
        ties.append(gap)
        done = gap.index + 1
        if evidence.opened is None or done == len(right):
            break
        # Taken up behind the reference's token.
        again = _again(evidence.opened, case, (*prompt, *right[:done]), len(right) - done, tied=tied)
        if again is None:
            break
        found = list(again)
    else:
        done = len(right)
    if not ties:
        return Finding.passed("the one right answer", case=case.case)
    return Finding(Outcome.NEAR_TIE, _told(ties, done, len(right)), case=case.case)


def _prompt(case: VectorCase) -> tuple[int, ...]:
    prompt = case.input["prompt"]
    assert isinstance(prompt, list)
    return tuple(int(str(token)) for token in prompt)


def _first_gap(
    model: DecoderStack,
    prompt: tuple[int, ...],
    right: list[int],
    found: list[int],
    done: int,
    allowed: float,
    precision: str,
) -> TokenGap | None:
    """Return the first token that differs; None where one sequence is the beginning of the other."""
    for offset, (one, other) in enumerate(zip(right[done:], found, strict=False)):
        if one != other:
            index = done + offset
            row = _row(model, [*prompt, *right[:index]])
            unit = unit_in_last_place(float(np.max(np.abs(row))), precision)
            known = 0 <= other < row.size
            # Two logits may each be off by what is allowed.
            gap = float(row[one] - row[other]) if known else np.inf
            return TokenGap(index, one, other, gap, 2.0 * allowed * unit)
    return None


def _row(model: DecoderStack, ids: list[int]) -> Array:
    row: Array = model.forward(Tape(STRICT, recording=False), ids, batch=1, newest=1)[0].value[0, 0]
    return row


def _rounded_apart(opened: OpenedModel | None, case: VectorCase, made: list[int], gap: TokenGap) -> bool:
    """Tell whether an exact tie of the reference is none in the engine, whose two logits differ by rounding."""
    if opened is None:
        return False
    try:
        opened.load(tied=bool(case.input["tied"]))
        row = full_logits(opened.engine, [*_prompt(case), *made])[0, -1]
    except Refused:
        # What it does not show excuses nothing.
        return False
    return 0.0 < abs(float(row[gap.right] - row[gap.found])) <= gap.allowed


def _again(
    opened: OpenedModel, case: VectorCase, prompt: tuple[int, ...], count: int, *, tied: bool
) -> tuple[int, ...] | None:
    try:
        opened.load(tied=tied)
        return generated(opened, str(case.input["arm"]), prompt, count)
    except Refused:
        # The tokens up to here are judged all the same.
        return None


def _fault(case: VectorCase, gap: TokenGap) -> Finding:
    difference = Difference(Problem.VALUE, case.label, "ids", gap.index, str(gap.right), str(gap.found))
    if gap.gap == 0.0:
        why = "an exact tie of two equal logits, of which the lower id is right: a fault of the tie rule"
    else:
        why = f"the reference prefers its token by {gap.gap:.6g}, rounding explains {gap.allowed:.2g}: a fault"
    return Finding.failed(f"{difference}; {why}. Typical cause: {case.sees}", (difference,), case=case.case)


def _told(ties: list[TokenGap], judged: int, wanted: int) -> str:
    first = ties[0]
    text = (
        f"token {first.index} is {first.found}, not {first.right}, which leads by {first.gap:.3g}; "
        f"rounding explains {first.allowed:.2g}"
    )
    if len(ties) > 1:
        text += f" (and {counted(len(ties) - 1, 'more near tie')})"
    rest = "" if judged >= wanted else f"; judged up to token {judged}"
    return text + rest + ", taken up again behind the reference's token"
