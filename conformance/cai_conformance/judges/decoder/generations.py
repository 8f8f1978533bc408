"""The DECODE records of a trace as columns, by arm and prompt."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cai_conformance.judges.columns import Hashes, IntegerColumn, Integers, length_of
from cai_conformance.judges.decoder.passes import MULTI
from cai_conformance.trace.records import Record, Trace

HASHED = ("prompt_ids", "ids", "logits", "stop")
"""Fields of which the columns hold a hash: two generations are alike in them, or they are not."""


@dataclass(frozen=True)
class Generations:
    """All generations of all arms, in file order.

    Attributes:
        trace: the trace whose records they are.
        keys: the hash of arm and prompt of each.
        arms: the hash of the arm of each.
        multi: whether the arm of each predicts several tokens by itself, as its name says.
        prompts: the number of the prompt of each.
        hashes: the hash of each of the fields `HASHED`, by its name; that of an empty text where it is absent.
        prompt_tokens, tokens, margins: how many items the lists `prompt_ids`, `ids` and `margins` of each have.
        forwards, draft_forwards: the counters of each.
    """

    trace: Trace
    keys: Hashes
    arms: Hashes
    multi: npt.NDArray[np.bool_]
    prompts: Integers
    hashes: dict[str, Hashes]
    prompt_tokens: Integers
    tokens: Integers
    margins: Integers
    forwards: Integers
    draft_forwards: Integers

    @classmethod
    def of(cls, trace: Trace) -> Generations:
        """Read all generations of a trace."""
        keys, arm_hashes, multi = array("q"), array("q"), bytearray()
        hashed = {name: array("q") for name in HASHED}
        lengths = {name: IntegerColumn() for name in ("prompt_ids", "ids", "margins")}
        integers = {name: IntegerColumn() for name in ("prompt", "forwards", "draft_forwards")}
        names = ("arm", "prompt", "prompt_ids", "ids", "margins", "logits", "forwards", "draft_forwards", "stop")
        for batch in trace.batches("DECODE", *names):
            columns = dict(zip(names, zip(*batch, strict=True), strict=True))
            keys.extend(map(hash, zip(columns["arm"], columns["prompt"], strict=True)))
            arm_hashes.extend(map(hash, columns["arm"]))
            is_multi = {arm: arm.startswith(MULTI) for arm in set(columns["arm"])}
            multi.extend(map(is_multi.__getitem__, columns["arm"]))
            for name, hashes in hashed.items():
                hashes.extend(map(hash, columns[name]))
            for name, column in lengths.items():
                column.extend(list(map(length_of, columns[name])))
            for name, column in integers.items():
                column.extend(list(map(int, columns[name])))
        return cls(
            trace,
            np.frombuffer(keys, np.int64),
            np.frombuffer(arm_hashes, np.int64),
            np.frombuffer(multi, bool),
            integers["prompt"].values(),
            {name: np.frombuffer(hashes, np.int64) for name, hashes in hashed.items()},
            *(lengths[name].values() for name in ("prompt_ids", "ids", "margins")),
            *(integers[name].values() for name in ("forwards", "draft_forwards")),
        )

    def of_arm(self, arm: str) -> Hashes:
        """Return the places of the generations of an arm, by prompt."""
        found = np.flatnonzero(self.arms == hash(arm))
        return found[np.argsort(self.prompts[found], kind="stable")]

    def record(self, place: int) -> Record:
        """Return the record of a generation."""
        return self.trace.all("DECODE")[int(place)]

    def is_of(self, arms: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Return which of them are of some arms."""
        return np.isin(self.arms, [hash(arm) for arm in arms])

    @cached_property
    def _arms_sorted(self) -> Hashes:
        return np.unique(self.arms)

    def has_arm(self, arm: str) -> bool:
        """Return whether there is a generation of an arm."""
        place = int(np.searchsorted(self._arms_sorted, hash(arm)))
        return place < len(self._arms_sorted) and bool(self._arms_sorted[place] == hash(arm))

    def full_of(self, places: Hashes) -> Hashes:
        """Return for some generations the place of the one of arm `full` for the same prompt; -1 without one."""
        full = self.of_arm("full")
        if not len(full):
            return np.full(len(places), -1)
        prompts = self.prompts[full]
        at = np.minimum(np.searchsorted(prompts, self.prompts[places]), len(full) - 1)
        return np.where(prompts[at] == self.prompts[places], full[at], -1)
