"""One call for every error of the splitmix, text and arithmetic rooms, with the error that it must raise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from cai_reference.arithmetic import STRICT, MatmulShapes, NotHexBits, UnknownArithmetic, from_hex_bits, named
from cai_reference.errors import CaiReferenceError
from cai_reference.splitmix import InvalidBound, InvalidSeed, SplitMix64, below
from cai_reference.text import (
    BpeTokenizer,
    Epoch,
    Windowing,
    parse_corpus,
    parse_manifest,
    partition,
    sequential_plan,
    train,
)
from cai_reference.text import errors as text
from cai_reference.text.batches import EncodedDocument
from cai_reference.text.bpe import MAXIMUM_MERGES
from cai_reference.text.corpus import MAXIMUM_BYTES
from cai_reference.training import GradientAverage
from support_corpora import corpus_bytes, corpus_of, document, manifest_for

Case = tuple[CaiReferenceError, Callable[[], object]]

CORPUS = corpus_of(("a", "g"), ("b", "g"), ("c", "h"))
FOUR = corpus_of(("a", "g"), ("b", "h"), ("c", "i"), ("d", "j"))
CLEAN = manifest_for(CORPUS, ["a"], ["b"], ["c"])
TOKENIZER = BpeTokenizer([(97, 98)])
LARGE = 1.7e308


def split(train_ids: str, validation: str, test: str) -> Callable[[], object]:
    """Return a call that applies a manifest in which every letter is an id."""
    return lambda: partition(manifest_for(CORPUS, list(train_ids), list(validation), list(test)), CORPUS)


def corpus(*documents: dict[str, str]) -> Callable[[], object]:
    """Return a call that parses a corpus of these documents."""
    return lambda: parse_corpus(corpus_bytes(*documents))


class ManyPairs(list[tuple[int, int]]):
    """Claims to hold more pairs than ids have room for."""

    def __len__(self) -> int:
        return 2**32 - 257


def epoch(*documents: tuple[str, str]) -> Epoch:
    """Return the training epoch of documents given as (id, partition)."""
    return Epoch("train", tuple(EncodedDocument(name, label, (0, 1)) for name, label in documents), Windowing(2))


def average(*contributions: tuple[float, Sequence[float]], width: int = 1, expected: int = 2) -> GradientAverage:
    """Return an average with some contributions added."""
    result = GradientAverage(width, expected)
    for loss, gradient in contributions:
        result.add(loss, gradient)
    return result


ARITHMETIC: list[Case] = [
    (UnknownArithmetic("loose", ("strict/1", "libm/1", "fast")), lambda: named("loose")),
    (NotHexBits("3ff"), lambda: from_hex_bits("3ff")),
    (MatmulShapes((2,), (2, 3)), lambda: STRICT.matmul(np.zeros(2), np.zeros((2, 3)))),
    (InvalidSeed(-5), lambda: SplitMix64(-5)),
    (InvalidBound(0), lambda: below(SplitMix64(0), 0)),
]

CORPORA: list[Case] = [
    (text.InvalidCorpusJson("expected an array of documents"), lambda: parse_corpus(b"{}")),
    (text.InvalidManifestJson("expected 6 elements, found 0"), lambda: parse_manifest(b"[]")),
    (text.CorpusTooLarge(MAXIMUM_BYTES + 1, MAXIMUM_BYTES), lambda: parse_corpus(b" " * (MAXIMUM_BYTES + 1))),
    (text.EmptyCorpus(), lambda: parse_corpus(b"[]")),
    (text.InvalidIdentifier(1, "language", "EN"), corpus(document(language="EN"))),
    (text.BlankText(1), corpus(document(text=" "))),
    (text.DuplicateDocument("a"), corpus(document("a", "1"), document("a", "2"))),
    (text.DuplicateText(), corpus(document("a", "1"), document("b", "1"))),
    (text.UnsupportedSchemaVersion(7), lambda: partition(replace(CLEAN, schema_version=7), CORPUS)),
    (text.UnsupportedStrategy("random"), lambda: partition(replace(CLEAN, strategy="random"), CORPUS)),
    (
        text.ChecksumMismatch("fnv1a64:0", CORPUS.checksum),
        lambda: partition(replace(CLEAN, corpus_checksum="fnv1a64:0"), CORPUS),
    ),
    (text.EmptyPartition("validation"), split("ab", "", "c")),
    (text.PartitionOrder("train"), split("ba", "c", "c")),
    (text.UnknownDocument("test", "z"), split("ab", "c", "z")),
    (text.DocumentAssignedTwice("c"), split("ab", "c", "c")),
    (text.UncoveredDocument("d"), lambda: partition(manifest_for(FOUR, ["a"], ["b"], ["c"]), FOUR)),
    (text.SplitGroup("g", "a", "b"), split("a", "b", "c")),
]

TOKENS: list[Case] = [
    (text.TooManyMerges(MAXIMUM_MERGES + 1, MAXIMUM_MERGES), lambda: train([], MAXIMUM_MERGES + 1)),
    (text.NegativeMerges(-2), lambda: train([], -2)),
    (text.LayoutOverflow(2**32 - 257), lambda: BpeTokenizer(ManyPairs())),
    (text.UnknownMergeOperand(0, 256), lambda: BpeTokenizer([(97, 256)])),
    (text.DuplicateMergePair(1, 97, 98), lambda: BpeTokenizer([(97, 98), (97, 98)])),
    (text.ControlTokenInContent(1, 0), lambda: TOKENIZER.decode_content([67, 0])),
    (text.UnknownToken(0, 999), lambda: TOKENIZER.decode_content([999])),
    (text.DocumentTooShort(1), lambda: TOKENIZER.decode_document([0])),
    (text.ExpectedBos(67), lambda: TOKENIZER.decode_document([67, 1])),
    (text.ExpectedEos(67), lambda: TOKENIZER.decode_document([0, 67])),
    (text.InteriorControlToken(2, 1), lambda: TOKENIZER.decode_document([0, 67, 1, 1])),
    (text.InvalidUtf8(1, 1), lambda: TOKENIZER.decode_text([67, 257, 67])),
    (text.ZeroContextLength(), lambda: Windowing(0)),
    (text.ZeroStride(), lambda: Windowing(1, 0)),
]

BATCHES: list[Case] = [
    (text.ZeroBatchSize(), lambda: sequential_plan(epoch(), 0)),
    (text.EmptyDocumentId(1), lambda: epoch(("a", "train"), ("", "train"))),
    (text.PartitionMismatch(0, "train", "test"), lambda: epoch(("a", "test"))),
    (text.DuplicateDocumentId("a", 0, 1), lambda: epoch(("a", "train"), ("a", "train"))),
    (text.ContributionCountMismatch(2, 1), lambda: average((1.0, [1.0])).mean()),
    (text.ZeroGradientWidth(), lambda: average(width=0)),
    (text.GradientWidthMismatch(1, 3), lambda: average((1.0, [1.0, 2.0, 3.0]))),
    (text.NonFiniteLoss(math.inf), lambda: average((math.inf, [1.0]))),
    (text.NonFiniteGradient(0, -math.inf), lambda: average((1.0, [-math.inf]))),
    (text.NonFiniteAccumulation("gradient", 0, math.inf), lambda: average((0.0, [LARGE]), (0.0, [LARGE]))),
    (text.NonFiniteAccumulation("loss", None, math.inf), lambda: average((LARGE, [0.0]), (LARGE, [0.0]))),
    (text.EmptyAccumulator(), lambda: average().mean()),
]

CASES: list[Case] = [*ARITHMETIC, *CORPORA, *TOKENS, *BATCHES]
