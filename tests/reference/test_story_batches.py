"""Batches of stories: what is fed, what is predicted, what is padding, and in which order stories come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cai_reference.splitmix import SplitMix64, shuffle
from cai_reference.text.story_batches import StoryBatch, shuffled_story_batches, story_batches

LONG, SHORT, MIDDLE = (0, 11, 12, 13, 14, 15, 1), (0, 21, 1), (0, 31, 32, 33, 1)
STORY = st.lists(st.integers(2, 90), max_size=9).map(lambda inner: (0, *inner, 1))


def test_inputs_leave_the_last_token_out() -> None:
    """A whole story's EOS predicts nothing, so the widest input is one shorter than the longest story."""
    (batch,) = story_batches([SHORT, MIDDLE], 4, 48)
    assert (2, 4) == (batch.rows, batch.width)
    assert [0, 21, 1, 0, 0, 31, 32, 33] == batch.flat_ids


def test_targets_are_the_next_tokens_and_end_with_eos() -> None:
    """Positions count through the padded rows; padding has no target, and neither has EOS as an input."""
    (batch,) = story_batches([SHORT, MIDDLE], 4, 48)
    assert ([0, 1, 4, 5, 6, 7], [21, 1, 31, 32, 33, 1]) == batch.targets()
    assert 6 == batch.target_count


def test_a_story_is_cut_to_the_context() -> None:
    """The input stops there; its last row still has the real next token as its target, EOS stays unseen."""
    (batch,) = story_batches([LONG, SHORT], 2, 4)
    assert [0, 11, 12, 13, 0, 21, 1, 0] == batch.flat_ids
    assert ([0, 1, 2, 3, 4, 5], [11, 12, 13, 14, 21, 1]) == batch.targets()


def test_later_heads_look_beyond_the_window() -> None:
    """Head k predicts k tokens further on: beyond a cut where the story goes on, one row fewer where it ends."""
    (batch,) = story_batches([LONG, SHORT], 2, 4)
    assert ([0, 1, 2, 3, 4], [12, 13, 14, 15, 1]) == batch.targets(1)
    assert ([0, 1, 2, 3], [13, 14, 15, 1]) == batch.targets(2)
    assert ([0, 1, 2], [14, 15, 1]) == batch.targets(3)
    assert ([], []) == batch.targets(6)


def test_a_story_of_exactly_the_context_keeps_eos_as_a_target() -> None:
    """Context 4 and five tokens: nothing is lost."""
    (batch,) = story_batches([MIDDLE], 1, 4)
    assert ([0, 31, 32, 33], ([0, 1, 2, 3], [31, 32, 33, 1])) == (batch.flat_ids, batch.targets())


def test_batches_keep_order_and_the_last_may_be_short() -> None:
    """Five stories in twos; each batch is as wide as its own stories need."""
    batches = story_batches([LONG, SHORT, SHORT, MIDDLE, SHORT], 2, 48)
    assert [(LONG, SHORT), (SHORT, MIDDLE), (SHORT,)] == [batch.stories for batch in batches]
    assert [6, 4, 2] == [batch.width for batch in batches]


@given(stories=st.lists(STORY, min_size=1, max_size=6), context=st.integers(1, 8), future=st.integers(0, 3))
def test_every_target_follows_its_input(stories: list[tuple[int, ...]], context: int, future: int) -> None:
    """Whatever is fed at a place is a real token of its story, and the target stands future + 1 behind it."""
    (batch,) = story_batches(stories, len(stories), context)
    assert batch.width <= context
    assert batch.rows * batch.width == len(batch.flat_ids)
    places, targets = batch.targets(future)
    assert sorted(set(places)) == places
    for place, target in zip(places, targets, strict=True):
        row, position = divmod(place, batch.width)
        assert stories[row][position] == batch.flat_ids[place]
        assert stories[row][position + 1 + future] == target
    expected = sum(max(0, min(len(story) - 1 - future, context)) for story in stories)
    assert expected == len(targets)


def test_each_epoch_is_shuffled_anew() -> None:
    """One generator goes on from epoch to epoch; every story comes once an epoch; the batches are counted off."""
    stories = [(0, token, 1) for token in range(10, 15)]
    batches = shuffled_story_batches(stories, 2, 48, SplitMix64(9), 7)
    generator, expected = SplitMix64(9), []
    for _ in range(3):
        order = list(stories)
        shuffle(order, generator)
        expected += [tuple(order[first : first + 2]) for first in (0, 2, 4)]
    assert expected[:7] == [batch.stories for batch in batches]
    assert expected[0:3] != expected[3:6]
    assert sorted(stories) == sorted(story for batch in batches[3:6] for story in batch.stories)


def test_the_given_order_is_left_alone() -> None:
    """Shuffling works on a copy."""
    stories = [LONG, SHORT, MIDDLE]
    shuffled_story_batches(stories, 1, 48, SplitMix64(1), 3)
    assert [LONG, SHORT, MIDDLE] == stories


def test_no_stories_and_no_batches() -> None:
    """Nothing comes of nothing, and no batches are no draws."""
    assert () == shuffled_story_batches([], 2, 48, SplitMix64(1), 3)
    assert () == story_batches([], 2, 48)
    generator = SplitMix64(1)
    assert () == shuffled_story_batches([SHORT], 2, 48, generator, 0)
    assert 1 == generator.state


def test_a_batch_is_data() -> None:
    """Equal stories in an equal width are equal batches."""
    assert StoryBatch((SHORT,), 2) == story_batches([SHORT], 5, 48)[0]
