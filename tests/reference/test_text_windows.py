"""Windows, epochs and plans: counts against brute force, the published plan, every window exactly once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_reference.splitmix import SplitMix64
from cai_reference.text.batches import EncodedDocument, Epoch, Slot, Window, Windowing, sequential_plan, shuffled_plan
from cai_reference.text.errors import BatchError
from support_course import TRAIN_LENGTHS, VALIDATION_LENGTHS, training_shape
from support_ngram_oracle import plan as oracle_plan
from support_refusals import refuses


def encoded(name: str, length: int, label: str = "train") -> EncodedDocument:
    """Return a document of counted tokens."""
    return EncodedDocument(name, label, tuple(range(length)))


def epoch_of(*lengths: int, context: int = 2, stride: int = 1) -> Epoch:
    """Return an epoch of documents with these lengths."""
    documents = tuple(encoded(f"d{number}", length) for number, length in enumerate(lengths))
    return Epoch("train", documents, Windowing(context, stride))


def test_a_window_is_its_tokens_and_the_same_shifted_by_one() -> None:
    """Three inputs from position 4 on, the targets one later."""
    assert Window((4, 5, 6), (5, 6, 7)) == Windowing(3).window(range(20), 4)


@given(st.integers(0, 40), st.integers(1, 12), st.integers(1, 12))
def test_the_count_is_that_of_the_formula_and_of_brute_force(length: int, context: int, stride: int) -> None:
    """A start is good while the window and its last target lie inside the document."""
    starts = [start for start in range(0, length + 1, stride) if start + context + 1 <= length]
    count = 0 if length < context + 1 else (length - context - 1) // stride + 1
    windowing = Windowing(context, stride)
    assert starts == list(windowing.starts(length))
    assert count == len(starts)
    for start in starts:
        window = windowing.window(range(length), start)
        assert (context, context) == (len(window.inputs), len(window.targets))
        assert [token + 1 for token in window.inputs] == list(window.targets)


def test_controls_stand_only_at_the_edges() -> None:
    """BOS is an input once and never a target, EOS a target once and never an input."""
    tokens = (0, 7, 8, 9, 1)
    windows = [Windowing(2).window(tokens, start) for start in Windowing(2).starts(len(tokens))]
    assert [Window((0, 7), (7, 8)), Window((7, 8), (8, 9)), Window((8, 9), (9, 1))] == windows


@pytest.mark.parametrize(("length", "count"), [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2)])
def test_short_documents_have_no_windows(length: int, count: int) -> None:
    """Nothing is padded."""
    assert count == len(epoch_of(length).slots())


def test_the_published_epochs_have_the_published_counts() -> None:
    """Lengths minus two a document."""
    assert (1836, 467) == (len(epoch_of(*TRAIN_LENGTHS).slots()), len(epoch_of(*VALIDATION_LENGTHS).slots()))


def test_slots_run_through_documents_and_then_starts() -> None:
    """A document without windows leaves no trace."""
    expected = [Slot(0, 0), Slot(0, 1), Slot(2, 0)]
    epoch = epoch_of(4, 2, 3)
    assert expected == epoch.slots()
    assert Window((0, 1), (1, 2)) == epoch.window(Slot(2, 0))


def test_no_windows_make_no_batches() -> None:
    """Zero windows are legal."""
    assert () == sequential_plan(epoch_of(2, 1), 8) == shuffled_plan(epoch_of(), 8, SplitMix64(0))


@pytest.mark.parametrize("size", [0, -3])
def test_a_batch_has_room(size: int) -> None:
    """And nothing is drawn for a plan that cannot be."""
    generator = SplitMix64(5)
    with refuses(BatchError, "zero-batch-size"):
        sequential_plan(epoch_of(9), size)
    with refuses(BatchError, "zero-batch-size"):
        shuffled_plan(epoch_of(9), size, generator)
    assert 5 == generator.state


def test_a_sequential_plan_keeps_the_order_and_the_narrow_rest() -> None:
    """Five windows in batches of two: the last one keeps its width."""
    plan = sequential_plan(epoch_of(5, 4), 2)
    assert [2, 2, 1] == [len(batch) for batch in plan]
    assert epoch_of(5, 4).slots() == [slot for batch in plan for slot in batch]


def test_the_published_plan() -> None:
    """Seed 23 over the published lengths: 28 batches of 64 and one of 44, 1835 draws, and these windows at the ends."""
    generator = SplitMix64(23)
    plan = shuffled_plan(training_shape(), 64, generator)
    order = [(slot.document, slot.start) for batch in plan for slot in batch]
    assert [64] * 28 + [44] == [len(batch) for batch in plan]
    assert [(2, 71), (5, 252), (7, 51), (1, 81), (1, 108), (5, 37), (5, 176), (0, 80)] == order[:8]
    assert [(3, 5), (5, 285), (5, 54)] == order[-3:]
    assert 0x17A584A36AE76A9E == generator.state


def test_the_published_evaluation_batches() -> None:
    """Four of the training windows, one of the validation windows."""
    assert [512, 512, 512, 300] == [len(batch) for batch in sequential_plan(training_shape(), 512)]
    assert [467] == [len(batch) for batch in sequential_plan(epoch_of(*VALIDATION_LENGTHS), 512)]


@given(st.lists(st.integers(0, 9), max_size=5), st.integers(1, 7), st.integers(0, 2**64 - 1))
def test_a_plan_covers_every_window_exactly_once(lengths: list[int], size: int, seed: int) -> None:
    """Shuffled or not, and the plain replica shuffles alike."""
    epoch = epoch_of(*lengths)
    slots = epoch.slots()
    shuffled = [slot for batch in shuffled_plan(epoch, size, SplitMix64(seed)) for slot in batch]
    assert [slots[place] for place in oracle_plan(len(slots), seed)] == shuffled
    assert sorted(slots, key=lambda slot: (slot.document, slot.start)) == sorted(
        shuffled, key=lambda slot: (slot.document, slot.start)
    )
    widths = [len(batch) for batch in sequential_plan(epoch, size)]
    assert len(slots) == sum(widths)
    assert all(width == size for width in widths[:-1])
