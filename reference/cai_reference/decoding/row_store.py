"""Rows by position: what a cache of keys, values or latents is made of.

Without a window every row stays, in a buffer of the session's capacity. With a window W the last W + S rows stay in a
ring: W for attention, S for rolling back. A store is never changed in place where an older one could see it, so that
a failed feed leaves nothing behind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cai_reference.arithmetic import Array


@dataclass(frozen=True)
class RowStore:
    """Rows of one width.

    Attributes:
        storage: shape [places, width]; position p lies at place p, in a ring at p mod places.
        length: how many positions were appended and not cut off.
        base: the oldest position whose row is still there.
        window: how many rows attention sees, the newest included; None for all.
    """

    storage: Array
    length: int
    base: int
    window: int | None

    @classmethod
    def empty(cls, width: int, capacity: int, window: int | None, slack: int) -> RowStore:
        """Allocate `capacity` places, or a ring of window + slack."""
        places = capacity if window is None else min(capacity, window + slack)
        return cls(np.zeros((places, width)), 0, 0, window)

    @property
    def visible(self) -> int:
        """How many rows the newest token attends to; right after a cut, its dropped rows are left out."""
        return self.held if self.window is None else min(self.held, self.window)

    @property
    def held(self) -> int:
        """How many rows are there, those kept for rolling back included."""
        return self.length - self.base

    def writable(self) -> RowStore:
        """Return a store that may be appended to while this one stays readable.

        A ring overwrites rows that this store still sees, so it is copied; a buffer only grows behind its length.
        """
        return replace(self, storage=self.storage.copy()) if self.window is not None else self

    def append(self, row: Array) -> RowStore:
        """Return the store with one more row [width]; a full ring drops its oldest."""
        places = self.storage.shape[0]
        self.storage[self.length % places] = row
        base = max(self.base, self.length + 1 - places)
        return replace(self, length=self.length + 1, base=base)

    def rows(self) -> Array:
        """Return the visible rows [visible, width] in position order."""
        places = self.storage.shape[0]
        first = self.length - self.visible
        rows: Array = self.storage[np.arange(first, self.length) % places]
        return rows

    def earliest(self) -> int:
        """Return the smallest length to which the store can be cut without missing a row later."""
        if self.base == 0 or self.window is None:
            return 0
        return self.base + self.window - 1

    def truncated(self, length: int) -> RowStore:
        """Return the store cut to a length that is not below `earliest`."""
        return replace(self, length=length)

    def copy(self) -> RowStore:
        """Return a store that shares nothing with this one."""
        return replace(self, storage=self.storage.copy())
