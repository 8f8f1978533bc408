"""How the library makes pairs of stories, and which ids its embedding remembers where it should have forgotten them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_neural_api.training.pairs import NO_TARGET, TokenMemory, make_pairs

CONTEXT, VOCABULARY = 6, 20


def one_head(story: Sequence[int], context: int) -> tuple[list[int], list[int]]:
    """Pair a story as the library describes it: copy what fits, and one-hot what follows, if anything, else id 0."""
    cut = len(story) if len(story) < context else context
    inputs, targets = [0] * context, [0] * context
    for row in range(cut):
        inputs[row] = story[row]
        if row < len(story) - 1:
            targets[row] = story[row + 1]
    return inputs, targets


def several_heads(story: Sequence[int], context: int, heads: int) -> list[list[int]]:
    """Return head h's target of each row: the id 1 + h behind it, for rows of the cut and ids of the story only."""
    rows = []
    for row in range(context):
        places = [row + 1 + head for head in range(heads)]
        rows.append([story[place] if row < context and place < len(story) else NO_TARGET for place in places])
        if row >= min(len(story), context):
            rows[-1] = [NO_TARGET] * heads
    return rows


class TestPairs:
    """Inputs and targets."""

    def test_a_short_story_is_padded_and_its_padding_aims_at_id_0(self) -> None:
        """The last token of the story does, too."""
        pairs = make_pairs([(5, 9, 7)], CONTEXT, VOCABULARY, 1)
        assert [[5, 9, 7, 0, 0, 0]] == pairs.inputs.tolist()
        assert [[9, 7, 0, 0, 0, 0]] == pairs.targets[..., 0].tolist()

    def test_a_story_of_one_token_aims_at_nothing_but_id_0(self) -> None:
        """There is a row for it all the same."""
        pairs = make_pairs([(5,)], CONTEXT, VOCABULARY, 1)
        assert [[5, 0, 0, 0, 0, 0]] == pairs.inputs.tolist()
        assert not pairs.targets.any()

    def test_a_story_as_long_as_the_context_aims_at_id_0_in_its_last_row(self) -> None:
        """Nothing follows its last token."""
        pairs = make_pairs([(1, 2, 3, 4, 5, 6)], CONTEXT, VOCABULARY, 1)
        assert [[2, 3, 4, 5, 6, 0]] == pairs.targets[..., 0].tolist()

    def test_a_longer_story_has_a_real_target_in_its_last_row(self) -> None:
        """The first token that does not fit into a context of 48 is the 49th."""
        story = tuple(range(100, 160))
        pairs = make_pairs([story], 48, 200, 1)
        assert (147, 148) == (pairs.inputs[0, 47], pairs.targets[0, 47, 0])

    def test_an_id_0_inside_a_story_is_a_target_like_any_other(self) -> None:
        """It cannot be told from padding."""
        pairs = make_pairs([(4, 0, 6)], CONTEXT, VOCABULARY, 1)
        assert [[0, 6, 0, 0, 0, 0]] == pairs.targets[..., 0].tolist()

    def test_several_heads_look_beyond_the_window(self) -> None:
        """Rows end with the cut, targets with the story."""
        pairs = make_pairs([(1, 2, 3, 4, 5, 6, 7, 8)], CONTEXT, VOCABULARY, 3)
        assert [[2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6, 7], [6, 7, 8], [7, 8, NO_TARGET]] == pairs.targets[0].tolist()

    def test_several_heads_have_no_target_where_nothing_follows(self) -> None:
        """Neither behind the story nor in the padding; id 0 stands for nothing here."""
        none = NO_TARGET
        pairs = make_pairs([(1, 2, 3)], CONTEXT, VOCABULARY, 3)
        assert [[2, 3, none], [3, none, none], *[[none] * 3] * 4] == pairs.targets[0].tolist()

    @settings(max_examples=40)
    @given(
        st.lists(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=10), min_size=1, max_size=4),
        st.integers(1, 4),
    )
    def test_pairs_are_those_of_plain_loops(self, stories: list[list[int]], heads: int) -> None:
        """Whatever the lengths."""
        pairs = make_pairs(stories, CONTEXT, VOCABULARY, heads)
        for number, story in enumerate(stories):
            inputs, targets = one_head(story, CONTEXT)
            expected = [[target] for target in targets] if heads == 1 else several_heads(story, CONTEXT, heads)
            assert inputs == pairs.inputs[number].tolist()
            assert expected == pairs.targets[number].tolist()


class TestTokenMemory:
    """Which row of the table takes the gradient of each place."""

    def test_an_id_is_remembered_where_it_stood(self) -> None:
        """Worked by hand: padding takes the row that was last read at its position, 0 if none was."""
        memory = TokenMemory(4)
        assert [[3, 5, 0, 0], [7, 5, 0, 0], [7, 2, 9, 0]] == memory.see(
            np.array([[3, 5, 0, 0], [7, 0, 0, 0], [0, 2, 9, 0]])
        ).tolist()

    def test_it_outlives_a_step(self) -> None:
        """The buffer belongs to the layer, not to the batch."""
        memory = TokenMemory(3)
        memory.see(np.array([[4, 4, 4]]))
        assert [[1, 4, 4]] == memory.see(np.array([[1, 0, 0]])).tolist()
        assert [[1, 4, 4]] == memory.see(np.array([[0, 0, 0]])).tolist()

    def test_another_memory_starts_empty(self) -> None:
        """Each thread of the library has its own."""
        TokenMemory(2).see(np.array([[4, 4]]))
        assert [[0, 0]] == TokenMemory(2).see(np.array([[0, 0]])).tolist()

    @pytest.mark.parametrize("seed", range(3))
    def test_it_is_a_buffer_that_only_ids_above_0_overwrite(self, seed: int) -> None:
        """A plain loop over positions, over several batches."""
        generator = np.random.default_rng(seed)
        memory, buffer = TokenMemory(CONTEXT), [0] * CONTEXT
        for _ in range(3):
            inputs = generator.integers(0, 4, (5, CONTEXT))
            rows = memory.see(inputs)
            for example in range(5):
                for position in range(CONTEXT):
                    if inputs[example, position] > 0:
                        buffer[position] = int(inputs[example, position])
                assert buffer == rows[example].tolist()
