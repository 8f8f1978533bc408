"""Wrong tokenizers: merges learned otherwise, bytes encoded otherwise, ids decoded otherwise."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import pytest

from cai_conformance.backends.ngram import experiment
from cai_reference.decoding.text_stream import TextStream
from cai_reference.text import BpeTokenizer, Corpus, Document, parse_corpus
from cai_reference.text import train as right_train
from cai_reference.text.bpe import BYTES, Merge, Pair, count_pairs, replace
from cai_reference.text.special_tokens import encode_with_special
from support_mutants import Change, Mutant, replaced

EDGES, EXPERIMENT, BPE = "cai_conformance.backends.ngram.edges", experiment.__name__, "cai_reference.text.bpe"
STREAM = "cai_reference.decoding.text_stream"

Sequences = Sequence[Sequence[int]]


def _choosing(choose: Callable[[Counter[Pair]], Pair]) -> Change:
    return replaced((BPE, "most_frequent", choose))


def _counting(count: Callable[[Sequences], Counter[Pair]]) -> Change:
    return replaced((BPE, "count_pairs", count))


def _training_on(documents: Callable[[Sequence[bytes]], list[bytes]]) -> Change:
    def train(given: Sequence[bytes], requested: int) -> tuple[Merge, ...]:
        return right_train(documents(given), requested)

    return replaced((EDGES, "train", train), (EXPERIMENT, "train", train))


def _largest(counts: Counter[Pair]) -> Pair:
    return max(counts, key=lambda pair: (counts[pair], pair))


def _seen_first(counts: Counter[Pair]) -> Pair:
    return max(counts, key=lambda pair: counts[pair])


def _seen_last(counts: Counter[Pair]) -> Pair:
    return max(reversed(counts), key=lambda pair: counts[pair])


def _train_by_bytes(documents: Sequence[bytes], requested: int) -> tuple[Merge, ...]:
    sequences, spelled = [list(document) for document in documents], [bytes([byte]) for byte in range(BYTES)]
    merges: list[Merge] = []
    while len(merges) < requested and (counts := count_pairs(sequences)):
        left, right = min(counts, key=lambda pair: (-counts[pair], spelled[pair[0]], spelled[pair[1]]))
        sequences = [replace(sequence, (left, right), BYTES + len(merges)) for sequence in sequences]
        merges.append(Merge(left, right, counts[left, right], 0))
        spelled.append(spelled[left] + spelled[right])
    return tuple(merges)


def _without_overlaps(sequences: Sequences) -> Counter[Pair]:
    counts: Counter[Pair] = Counter()
    for sequence in sequences:
        previous_start: dict[Pair, int] = {}
        for place, pair in enumerate(itertools.pairwise(sequence)):
            if previous_start.get(pair) != place - 1:
                counts[pair] += 1
                previous_start[pair] = place
    return counts


def _over_borders(sequences: Sequences) -> Counter[Pair]:
    return count_pairs([list(itertools.chain.from_iterable(sequences))])


def _at_least_two(sequences: Sequences) -> Counter[Pair]:
    return Counter({pair: count for pair, count in count_pairs(sequences).items() if count > 1})


def _words(documents: Sequence[bytes]) -> list[bytes]:
    return [word for document in documents for word in re.findall(rb" ?[^ ]+", document)]


def _learn_from_all(patch: pytest.MonkeyPatch) -> None:
    documents: list[Document] = []

    def parse(data: bytes) -> Corpus:
        corpus = parse_corpus(data)
        documents[:] = corpus.documents
        return corpus

    def train(_: Sequence[bytes], requested: int) -> tuple[Merge, ...]:
        return right_train([document.text.encode("utf-8") for document in documents], requested)

    replaced((EXPERIMENT, "parse_corpus", parse), (EXPERIMENT, "train", train))(patch)


def _encode_leftmost(self: BpeTokenizer, data: bytes) -> list[int]:
    tokens, ranks = list(data), {pair: rank for rank, pair in enumerate(self.pairs)}
    place = 0
    while place < len(tokens) - 1:
        rank = ranks.get((tokens[place], tokens[place + 1]))
        if rank is None:
            place += 1
        else:
            tokens[place : place + 2] = [BYTES + rank]
            place = max(0, place - 1)
    return [token + 2 for token in tokens]


def _encode_backwards(self: BpeTokenizer, data: bytes) -> list[int]:
    tokens = list(data)[::-1]
    for rank, (left, right) in enumerate(self.pairs):
        tokens = replace(tokens, (right, left), BYTES + rank)
    return [token + 2 for token in tokens[::-1]]


_right_encode = BpeTokenizer.encode


def _rewriting(rewrite: Callable[[str], str]) -> Change:
    """Change every text before it is encoded, and before merges are learned from it."""

    def rewritten(data: bytes) -> bytes:
        try:
            return rewrite(data.decode("utf-8")).encode("utf-8")
        except UnicodeDecodeError:
            return data

    def encode(self: BpeTokenizer, data: bytes) -> list[int]:
        return _right_encode(self, rewritten(data))

    def utf8(document: Document) -> bytes:
        return rewritten(document.text.encode("utf-8"))

    return replaced(("cai_reference.text", "BpeTokenizer.encode", encode), (EXPERIMENT, "_utf8", utf8))


def _line_ends(text: str) -> str:
    return text.replace("\r\n", "\n")


def _low_bytes_as_controls(self: BpeTokenizer, data: bytes) -> list[int]:
    return [token - 2 if token < 4 else token for token in _right_encode(self, data)]


def _without_controls(self: BpeTokenizer, text: str) -> list[int]:
    return self.encode(text.encode("utf-8"))


def _controls_exchanged(self: BpeTokenizer, text: str) -> list[int]:
    return [1, *self.encode(text.encode("utf-8")), 0]


_right_decode = BpeTokenizer.decode_content


def _decode_as_text(self: BpeTokenizer, ids: Sequence[int]) -> bytes:
    return _right_decode(self, ids).decode("utf-8", "replace").encode("utf-8")


def _decode_each(self: BpeTokenizer, ids: Sequence[int]) -> bytes:
    return b"".join(_decode_as_text(self, [token]) for token in ids)


def _names_from_text(
    tokenizer: BpeTokenizer, text: str, allowed: Collection[str], names: Mapping[str, int]
) -> list[int]:
    return encode_with_special(tokenizer, text, tuple(names), names)


def _names_never(tokenizer: BpeTokenizer, text: str, allowed: Collection[str], names: Mapping[str, int]) -> list[int]:
    return tokenizer.encode(text.encode("utf-8"))


def _names_unmerged(
    tokenizer: BpeTokenizer, text: str, allowed: Collection[str], names: Mapping[str, int]
) -> list[int]:
    ids: list[int] = []
    for piece in re.split("(<bos>|<eos>)", text):
        if piece in names:
            ids += [names[piece]] if piece in allowed else [byte + 2 for byte in piece.encode("utf-8")]
        else:
            ids += tokenizer.encode(piece.encode("utf-8"))
    return ids


def _names_after_merges(
    tokenizer: BpeTokenizer, text: str, allowed: Collection[str], names: Mapping[str, int]
) -> list[int]:
    ids = tokenizer.encode(text.encode("utf-8"))
    for name in allowed:
        spelled, place = tokenizer.encode(name.encode("utf-8")), 0
        while place < len(ids):
            if ids[place : place + len(spelled)] == spelled:
                ids[place : place + len(spelled)] = [names[name]]
            place += 1
    return ids


def _push_alone(stream: TextStream, token: int) -> str:
    return stream._tokenizer.decode_content([token]).decode("utf-8", "replace")


def _end_lost(stream: TextStream) -> str:
    return ""


def _end_by_bytes(stream: TextStream) -> str:
    return "\ufffd" * len(stream.pending)


def _decoding(decode: Callable[[BpeTokenizer, Sequence[int]], bytes]) -> Change:
    return replaced(("cai_reference.text", "BpeTokenizer.decode_content", decode))


def _encoding(encode: Callable[[BpeTokenizer, bytes], list[int]]) -> Change:
    return replaced(("cai_reference.text", "BpeTokenizer.encode", encode))


TEXT_MUTANTS: Final = (
    Mutant(
        "merge.ties-largest",
        "of pairs with equal counts the largest is merged",
        ("tok.fit[tie]",),
        "`ab` and `bc` tie, `bc` is the larger",
        _choosing(_largest),
        printed="embedded",
        before_training=True,
    ),
    Mutant(
        "merge.ties-first-seen",
        "of pairs with equal counts the one seen first is merged",
        ("tok.fit[tie]",),
        "`bc` stands before `ab`",
        _choosing(_seen_first),
        printed="embedded",
        before_training=True,
    ),
    Mutant(
        "merge.ties-last-seen",
        "of pairs with equal counts the one seen last is merged",
        ("tok.fit[tie-last]",),
        "`cd` stands after `ab`",
        _choosing(_seen_last),
        before_training=True,
    ),
    Mutant(
        "merge.ties-by-bytes",
        "equal counts are settled by the bytes of the pair, not by its ids",
        ("tok.fit[tie-numeric]",),
        "as bytes `bc`+`a` comes before `d`+`a`, as ids after it",
        replaced((EDGES, "train", _train_by_bytes), (EXPERIMENT, "train", _train_by_bytes)),
        before_training=True,
    ),
    Mutant(
        "merge.overlaps-once",
        "overlapping occurrences are counted once",
        ("tok.fit[overlap]",),
        "`aaaaa` holds `aa` four times, not twice",
        _counting(_without_overlaps),
        before_training=True,
    ),
    Mutant(
        "merge.counts-over-borders",
        "pairs are counted across the border of two documents",
        ("tok.fit[border]",),
        "after two merges no pair is left, but a border is",
        _counting(_over_borders),
        before_training=True,
    ),
    Mutant(
        "merge.one-document",
        "merges are learned from the documents joined into one",
        ("tok.fit[border]",),
        "`bb` exists only across the border",
        _training_on(lambda documents: [b"".join(documents)]),
        before_training=True,
    ),
    Mutant(
        "merge.at-least-twice",
        "a pair that occurs once is not merged",
        ("tok.fit[single]",),
        "in `xyz` no pair occurs twice",
        _counting(_at_least_two),
        before_training=True,
    ),
    Mutant(
        "merge.words",
        "text is split at spaces before merges are learned",
        ("tok.fit[space]",),
        "the first merge ends in a space",
        _training_on(_words),
        printed="published",
        before_training=True,
    ),
    Mutant(
        "merge.all-documents",
        "merges are learned from validation and test documents too",
        ("data.split",),
        "SPLIT counts other windows",
        _learn_from_all,
        printed="both",
        before_training=True,
    ),
    Mutant(
        "encode.leftmost",
        "merges are applied from left to right, not by rank",
        ("tok.golden[rank]",),
        "`abc` becomes `ab`+`c` instead of `a`+`bc`",
        _encoding(_encode_leftmost),
        before_training=True,
    ),
    Mutant(
        "encode.backwards",
        "a merge is applied from right to left",
        ("tok.golden[passes]",),
        "seven `a` leave the odd one in front",
        _encoding(_encode_backwards),
        before_training=True,
    ),
    Mutant(
        "encode.nfc",
        "text is normalised to NFC before encoding",
        ("tok.golden[text]",),
        "a combining accent is composed",
        _rewriting(lambda text: unicodedata.normalize("NFC", text)),
        before_training=True,
    ),
    Mutant(
        "encode.nfkc",
        "text is normalised to NFKC before encoding",
        ("tok.golden[text]",),
        "a ligature is taken apart",
        _rewriting(lambda text: unicodedata.normalize("NFKC", text)),
        before_training=True,
    ),
    Mutant(
        "encode.strip",
        "white space at the ends of a text is removed before encoding",
        ("tok.golden[text]",),
        "the text opens with a space and closes with a line end",
        _rewriting(str.strip),
        before_training=True,
    ),
    Mutant(
        "encode.line-ends",
        "CR LF becomes LF before encoding",
        ("tok.golden[text]",),
        "the text closes with CR LF",
        _rewriting(_line_ends),
        before_training=True,
    ),
    Mutant(
        "encode.low-bytes",
        "the bytes 0 and 1 become BOS and EOS",
        ("tok.golden[bytes]",),
        "a text of the bytes 0, 1, fe and ff",
        _encoding(_low_bytes_as_controls),
        before_training=True,
    ),
    Mutant(
        "encode.no-controls",
        "documents have neither BOS nor EOS",
        ("data.split",),
        "SPLIT counts two windows a document less",
        replaced(("cai_reference.text", "BpeTokenizer.encode_document", _without_controls)),
        printed="both",
        before_training=True,
    ),
    Mutant(
        "encode.controls-exchanged",
        "documents open with EOS and close with BOS",
        ("run.golden",),
        "other losses",
        replaced(("cai_reference.text", "BpeTokenizer.encode_document", _controls_exchanged)),
        printed="both",
        before_training=True,
    ),
    Mutant(
        "decode.replaces",
        "what is not UTF-8 decodes to the replacement character",
        ("tok.roundtrip[bytes]",),
        "bytes ff and fe are never UTF-8",
        _decoding(_decode_as_text),
        before_training=True,
    ),
    Mutant(
        "decode.token-by-token",
        "each id is decoded to text alone",
        ("tok.roundtrip[not-canonical]",),
        "ids split a letter of two bytes",
        _decoding(_decode_each),
        before_training=True,
    ),
    Mutant(
        "special.from-text",
        "text that spells a special token becomes the token",
        ("tok.special[spelled]", "tok.special[spelled-merged]", "tok.special[allowed]"),
        "nobody asked for `<eos>` and `<bos>`",
        replaced((EDGES, "encode_with_special", _names_from_text)),
        before_training=True,
    ),
    Mutant(
        "special.unmerged",
        "text that spells a special token is kept from merges",
        ("tok.special[spelled-merged]",),
        "merges join `a<`, and the whole of a second `<eos>`",
        replaced((EDGES, "encode_with_special", _names_unmerged)),
        before_training=True,
    ),
    Mutant(
        "special.never",
        "a special token that was asked for stays text",
        ("tok.special[allowed]",),
        "`<eos>` was asked for",
        replaced((EDGES, "encode_with_special", _names_never)),
        before_training=True,
    ),
    Mutant(
        "special.after-merges",
        "names are looked for in what merges have made",
        ("tok.special[allowed]",),
        "a merge joins `a<`, so that the name is not found",
        replaced((EDGES, "encode_with_special", _names_after_merges)),
        before_training=True,
    ),
    Mutant(
        "stream.token-by-token",
        "each id of a stream is decoded to text alone",
        ("tok.stream[characters]", "tok.stream[cut-off]"),
        "ids end inside `é`, `€` and `😀`",
        replaced((STREAM, "TextStream.push", _push_alone)),
        before_training=True,
    ),
    Mutant(
        "stream.end-lost",
        "the unfinished character at the end of a stream is dropped",
        ("tok.stream[cut-off]",),
        "the stream ends before the last byte of `😀`",
        replaced((STREAM, "TextStream.finish", _end_lost)),
        before_training=True,
    ),
    Mutant(
        "stream.end-by-bytes",
        "each byte of an unfinished character becomes a replacement character",
        ("tok.stream[cut-off]",),
        "three bytes of `😀` are one U+FFFD",
        replaced((STREAM, "TextStream.finish", _end_by_bytes)),
        before_training=True,
    ),
)
