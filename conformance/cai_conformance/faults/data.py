"""Faults of data: which tokens stand in a window, which stories train, and in which order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, MutableSequence, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from cai_conformance.faults.fault import Family, Place
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import NGRAM, Sight, exact, run
from cai_conformance.fixtures import stories
from cai_reference import splitmix
from cai_reference.splitmix import MASK, RandomBits
from cai_reference.text import batches, story_batches
from cai_reference.text.batches import Batch, Epoch, Slot, Window, Windowing
from cai_reference.text.story_batches import StoryBatch
from cai_reference.text.tokenizer import BOS, EOS
from cai_reference.training.trainer import TrainingRun

Item = TypeVar("Item")


def _targets_shifted(patch: Patch, by: int) -> None:
    def wrong(windowing: Windowing, tokens: Sequence[int], start: int) -> Window:
        padded, end = [*tokens, EOS], start + windowing.context
        return Window(tuple(padded[start:end]), tuple(padded[start + by : end + by]))

    patch.replace((Windowing, "window"), wrong)


STORIES: Final = run("cai.kv-cache")

TWO_TO_64: Final = MASK + 1


def _drawn(patch: Patch, below: Callable[[RandomBits, int], int]) -> None:
    patch.replace(splitmix.below, below)


def _without_the_high_end(generator: RandomBits, bound: int) -> int:
    while (draw := generator.next_u64()) >= TWO_TO_64 - TWO_TO_64 % bound:
        pass
    return draw % bound


def _kept_from(generator: RandomBits, bound: int, offset: int) -> int:
    """Reject what lies below a threshold that is off by a little."""
    threshold = TWO_TO_64 % bound
    while (draw := generator.next_u64()) < threshold + offset and threshold:
        pass
    return draw % bound


def _unit_scaled(generator: RandomBits, bound: int) -> int:
    return int((generator.next_u64() >> 11) * 2.0**-53 * bound)


def _multiplied_high(generator: RandomBits, bound: int) -> int:
    return generator.next_u64() * bound >> 64


def _never_in_place(items: MutableSequence[Item], generator: RandomBits) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = splitmix.below(generator, last)
        items[last], items[other] = items[other], items[last]


def _whole_batches(epoch: Epoch, batch_size: int, generator: RandomBits) -> tuple[Batch, ...]:
    whole = list(batches.sequential_plan(epoch, batch_size))
    splitmix.shuffle(whole, generator)
    return tuple(whole)


def _filled(right: Callable[[Sequence[Slot], int], tuple[Batch, ...]], slots: Sequence[Slot], size: int) -> object:
    """Repeat the last slot until the last batch is as wide as the others."""
    return right([*slots, *[slots[-1]] * (-len(slots) % size)], size)


_data = Family(frozenset({Place.DATA}), exact(NGRAM))


@_data(
    "data.windows-unshifted",
    "targets are the inputs",
    "data.windows",
    seen_in="tamangmilan/llama3#1; Project-MONAI/GenerativeModels#314",
    kinds="D01",
    sight=Sight(("data.windows[documents]",), "targets stand beside their inputs", "both"),
)
def _windows_unshifted(patch: Patch) -> None:
    """Each token predicts itself; the loss falls to nothing."""
    _targets_shifted(patch, by=0)


@_data(
    "data.windows-shifted-twice",
    "targets two tokens later",
    "data.windows",
    seen_in="huggingface/transformers#47394; radixark/miles#2215",
    kinds="D02",
    sight=Sight(("data.windows[documents]",), "targets stand beside their inputs", "both"),
)
def _windows_shifted_twice(patch: Patch) -> None:
    """The data are shifted, and the loss shifts once more."""
    _targets_shifted(patch, by=2)


@_data(
    "data.last-window-dropped",
    "the last window that just fits is dropped",
    "data.windows",
    seen_in="OpenNMT/OpenNMT-py#18",
    kinds="D03",
    sight=Sight(("data.windows[last]",), "seven tokens hold a second window that just fits", "both"),
)
def _last_dropped(patch: Patch) -> None:
    """The comparison at a document's end is strict."""

    def wrong(windowing: Windowing, length: int) -> range:
        return range(0, max(0, length - windowing.context - 1), windowing.stride)

    patch.replace((Windowing, "starts"), wrong)


@_data(
    "data.one-order",
    "every epoch has the same order",
    "run.golden",
    seen_in="pytorch/pytorch#31771; webdataset/webdataset#347",
    kinds="D04",
    workloads=STORIES,
)
def _one_order(patch: Patch) -> None:
    """The order is drawn once. Runs of one epoch hide it."""
    # Shuffle once, and take the same order again and again.
    right = story_batches.shuffled_story_batches

    def wrong(
        given: Sequence[tuple[int, ...]], batch_size: int, context: int, generator: RandomBits, count: int
    ) -> tuple[StoryBatch, ...]:
        epoch = right(given, batch_size, context, generator, -(-len(given) // batch_size))
        return tuple(itertools.islice(itertools.cycle(epoch), count))

    patch.replace(right, wrong)


@_data(
    "data.windows-cross-documents",
    "windows run over the border of two documents",
    "data.windows",
    seen_in="karpathy/nanoGPT#320",
    kinds="D06",
    sight=Sight(("data.windows[documents]",), "the ends of four short documents", "both"),
)
def _one_stream(patch: Patch) -> None:
    """The context of a document's first tokens is the end of another one."""

    # Cut windows from all documents behind each other.
    def slots(epoch: Epoch) -> list[Slot]:
        return [Slot(0, start) for start in epoch.windowing.starts(sum(len(each.tokens) for each in epoch.documents))]

    def window(epoch: Epoch, slot: Slot) -> Window:
        stream = list(itertools.chain.from_iterable(document.tokens for document in epoch.documents))
        return epoch.windowing.window(stream, slot.start)

    patch.replace((Epoch, "slots"), slots)
    patch.replace((Epoch, "window"), window)


@_data(
    "data.padded-in-front",
    "short documents padded in front",
    "data.windows",
    seen_in="karpathy/nanoGPT#320",
    kinds="D06",
    sight=Sight(("data.windows[documents]",), "one document is BOS and EOS only"),
)
def _padded_in_front(patch: Patch) -> None:
    """A document that is shorter than a window is filled up, and trained on."""

    # Fill documents that are shorter than a window up with BOS in front.
    def starts(windowing: Windowing, length: int) -> range:
        return range(0, max(1, length - windowing.context), windowing.stride)

    def window(windowing: Windowing, tokens: Sequence[int], start: int) -> Window:
        needed = windowing.context + 1
        part = [*[BOS] * (needed - len(tokens)), *tokens][start : start + needed]
        return Window(tuple(part[:-1]), tuple(part[1:]))

    patch.replace((Windowing, "starts"), starts)
    patch.replace((Windowing, "window"), window)


@_data(
    "data.draws-by-remainder",
    "bounded draws by remainder alone",
    "data.order",
    sight=Sight(
        ("data.order[rejection]", "data.order[below-threshold]"), "a bound for which half of all draws are rejected"
    ),
)
def _remainder(patch: Patch) -> None:
    """Nothing is rejected, so that small numbers come more often. Small bounds hide it."""

    def wrong(generator: RandomBits, bound: int) -> int:
        return generator.next_u64() % bound

    patch.replace(splitmix.below, wrong)


@_data(
    "data.shuffled-from-the-bottom",
    "shuffled from the bottom up",
    "data.order",
    sight=Sight(("data.order[shuffle]",), "another order of twelve windows", "both"),
)
def _from_the_bottom(patch: Patch) -> None:
    """As uniform as the defined shuffle, and another order."""
    right = splitmix.below

    def wrong(items: MutableSequence[Item], generator: RandomBits) -> None:
        for first in range(len(items) - 1):
            other = first + right(generator, len(items) - first)
            items[first], items[other] = items[other], items[first]

    patch.replace(splitmix.shuffle, wrong)


@_data(
    "data.narrow-batch-dropped",
    "the last, narrower batch is dropped",
    "data.order",
    seen_in="karpathy/llm.c#792",
    sight=Sight(("data.order[partial]", "eval.batch[narrow]"), "twelve windows in batches of five", "both"),
)
def _narrow_batch_dropped(patch: Patch) -> None:
    """Loaders do so by default in some libraries. Numbers that divide evenly hide it."""
    right = batches._slices

    def wrong(slots: Sequence[Slot], batch_size: int) -> tuple[Batch, ...]:
        return tuple(batch for batch in right(slots, batch_size) if len(batch) == batch_size)

    patch.replace(right, wrong)


@_data("data.validation-trained", "validation stories train, too", "data.split", workloads=STORIES)
def _validation_trained(patch: Patch) -> None:
    """The validation loss is that of stories that were learned."""
    right = stories.split_stories

    def wrong(given: Sequence[str], validation_every: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return tuple(given), right(given, validation_every)[1]

    patch.replace(right, wrong)


@_data(
    "data.stories-shifted-twice",
    "targets of stories two tokens later",
    "run.golden",
    seen_in="huggingface/transformers#37830",
    kinds="D02",
    workloads=STORIES,
)
def _stories_shifted_twice(patch: Patch) -> None:
    """As with windows, in padded batches."""

    def wrong(batch: StoryBatch, future: int = 0) -> tuple[list[int], list[int]]:
        return right(batch, future + 1)

    right = StoryBatch.targets
    patch.replace((StoryBatch, "targets"), wrong)


@_data("data.end-never-learned", "EOS is no target", "run.golden", workloads=STORIES)
def _stories_cut_short(patch: Patch) -> None:
    """Stories lose their last token, so that a model never learns to stop."""
    right = story_batches.story_batches

    def wrong(given: Sequence[tuple[int, ...]], batch_size: int, context: int) -> tuple[StoryBatch, ...]:
        return right([story[:-1] for story in given], batch_size, context)

    patch.replace(right, wrong)


@_data.seen(
    "windows.stride-two",
    "every other window is taken",
    "data.windows[documents]",
    "four documents, window by window",
    printed="both",
)
def _stride_two(patch: Patch) -> None:
    patch.setting(Windowing, "stride", lambda stride: 2 * stride)


@_data.seen(
    "draws.high-end",
    "a bounded draw rejects the highest values instead of the lowest",
    "data.order[rejection] data.order[below-threshold]",
    "a bound for which half of all draws are rejected",
)
def _high_end(patch: Patch) -> None:
    _drawn(patch, below=_without_the_high_end)


@_data.seen(
    "draws.threshold-rejected",
    "the lowest value that is to be kept is rejected",
    "data.order[threshold]",
    "a seed whose first draw is exactly the threshold",
)
def _threshold_rejected(patch: Patch) -> None:
    _drawn(patch, below=partial(_kept_from, offset=1))


@_data.seen(
    "draws.rejected-kept",
    "the highest value that is to be rejected is kept",
    "data.order[below-threshold]",
    "a seed whose first draw is one below the threshold",
)
def _rejected_kept(patch: Patch) -> None:
    _drawn(patch, below=partial(_kept_from, offset=-1))


@_data.seen(
    "draws.scaled-unit",
    "a bounded draw is floor(u · n)",
    "data.order[shuffle]",
    "another order of twelve windows",
    printed="both",
)
def _scaled_unit(patch: Patch) -> None:
    _drawn(patch, below=_unit_scaled)


@_data.seen(
    "draws.multiply-high",
    "a bounded draw is the upper half of a product",
    "data.order[shuffle]",
    "another order of twelve windows",
    printed="both",
)
def _multiply_high(patch: Patch) -> None:
    _drawn(patch, below=_multiplied_high)


@_data.seen(
    "shuffle.never-in-place",
    "the partner is drawn below the last index, itself excluded",
    "data.order[shuffle]",
    "another order of twelve windows",
    printed="both",
)
def _never_in_place_shuffle(patch: Patch) -> None:
    patch.replace(splitmix.shuffle, _never_in_place)


@_data.seen(
    "shuffle.batches",
    "batches are shuffled, not windows",
    "data.order[shuffle]",
    "windows of a batch stay together",
    printed="both",
)
def _batches(patch: Patch) -> None:
    patch.replace(batches.shuffled_plan, _whole_batches)


@_data.seen(
    "batches.last-filled",
    "the last batch is filled up to the full width",
    "data.order[partial] eval.batch[narrow]",
    "twelve windows in batches of five",
    printed="both",
)
def _last_filled(patch: Patch) -> None:
    patch.around(batches._slices, _filled)


@_data.unseen(
    "unreached.second-epoch",
    "the second epoch has another order of batches",
    not_asked="fifteen steps end in the first epoch",
)
def _second_epoch(patch: Patch) -> None:
    patch.arguments(
        (TrainingRun, "run"), self=lambda call: replace(call.self, plan=[*call.self.plan, *reversed(call.self.plan)])
    )


DATA: Final = tuple(_data)
"""What is wrong with what is learned from."""
