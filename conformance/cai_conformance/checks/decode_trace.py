"""A decode trace as columns: its configuration, its generations by arm and prompt, and the passes of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from cai_conformance.checks.contradictions import (
    HashColumn,
    Hashes,
    IntegerColumn,
    Integers,
    integers_of,
    length_of,
    narrow,
    places_in,
)
from cai_conformance.checks.evidence import Evidence
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


NAMES: Final = ("arm", "prompt", "prompt_ids", "ids", "margins", "logits", "forwards", "draft_forwards", "stop")

NOTHING: Final = hash("")
"""The hash of an absent field."""


@dataclass(frozen=True)
class Generations:
    """All generations of all arms, in file order.

    Attributes:
        trace: the trace whose records they are.
        keys: the hash of arm and prompt of each.
        arms: the hash of the arm of each.
        multi: whether the arm of each predicts several tokens by itself, as its name says.
        prompts: the number of the prompt of each.
        outcomes: the hash of `ids` and `stop` of each.
        inputs: the hash of `prompt_ids` of each.
        logits: the hash of `logits` of each; `NOTHING` where it is absent.
        known: whether all tokens of each, those of the prompt included, are in the vocabulary.
        prompt_tokens, tokens, margins: how many items the lists `prompt_ids`, `ids` and `margins` of each have.
        distinct: how many different tokens `ids` of each has.
        forwards, draft_forwards: the counters of each.
    """

    trace: Trace
    keys: Hashes
    arms: Hashes
    multi: npt.NDArray[np.bool_]
    prompts: Integers
    outcomes: Hashes
    inputs: Hashes
    logits: Hashes
    known: npt.NDArray[np.bool_]
    prompt_tokens: Integers
    tokens: Integers
    margins: Integers
    distinct: Integers
    forwards: Integers
    draft_forwards: Integers

    @classmethod
    def of(cls, trace: Trace, vocabulary: int) -> Generations:
        """Read all generations of a trace whose ids are below `vocabulary`."""
        count = len(trace.all("DECODE"))
        hashes = [HashColumn(count) for _ in range(5)]
        flags = bytearray(), bytearray()
        numbers = [IntegerColumn(count) for _ in range(7)]
        for batch in trace.batches("DECODE", *NAMES):
            arms, prompts, inputs, ids, margins, logits, forwards, drafts, stops = zip(*batch, strict=True)
            keys, outcomes = (list(zip(*pair, strict=True)) for pair in ((arms, prompts), (ids, stops)))
            for column, texts in zip(hashes, (keys, arms, outcomes, inputs, logits), strict=True):
                column.extend(texts)
            starts = {arm: arm.startswith(MULTI) for arm in set(arms)}
            lists = {text: _list_facts(text, vocabulary) for text in {*inputs, *ids}}
            flags[0].extend(map(starts.__getitem__, arms))
            flags[1].extend(lists[one][1] and lists[other][1] for one, other in zip(inputs, ids, strict=True))
            lengths = [lists[text][0] for text in inputs], [lists[text][0] for text in ids]
            counts = list(map(length_of, margins)), [lists[text][2] for text in ids]
            integers = ([int(text) for text in texts] for texts in (prompts, forwards, drafts))
            for number, values in zip(numbers, (*lengths, *counts, *integers), strict=True):
                number.extend(values)
        key, arm, outcome, given, logit = (column.values for column in hashes)
        multi, known = (np.frombuffer(flag, bool) for flag in flags)
        prompt_tokens, *others = (number.values for number in numbers)
        tokens, margin, distinct, prompt, forward, draft = others
        return cls(
            trace,
            key,
            arm,
            multi,
            prompt,
            outcome,
            given,
            logit,
            known,
            prompt_tokens,
            tokens,
            margin,
            distinct,
            forward,
            draft,
        )

    def of_arm(self, arm: str) -> Integers:
        """Return the places of the generations of an arm, by prompt."""
        found = np.flatnonzero(self.arms == hash(arm)).astype(np.int32)
        return found[np.argsort(self.prompts[found], kind="stable")]

    def record(self, place: int) -> Record:
        """Return the record of a generation."""
        return self.trace.all("DECODE")[int(place)]

    def is_of(self, arms: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Return which of them are of some arms."""
        found = np.zeros(len(self.arms), bool)
        for arm in arms:
            found |= self.arms == hash(arm)
        return found

    @cached_property
    def _arms_sorted(self) -> Hashes:
        return np.sort(self.arms)

    def has_arm(self, arm: str) -> bool:
        """Return whether there is a generation of an arm."""
        place = int(np.searchsorted(self._arms_sorted, hash(arm)))
        return place < len(self._arms_sorted) and bool(self._arms_sorted[place] == hash(arm))

    def full_of(self, places: Integers) -> Integers:
        """Return for some generations the place of the one of arm `full` for the same prompt; -1 without one."""
        full = self.of_arm("full")
        at = places_in(self.prompts[full], self.prompts[places])
        return np.where(at >= 0, full[at], np.int32(-1)) if len(full) else at


def _list_facts(text: str, vocabulary: int) -> tuple[int, bool, int]:
    """Return how many tokens a list has, whether all of them are in the vocabulary, and how many are different."""
    tokens = integers_of(text)
    return len(tokens), not tokens or 0 <= min(tokens) <= max(tokens) < vocabulary, len(set(tokens))


@dataclass(frozen=True)
class DecodeTrace:
    """A decode trace with the look-ups that judges share."""

    trace: Trace

    @cached_property
    def config(self) -> Record:
        """The CONFIG record."""
        return self.trace.all("CONFIG")[0]

    def size(self, name: str, absent: int | None = None) -> int:
        """Return an integer of CONFIG, or, where it has none of this name, what stands for that."""
        if absent is not None and not self.config.has(name):
            return absent
        return self.config.integer(name)

    @cached_property
    def mixers(self) -> list[str]:
        """The name of each block's mixer."""
        return self.config.get("mixers").split(", ")

    @cached_property
    def generations(self) -> Generations:
        """The DECODE records as columns."""
        return Generations.of(self.trace, self.size("vocabulary"))

    @cached_property
    def passes(self) -> Passes:
        """The DRAFT records as columns."""
        return Passes.of(self.trace)


def decode_trace(evidence: Evidence) -> DecodeTrace:
    """Return the main trace of a decode suite; the judges of one run share what it computes."""
    return evidence.remembered("decode trace", lambda: DecodeTrace(evidence.main))
