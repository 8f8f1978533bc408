"""A sequence in calls: its text, what slots then hold, and what cannot be done."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.errors import InputError
from cai_conformance.run.probe.calls import Calls, Drop, Feed, Turn, read_ids
from cai_conformance.run.probe.questions import ProbeQuestion
from support_refusals import refuses
from support_shrinking import sequence_check


def held(calls: Calls) -> list[tuple[int, ...]]:
    """Return what the slot in use holds behind each call."""
    return [each.tokens for each in calls.holdings()]


class TestCalls:
    """Feeding, dropping, clearing, copying."""

    def test_what_slots_hold_is_followed(self) -> None:
        """By hand: fed, dropped, fed; emptied; copied, and each slot on its own way."""
        assert [(0, 5, 7), (0, 5, 3)] == held(Calls.of((0, 5, 7, 3), "3,-1,1"))
        assert [(4, 1), (2,)] == held(Calls.of((4, 1, 2), "2,clear,1"))
        assert [(1,), (1, 2), (1, 3)] == held(Calls.of((1, 2, 3), "1,copy,other,1,other,1"))
        assert [(1,), (2,), (1, 3)] == held(Calls.of((1, 2, 3), "1,other,1,other,1"))

    @given(
        st.lists(
            st.one_of(
                st.lists(st.integers(0, 9), min_size=1, max_size=3).map(lambda ids: Feed(tuple(ids))),
                st.integers(1, 3).map(Drop),
                st.sampled_from(Turn),
            ),
            min_size=1,
            max_size=6,
        ),
        st.integers(0, 4000),
    )
    def test_text_is_read_as_it_was_written(self, steps: list[Feed | Drop | Turn], start: int) -> None:
        """Wherever the calls can be made at all."""
        try:
            calls = Calls(tuple(steps), start)
        except InputError as error:
            if error.code != "calls-unreadable":
                raise
            return
        assert calls == Calls.of(calls.prompt, calls.text, start)
        assert calls == calls.with_ids(calls.prompt)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("2", "the prompt has 3"),
            ("3,-4", "4 tokens are dropped of 3"),
            ("-1,3", "1 tokens are dropped of 0"),
            ("3,undo", "'undo'"),
            ("3,0", "a call feeds nothing"),
            ("3,99999999999", "'99999999999'"),
            ("", "''"),
        ],
    )
    def test_what_cannot_be_done_is_refused(self, text: str, problem: str) -> None:
        """In one sentence."""
        with refuses(InputError, "calls-unreadable", match=problem):
            Calls.of((1, 2, 3), text)

    @pytest.mark.parametrize("text", ["", "1,-2", "a", "1 " * 5000, "4294967296", "²"])
    def test_ids_are_small_whole_numbers(self, text: str) -> None:
        """At least one, and not too many."""
        with refuses(InputError, "calls-unreadable"):
            read_ids(text)

    def test_ids_are_separated_by_commas_or_blanks(self) -> None:
        """As somebody copies them."""
        assert (3, 0, 1) == read_ids("3,0,1") == read_ids(" 3 0, 1 ")


class TestQuestion:
    """What the options of a command ask."""

    def test_a_prompt_is_asked_in_every_way(self) -> None:
        """Whole, step by step, cut, rolled back, in slots used before, and later."""
        question = ProbeQuestion.of("0,3,1")
        assert question is not None
        names = ("fwd.oracle", "kv.steps", "kv.cuts", "kv.rollback", "kv.reuse[clear]", "kv.reuse[copy]", "rope.shift")
        assert tuple(f"probe::{name}" for name in names) == question.identifiers

    @pytest.mark.parametrize(
        ("calls", "names"),
        [
            ("3", ["fwd.oracle"]),
            ("1,2", ["kv.cuts"]),
            ("1,1,1", ["kv.steps", "kv.cuts"]),
            ("2,-1,1", ["kv.rollback"]),
            ("1,clear,2", ["kv.reuse[clear]"]),
            ("1,copy,1,other,1", ["kv.reuse[copy]"]),
            ("3,-1", []),
        ],
    )
    def test_calls_say_which_check_is_meant(self, calls: str, names: list[str]) -> None:
        """A drop means a rollback, an emptied slot a second use."""
        question = ProbeQuestion.of("0,3,1", 0, calls)
        assert question is not None
        assert [f"probe::{name}" for name in names] == list(question.identifiers)

    def test_batches_are_trained_on(self) -> None:
        """One step each; rows are joined by slashes."""
        question = ProbeQuestion.of(None, batches=["0,3,1/0,2", "1,1"])
        assert question is not None and question.batches is not None
        assert (((0, 3, 1), (0, 2)), ((1, 1),)) == question.batches.steps
        assert ("0,3,1/0,2", "1,1") == question.batches.texts
        assert [2, 1] == [batch.width for batch in question.batches.stories()]

    def test_nothing_named_asks_nothing(self) -> None:
        """The probe then has questions of its own."""
        assert ProbeQuestion.of(None) is None

    def test_calls_without_a_prompt_are_refused(self) -> None:
        """As is a start."""
        for start, calls in ((0, "1"), (3, None)):
            with refuses(InputError, "calls-unreadable", match="no prompt"):
                ProbeQuestion.of(None, start, calls)

    @pytest.mark.parametrize("text", ["", "0", "0,1/", "0,1/2", "0,x"])
    def test_rows_without_a_target_are_refused(self, text: str) -> None:
        """Two ids at least."""
        with refuses(InputError, "batch-unreadable"):
            ProbeQuestion.of(None, batches=[text])

    def test_every_way_to_feed_a_prompt_is_one_of_its_check(self) -> None:
        """At every length, also of one id."""
        for name in ("fwd.oracle", "kv.steps", "kv.cuts", "kv.rollback", "kv.reuse[clear]", "kv.reuse[copy]"):
            check = sequence_check(name)
            for length in range(1, 26):
                asked = check.asked(tuple(range(length)), 2, 30)
                assert all(check.fits(calls) for calls in asked), (name, length)
                assert bool(asked) or length == 1
                assert {2} >= {calls.start for calls in asked}
