"""Fitting a vocabulary to a text, as the library does it: greedy merges of frequent pairs, with ties left to chance.

Each round counts neighbouring symbols within words, in the order of the text and only until a pair occurs for the 33rd
time, so that in a long text the first pair to get there wins and what follows is not looked at. The counted pairs are
sorted by count with a quicksort that draws its pivots, and the first is merged: without an early stop, which of several
equally frequent pairs that is depends on the seed. The vocabulary is every string that a merge made, sorted; different
merges may make the same string, so that it can be smaller than asked for. Source: CAI NEURAL API, tokenizer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cai_neural_api.errors import LegacyTokenizerError
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.tokenizer.coding import QUOTE_MARK
from cai_neural_api.tokenizer.pairs import DELIMITER, PairScan
from cai_neural_api.tokenizer.ranking import first_by_count
from cai_neural_api.tokenizer.vocabulary import SINGLE_BYTES, Vocabulary, lines_of, refuse_bytes

TRIMMED: Final = bytes(range(33))
"""Control characters and the space, which a word does not begin or end with."""


def words_of(text: bytes) -> list[bytes]:
    r"""Return what stands between single spaces, trimmed; a line end within a word stays, as LF.

    b"an  ant\r\nran\r\n"  →  [b"an", b"", b"ant\nran"]
    """
    return [word.strip(TRIMMED) for word in b"".join(line + b"\n" for line in lines_of(text)).split(b" ")]


def fit(
    text: bytes, size: int, generator: MersenneTwister, after_round: Callable[[], None] | None = None
) -> Vocabulary:
    """Return the vocabulary that the library fits.

    Arguments:
        text: the whole text.
        size: how many ids there shall be at most, the 128 of single bytes included; that many merges less 128.
        generator: what pivots are drawn from; its state afterwards is that of the library's generator.
        after_round: called after every merge, for whoever shows progress.

    Raises:
        LegacyTokenizerError (vocabulary-size-too-small): the size leaves no room for a merge.
        LegacyTokenizerError (reserved-byte): the text holds NUL, byte 29 or byte 30.
    """
    if size <= SINGLE_BYTES:
        raise LegacyTokenizerError("vocabulary-size-too-small", size=size, single=SINGLE_BYTES)
    refuse_bytes(text, bytes([0, QUOTE_MARK]) + DELIMITER)
    scan = PairScan(words_of(text))
    merged: set[bytes] = set()
    for _ in range(size - SINGLE_BYTES):
        numbers, counts = scan.advance()
        # The library merges nothing where there is only one pair, however frequent; nor does it in any later round.
        if len(numbers) < 2:
            break
        winner = int(numbers[first_by_count(counts, generator)])
        merged.add(scan.merge(scan.table.texts[winner]))
        if after_round is not None:
            after_round()
    return Vocabulary(tuple(sorted(merged)))
