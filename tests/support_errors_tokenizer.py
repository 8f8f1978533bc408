"""One call for every error of the legacy tokenizer and samplers, with the error that it must raise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cai_reference.errors import CaiReferenceError
from cai_reference.legacy.mersenne import MersenneTwister
from cai_reference.legacy.sampling import LibraryGreedy, LibraryMinP, LibraryTopK, LibraryTopP, StandardSampler
from cai_reference.legacy.sampling import errors as sampling
from cai_reference.legacy.tokenizer import Vocabulary, decode, encode, fit, parse_rows, usable_rows
from cai_reference.legacy.tokenizer import errors as tokenizer
from cai_reference.splitmix import SplitMix64

Case = tuple[CaiReferenceError, Callable[[], object]]

EMPTY = Vocabulary(())
GREEDY = LibraryGreedy()
TWISTER = MersenneTwister(0)

CASES: list[Case] = [
    (tokenizer.NulByte(2), lambda: Vocabulary.parse(b"an\n\0\n")),
    (tokenizer.CarriageReturn(2), lambda: parse_rows(b"1\n2\r\n")),
    (tokenizer.ByteOrderMark(1), lambda: Vocabulary.parse(b"\xef\xbb\xbfan\n")),
    (tokenizer.UnfinishedLine(2), lambda: parse_rows(b"1\n2")),
    (tokenizer.EmptyEntry(2), lambda: Vocabulary.parse(b"an\n\n")),
    (tokenizer.RepeatedEntry(2, 1), lambda: Vocabulary.parse(b"an\nAN\n")),
    (tokenizer.TooManyEntries(2, 129, 129), lambda: Vocabulary.parse(b"an\nban\n", 129)),
    (tokenizer.NotAnId(1, 2, "x"), lambda: parse_rows(b"1,x\n")),
    (tokenizer.NegativeId(1, 2, -5), lambda: parse_rows(b"1,-5\n")),
    (tokenizer.IdTooLarge(1, 2, "130", 129), lambda: parse_rows(b"1,130\n", 130)),
    (tokenizer.UndecodableId(1, -5), lambda: decode(EMPTY, [1, -5])),
    (tokenizer.InvalidRowFilter(0, 2_999), lambda: usable_rows([], limit=0)),
    (tokenizer.ReservedByte(2, 29), lambda: encode(EMPTY, b"an\n\x1d")),
    (tokenizer.VocabularySizeTooSmall(128, 128), lambda: fit(b"an ban", 128, MersenneTwister(0))),
    (sampling.SamplingRowShape((1, 2)), lambda: GREEDY.choose(np.array([[0.5, 0.5]]))),
    (sampling.EmptySamplingRow(), lambda: GREEDY.choose(np.array([]))),
    (sampling.NotAProbability(1, -0.5), lambda: GREEDY.choose(np.array([0.5, -0.5]))),
    (sampling.NothingProbable(2), lambda: GREEDY.choose(np.zeros(2))),
    (sampling.TopKTooSmall(0), lambda: LibraryTopK(0, TWISTER)),
    (sampling.TopKBeyondRow(3, 2), lambda: LibraryTopK(3, TWISTER).choose(np.array([0.5, 0.5]))),
    (sampling.TopPOutOfRange(1.5), lambda: LibraryTopP(1.5, TWISTER)),
    (sampling.MinPOutOfRange(0.0), lambda: LibraryMinP(0.0, TWISTER)),
    (sampling.TemperatureOutOfRange(0.0), lambda: StandardSampler(SplitMix64(0), temperature=0.0)),
]
