"""Which item a sort by count puts first, without sorting where the outcome is already known.

The tokenizer sorts its counted pairs by count, descending, with the random-pivot quicksort, and uses the first. Most
counts are equal, and on equal items that quicksort is quadratic. What is simulated here is every draw and every swap
that can decide either the first item or a later draw; nothing else. The outcome and the state of the generator are
those of `random_pivot_sort`.

The quicksort of the Pascal run-time's string lists, with a pivot drawn for each part.

It is not stable, and each part of three or more items costs one draw of 64 bits, so that where equal items end up, and
what is drawn next, both depend on the generator. Source: CAI NEURAL API, whose tokenizer sorts with it.

    random_pivot_sort(items, out_of_order, generator)   sorts in place
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.tokenizer.pairs import Integers

Item = TypeVar("Item")


def random_pivot_sort(
    items: MutableSequence[Item], out_of_order: Callable[[Item, Item], bool], generator: MersenneTwister
) -> None:
    """Sort in place.

    Arguments:
        items: what is sorted.
        out_of_order: whether the first argument belongs behind the second; False where they are equal.
        generator: what the pivots are drawn from; a part of n > 2 items takes two words of 32 bits.
    """
    pending = [(0, len(items) - 1)]
    while pending:
        low, high = pending.pop()
        if high - low <= 1:
            if low < high and out_of_order(items[low], items[high]):
                items[low], items[high] = items[high], items[low]
            continue
        pivot = low + generator.below_64(high - low)
        pivot = _partition(items, out_of_order, low, pivot, high)
        # The left part is sorted first: its draws come first.
        pending.append((pivot + 1, high))
        pending.append((low, pivot - 1))


def _partition(
    items: MutableSequence[Item], out_of_order: Callable[[Item, Item], bool], low: int, pivot: int, high: int
) -> int:
    """Put what belongs before the pivot, or equals it, on its left; return where it ends up.

    The pivot takes part in the swaps and wanders; the searches from both sides stop at it.
    """
    while low < high:
        while low < pivot and not out_of_order(items[low], items[pivot]):
            low += 1
        while high > pivot and out_of_order(items[high], items[pivot]):
            high -= 1
        items[low], items[high] = items[high], items[low]
        if pivot == low:
            pivot = high
        elif pivot == high:
            pivot = low
    return pivot


Flags: TypeAlias = NDArray[np.bool_]
Cells: TypeAlias = "memoryview[int]"

SHIFT: Final = 32
SHORT: Final = 48
"""Up to this length a part is searched item by item; beyond it, as an array."""


def first_by_count(counts: Integers, generator: MersenneTwister) -> int:
    """Return the index of the item that comes first after sorting by count, descending.

    Arguments:
        counts: int64 [items], positive and below 2^31, at least one.
        generator: what the pivots are drawn from.
    """
    # A cell holds a count above its index, so that one comparison of cells compares counts.
    cells = (counts << SHIFT) | np.arange(len(counts))
    view: Cells = cells.data
    pending = [(0, len(counts) - 1)]
    while pending:
        low, high = pending.pop()
        if high - low <= 1:
            # Only the first slot is ever asked for, and the pair is not drawn from again.
            if low == 0 < high and view[0] >> SHIFT < view[1] >> SHIFT:
                view[0] = view[1]
            continue
        lowest = int(cells[low : high + 1].min()) >> SHIFT
        if low > 0 and int(cells[low : high + 1].max()) >> SHIFT == lowest:
            # What sorting equal items draws: each pivot goes to the end, and the rest is one item shorter.
            generator.below_many(1, 2 * (high - low - 1))
            continue
        pivot, high = _drop_lowest(view, low, high, (lowest + 1) << SHIFT, generator)
        if pivot < 0:
            pending.append((low, high))
            continue
        if high - low < SHORT:
            pivot = _partition_short(view, low, pivot, high)
        else:
            pivot = low + _partition_long(cells[low : high + 1], pivot - low)
        pending.append((pivot + 1, high))
        pending.append((low, pivot - 1))
    return int(view[0]) & ((1 << SHIFT) - 1)


def _drop_lowest(view: Cells, low: int, high: int, above: int, generator: MersenneTwister) -> tuple[int, int]:
    """Draw pivots until one is not of the lowest count; return it and the last slot of the part.

    A pivot of the lowest count changes places with the last item, and the rest is the next part. A pivot of -1 says
    that no more than two items are left.
    """
    while high - low > 1:
        pivot = low + generator.below_64(high - low)
        if view[pivot] >= above:
            return pivot, high
        view[pivot], view[high] = view[high], view[pivot]
        high -= 1
    return -1, high


def _partition_short(view: Cells, low: int, pivot: int, high: int) -> int:
    """Partition item by item; return where the pivot ends up."""
    least = view[pivot] >> SHIFT << SHIFT
    while low < high:
        while low < pivot and view[low] >= least:
            low += 1
        while high > pivot and view[high] < least:
            high -= 1
        view[low], view[high] = view[high], view[low]
        if pivot == low:
            pivot = high
        elif pivot == high:
            pivot = low
    return pivot


def _partition_long(part: Integers, pivot: int) -> int:
    """Partition as an array; return where the pivot ends up.

    While both sides hold misplaced items, they are swapped in pairs, from the outside inwards. Then one side has some
    left, and from there on every second swap moves the pivot: it changes places alternately with the next misplaced
    item of one kind and the last of the other, each of which comes to stand where the pivot was.
    """
    large: Flags = part >= part[pivot] >> SHIFT << SHIFT
    left = np.flatnonzero(~large[:pivot])
    right = np.flatnonzero(large[pivot + 1 :])[::-1] + (pivot + 1)
    pairs = min(len(left), len(right))
    outer, inner = left[:pairs], right[:pairs]
    part[outer], part[inner] = part[inner], part[outer]
    if len(left) > pairs:
        small = left[pairs:]
        first = int(small[0])
        between = np.flatnonzero(large[first:pivot])[::-1] + first
        return _walk(part, pivot, small, between)
    if len(right) > pairs:
        beyond = right[pairs:]
        between = np.flatnonzero(~large[pivot : int(beyond[0])]) + pivot
        return _walk(part, pivot, beyond, between)
    return pivot


def _walk(part: Integers, pivot: int, near: Integers, far: Integers) -> int:
    """Let the pivot walk over `near[0]`, `far[0]`, `near[1]`, … until the two meet; return where it ends up.

    The places in `near` and `far` come closer to each other, from two sides.
    """
    both = min(len(near), len(far))
    ascending = len(far) > 0 and near[0] < far[0]
    apart: Flags = near[:both] < far[:both] if ascending else near[:both] > far[:both]
    steps = int(np.count_nonzero(apart))
    path = np.empty(2 * steps + 1, np.intp)
    path[0] = pivot
    path[1::2], path[2::2] = near[:steps], far[:steps]
    if steps < len(near) and (
        steps == 0 or (near[steps] < far[steps - 1] if ascending else near[steps] > far[steps - 1])
    ):
        path = np.append(path, near[steps])
    cell = part[pivot]
    part[path[:-1]] = part[path[1:]]
    part[path[-1]] = cell
    return int(path[-1])
