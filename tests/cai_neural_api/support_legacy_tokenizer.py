"""The fit of the legacy tokenizer written down plainly, and the samples that the real library made.

Nothing here is shared with the code under test but the generator: every round scans the text from its start, and the
quicksort calls itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TypedDict, TypeVar

import pytest

from cai_neural_api.mersenne import MersenneTwister

TOKENIZER = Path(__file__).resolve().parents[3] / "shared" / "data" / "tokenizer"
STORIES = TOKENIZER.parent / "tinystories"

needs_samples = pytest.mark.skipif(
    not (TOKENIZER / "samplers.json").is_file(),
    reason="the tokenizer samples of the CAI library do not lie beside this checkout",
)
needs_stories = pytest.mark.skipif(
    not (STORIES / "rows.csv").is_file(),
    reason="the tokenised stories of the CAI library do not lie beside this checkout",
)

SEEDS = (1, 2)
Item = TypeVar("Item")


class Probe(TypedDict):
    """A text, the ids that the library gave it, and the text that these gave back."""

    text_hex: str
    tokens: list[int]
    detok_hex: str


def tiny_text() -> bytes:
    """Return the small corpus."""
    return (TOKENIZER / "tiny.txt").read_bytes()


def tiny_vocabulary(seed: int) -> bytes:
    """Return the vocabulary of 140 ids that the library fitted to the small corpus after this seed."""
    return (TOKENIZER / f"vocab.tiny.txt.{seed}.140.txt").read_bytes()


def tiny_rows(seed: int) -> bytes:
    """Return the CSV file of the small corpus under that vocabulary."""
    return (TOKENIZER / f"rows.tiny.txt.{seed}.140.csv").read_bytes()


def probes(seed: int) -> list[Probe]:
    """Return the texts that the library coded with that vocabulary."""
    lines = (TOKENIZER / f"probe.tiny.txt.{seed}.140.jsonl").read_text("ascii").splitlines()
    return [json.loads(line) for line in lines[1:]]


def story_pieces() -> list[bytes]:
    """Return the texts behind the rows of the stories: up to eight sentences, two sentences further each time.

    A sentence ends with a free-standing full stop; pieces of 60 bytes and less were left out.
    """
    pieces = []
    for story in (STORIES / "stories.txt").read_bytes().splitlines():
        sentences = story.split(b" . ")
        pieces += [b" . ".join(sentences[start : start + 8]) + b" ." for start in range(0, len(sentences), 2)]
    return [piece for piece in pieces if len(piece) > 60]


def plain_sort(items: list[Item], compare: Callable[[Item, Item], int], generator: MersenneTwister) -> None:
    """Sort in place by a pivot drawn for each part; `compare` is positive for two items in the wrong order."""

    def sort(first: int, last: int) -> None:
        if last - first <= 1:
            if first < last and compare(items[first], items[last]) > 0:
                items[first], items[last] = items[last], items[first]
            return
        left, right, pivot = first, last, first + generator.below_64(last - first)
        while left < right:
            while left < pivot and compare(items[left], items[pivot]) <= 0:
                left += 1
            while right > pivot and compare(items[right], items[pivot]) > 0:
                right -= 1
            items[left], items[right] = items[right], items[left]
            if pivot == left:
                pivot = right
            elif pivot == right:
                pivot = left
        if pivot - 1 >= first:
            sort(first, pivot - 1)
        if pivot + 1 <= last:
            sort(pivot + 1, last)

    if items:
        sort(0, len(items) - 1)


def plain_counts(words: list[bytes]) -> dict[bytes, int]:
    """Count the pairs of neighbouring symbols up to the 33rd occurrence of one."""
    counts: dict[bytes, int] = {}
    for word in words:
        symbols = word.split(b"\x1e")
        for left, right in pairwise(symbols):
            if all(symbol == b"'" or b"a" <= symbol < b"{" for symbol in (left, right)):
                pair = left + b"\x1e" + right
                counts[pair] = counts.get(pair, 0) + 1
                if counts[pair] == 33:
                    return counts
    return counts


def plain_fit(text: bytes, size: int, generator: MersenneTwister) -> list[bytes]:
    """Fit from the description: scan, sort, merge as text, again from the start."""
    lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").removesuffix(b"\n")
    words = [
        b"\x1e".join(bytes([byte]) for byte in word.strip(bytes(range(33)))) for word in (lines + b"\n").split(b" ")
    ]
    merged = set()
    for _ in range(size - 128):
        counts = plain_counts(words)
        if len(counts) > 1:
            pairs = sorted(counts.items())
            plain_sort(pairs, lambda one, other: other[1] - one[1], generator)
            first = pairs[0][0]
            symbol = first.replace(b"\x1e", b"")
            words = [word.replace(first, symbol) for word in words]
            merged.add(symbol)
    return sorted(merged)


def plain_encode(entries: list[bytes], text: bytes) -> list[int]:
    """Code from the description: words by their rank, parts by their line, both by going through all entries."""
    ids, words = [], text.split(b" ")
    ranked = sorted(entry.lower() for entry in entries)
    lines = [entry.lower() for entry in entries]
    for number, word in enumerate(words):
        if number > 0:
            ids.append(32)
        if len(word) > 1 and word.lower() in ranked:
            ids.append(128 + ranked.index(word.lower()))
            continue
        while word:
            part = word[:1]
            if part in [b"'", *(bytes([letter]) for letter in range(97, 123))]:
                while len(part) < len(word) and word[: len(part) + 1].lower() in lines:
                    part = word[: len(part) + 1]
            ids.append(part[0] if len(part) == 1 else 128 + lines.index(part.lower()))
            word = word[len(part) :]
    return ids
