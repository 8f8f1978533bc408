"""One call for every error of the legacy tokenizer and samplers, with the error that it must raise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cai_neural_api.errors import LegacyError, LegacyTokenizerError
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.sampling import LibraryGreedy, LibraryMinP, LibraryTopK, LibraryTopP, StandardSampler
from cai_neural_api.tokenizer import Vocabulary, decode, encode, fit, parse_rows, usable_rows
from cai_reference.errors import CaiReferenceError
from cai_reference.splitmix import SplitMix64

Case = tuple[CaiReferenceError, Callable[[], object]]

EMPTY = Vocabulary(())
GREEDY = LibraryGreedy()
TWISTER = MersenneTwister(0)

CASES: list[Case] = [
    (LegacyTokenizerError("nul-byte", line=2), lambda: Vocabulary.parse(b"an\n\0\n")),
    (LegacyTokenizerError("carriage-return", line=2), lambda: parse_rows(b"1\n2\r\n")),
    (LegacyTokenizerError("byte-order-mark", line=1), lambda: Vocabulary.parse(b"\xef\xbb\xbfan\n")),
    (LegacyTokenizerError("unfinished-line", line=2), lambda: parse_rows(b"1\n2")),
    (LegacyTokenizerError("empty-entry", line=2), lambda: Vocabulary.parse(b"an\n\n")),
    (LegacyTokenizerError("repeated-entry", line=2, first=1), lambda: Vocabulary.parse(b"an\nAN\n")),
    (
        LegacyTokenizerError("too-many-entries", line=2, token_id=129, size=129),
        lambda: Vocabulary.parse(b"an\nban\n", 129),
    ),
    (LegacyTokenizerError("not-an-id", line=1, field=2, text="x"), lambda: parse_rows(b"1,x\n")),
    (LegacyTokenizerError("negative-id", line=1, field=2, token_id=-5), lambda: parse_rows(b"1,-5\n")),
    (
        LegacyTokenizerError("id-too-large", line=1, field=2, text="130", largest=129),
        lambda: parse_rows(b"1,130\n", 130),
    ),
    (LegacyTokenizerError("undecodable-id", position=1, token_id=-5), lambda: decode(EMPTY, [1, -5])),
    (LegacyTokenizerError("invalid-row-filter", limit=0, largest=2_999), lambda: usable_rows([], limit=0)),
    (LegacyTokenizerError("reserved-byte", line=2, byte=29), lambda: encode(EMPTY, b"an\n\x1d")),
    (
        LegacyTokenizerError("vocabulary-size-too-small", size=128, single=128),
        lambda: fit(b"an ban", 128, MersenneTwister(0)),
    ),
    (LegacyError("sampling-row-shape", shape=(1, 2)), lambda: GREEDY.choose(np.array([[0.5, 0.5]]))),
    (LegacyError("empty-sampling-row"), lambda: GREEDY.choose(np.array([]))),
    (LegacyError("not-a-probability", token_id=1, value=-0.5), lambda: GREEDY.choose(np.array([0.5, -0.5]))),
    (LegacyError("nothing-probable", size=2), lambda: GREEDY.choose(np.zeros(2))),
    (LegacyError("top-k-too-small", k=0), lambda: LibraryTopK(0, TWISTER)),
    (LegacyError("top-k-beyond-row", k=3, size=2), lambda: LibraryTopK(3, TWISTER).choose(np.array([0.5, 0.5]))),
    (LegacyError("top-p-out-of-range", p=1.5), lambda: LibraryTopP(1.5, TWISTER)),
    (LegacyError("min-p-out-of-range", q=0.0), lambda: LibraryMinP(0.0, TWISTER)),
    (LegacyError("temperature-out-of-range", temperature=0.0), lambda: StandardSampler(SplitMix64(0), temperature=0.0)),
]
