"""The order in which the library's samplers see tokens: an unstable quicksort with the middle item as the pivot."""

from __future__ import annotations

from collections.abc import Sequence


def descending(scores: Sequence[float]) -> list[int]:
    """Return the ids of tokens by score, largest first; equal scores stand in the order that the library gives them.

    descending([0.1, 0.3, 0.2, 0.25, 0.3])  →  [1, 4, 3, 2, 0]
    """
    order = list(range(len(scores)))
    pending = [(0, len(order) - 1)]
    while pending:
        first, last = pending.pop()
        if first >= last:
            continue
        low, high = first, last
        middle = scores[order[(first + last) // 2]]
        while low <= high:
            while scores[order[low]] > middle:
                low += 1
            while scores[order[high]] < middle:
                high -= 1
            if low <= high:
                order[low], order[high] = order[high], order[low]
                low, high = low + 1, high - 1
        pending += [(first, high), (low, last)]
    return order
