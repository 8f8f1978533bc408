"""An engine's answers to vector cases: what it cannot answer is left out, and what it can comes from its own calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest

from cai_conformance.backends.engine.answers import answer_case, generated, rows_of
from cai_conformance.backends.engine.session import EngineReencoding, EngineSession, evaluate_checked, full_logits
from cai_conformance.engine import (
    EngineBroken,
    EngineError,
    Evaluated,
    Feature,
    Generated,
    GenerationOrder,
    Piece,
    Refused,
)
from cai_conformance.fixtures.vectors import Answer
from support_engines import HEADS, SUITE, Wrapped, opened_in, vector_case
from support_refusals import refuses

ARMS: Final = [
    "cached",
    *(pytest.param(arm, marks=pytest.mark.exhaustive) for arm in ("full", "scripted", "self-draft")),
]
NOTHING: Final = frozenset[Feature]()


def answered(engine: Wrapped, identifier: str, suite: str = SUITE) -> Answer | None:
    """Return an engine's answer to a case."""
    return answer_case(vector_case(suite, identifier), opened_in(engine, suite))


def expected(identifier: str, suite: str = SUITE) -> Answer:
    """Return the one right answer."""
    found = vector_case(suite, identifier).expected
    assert found is not None
    return found


class TestAnswers:
    """Of an engine that can do everything, and of one that can do nothing but evaluate."""

    @pytest.mark.parametrize("identifier", ["fwd.oracle.last", "fwd.oracle.far", "kv.split.one", "kv.split.far"])
    def test_rows_lie_close_to_the_right_ones(self, identifier: str) -> None:
        """Asked for in one call or in two, from wherever."""
        found = answered(Wrapped(features=NOTHING, arms=frozenset(), slots=1), identifier)
        assert found is not None and found.values is not None
        right = expected(identifier).values
        assert right is not None
        assert np.allclose(found.values, right, rtol=0.0, atol=1e-11)

    @pytest.mark.parametrize("identifier", ["causal.flip.full", "kv.reach.cached"])
    def test_rows_that_move_are_counted_by_their_bits(self, identifier: str) -> None:
        """Fed at once, or one token at a time."""
        assert expected(identifier) == answered(Wrapped(features=NOTHING), identifier)

    def test_a_case_that_is_no_matter_of_a_model_has_no_answer(self) -> None:
        """Draws by a seed are made by no engine."""
        assert answered(Wrapped(), "smp.seed.full") is None

    @pytest.mark.exhaustive
    def test_later_heads_are_asked_for_by_number(self) -> None:
        """Of a model with several."""
        found = answered(Wrapped(), "fwd.oracle.head", HEADS)
        right = expected("fwd.oracle.head", HEADS).values
        assert found is not None and found.values is not None and right is not None
        assert np.allclose(found.values, right, rtol=0.0, atol=1e-11)

    def test_a_refusal_is_no_answer(self) -> None:
        """Another error is passed on."""

        class Late(Wrapped):
            def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
                if pieces[0].position == 3000:
                    raise Refused("late", "a late start", "sequences start at 0")
                if len(pieces[0].tokens) == 1:
                    raise EngineBroken("late", "crashed")
                return super().evaluate(pieces, observe=observe)

        assert answered(Late(), "fwd.oracle.far") is None
        assert answered(Late(), "fwd.oracle.last") is not None
        with pytest.raises(EngineBroken):
            answered(Late(), "kv.split.one")


class TestGenerations:
    """By the engine's loop where it lists the arm, by the reference's elsewhere."""

    @pytest.mark.parametrize("arm", ARMS)
    def test_every_arm_is_driven_from_outside(self, arm: str) -> None:
        """By an engine without loops, which can be cut back and has two slots."""
        engine = Wrapped(features=frozenset({Feature.DROP}), arms=frozenset(), slots=2)
        assert expected(f"gen.given.{arm}") == answered(engine, f"gen.given.{arm}")

    @pytest.mark.exhaustive
    def test_several_heads_guess_by_themselves(self) -> None:
        """The later heads of the engine."""
        assert expected("gen.given.mtp-cached", HEADS) == answered(Wrapped(), "gen.given.mtp-cached", HEADS)

    def test_what_needs_more_is_left_out(self) -> None:
        """A second slot for an own draft, and cuts for every speculation."""
        assert answered(Wrapped(slots=1), "gen.given.self-draft") is None
        uncut = frozenset({Feature.GENERATE})
        assert answered(Wrapped(features=uncut), "gen.given.scripted") is None
        assert answered(Wrapped(features=uncut), "gen.given.cached") == expected("gen.given.cached")

    def test_an_arm_that_is_listed_is_the_engines(self) -> None:
        """Whatever it answers."""

        class Own(Wrapped):
            def generate(self, order: GenerationOrder) -> Generated:
                return Generated((order.new_tokens, *order.prompt[:1]))

        opened = opened_in(Own())
        opened.load()
        assert (5, 9) == generated(opened, "cached", (9, 8), 5)
        assert (5, 9) != generated(opened, "scripted", (9, 8), 5)

    def test_ties_are_answered_by_own_loops_only(self) -> None:
        """Elsewhere the choice would be ours."""
        assert expected("smp.tie.cached") == answered(Wrapped(), "smp.tie.cached")
        assert answered(Wrapped(), "smp.tie.scripted") is None
        assert answered(Wrapped(features=NOTHING), "smp.tie.cached") is None
        assert answered(Wrapped(arms=frozenset()), "smp.tie.cached") is None

    def test_no_arm_has_another_name(self) -> None:
        """Of attention by latents, which has none here."""
        opened = opened_in(Wrapped())
        opened.load()
        assert generated(opened, "absorbed", (0, 5), 3) is None


class Misshapen(Wrapped):
    """An engine whose logits have a chosen shape."""

    def __init__(self, *shape: int, pieces: int = 1) -> None:
        super().__init__()
        self._shape, self._pieces = shape, pieces

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Answer zeros."""
        return (Evaluated(np.zeros(self._shape)),) * self._pieces


class TestPaths:
    """Calls of one slot, whose answers are looked at."""

    @pytest.mark.parametrize(
        ("engine", "message"),
        [
            (Misshapen(320), "reference answered logits of shape [320] where [heads, 2, vocabulary] was asked for"),
            (Misshapen(2, 320), "logits of shape [2, 320]"),
            (Misshapen(1, 3, 320), "logits of shape [1, 3, 320]"),
            (Misshapen(0, 2, 320), "logits of shape [0, 2, 320]"),
            (Misshapen(1, 2, 320, pieces=2), "reference answered 2 pieces where 1 was asked for"),
            (Misshapen(1, 2, 320, pieces=0), "reference answered 0 pieces where 1 was asked for"),
        ],
    )
    def test_answers_of_another_shape_are_told(self, engine: Wrapped, message: str) -> None:
        """By whoever asked."""
        with refuses(EngineError, "answer-out-of-shape") as caught:
            EngineSession(engine).feed((0, 5))
        assert message in str(caught.value)
        with refuses(EngineError, "answer-out-of-shape"):
            EngineReencoding(engine).after((0, 5), 2)

    def test_a_session_counts_what_it_fed(self) -> None:
        """From where it starts; a cut that changes nothing asks for nothing."""
        opened = opened_in(Wrapped(features=NOTHING))
        opened.load()
        session = EngineSession(opened.engine, slot=3, start=40)
        session.feed((0, 5))
        session.truncate(2)
        session.feed((7,))
        assert session.length == 3
        with pytest.raises(Refused) as caught:
            session.truncate(1)
        assert "reference refuses a cut: it has no feature drop" == str(caught.value)
        assert session.length == 3

    def test_whole_sequences_are_encoded_anew(self) -> None:
        """In an emptied slot, every time."""
        opened = opened_in(Wrapped())
        opened.load()
        path = EngineReencoding(opened.engine)
        path.prefill((0, 5))
        one, other = path.after((0, 5, 9), 2), path.after((0, 5, 9), 1)
        path.keep(0)
        assert path.forwards == 2
        assert np.array_equal(one[0][-1:], other[0])
        assert np.array_equal(one[0], full_logits(opened.engine, (0, 5, 9))[0, 1:])

    def test_pieces_are_matched_with_their_answers(self) -> None:
        """Each with its own rows."""
        opened = opened_in(Wrapped())
        opened.load()
        pieces = [Piece(0, 0, (0, 5), (0, 1)), Piece(1, 0, (0, 5), ())]
        assert [(1, 2, 320), (1, 0, 320)] == [each.logits.shape for each in evaluate_checked(opened.engine, pieces)]

    def test_rows_of_both_arms(self) -> None:
        """As many as tokens; the same numbers, but for rounding."""
        opened = opened_in(Wrapped())
        opened.load()
        for arm in ("full", "cached"):
            rows = np.stack([np.frombuffer(row) for row in rows_of(opened, arm, (0, 5, 9))])
            assert np.allclose(rows, full_logits(opened.engine, (0, 5, 9))[0], rtol=0.0, atol=1e-11)


def test_an_engine_out_of_shape_is_an_error_of_its_case() -> None:
    """And not a missing answer."""
    with refuses(EngineError, "answer-out-of-shape"):
        answer_case(vector_case(SUITE, "fwd.oracle.last"), opened_in(Misshapen(1, 5, 320)))
