"""Sequences in batches: rounding by the shape of a call, and neighbours that must not matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from cai_conformance.checks.finding import Finding
from cai_conformance.checks.kv_cache import judge_neighbours
from cai_conformance.checks.probe.driven import UNDRIVEN, probing
from cai_conformance.engine import Evaluated, Nondeterminism, Piece, Refused
from cai_conformance.verdicts import Outcome
from support_engines import HEADS, STAGED, SUITE, Wrapped, evidence_with, floor_of, opened_in, question
from support_foreign_engines import given

NONE, SHAPE, BATCH, RUN = Nondeterminism
UNIT: Final = 2.0**-52
"""So small that some hundreds of them are rounding, where the floor says so."""


class Touched(Wrapped):
    """An engine whose logits move by some of the last units, by the shape of a call, its content, or by chance.

    Args:
        by: what they hang on: `shape`, `content`, `chance` or nothing.
        units: how far.
    """

    def __init__(self, by: str = "", units: float = 4.0, says: Nondeterminism = NONE, slots: int = 8) -> None:
        super().__init__(nondeterminism=says, slots=slots)
        self._by, self._units, self._calls = by, units, 0

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Move the logits."""
        self._calls += 1
        answers = super().evaluate(pieces, observe=observe)
        touched = {
            "": False,
            "shape": len(pieces) > 1,
            "content": len(pieces) > 1 and sum(pieces[0].tokens) % 2 == 1,
            "chance": self._calls % 2 == 1,
            "nan": len(pieces) > 1,
            "alone": len(pieces) == 1,
        }[self._by]
        if not touched:
            return answers
        more = np.nan if self._by in ("nan", "alone") else self._units * UNIT
        return tuple(replace(answer, logits=answer.logits + more * np.abs(answer.logits)) for answer in answers)


def judged(engine: Wrapped, policy: str = "auto", floor: float = 4.0, suite: str = SUITE) -> tuple[Finding, Finding]:
    """Return the findings about shape and content."""
    asked = question(suite, policy, engine.description.arithmetic, STAGED)
    shape, content = probing(judge_neighbours)(evidence_with(asked, {}, floor_of(floor), opened_in(engine, suite)))
    assert ("shape", "content") == (shape.case, content.case)
    return shape, content


def outcomes(engine: Wrapped, policy: str = "auto", floor: float = 4.0) -> tuple[Outcome, Outcome]:
    """Return both outcomes."""
    shape, content = judged(engine, policy, floor)
    return shape.outcome, content.outcome


PASS, FAIL = Outcome.PASS, Outcome.FAIL
EXHAUSTIVE = pytest.mark.exhaustive


class TestShape:
    """When a sequence has neighbours, its sums may be taken in another order."""

    @pytest.mark.parametrize("suite", [SUITE, pytest.param(HEADS, marks=pytest.mark.exhaustive)])
    def test_an_engine_that_takes_piece_by_piece_moves_no_bit(self, suite: str) -> None:
        """Nor needs to declare anything."""
        shape, content = judged(Touched(), suite=suite)
        assert "alone and in a ragged batch of three, every logit has the same bits" == shape.message
        assert "other neighbours of the same lengths change no bit" == content.message

    @pytest.mark.parametrize("says", [SHAPE, *(pytest.param(says, marks=EXHAUSTIVE) for says in (BATCH, RUN))])
    def test_rounding_by_shape_passes_where_it_is_declared(self, says: Nondeterminism) -> None:
        """Each declaration includes the ones before it."""
        shape, content = judged(Touched("shape", says=says))
        assert (PASS, PASS) == (shape.outcome, content.outcome)
        assert "rounding by the shape of a call, 16 allowed" in shape.message

    def test_rounding_that_is_not_declared_fails(self) -> None:
        """The message says what has to be declared."""
        shape, content = judged(Touched("shape"))
        assert (FAIL, PASS) == (shape.outcome, content.outcome)
        assert shape.message.endswith("the engine says that its bits depend on nothing, so `shape` has to be declared")

    def test_more_than_rounding_fails_whatever_is_declared(self) -> None:
        """By as much as a floor of four units does not explain."""
        shape, _ = judged(Touched("shape", 1e6, says=RUN))
        assert FAIL is shape.outcome
        assert "and rounding explains 16: more than the shape of a call" in shape.message

    @pytest.mark.parametrize("policy", ["exact", pytest.param("ulp:0", marks=EXHAUSTIVE)])
    def test_where_bits_are_compared_none_may_move(self, policy: str) -> None:
        """By the user's word."""
        assert (FAIL, PASS) == outcomes(Touched("shape", says=SHAPE), policy)
        assert (PASS, PASS) == outcomes(Touched(says=SHAPE), policy)

    @pytest.mark.parametrize("by", ["nan", pytest.param("alone", marks=EXHAUSTIVE)])
    def test_what_is_no_number_fails(self, by: str) -> None:
        """On either side, whatever is declared."""
        shape, content = outcomes(Touched(by, says=RUN), floor=1e300)
        assert FAIL is shape
        assert (FAIL if by == "nan" else PASS) is content


class TestContent:
    """When only the tokens of the neighbours change, no bit may."""

    @pytest.mark.parametrize("says", [pytest.param(NONE, marks=EXHAUSTIVE), SHAPE])
    def test_a_neighbour_that_leaks_fails(self, says: Nondeterminism) -> None:
        """However little: the shape of the call is the same."""
        _, content = judged(Touched("content", says=says))
        assert FAIL is content.outcome
        assert content.message.endswith("though the shape of the call is the same: sequences leak into each other")

    @pytest.mark.parametrize("says", [BATCH, pytest.param(RUN, marks=EXHAUSTIVE)])
    def test_rounding_by_content_passes_where_it_is_declared(self, says: Nondeterminism) -> None:
        """And no more than rounding."""
        _, content = judged(Touched("content", says=says))
        assert PASS is content.outcome
        assert content.message.endswith("rounding, as the engine declares")
        assert FAIL is outcomes(Touched("content", 1e6, says=says))[1]
        assert FAIL is outcomes(Touched("content", says=says), "exact")[1]

    @EXHAUSTIVE
    def test_chance_is_declared_as_such(self) -> None:
        """Two runs of the same call may differ then."""
        assert PASS is outcomes(Touched("chance", says=RUN))[0]


class TestEngines:
    """Engines that cannot be asked."""

    @pytest.mark.parametrize("slots", [1, 2])
    def test_too_few_slots_are_skipped(self, slots: int) -> None:
        """The reason is told."""
        asked = question(SUITE, "auto", "float64", STAGED)
        evidence = evidence_with(asked, {}, floor_of(4.0), opened_in(Touched(slots=slots)))
        (finding,) = probing(judge_neighbours)(evidence)
        assert (Outcome.SKIPPED, f"the engine holds {slots} sequences at once, not 3") == (
            finding.outcome,
            finding.message,
        )

    def test_who_cannot_be_driven_is_skipped(self) -> None:
        """A backend that answers traces."""
        (finding,) = probing(judge_neighbours)(
            evidence_with(question(SUITE, "auto", "float64", STAGED), {}, floor_of(4.0))
        )
        assert (Outcome.SKIPPED, UNDRIVEN) == (finding.outcome, finding.message)

    def test_an_engine_that_refuses_batches_says_so(self) -> None:
        """The runner skips the check."""

        class Single(Touched):
            def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
                if len(pieces) > 1:
                    raise Refused("single", "a batch", "it takes one sequence at a time")
                return super().evaluate(pieces, observe=observe)

        with pytest.raises(Refused):
            judged(Single())

    def test_the_batch_is_ragged_and_no_sequence_is_too_long(self) -> None:
        """A shorter and a longer neighbour; each slot is emptied before and afterwards."""
        seen: list[list[int]] = []
        cleared: list[int] = []

        class Watching(Touched):
            def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
                seen.append([piece.position + len(piece.tokens) for piece in pieces])
                return super().evaluate(pieces, observe=observe)

            def clear(self, slot: int) -> None:
                cleared.append(slot)
                super().clear(slot)

        judged(Watching())
        longest = max(seen, key=lambda lengths: (len(lengths), sum(lengths)))
        assert longest[0] < longest[1] < longest[2] <= given(SUITE).sizes.context
        assert [0, 0, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2] == cleared
