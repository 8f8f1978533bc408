"""The quicksort of the Pascal run-time's string lists, with a pivot drawn for each part.

It is not stable, and each part of three or more items costs one draw of 64 bits, so that where equal items end up, and
what is drawn next, both depend on the generator. Source: CAI NEURAL API, whose tokenizer sorts with it.

    random_pivot_sort(items, out_of_order, generator)   sorts in place
"""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from typing import TypeVar

from cai_reference.legacy.mersenne import MersenneTwister

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
