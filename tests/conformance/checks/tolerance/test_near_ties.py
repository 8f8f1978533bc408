"""Generated tokens that differ: near ties, exact ties, faults, and generations that are taken up again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
import pytest

from cai_conformance.backends.engine.given_model import OpenedModel
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.tolerance.floor import NoiseFloor
from cai_conformance.checks.tolerance.near_ties import judge_tokens
from cai_conformance.engine import EngineBroken, Evaluated, Feature, Generated, GenerationOrder, Piece, Refused
from cai_conformance.fixtures.vectors import Answer, VectorCase
from cai_conformance.verdicts import Outcome, Problem
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.autograd import Tape
from support_engines import SUITE, Wrapped, evidence_with, floor_of, opened_in, question, vector_case
from support_foreign_engines import given

CASE: Final = vector_case(SUITE, "gen.given.cached")
TIED: Final = vector_case(SUITE, "smp.tie.cached")


def right_ids(case: VectorCase = CASE) -> tuple[int, ...]:
    """Return the right tokens."""
    assert case.expected is not None and case.expected.ids is not None
    return case.expected.ids


def prompt_of(case: VectorCase = CASE) -> tuple[int, ...]:
    """Return the prompt of a case."""
    prompt = case.input["prompt"]
    assert isinstance(prompt, list)
    return tuple(int(str(token)) for token in prompt)


@cache
def row_before(index: int, *, tied: bool = False) -> Array:
    """Return the reference's logits in front of a generated token."""
    model = given(SUITE).paired_model if tied else given(SUITE).model
    ids = [*prompt_of(), *right_ids(TIED if tied else CASE)[:index]]
    found: Array = model.forward(Tape(STRICT, recording=False), ids, batch=1)[0].value[0, -1]
    return found


def runner_up(index: int) -> int:
    """Return the second likeliest id in the place of a generated token."""
    return int(np.argsort(row_before(index))[-2])


def units_between(index: int, other: int) -> float:
    """Return how many units in the last place of float64, at the largest logit, the right token leads by."""
    row = row_before(index)
    return float((row[right_ids()[index]] - row[other]) / np.spacing(np.max(np.abs(row))))


def enough_for(*indices: int) -> NoiseFloor:
    """Return a floor that explains the runners-up at some tokens: eight times it is the largest lead, and a little."""
    return floor_of(1.001 * max(units_between(index, runner_up(index)) for index in indices) / 8.0)


def judged(
    found: Sequence[int], floor: NoiseFloor, opened: OpenedModel | None = None, case: VectorCase = CASE
) -> Finding:
    """Return the finding about a generation."""
    asked = question(SUITE, "measured", "float64", case.identifier)
    answer = Answer(ids=tuple(found))
    evidence = evidence_with(asked, {case.identifier: answer}, floor, opened)
    return judge_tokens(case, answer, evidence, floor)


class Wobbling(Wrapped):
    """An engine that takes the runner-up at some of its tokens, and talks nonsense behind it.

    Asked behind right tokens, it is right up to the next of these places.
    """

    def __init__(self, *places: int, refuses: bool = False) -> None:
        super().__init__(features=frozenset({Feature.GENERATE}))
        self.asked: list[tuple[int, ...]] = []
        self._places, self._refuses = places, refuses

    def generate(self, order: GenerationOrder) -> Generated:
        """Generate, wrong at the places."""
        self.asked.append(order.prompt)
        if self._refuses:
            raise Refused("wobbling", "a generation", "it is tired")
        made = len(order.prompt) - len(prompt_of())
        wrong = min((place for place in self._places if place >= made), default=len(right_ids()))
        ids = right_ids() if wrong == len(right_ids()) else with_other(wrong, runner_up(wrong))
        return Generated(ids[made:])

    def all(self) -> tuple[int, ...]:
        """Return what it answers to the case."""
        found = self.generate(GenerationOrder(prompt_of(), len(right_ids()))).ids
        self.asked.clear()
        return found


def with_other(index: int, other: int) -> tuple[int, ...]:
    """Return the right tokens up to one, and nothing sensible from there on."""
    return (*right_ids()[:index], other, *[7] * (len(right_ids()) - index - 1))


class TestTokens:
    """Of a backend that is not asked again."""

    def test_the_right_tokens_pass(self) -> None:
        """Nothing is computed for that."""
        finding = judged(right_ids(), floor_of(1.0))
        assert (Outcome.PASS, "the one right answer") == (finding.outcome, finding.message)

    @pytest.mark.parametrize("index", [0, 5, 15])
    def test_a_runner_up_within_rounding_is_a_near_tie(self, index: int) -> None:
        """At the first token, in the middle, and at the last one; what follows it is not judged."""
        finding = judged(with_other(index, runner_up(index)), enough_for(index))
        assert Outcome.NEAR_TIE is finding.outcome
        assert f"token {index} is {runner_up(index)}, not {right_ids()[index]}, which leads by" in finding.message
        assert (f"; judged up to token {index + 1}" in finding.message) == (index < 15)

    @pytest.mark.parametrize("index", [0, 5, 15])
    def test_a_little_more_is_a_fault(self, index: int) -> None:
        """Each of two logits may be off by what is allowed, and no more."""
        floor = floor_of(0.999 * units_between(index, runner_up(index)) / 8.0)
        finding = judged(with_other(index, runner_up(index)), floor)
        assert Outcome.FAIL is finding.outcome
        assert "the reference prefers its token by" in finding.message
        (difference,) = finding.differences
        assert (Problem.VALUE, "ids", index) == (difference.problem, difference.field, difference.index)
        assert (str(right_ids()[index]), str(runner_up(index))) == (difference.expected, difference.found)

    @pytest.mark.parametrize("other", [320, 100000, -1])
    def test_an_id_that_does_not_exist_is_a_fault(self, other: int) -> None:
        """Whatever the floor."""
        assert Outcome.FAIL is judged(with_other(2, other), floor_of(1e300)).outcome

    @pytest.mark.parametrize("length", [0, 3, 15])
    def test_too_few_tokens_are_a_fault(self, length: int) -> None:
        """As are too many."""
        finding = judged(right_ids()[:length], floor_of(1e300))
        assert Outcome.FAIL is finding.outcome
        assert f"field ids: shape, expected 16 items, found {length} items" in finding.message
        assert Outcome.FAIL is judged((*right_ids(), 7), floor_of(1e300)).outcome

    def test_an_answer_of_another_kind_is_a_fault(self) -> None:
        """Values where ids are asked for."""
        asked = question(SUITE, "measured", "float64", CASE.identifier)
        answer = Answer(values=(1.0,))
        evidence = evidence_with(asked, {CASE.identifier: answer}, floor_of(1.0))
        found = judge_tokens(CASE, answer, evidence, floor_of(1.0))
        assert Outcome.FAIL is found.outcome


class TestAgain:
    """An engine is asked again behind the right token."""

    def test_one_near_tie_and_the_rest_is_right(self) -> None:
        """All tokens are judged."""
        engine = Wobbling(4)
        finding = judged(engine.all(), enough_for(4), opened_in(engine))
        assert Outcome.NEAR_TIE is finding.outcome
        assert finding.message.endswith(", taken up again behind the reference's token")
        assert "judged up to" not in finding.message
        assert [(*prompt_of(), *right_ids()[:5])] == engine.asked

    def test_several_near_ties_are_counted(self) -> None:
        """The first is told; the engine is asked behind each but the last token."""
        engine = Wobbling(0, 7, 15)
        finding = judged(engine.all(), enough_for(0, 7, 15), opened_in(engine))
        assert Outcome.NEAR_TIE is finding.outcome
        assert finding.message.startswith(f"token 0 is {runner_up(0)}, not {right_ids()[0]}, ")
        assert "(and 2 more near ties)" in finding.message
        assert [len(prompt_of()) + made for made in (1, 8)] == [len(ids) for ids in engine.asked]

    def test_a_fault_behind_a_near_tie_is_found(self) -> None:
        """At its own place among all tokens."""
        leads = [units_between(index, runner_up(index)) for index in range(len(right_ids()))]
        near = leads.index(min(leads[:-1]))
        wrong = leads.index(max(leads[near + 1 :]))
        floor = floor_of(1.001 * leads[near] / 8.0)
        finding = judged(Wobbling(near, wrong).all(), floor, opened_in(Wobbling(near, wrong)))
        assert Outcome.FAIL is finding.outcome
        assert wrong == finding.differences[0].index

    def test_an_engine_that_refuses_is_judged_up_to_there(self) -> None:
        """The other cases of the check are not lost."""
        found = Wobbling(4).all()
        finding = judged(found, enough_for(4), opened_in(Wobbling(4, refuses=True)))
        assert Outcome.NEAR_TIE is finding.outcome
        assert "; judged up to token 5" in finding.message

    def test_an_engine_that_breaks_is_an_error(self) -> None:
        """Of the check."""

        class Breaking(Wobbling):
            def generate(self, order: GenerationOrder) -> Generated:
                raise EngineBroken("breaking", "crashed")

        with pytest.raises(EngineBroken):
            judged(Wobbling(4).all(), enough_for(4), opened_in(Breaking()))

    def test_an_engine_that_runs_on_for_too_long_is_a_fault(self) -> None:
        """When it is asked again, as at first."""

        class Endless(Wobbling):
            def generate(self, order: GenerationOrder) -> Generated:
                return Generated((*super().generate(order).ids, 7))

        finding = judged(Wobbling(4).all(), enough_for(4), opened_in(Endless(4)))
        assert Outcome.FAIL is finding.outcome
        assert "expected 11 items, found 12 items" in finding.message


class Apart(Wrapped):
    """An engine in which ids 2i + 1 have a little more than ids 2i."""

    def __init__(self, more: float, *, refuses: bool = False) -> None:
        super().__init__(features=frozenset({Feature.GENERATE}))
        self._more, self._refuses = more, refuses

    def generate(self, order: GenerationOrder) -> Generated:
        """Go on rightly."""
        return Generated(right_ids(TIED)[len(order.prompt) - len(prompt_of()) :])

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Add to every other logit."""
        if self._refuses:
            raise Refused("apart", "a call", "it is tired")
        answers = super().evaluate(pieces, observe=observe)
        logits = [answer.logits.copy() for answer in answers]
        for each in logits:
            each[..., 1::2] += self._more
        return tuple(map(Evaluated, logits))


class TestExactTies:
    """Of two equal maxima the lower id is right, unless they are not equal in the engine."""

    higher = right_ids(TIED)[0] + 1

    def found(self, index: int = 0) -> tuple[int, ...]:
        """Return the right tokens, of which one is the other of its pair."""
        ids = right_ids(TIED)
        return (*ids[:index], ids[index] + 1, *ids[index + 1 :])

    @pytest.mark.parametrize("index", [0, 15])
    def test_the_higher_id_breaks_the_rule(self, index: int) -> None:
        """Whatever rounding explains."""
        assert row_before(index, tied=True)[right_ids(TIED)[index]] == np.max(row_before(index, tied=True))
        finding = judged(self.found(index), floor_of(1e6), None, TIED)
        assert Outcome.FAIL is finding.outcome
        assert (
            "an exact tie of two equal logits, of which the lower id is right: a fault of the tie rule"
            in finding.message
        )

    @pytest.mark.parametrize(
        ("engine", "outcome"),
        [
            (Apart(0.0), Outcome.FAIL),
            (Apart(2.0**-49), Outcome.NEAR_TIE),
            (Apart(0.5), Outcome.FAIL),
            (Apart(2.0**-49, refuses=True), Outcome.FAIL),
        ],
    )
    def test_own_logits_may_differ_by_rounding(self, engine: Apart, outcome: Outcome) -> None:
        """Equal ones excuse nothing; nor do logits that lie far apart, or are not shown."""
        finding = judged(self.found(), floor_of(8.0), opened_in(engine), TIED)
        assert outcome is finding.outcome
        if outcome is Outcome.NEAR_TIE:
            assert "which leads by 0; rounding explains" in finding.message
