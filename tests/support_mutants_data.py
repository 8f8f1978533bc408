"""Wrong data: windows, bounded draws, shuffles, batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, MutableSequence, Sequence
from typing import Final

import pytest

from cai_reference.splitmix import MASK, RandomBits
from cai_reference.splitmix import below as right_below
from cai_reference.text import Batch, Epoch, Window, Windowing, sequential_plan
from cai_reference.text.batches import Slot
from support_mutants import Change, Mutant, replaced

EDGES, EXPERIMENT = "cai_conformance.backends.ngram.edges", "cai_conformance.backends.ngram.experiment"
SPLITMIX, BATCHES, WINDOWS = "cai_reference.splitmix", "cai_reference.text.batches", "cai_reference.text.windows"

_TWO_TO_64 = MASK + 1


# Windows.


def _whole_stream(patch: pytest.MonkeyPatch) -> None:
    def slots(self: Epoch) -> list[Slot]:
        return [Slot(0, start) for start in self.windowing.starts(sum(len(item.tokens) for item in self.documents))]

    def window(self: Epoch, slot: Slot) -> Window:
        stream = list(itertools.chain.from_iterable(document.tokens for document in self.documents))
        return self.windowing.window(stream, slot.start)

    replaced((BATCHES, "Epoch.slots", slots), (BATCHES, "Epoch.window", window))(patch)


def _padded(patch: pytest.MonkeyPatch) -> None:
    def starts(self: Windowing, length: int) -> range:
        return range(0, max(1, length - self.context), self.stride)

    def window(self: Windowing, tokens: Sequence[int], start: int) -> Window:
        needed = self.context + 1
        part = [*[0] * (needed - len(tokens)), *tokens][start : start + needed]
        return Window(tuple(part[:-1]), tuple(part[1:]))

    replaced((WINDOWS, "Windowing.starts", starts), (WINDOWS, "Windowing.window", window))(patch)


def _starting(starts: Callable[[Windowing, int], range]) -> Change:
    return replaced((WINDOWS, "Windowing.starts", starts))


def _without_the_last(self: Windowing, length: int) -> range:
    return range(0, max(0, length - self.context - 1), self.stride)


def _every_other(self: Windowing, length: int) -> range:
    return range(0, max(0, length - self.context), 2 * self.stride)


def _shifting(by: int) -> Change:
    def window(self: Windowing, tokens: Sequence[int], start: int) -> Window:
        padded = [*tokens, 1]
        end = start + self.context
        return Window(tuple(padded[start:end]), tuple(padded[start + by : end + by]))

    return replaced((WINDOWS, "Windowing.window", window))


# Draws and shuffles.


def _drawing(below: Callable[[RandomBits, int], int]) -> Change:
    return replaced((SPLITMIX, "below", below), (EDGES, "below", below))


def _remainder(generator: RandomBits, bound: int) -> int:
    return generator.next_u64() % bound


def _without_the_high_end(generator: RandomBits, bound: int) -> int:
    while (draw := generator.next_u64()) >= _TWO_TO_64 - _TWO_TO_64 % bound:
        pass
    return draw % bound


def _keeping_from(offset: int) -> Callable[[RandomBits, int], int]:
    def below(generator: RandomBits, bound: int) -> int:
        threshold = _TWO_TO_64 % bound
        while (draw := generator.next_u64()) < threshold + offset and threshold:
            pass
        return draw % bound

    return below


def _scaled(generator: RandomBits, bound: int) -> int:
    return int((generator.next_u64() >> 11) * 2.0**-53 * bound)


def _multiplied_high(generator: RandomBits, bound: int) -> int:
    return generator.next_u64() * bound >> 64


def _shuffling(shuffle: Callable[[MutableSequence[Slot], RandomBits], None]) -> Change:
    return replaced((BATCHES, "shuffle", shuffle))


def _from_the_bottom(items: MutableSequence[Slot], generator: RandomBits) -> None:
    for first in range(len(items) - 1):
        other = first + right_below(generator, len(items) - first)
        items[first], items[other] = items[other], items[first]


def _never_in_place(items: MutableSequence[Slot], generator: RandomBits) -> None:
    for last in range(len(items) - 1, 0, -1):
        other = right_below(generator, last)
        items[last], items[other] = items[other], items[last]


def _whole_batches(epoch: Epoch, batch_size: int, generator: RandomBits) -> tuple[Batch, ...]:
    batches = list(sequential_plan(epoch, batch_size))
    for last in range(len(batches) - 1, 0, -1):
        other = right_below(generator, last + 1)
        batches[last], batches[other] = batches[other], batches[last]
    return tuple(batches)


def _slicing(last: Callable[[Sequence[Slot], int], Sequence[Slot]]) -> Change:
    def slices(slots: Sequence[Slot], batch_size: int) -> tuple[Batch, ...]:
        parts = [slots[start : start + batch_size] for start in range(0, len(slots), batch_size)]
        parts[-1:] = [part for part in (last(parts[-1], batch_size),) if part]
        return tuple(map(tuple, parts))

    return replaced((BATCHES, "_slices", slices))


def _dropped(part: Sequence[Slot], size: int) -> Sequence[Slot]:
    return part if len(part) == size else ()


def _filled(part: Sequence[Slot], size: int) -> Sequence[Slot]:
    return [*part, *[part[-1]] * (size - len(part))]


DATA_MUTANTS: Final = (
    Mutant(
        "windows.cross-documents",
        "windows run over the border of two documents",
        ("data.windows[documents]",),
        "the ends of four short documents",
        _whole_stream,
        printed="both",
        before_training=True,
    ),
    Mutant(
        "windows.padded",
        "a document shorter than a window is padded with BOS",
        ("data.windows[documents]",),
        "one document is BOS and EOS only",
        _padded,
        before_training=True,
    ),
    Mutant(
        "windows.last-dropped",
        "the last window of a document is dropped",
        ("data.windows[last]",),
        "seven tokens hold a second window that just fits",
        _starting(_without_the_last),
        printed="both",
        before_training=True,
    ),
    Mutant(
        "windows.stride-two",
        "every other window is taken",
        ("data.windows[documents]",),
        "four documents, window by window",
        _starting(_every_other),
        printed="both",
        before_training=True,
    ),
    Mutant(
        "windows.not-shifted",
        "targets are the inputs",
        ("data.windows[documents]",),
        "targets stand beside their inputs",
        _shifting(0),
        printed="both",
        before_training=True,
    ),
    Mutant(
        "windows.shifted-twice",
        "targets are two positions later",
        ("data.windows[documents]",),
        "targets stand beside their inputs",
        _shifting(2),
        printed="both",
        before_training=True,
    ),
    Mutant(
        "draws.remainder",
        "a bounded draw is a remainder, nothing is rejected",
        ("data.order[rejection]", "data.order[below-threshold]"),
        "a bound for which half of all draws are rejected",
        _drawing(_remainder),
        before_training=True,
    ),
    Mutant(
        "draws.high-end",
        "a bounded draw rejects the highest values instead of the lowest",
        ("data.order[rejection]", "data.order[below-threshold]"),
        "a bound for which half of all draws are rejected",
        _drawing(_without_the_high_end),
        before_training=True,
    ),
    Mutant(
        "draws.threshold-rejected",
        "the lowest value that is to be kept is rejected",
        ("data.order[threshold]",),
        "a seed whose first draw is exactly the threshold",
        _drawing(_keeping_from(1)),
        before_training=True,
    ),
    Mutant(
        "draws.rejected-kept",
        "the highest value that is to be rejected is kept",
        ("data.order[below-threshold]",),
        "a seed whose first draw is one below the threshold",
        _drawing(_keeping_from(-1)),
        before_training=True,
    ),
    Mutant(
        "draws.scaled-unit",
        "a bounded draw is floor(u · n)",
        ("data.order[shuffle]",),
        "another order of twelve windows",
        _drawing(_scaled),
        printed="both",
        before_training=True,
    ),
    Mutant(
        "draws.multiply-high",
        "a bounded draw is the upper half of a product",
        ("data.order[shuffle]",),
        "another order of twelve windows",
        _drawing(_multiplied_high),
        printed="both",
        before_training=True,
    ),
    Mutant(
        "shuffle.from-the-bottom",
        "Fisher–Yates runs upwards",
        ("data.order[shuffle]",),
        "another order of twelve windows",
        _shuffling(_from_the_bottom),
        printed="both",
        before_training=True,
    ),
    Mutant(
        "shuffle.never-in-place",
        "the partner is drawn below the last index, itself excluded",
        ("data.order[shuffle]",),
        "another order of twelve windows",
        _shuffling(_never_in_place),
        printed="both",
        before_training=True,
    ),
    Mutant(
        "shuffle.batches",
        "batches are shuffled, not windows",
        ("data.order[shuffle]",),
        "windows of a batch stay together",
        replaced((EDGES, "shuffled_plan", _whole_batches), (EXPERIMENT, "shuffled_plan", _whole_batches)),
        printed="both",
        before_training=True,
    ),
    Mutant(
        "batches.last-dropped",
        "the last, narrower batch is dropped",
        ("data.order[partial]", "eval.batch[narrow]"),
        "twelve windows in batches of five",
        _slicing(_dropped),
        printed="both",
        before_training=True,
    ),
    Mutant(
        "batches.last-filled",
        "the last batch is filled up to the full width",
        ("data.order[partial]", "eval.batch[narrow]"),
        "twelve windows in batches of five",
        _slicing(_filled),
        printed="both",
        before_training=True,
    ),
)
