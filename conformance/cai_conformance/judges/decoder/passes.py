"""The DRAFT records of a trace as columns, and which of them belong to one arm and prompt."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cai_conformance.judges.columns import HashColumn, Hashes, IntegerColumn, Integers, narrow
from cai_conformance.trace.records import Record, Trace

MULTI = "mtp"
"""How the names of the arms begin that guess by the model's own later heads."""

COUNTS = ("proposed", "accepted", "committed", "rolled_back")


@dataclass(frozen=True)
class Passes:
    """All passes of all arms, in file order; a group is what one arm did with one prompt.

    Attributes:
        trace: the trace whose records they are.
        keys: the hash of arm and prompt of each.
        arms: the hash of the arm of each.
        multi: whether the arm of each predicts several tokens by itself, as its name says.
        numbers: the field `pass` of each.
        proposed, accepted, committed, rolled_back: the counters of each.
    """

    trace: Trace
    keys: Hashes
    arms: Hashes
    multi: npt.NDArray[np.bool_]
    numbers: Integers
    proposed: Integers
    accepted: Integers
    committed: Integers
    rolled_back: Integers

    @classmethod
    def of(cls, trace: Trace) -> Passes:
        """Read all passes of a trace."""
        count = len(trace.all("DRAFT"))
        keys, arm_hashes, multi = HashColumn(count), HashColumn(count), bytearray()
        columns = [IntegerColumn(count) for _ in ("pass", *COUNTS)]
        for batch in trace.batches("DRAFT", "arm", "prompt", "pass", *COUNTS):
            arms, prompts, *rest = zip(*batch, strict=True)
            keys.extend(list(zip(arms, prompts, strict=True)))
            arm_hashes.extend(arms)
            is_multi = {arm: arm.startswith(MULTI) for arm in set(arms)}
            multi.extend(map(is_multi.__getitem__, arms))
            for column, texts in zip(columns, rest, strict=True):
                column.extend(list(map(int, texts)))
        flags = np.frombuffer(multi, bool)
        return cls(trace, keys.values, arm_hashes.values, flags, *(column.values for column in columns))

    @cached_property
    def _grouped(self) -> tuple[Integers, Integers, Hashes]:
        """The order that brings the passes of a group together, where each group begins in it, and each one's hash."""
        order = np.argsort(self.keys, kind="stable").astype(np.int32)
        ordered = self.keys[order]
        first = np.ones(len(order), bool)
        first[1:] = ordered[1:] != ordered[:-1]
        starts = np.flatnonzero(first).astype(np.int32)
        return order, starts, ordered[starts]

    @property
    def order(self) -> Integers:
        """The places of all passes, those of a group together, in file order."""
        return self._grouped[0]

    @property
    def starts(self) -> Integers:
        """Where each group begins in `order`."""
        return self._grouped[1]

    @property
    def groups(self) -> Hashes:
        """The hash of arm and prompt of each group, ascending."""
        return self._grouped[2]

    @cached_property
    def counts(self) -> Integers:
        """How many passes each group has."""
        counts: Integers = np.diff(self.starts, append=np.int32(len(self.order)))
        return counts

    def sums(self, column: Integers) -> Integers:
        """Return the sum of a column over each group."""
        if not len(self.starts):
            return column
        dtype = column.dtype if column.dtype == object else np.int64
        summed: Integers = np.add.reduceat(column[self.order], self.starts, dtype=dtype)
        return narrow(summed)

    @cached_property
    def firsts(self) -> Integers:
        """The place of the first pass of each group."""
        return self.order[self.starts]

    def places_in_group(self) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """Return how many passes of its group stand before each pass, and whether none stands behind it."""
        before, last = np.empty_like(self.order), np.zeros(len(self.order), bool)
        before[self.order] = np.arange(len(self.order), dtype=np.int32) - np.repeat(self.starts, self.counts)
        last[self.order[self.starts + self.counts - 1]] = True
        return before, last

    @cached_property
    def _groups_by_arm(self) -> tuple[Integers, Hashes]:
        """The groups, those of an arm together and in the order in which they begin, and the hash of each one's arm."""
        arms = self.arms[self.firsts]
        order = np.lexsort((self.firsts, arms))
        return order, arms[order]

    def groups_of(self, arm: str) -> Integers:
        """Return the groups of an arm, in the order in which they begin."""
        order, arms = self._groups_by_arm
        start, stop = np.searchsorted(arms, hash(arm), "left"), np.searchsorted(arms, hash(arm), "right")
        return order[start:stop]

    def group(self, arm: str, prompt: str) -> int:
        """Return the group of an arm and a prompt; -1 if there is none."""
        found = np.searchsorted(self.groups, hash((arm, prompt)))
        return int(found) if found < len(self.groups) and self.groups[found] == hash((arm, prompt)) else -1

    def of_group(self, group: int) -> Integers:
        """Return the places of the passes of a group, none of the group -1."""
        start = int(self.starts[group]) if group >= 0 else 0
        return self.order[start : start + int(self.counts[group])] if group >= 0 else self.order[:0]

    def of_groups(self, groups: Integers) -> Integers:
        """Return the places of the passes of some groups, group by group."""
        return np.concatenate([self.order[:0], *(self.of_group(int(group)) for group in groups)])

    def record(self, place: int) -> Record:
        """Return the record of a pass."""
        return self.trace.all("DRAFT")[int(place)]
