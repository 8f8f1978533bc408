r"""The vocabulary of the legacy tokenizer: one token a line, and two orders in which a token is found.

Ids 0–127 are single bytes; line i of the file, counted from 0, has id 128 + i. The library keeps the lines in a list
that it sorts without regard to letter case. A whole word gets its id by its place in that sorted list, a part of a word
by its line in the file: the two differ where the file is not sorted. Source: CAI NEURAL API, tokenizer.

    Vocabulary.parse(b"the\nan\n").ids_of_words  →  {b"an": 128, b"the": 129}
    Vocabulary.parse(b"the\nan\n").ids_of_parts  →  {b"the": 128, b"an": 129}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from cai_reference.legacy.mersenne import MersenneTwister
from cai_reference.legacy.tokenizer.errors import EmptyEntry, RepeatedEntry, TooManyEntries
from cai_reference.legacy.tokenizer.lines import intact_lines
from cai_reference.legacy.tokenizer.sorting import random_pivot_sort

SINGLE_BYTES: Final = 128
"""The ids below this one are bytes."""


@dataclass(frozen=True)
class Vocabulary:
    """The tokens beside single bytes, in the order of the file.

    Attributes:
        entries: the tokens; entry i has id 128 + i. None is empty, none holds a line end, and no two are equal without
            regard to ASCII letter case.
    """

    entries: tuple[bytes, ...]

    @classmethod
    def parse(cls, data: bytes, size: int | None = None) -> Vocabulary:
        """Read the bytes of a vocabulary file.

        Any order, any bytes but NUL and line ends, and no lines at all are accepted, as the library accepts them. It
        also accepts empty and repeated lines, but then what it answers depends on chance; those are refused.

        Arguments:
            data: the whole file.
            size: how many ids there may be at most, single bytes included; any number if left out.

        Raises:
            ByteOrderMark, NulByte, CarriageReturn, UnfinishedLine: a line is damaged.
            EmptyEntry, RepeatedEntry, TooManyEntries: a line cannot be an entry.
        """
        entries = intact_lines(data)
        first: dict[bytes, int] = {}
        for number, entry in enumerate(entries, 1):
            if not entry:
                raise EmptyEntry(number)
            earlier = first.setdefault(entry.lower(), number)
            if earlier != number:
                raise RepeatedEntry(number, earlier)
            if size is not None and SINGLE_BYTES + number > size:
                raise TooManyEntries(number, SINGLE_BYTES + number - 1, size)
        return cls(tuple(entries))

    def format(self) -> bytes:
        """Return the bytes of the vocabulary file."""
        return b"".join(entry + b"\n" for entry in self.entries)

    @property
    def size(self) -> int:
        """How many ids there are, single bytes included."""
        return SINGLE_BYTES + len(self.entries)

    @cached_property
    def ids_of_words(self) -> Mapping[bytes, int]:
        """The id that a whole word gets, by its lower case: its place in the sorted list."""
        return {word: SINGLE_BYTES + place for place, word in enumerate(sorted(map(bytes.lower, self.entries)))}

    @cached_property
    def ids_of_parts(self) -> Mapping[bytes, int]:
        """The id that a part of a word gets, by its lower case: its line in the file."""
        return {entry.lower(): SINGLE_BYTES + line for line, entry in enumerate(self.entries)}

    def replay_loading(self, generator: MersenneTwister) -> None:
        """Draw what the library draws while it loads this vocabulary: it sorts the list, and then once more.

        A program that seeds the generator, loads its vocabulary and then makes its nets has other initial weights than
        one that loads nothing.
        """
        places = [self.ids_of_words[entry.lower()] for entry in self.entries]
        for _ in range(2):
            random_pivot_sort(places, lambda one, other: one > other, generator)
