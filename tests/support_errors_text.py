"""One call for every error of the splitmix, text and arithmetic rooms, with the error that it must raise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cai_reference.arithmetic.bits import from_hex_bits
from cai_reference.arithmetic.instances import STRICT, named
from cai_reference.errors import ArithmeticFault, CaiReferenceError
from cai_reference.splitmix import SplitMix64, SplitMixError, below
from cai_reference.text.batches import EncodedDocument, Epoch, Windowing, sequential_plan
from cai_reference.text.bpe import MAXIMUM_MERGES, train
from cai_reference.text.corpus import MAXIMUM_BYTES, parse_corpus, parse_manifest, partition
from cai_reference.text.errors import BatchError, BpeTokenizerError, CorpusError, TextError
from cai_reference.text.tokenizer import BpeTokenizer
from support_corpora import corpus_bytes, corpus_of, document, manifest_for

Case = tuple[CaiReferenceError, Callable[[], object]]

CORPUS = corpus_of(("a", "g"), ("b", "g"), ("c", "h"))
FOUR = corpus_of(("a", "g"), ("b", "h"), ("c", "i"), ("d", "j"))
CLEAN = manifest_for(CORPUS, ["a"], ["b"], ["c"])
TOKENIZER = BpeTokenizer([(97, 98)])


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


ARITHMETIC: list[Case] = [
    (
        ArithmeticFault("unknown-arithmetic", name="loose", known=", ".join(("strict/1", "libm/1", "fast"))),
        lambda: named("loose"),
    ),
    (ArithmeticFault("not-hex-bits", text="3ff"), lambda: from_hex_bits("3ff")),
    (ArithmeticFault("matmul-shapes", left=(2,), right=(2, 3)), lambda: STRICT.matmul(np.zeros(2), np.zeros((2, 3)))),
    (SplitMixError("invalid-seed", seed=-5), lambda: SplitMix64(-5)),
    (SplitMixError("invalid-bound", bound=0), lambda: below(SplitMix64(0), 0)),
]

CORPORA: list[Case] = [
    (CorpusError("invalid-corpus-json", problem="expected an array of documents"), lambda: parse_corpus(b"{}")),
    (CorpusError("invalid-manifest-json", problem="expected 6 elements, found 0"), lambda: parse_manifest(b"[]")),
    (
        CorpusError("corpus-too-large", size=MAXIMUM_BYTES + 1, limit=MAXIMUM_BYTES),
        lambda: parse_corpus(b" " * (MAXIMUM_BYTES + 1)),
    ),
    (CorpusError("empty-corpus"), lambda: parse_corpus(b"[]")),
    (CorpusError("invalid-identifier", document=1, label="language", value="EN"), corpus(document(language="EN"))),
    (CorpusError("blank-text", document=1), corpus(document(text=" "))),
    (CorpusError("duplicate-document", identifier="a"), corpus(document("a", "1"), document("a", "2"))),
    (CorpusError("duplicate-text"), corpus(document("a", "1"), document("b", "1"))),
    (CorpusError("unsupported-schema-version", version=7), lambda: partition(replace(CLEAN, schema_version=7), CORPUS)),
    (
        CorpusError("unsupported-strategy", strategy="random"),
        lambda: partition(replace(CLEAN, strategy="random"), CORPUS),
    ),
    (
        CorpusError("checksum-mismatch", manifest="fnv1a64:0", corpus=CORPUS.checksum),
        lambda: partition(replace(CLEAN, corpus_checksum="fnv1a64:0"), CORPUS),
    ),
    (CorpusError("empty-partition", partition="validation"), split("ab", "", "c")),
    (CorpusError("partition-order", partition="train"), split("ba", "c", "c")),
    (CorpusError("unknown-document", partition="test", identifier="z"), split("ab", "c", "z")),
    (CorpusError("document-assigned-twice", identifier="c"), split("ab", "c", "c")),
    (
        CorpusError("uncovered-document", identifier="d"),
        lambda: partition(manifest_for(FOUR, ["a"], ["b"], ["c"]), FOUR),
    ),
    (CorpusError("split-group", group="g", identifier="a", other="b"), split("a", "b", "c")),
]

TOKENS: list[Case] = [
    (
        TextError("too-many-merges", requested=MAXIMUM_MERGES + 1, limit=MAXIMUM_MERGES),
        lambda: train([], MAXIMUM_MERGES + 1),
    ),
    (TextError("negative-merges", requested=-2), lambda: train([], -2)),
    (BpeTokenizerError("layout-overflow", merge_count=2**32 - 257), lambda: BpeTokenizer(ManyPairs())),
    (BpeTokenizerError("unknown-merge-operand", rank=0, token_id=256), lambda: BpeTokenizer([(97, 256)])),
    (BpeTokenizerError("duplicate-merge-pair", rank=1, left=97, right=98), lambda: BpeTokenizer([(97, 98), (97, 98)])),
    (BpeTokenizerError("control-token-in-content", position=1, token_id=0), lambda: TOKENIZER.decode_content([67, 0])),
    (BpeTokenizerError("unknown-token", position=0, token_id=999), lambda: TOKENIZER.decode_content([999])),
    (BpeTokenizerError("document-too-short", length=1), lambda: TOKENIZER.decode_document([0])),
    (BpeTokenizerError("expected-bos", found=67), lambda: TOKENIZER.decode_document([67, 1])),
    (BpeTokenizerError("expected-eos", found=67), lambda: TOKENIZER.decode_document([0, 67])),
    (
        BpeTokenizerError("interior-control-token", position=2, token_id=1),
        lambda: TOKENIZER.decode_document([0, 67, 1, 1]),
    ),
    (BpeTokenizerError("invalid-utf8", valid_up_to=1, error_length=1), lambda: TOKENIZER.decode_text([67, 257, 67])),
    (TextError("zero-context-length"), lambda: Windowing(0)),
    (TextError("zero-stride"), lambda: Windowing(1, 0)),
]

BATCHES: list[Case] = [
    (BatchError("zero-batch-size"), lambda: sequential_plan(epoch(), 0)),
    (BatchError("empty-document-id", document_index=1), lambda: epoch(("a", "train"), ("", "train"))),
    (BatchError("partition-mismatch", document_index=0, expected="train", actual="test"), lambda: epoch(("a", "test"))),
    (
        BatchError("duplicate-document-id", identifier="a", first=0, repeated=1),
        lambda: epoch(("a", "train"), ("a", "train")),
    ),
]

CASES: list[Case] = [*ARITHMETIC, *CORPORA, *TOKENS, *BATCHES]
