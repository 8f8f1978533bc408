"""Faults of data: which tokens stand in a window, which stories train, and in which order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, MutableSequence, Sequence
from functools import partial
from typing import Final, TypeVar

from cai_conformance import stories
from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import NGRAM, Vehicle, exact, run
from cai_reference import splitmix
from cai_reference.splitmix import RandomBits
from cai_reference.text import batches, story_batches
from cai_reference.text.batches import Batch, Epoch, Slot
from cai_reference.text.story_batches import StoryBatch
from cai_reference.text.tokenizer import BOS, EOS
from cai_reference.text.windows import Window, Windowing

DATA: Final = frozenset({Place.DATA})
Item = TypeVar("Item")


def _targets_shifted(planting: Planting, by: int) -> None:
    def wrong(windowing: Windowing, tokens: Sequence[int], start: int) -> Window:
        padded, end = [*tokens, EOS], start + windowing.context
        return Window(tuple(padded[start:end]), tuple(padded[start + by : end + by]))

    planting.method(Windowing, "window", wrong)


def _last_dropped(planting: Planting) -> None:
    def wrong(windowing: Windowing, length: int) -> range:
        return range(0, max(0, length - windowing.context - 1), windowing.stride)

    planting.method(Windowing, "starts", wrong)


def _one_stream(planting: Planting) -> None:
    """Cut windows from all documents behind each other."""

    def slots(epoch: Epoch) -> list[Slot]:
        return [Slot(0, start) for start in epoch.windowing.starts(sum(len(each.tokens) for each in epoch.documents))]

    def window(epoch: Epoch, slot: Slot) -> Window:
        stream = list(itertools.chain.from_iterable(document.tokens for document in epoch.documents))
        return epoch.windowing.window(stream, slot.start)

    planting.method(Epoch, "slots", slots)
    planting.method(Epoch, "window", window)


def _padded_in_front(planting: Planting) -> None:
    """Fill documents that are shorter than a window up with BOS in front."""

    def starts(windowing: Windowing, length: int) -> range:
        return range(0, max(1, length - windowing.context), windowing.stride)

    def window(windowing: Windowing, tokens: Sequence[int], start: int) -> Window:
        needed = windowing.context + 1
        part = [*[BOS] * (needed - len(tokens)), *tokens][start : start + needed]
        return Window(tuple(part[:-1]), tuple(part[1:]))

    planting.method(Windowing, "starts", starts)
    planting.method(Windowing, "window", window)


def _remainder(planting: Planting) -> None:
    def wrong(generator: RandomBits, bound: int) -> int:
        return generator.next_u64() % bound

    planting.function(splitmix.below, wrong)


def _from_the_bottom(planting: Planting) -> None:
    right = splitmix.below

    def wrong(items: MutableSequence[Item], generator: RandomBits) -> None:
        for first in range(len(items) - 1):
            other = first + right(generator, len(items) - first)
            items[first], items[other] = items[other], items[first]

    planting.function(splitmix.shuffle, wrong)


def _narrow_batch_dropped(planting: Planting) -> None:
    right = batches._slices

    def wrong(slots: Sequence[Slot], batch_size: int) -> tuple[Batch, ...]:
        return tuple(batch for batch in right(slots, batch_size) if len(batch) == batch_size)

    planting.function(right, wrong)


def _one_order(planting: Planting) -> None:
    """Shuffle once, and take the same order again and again."""
    right = story_batches.shuffled_story_batches

    def wrong(
        given: Sequence[tuple[int, ...]], batch_size: int, context: int, generator: RandomBits, count: int
    ) -> tuple[StoryBatch, ...]:
        epoch = right(given, batch_size, context, generator, -(-len(given) // batch_size))
        return tuple(itertools.islice(itertools.cycle(epoch), count))

    planting.function(right, wrong)


def _validation_trained(planting: Planting) -> None:
    right = stories.split_stories

    def wrong(given: Sequence[str], validation_every: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return tuple(given), right(given, validation_every)[1]

    planting.function(right, wrong)


def _stories_shifted_twice(planting: Planting) -> None:
    def wrong(batch: StoryBatch, future: int = 0) -> tuple[list[int], list[int]]:
        return right(batch, future + 1)

    right = StoryBatch.targets
    planting.method(StoryBatch, "targets", wrong)


def _stories_cut_short(planting: Planting) -> None:
    right = story_batches.story_batches

    def wrong(given: Sequence[tuple[int, ...]], batch_size: int, context: int) -> tuple[StoryBatch, ...]:
        return right([story[:-1] for story in given], batch_size, context)

    planting.function(right, wrong)


def _fault(
    slug: str,
    title: str,
    story: str,
    precedent: str,
    plant: Callable[[Planting], None],
    expected: str,
    kinds: tuple[str, ...] = (),
    vehicles: tuple[Vehicle, ...] = exact(NGRAM),
) -> Fault:
    return Fault(f"data.{slug}", title, story, precedent, DATA, plant, "", kinds, vehicles, (expected,))


STORIES: Final = run("cai.kv-cache")

LEARNING_FROM: Final = (
    _fault(
        "windows-unshifted",
        "targets are the inputs",
        "Each token predicts itself; the loss falls to nothing.",
        "tamangmilan/llama3#1; Project-MONAI/GenerativeModels#314",
        partial(_targets_shifted, by=0),
        "data.windows",
        ("D01",),
    ),
    _fault(
        "windows-shifted-twice",
        "targets two tokens later",
        "The data are shifted, and the loss shifts once more.",
        "huggingface/transformers#47394; radixark/miles#2215",
        partial(_targets_shifted, by=2),
        "data.windows",
        ("D02",),
    ),
    _fault(
        "last-window-dropped",
        "the last window that just fits is dropped",
        "The comparison at a document's end is strict.",
        "OpenNMT/OpenNMT-py#18",
        _last_dropped,
        "data.windows",
        ("D03",),
    ),
    _fault(
        "one-order",
        "every epoch has the same order",
        "The order is drawn once. Runs of one epoch hide it.",
        "pytorch/pytorch#31771; webdataset/webdataset#347",
        _one_order,
        "run.golden",
        ("D04",),
        STORIES,
    ),
    _fault(
        "windows-cross-documents",
        "windows run over the border of two documents",
        "The context of a document's first tokens is the end of another one.",
        "karpathy/nanoGPT#320",
        _one_stream,
        "data.windows",
        ("D06",),
    ),
    _fault(
        "padded-in-front",
        "short documents padded in front",
        "A document that is shorter than a window is filled up, and trained on.",
        "karpathy/nanoGPT#320",
        _padded_in_front,
        "data.windows",
        ("D06",),
    ),
    _fault(
        "draws-by-remainder",
        "bounded draws by remainder alone",
        "Nothing is rejected, so that small numbers come more often. Small bounds hide it.",
        "",
        _remainder,
        "data.order",
    ),
    _fault(
        "shuffled-from-the-bottom",
        "shuffled from the bottom up",
        "As uniform as the defined shuffle, and another order.",
        "",
        _from_the_bottom,
        "data.order",
    ),
    _fault(
        "narrow-batch-dropped",
        "the last, narrower batch is dropped",
        "Loaders do so by default in some libraries. Numbers that divide evenly hide it.",
        "karpathy/llm.c#792",
        _narrow_batch_dropped,
        "data.order",
    ),
    _fault(
        "validation-trained",
        "validation stories train, too",
        "The validation loss is that of stories that were learned.",
        "",
        _validation_trained,
        "data.split",
        (),
        STORIES,
    ),
    _fault(
        "stories-shifted-twice",
        "targets of stories two tokens later",
        "As with windows, in padded batches.",
        "huggingface/transformers#37830",
        _stories_shifted_twice,
        "run.golden",
        ("D02",),
        STORIES,
    ),
    _fault(
        "end-never-learned",
        "EOS is no target",
        "Stories lose their last token, so that a model never learns to stop.",
        "",
        _stories_cut_short,
        "run.golden",
        (),
        STORIES,
    ),
)
"""What is wrong with what is learned from."""
