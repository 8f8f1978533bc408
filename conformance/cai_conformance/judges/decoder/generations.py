"""The DECODE records of a trace as columns, by arm and prompt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from cai_conformance.judges.columns import (
    HashColumn,
    Hashes,
    IntegerColumn,
    Integers,
    integers_of,
    length_of,
    places_in,
)
from cai_conformance.judges.decoder.passes import MULTI
from cai_conformance.trace.records import Record, Trace

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
