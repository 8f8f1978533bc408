"""Faults of the tokenizer: how merges are learned, how bytes become ids, and how ids become bytes again."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Final

from cai_conformance.faults.fault import Family, Place
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import NGRAM, Sight, exact, run
from cai_reference.decoding.text_stream import TextStream
from cai_reference.text import bpe, tokenizer
from cai_reference.text.bpe import BYTES, Merge, Pair
from cai_reference.text.corpus import Corpus, Document, parse_corpus
from cai_reference.text.tokenizer import BOS, CONTENT_OFFSET, CONTROL_NAMES, EOS, BpeTokenizer

Counts = Counter[Pair]


def _last_seen(counts: Counts) -> Pair:
    most = max(counts.values())
    return [pair for pair, count in counts.items() if count == most][-1]


def _largest(counts: Counts) -> Pair:
    return max(counts, key=lambda pair: (counts[pair], pair))


def _without_overlaps(sequences: Sequence[Sequence[int]]) -> Counts:
    counts: Counts = Counter()
    for sequence in sequences:
        last: Pair | None = None
        for pair in itertools.pairwise(sequence):
            overlaps = pair == last and pair[0] == pair[1]
            counts[pair] += not overlaps
            last = None if overlaps else pair
    return counts


def _over_borders(sequences: Sequence[Sequence[int]]) -> Counts:
    return Counter(itertools.pairwise(itertools.chain.from_iterable(sequences)))


def _rewritten(patch: Patch, rewrite: Callable[[str], str]) -> None:
    """Change a text before it is encoded; bytes that are no text stay."""

    def rewritten(call: SimpleNamespace) -> bytes:
        data: bytes = call.data
        with suppress(UnicodeDecodeError):
            return rewrite(data.decode("utf-8")).encode("utf-8")
        return data

    patch.arguments((BpeTokenizer, "encode"), data=rewritten)


def _seen_first(counts: Counts) -> Pair:
    return max(counts, key=lambda pair: counts[pair])


def _ties_by_bytes(documents: Sequence[bytes], requested: int) -> tuple[Merge, ...]:
    sequences, spelled = [list(document) for document in documents], [bytes([byte]) for byte in range(BYTES)]
    merges: list[Merge] = []
    while len(merges) < requested and (counts := bpe.count_pairs(sequences)):
        left, right = min(counts, key=lambda pair: (-counts[pair], spelled[pair[0]], spelled[pair[1]]))
        sequences = [bpe.replace(sequence, (left, right), BYTES + len(merges)) for sequence in sequences]
        merges.append(Merge(left, right, counts[left, right], 0))
        spelled.append(spelled[left] + spelled[right])
    return tuple(merges)


def _from_the_right(tokenizer: BpeTokenizer, data: bytes) -> list[int]:
    tokens = list(data)[::-1]
    for rank, (left, right) in enumerate(tokenizer.pairs):
        tokens = bpe.replace(tokens, (right, left), BYTES + rank)
    return [token + CONTENT_OFFSET for token in tokens[::-1]]


def _names_after_merges(
    tokenizer: BpeTokenizer, text: str, allowed: Collection[str] = (), names: Mapping[str, int] = CONTROL_NAMES
) -> list[int]:
    ids = tokenizer.encode(text.encode("utf-8"))
    for name in allowed:
        spelled, place = tokenizer.encode(name.encode("utf-8")), 0
        while place < len(ids):
            if ids[place : place + len(spelled)] == spelled:
                ids[place : place + len(spelled)] = [names[name]]
            place += 1
    return ids


_tokenizer = Family(frozenset({Place.TOKENIZER}), exact(NGRAM))


@_tokenizer(
    "tokenizer.from-the-left",
    "merges applied from left to right",
    "tok.golden",
    seen_in="ztxz16/fastllm#715; rasbt/LLMs-from-scratch#558",
    kinds="T01",
    sight=Sight(("tok.golden[rank]",), "`abc` becomes `ab`+`c` instead of `a`+`bc`"),
)
def _from_the_left(patch: Patch) -> None:
    """The first pair that has a rule is joined, whatever its rank. Texts in which ranks ascend hide it."""

    # Take the first pair that has a rule, whatever its rank.
    def wrong(tokenizer: BpeTokenizer, data: bytes) -> list[int]:
        tokens, ranks = list(data), {pair: rank for rank, pair in enumerate(tokenizer.pairs)}
        place = 0
        while place < len(tokens) - 1:
            rank = ranks.get((tokens[place], tokens[place + 1]))
            if rank is None:
                place += 1
            else:
                tokens[place : place + 2] = [BYTES + rank]
                place = max(0, place - 1)
        return [token + CONTENT_OFFSET for token in tokens]

    patch.replace((BpeTokenizer, "encode"), wrong)


@_tokenizer(
    "tokenizer.ties-last-seen",
    "of pairs as frequent the last one seen is merged",
    "tok.fit",
    seen_in="karpathy/minbpe#90; huggingface/tokenizers#1065",
    kinds="T02",
    sight=Sight(("tok.fit[tie-last]",), "`cd` stands after `ab`"),
)
def _ties_last_seen(patch: Patch) -> None:
    """The comparison takes what is as large as the best so far. Texts without ties hide it."""
    patch.replace(bpe.most_frequent, _last_seen)


@_tokenizer(
    "tokenizer.ties-largest",
    "of pairs as frequent the largest is merged",
    "tok.fit",
    seen_in="huggingface/tokenizers#1065",
    kinds="T02",
    sight=Sight(("tok.fit[tie]",), "`ab` and `bc` tie, `bc` is the larger", "embedded"),
)
def _ties_largest(patch: Patch) -> None:
    """Pairs are compared together with their counts, in descending order."""
    patch.replace(bpe.most_frequent, _largest)


@_tokenizer(
    "tokenizer.overlaps-once",
    "overlapping occurrences counted once",
    "tok.fit",
    seen_in="karpathy/minbpe#72",
    kinds="T03",
    sight=Sight(("tok.fit[overlap]",), "`aaaaa` holds `aa` four times, not twice"),
)
def _overlaps_once(patch: Patch) -> None:
    """In `aaaaa` the pair counts twice, where the definition sees four.

    Texts without runs of one byte hide it. Which of the two is meant differs from tokenizer to tokenizer.
    """
    patch.replace(bpe.count_pairs, _without_overlaps)


@_tokenizer(
    "tokenizer.over-borders",
    "pairs counted across the border of two documents",
    "tok.fit",
    seen_in="NVIDIA/TensorRT-Model-Connect#942; kekzl/imp#660",
    kinds="T04",
    sight=Sight(("tok.fit[border]",), "after two merges no pair is left, but a border is"),
)
def _over_borders_tokenizer(patch: Patch) -> None:
    """The end of one document and the beginning of the next one make a pair."""
    patch.replace(bpe.count_pairs, _over_borders)


@_tokenizer(
    "tokenizer.words-first",
    "text cut into words before merging",
    "tok.fit",
    seen_in="ggml-org/llama.cpp#3502",
    kinds="T04",
    sight=Sight(("tok.fit[space]",), "the first merge ends in a space", "published"),
)
def _words(patch: Patch) -> None:
    """No merge holds a space behind another byte, as in tokenizers that split before they count."""

    # Cut documents in front of every space before anything is counted.
    def pieces(call: SimpleNamespace) -> list[bytes]:
        cut = [document.replace(b" ", b"\n ").split(b"\n") for document in call.documents]
        return [piece for document in cut for piece in document if piece]

    patch.arguments(bpe.train, documents=pieces)


@_tokenizer(
    "tokenizer.twice-at-least",
    "a pair that occurs once is not merged",
    "tok.fit",
    sight=Sight(("tok.fit[single]",), "in `xyz` no pair occurs twice"),
)
def _twice_at_least(patch: Patch) -> None:
    """Learning stops at a least count that nobody has asked for."""

    def wrong(right: Callable[..., Counts], sequences: Sequence[Sequence[int]]) -> Counts:
        return Counter({pair: count for pair, count in right(sequences).items() if count > 1})

    patch.around(bpe.count_pairs, wrong)


@_tokenizer(
    "tokenizer.each-alone",
    "each token decoded alone",
    "tok.roundtrip",
    seen_in="exo-explore/exo#1691; huanglizhuo/QwenASR#12",
    kinds="T05",
    sight=Sight(("tok.roundtrip[not-canonical]",), "ids split a letter of two bytes"),
)
def _each_alone(patch: Patch) -> None:
    """Tokens become text one by one, and what is no text by itself becomes U+FFFD. Texts of ASCII hide it."""
    right = BpeTokenizer.decode_content

    def wrong(tokenizer: BpeTokenizer, ids: Sequence[int]) -> bytes:
        pieces = [right(tokenizer, [token]).decode("utf-8", "replace") for token in ids]
        return "".join(pieces).encode("utf-8")

    patch.replace((BpeTokenizer, "decode_content"), wrong)


@_tokenizer(
    "tokenizer.controls-from-text",
    "what spells a control token becomes one",
    "tok.golden",
    seen_in="google-deepmind/gemma#770; huggingface/tokenizers#1437",
    kinds="T06",
    sight=Sight(("tok.golden[bytes]",), "a text of the bytes 0, 1, fe and ff"),
)
def _controls_from_text(patch: Patch) -> None:
    """Bytes that are written as control tokens are, here 0 and 1, become their ids, so that a text can end itself."""
    right = BpeTokenizer.encode

    def wrong(tokenizer: BpeTokenizer, data: bytes) -> list[int]:
        controls = {BOS + CONTENT_OFFSET: BOS, EOS + CONTENT_OFFSET: EOS}
        return [controls.get(token, token) for token in right(tokenizer, data)]

    patch.replace((BpeTokenizer, "encode"), wrong)


@_tokenizer(
    "tokenizer.normalised",
    "text normalised before encoding",
    "tok.golden",
    sight=Sight(("tok.golden[text]",), "a combining accent is composed"),
)
def _normalised(patch: Patch) -> None:
    """A letter and its accent are composed, so that what is decoded is not what was encoded."""
    _rewritten(patch, rewrite=partial(unicodedata.normalize, "NFC"))


@_tokenizer(
    "tokenizer.line-ends",
    "line ends changed before encoding",
    "tok.golden",
    sight=Sight(("tok.golden[text]",), "the text closes with CR LF"),
)
def _line_ends_tokenizer(patch: Patch) -> None:
    """CR LF becomes LF, as files that are opened as text do on some systems."""
    _rewritten(patch, rewrite=lambda text: text.replace("\r\n", "\n"))


@_tokenizer(
    "tokenizer.names-from-text",
    "a special token's name in a text becomes the token",
    "tok.special",
    seen_in="google-deepmind/gemma#770; huggingface/tokenizers#1437",
    kinds="T06",
    sight=Sight(
        ("tok.special[spelled]", "tok.special[spelled-merged]", "tok.special[allowed]"),
        "nobody asked for `<eos>` and `<bos>`",
    ),
)
def _names_from_text(patch: Patch) -> None:
    """Whoever writes `<eos>` ends the document, although nobody asked for tokens. Texts that spell none hide it."""
    patch.arguments(tokenizer.encode_with_special, allowed=lambda call: tuple(call.names))


@_tokenizer(
    "tokenizer.names-never",
    "a special token that was asked for stays text",
    "tok.special",
    sight=Sight(("tok.special[allowed]",), "`<eos>` was asked for"),
)
def _names_never(patch: Patch) -> None:
    """The list of allowed names is not read. Callers that never ask hide it."""
    patch.arguments(tokenizer.encode_with_special, allowed=())


@_tokenizer(
    "tokenizer.names-unmerged",
    "a special token's name in a text is kept from merges",
    "tok.special",
    sight=Sight(("tok.special[spelled-merged]",), "merges join `a<`, and the whole of a second `<eos>`"),
)
def _names_unmerged(patch: Patch) -> None:
    """Text that spells a token becomes bytes, to be safe, where it is text like any other.

    Names whose characters no merge joins hide it.
    """
    # Take a name that is not allowed out of the text, a byte an id, and encode what stands around it.
    right = tokenizer.encode_with_special

    def wrong(
        tokenizer: BpeTokenizer, text: str, allowed: Collection[str] = (), names: Mapping[str, int] = CONTROL_NAMES
    ) -> list[int]:
        kept = [re.escape(name) for name in names if name not in allowed]
        ids: list[int] = []
        for piece in re.split(f"({'|'.join(kept)})", text) if kept else [text]:
            if piece in names and piece not in allowed:
                ids += [byte + CONTENT_OFFSET for byte in piece.encode("utf-8")]
            else:
                ids += right(tokenizer, piece, allowed, names)
        return ids

    patch.replace(right, wrong)


@_tokenizer(
    "tokenizer.streamed-alone",
    "each token of a stream decoded alone",
    "tok.stream",
    seen_in="soniqo/speech-swift#41; Blaizzy/mlx-vlm#1778",
    kinds="T05",
    sight=Sight(("tok.stream[characters]", "tok.stream[cut-off]"), "ids end inside `é`, `€` and `😀`"),
)
def _streamed_alone(patch: Patch) -> None:
    """What is no text by itself becomes U+FFFD at once, although the next token completes it.

    Texts of ASCII hide it, and so does decoding at the end.
    """
    patch.replace(
        (TextStream, "push"), lambda stream, token: stream._tokenizer.decode_content([token]).decode("utf-8", "replace")
    )


@_tokenizer(
    "tokenizer.stream-end-lost",
    "the unfinished character at the end of a stream lost",
    "tok.stream",
    sight=Sight(("tok.stream[cut-off]",), "the stream ends before the last byte of `😀`"),
)
def _end_lost(patch: Patch) -> None:
    """What is held back for the next token is dropped when none comes. Texts that end in a whole character hide it."""

    def wrong(stream: TextStream) -> str:
        stream._start()
        return ""

    patch.replace((TextStream, "finish"), wrong)


@_tokenizer.seen(
    "merge.ties-first-seen",
    "of pairs with equal counts the one seen first is merged",
    "tok.fit[tie]",
    "`bc` stands before `ab`",
    printed="embedded",
)
def _ties_first_seen(patch: Patch) -> None:
    patch.replace(bpe.most_frequent, _seen_first)


@_tokenizer.seen(
    "merge.ties-by-bytes",
    "equal counts are settled by the bytes of the pair, not by its ids",
    "tok.fit[tie-numeric]",
    "as bytes `bc`+`a` comes before `d`+`a`, as ids after it",
)
def _ties_by_bytes_merge(patch: Patch) -> None:
    patch.replace(bpe.train, _ties_by_bytes)


@_tokenizer.seen(
    "merge.one-document",
    "merges are learned from the documents joined into one",
    "tok.fit[border]",
    "`bb` exists only across the border",
)
def _one_document(patch: Patch) -> None:
    patch.arguments(bpe.train, documents=lambda call: [b"".join(call.documents)])


@_tokenizer.seen(
    "merge.all-documents",
    "merges are learned from validation and test documents too",
    "data.split",
    "SPLIT counts other windows",
    printed="both",
    workloads=run(NGRAM),
)
def _all_documents(patch: Patch) -> None:
    # Learn merges from every document that was read last, whatever it is for.
    documents: list[Document] = []

    def parsed(right: Callable[[bytes], Corpus], data: bytes) -> Corpus:
        corpus = right(data)
        documents[:] = corpus.documents
        return corpus

    patch.around(parse_corpus, parsed)
    patch.arguments(bpe.train, documents=lambda _: [document.text.encode("utf-8") for document in documents])


@_tokenizer.seen(
    "encode.backwards",
    "a merge is applied from right to left",
    "tok.golden[passes]",
    "seven `a` leave the odd one in front",
)
def _backwards(patch: Patch) -> None:
    patch.replace((BpeTokenizer, "encode"), _from_the_right)


@_tokenizer.seen(
    "encode.nfkc", "text is normalised to NFKC before encoding", "tok.golden[text]", "a ligature is taken apart"
)
def _nfkc(patch: Patch) -> None:
    _rewritten(patch, rewrite=partial(unicodedata.normalize, "NFKC"))


@_tokenizer.seen(
    "encode.strip",
    "white space at the ends of a text is removed before encoding",
    "tok.golden[text]",
    "the text opens with a space and closes with a line end",
)
def _strip(patch: Patch) -> None:
    _rewritten(patch, rewrite=str.strip)


@_tokenizer.seen(
    "encode.no-controls",
    "documents have neither BOS nor EOS",
    "data.split",
    "SPLIT counts two windows a document less",
    printed="both",
    workloads=run(NGRAM),
)
def _no_controls(patch: Patch) -> None:
    patch.replace((BpeTokenizer, "encode_document"), lambda tokenizer, text: tokenizer.encode(text.encode("utf-8")))


@_tokenizer.seen(
    "encode.controls-exchanged",
    "documents open with EOS and close with BOS",
    "run.golden",
    "other losses",
    printed="both",
    workloads=run(NGRAM),
)
def _controls_exchanged(patch: Patch) -> None:
    patch.replace(
        (BpeTokenizer, "encode_document"), lambda tokenizer, text: [EOS, *tokenizer.encode(text.encode("utf-8")), BOS]
    )


@_tokenizer.seen(
    "decode.replaces",
    "what is not UTF-8 decodes to the replacement character",
    "tok.roundtrip[bytes]",
    "bytes ff and fe are never UTF-8",
)
def _replaces(patch: Patch) -> None:
    patch.around(
        (BpeTokenizer, "decode_content"), lambda right, *call: right(*call).decode("utf-8", "replace").encode("utf-8")
    )


@_tokenizer.seen(
    "special.after-merges",
    "names are looked for in what merges have made",
    "tok.special[allowed]",
    "a merge joins `a<`, so that the name is not found",
)
def _after_merges(patch: Patch) -> None:
    patch.replace(tokenizer.encode_with_special, _names_after_merges)


@_tokenizer.seen(
    "stream.end-by-bytes",
    "each byte of an unfinished character becomes a replacement character",
    "tok.stream[cut-off]",
    "three bytes of `😀` are one U+FFFD",
)
def _end_by_bytes(patch: Patch) -> None:
    patch.replace((TextStream, "finish"), lambda stream: "\ufffd" * len(stream.pending))


TOKENIZER: Final = tuple(_tokenizer)
"""What is wrong between bytes and ids."""
