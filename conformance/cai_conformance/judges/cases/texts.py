"""Counters of the cases about tokenizers, windows and batches."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from cai_conformance.judges.cases.answers import TIES, Counter, Input, ids_of
from cai_conformance.judges.witness import Met, Witness
from cai_conformance.vectors import Answer
from cai_reference.splitmix import SplitMix64

MERGES: Final = Witness("learned merge", "learned merges")
OVERLAPS: Final = Witness("overlapping occurrence", "overlapping occurrences")
BORDERS: Final = Witness("border of two documents", "borders of two documents")
SINGLES: Final = Witness("merge of a pair that occurs once", "merges of a pair that occurs once")
SPACES: Final = Witness("merge with a space", "merges with a space")
MERGED: Final = Witness("applied merge", "applied merges")
LOW_BYTES: Final = Witness("byte 0 or 1", "bytes 0 or 1")
MERGED_IDS: Final = Witness("id of a merge", "ids of merges")
BROKEN: Final = Witness("text that is not UTF-8", "texts that are not UTF-8")

WINDOWS: Final = Witness("window", "windows")
SHORT: Final = Witness("document shorter than a window", "documents shorter than a window")
FITTING: Final = Witness("last window that just fits", "last windows that just fit")
NARROW: Final = Witness("narrower last batch", "narrower last batches")
MOVED: Final = Witness("window out of its order", "windows out of their order")
REJECTED: Final = Witness("rejected draw", "rejected draws")
LOWEST: Final = Witness("lowest draw that is kept", "lowest draws that are kept")

SPACE: Final = 32
FIRST_MERGE: Final = 258
"""The first id of a merge, where control ids are counted; among pairs of bytes it is two less."""


def _trained(given: Input, answer: Answer) -> Iterator[Met]:
    """Replay the merges of the answer, and look at each of them before it is applied."""
    documents = [list(bytes.fromhex(text)) for text in given["documents"]]
    ids = ids_of(answer)
    pairs = list(zip(ids[::2], ids[1::2], strict=True))
    borders = sum(bool(one) and bool(other) for one, other in pairwise(documents))
    ties = overlaps = singles = 0
    for made, pair in enumerate(pairs):
        counts = Tally(other for tokens in documents for other in set(pairwise(tokens)))
        counts = Tally({other: sum(_occurrences(tokens, other) for tokens in documents) for other in counts})
        ties += any(other != pair and count == counts[pair] for other, count in counts.items())
        overlaps += sum(list(pairwise(tokens)).count(pair) - _occurrences(tokens, pair) for tokens in documents)
        singles += counts[pair] == 1
        documents = [_merged(tokens, pair, FIRST_MERGE - 2 + made) for tokens in documents]
    yield MERGES.met(len(pairs))
    yield TIES.met(ties)
    yield OVERLAPS.met(overlaps)
    yield BORDERS.met(borders)
    yield SINGLES.met(singles)
    yield SPACES.met(sum(SPACE in pair for pair in pairs))


def _occurrences(tokens: Sequence[int], pair: tuple[int, int]) -> int:
    """Return how often a pair occurs, none of them overlapping."""
    return len(tokens) - len(_merged(tokens, pair, -1))


def _merged(tokens: Sequence[int], pair: tuple[int, int], by: int) -> list[int]:
    merged: list[int] = []
    place = 0
    while place < len(tokens):
        found = tuple(tokens[place : place + 2]) == pair
        merged.append(by if found else tokens[place])
        place += 2 if found else 1
    return merged


def _encoded(given: Input, answer: Answer) -> Iterator[Met]:
    text = bytes.fromhex(given["bytes"])
    yield MERGED.met(len(text) - len(ids_of(answer)))
    yield LOW_BYTES.met(sum(byte < 2 for byte in text))


def _decoded(given: Input, answer: Answer) -> Iterator[Met]:
    yield MERGED_IDS.met(sum(token >= FIRST_MERGE for token in given["ids"]))
    yield BROKEN.met(not _is_utf8(bytes.fromhex(answer.text or "")))


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _windowed(given: Input, answer: Answer) -> Iterator[Met]:
    context, lengths = given["context"], list(map(len, given["documents"]))
    beyond = [length - context - 1 for length in lengths]
    yield WINDOWS.met(len(ids_of(answer)) // (2 * context))
    yield SHORT.met(sum(rest < 0 for rest in beyond))
    yield FITTING.met(sum(rest > 0 and rest % given.get("stride", 1) == 0 for rest in beyond))


def _shuffled(given: Input, answer: Answer) -> Iterator[Met]:
    ids = ids_of(answer)
    slots = list(zip(ids[::2], ids[1::2], strict=True))
    yield MOVED.met(sum(slot != right for slot, right in zip(slots, sorted(slots), strict=True)))
    yield NARROW.met(len(slots) % given["batch"] > 0)


def _drawn(given: Input, answer: Answer) -> Iterator[Met]:
    """Draw words anew: a bound keeps those from 2^64 mod bound on."""
    generator, least = SplitMix64(given["seed"]), (1 << 64) % given["bound"]
    rejected = lowest = 0
    for _ in ids_of(answer):
        while (word := generator.next_u64()) < least:
            rejected += 1
        lowest += word == least
    yield REJECTED.met(rejected)
    yield LOWEST.met(lowest)


COUNTERS: Final[Mapping[str, Counter]] = {
    "bpe.train": _trained,
    "bpe.encode": _encoded,
    "bpe.decode": _decoded,
    "windows.list": _windowed,
    "batches.shuffled": _shuffled,
    "splitmix.below": _drawn,
}
