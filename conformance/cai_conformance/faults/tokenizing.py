"""Faults of the tokenizer: how merges are learned, how bytes become ids, and how ids become bytes again."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import NGRAM, exact
from cai_reference.decoding.text_stream import TextStream
from cai_reference.text import bpe, special_tokens
from cai_reference.text.bpe import BYTES, Merge, Pair
from cai_reference.text.special_tokens import CONTROL_NAMES
from cai_reference.text.tokenizer import BOS, CONTENT_OFFSET, EOS, BpeTokenizer

TOKENIZER: Final = frozenset({Place.TOKENIZER})
Counts = Counter[Pair]


def _chosen(planting: Planting, choose: Callable[[Counts], Pair]) -> None:
    planting.function(bpe.most_frequent, choose)


def _last_seen(counts: Counts) -> Pair:
    most = max(counts.values())
    return [pair for pair, count in counts.items() if count == most][-1]


def _largest(counts: Counts) -> Pair:
    return max(counts, key=lambda pair: (counts[pair], pair))


def _counted(planting: Planting, count: Callable[[Sequence[Sequence[int]]], Counts]) -> None:
    planting.function(bpe.count_pairs, count)


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


def _twice_at_least(planting: Planting) -> None:
    right = bpe.count_pairs

    def wrong(sequences: Sequence[Sequence[int]]) -> Counts:
        return Counter({pair: count for pair, count in right(sequences).items() if count > 1})

    planting.function(right, wrong)


def _words(planting: Planting) -> None:
    """Cut documents in front of every space before anything is counted."""
    right = bpe.train

    def wrong(documents: Sequence[bytes], requested: int) -> tuple[Merge, ...]:
        pieces = [document.replace(b" ", b"\n ").split(b"\n") for document in documents]
        return right([piece for document in pieces for piece in document if piece], requested)

    planting.function(right, wrong)


def _from_the_left(planting: Planting) -> None:
    """Take the first pair that has a rule, whatever its rank."""

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

    planting.method(BpeTokenizer, "encode", wrong)


def _rewritten(planting: Planting, rewrite: Callable[[str], str]) -> None:
    """Change a text before it is encoded; bytes that are no text stay."""
    right = BpeTokenizer.encode

    def wrong(tokenizer: BpeTokenizer, data: bytes) -> list[int]:
        with suppress(UnicodeDecodeError):
            data = rewrite(data.decode("utf-8")).encode("utf-8")
        return right(tokenizer, data)

    planting.method(BpeTokenizer, "encode", wrong)


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _line_ends(text: str) -> str:
    return text.replace("\r\n", "\n")


def _controls_from_text(planting: Planting) -> None:
    right = BpeTokenizer.encode

    def wrong(tokenizer: BpeTokenizer, data: bytes) -> list[int]:
        controls = {BOS + CONTENT_OFFSET: BOS, EOS + CONTENT_OFFSET: EOS}
        return [controls.get(token, token) for token in right(tokenizer, data)]

    planting.method(BpeTokenizer, "encode", wrong)


def _each_alone(planting: Planting) -> None:
    right = BpeTokenizer.decode_content

    def wrong(tokenizer: BpeTokenizer, ids: Sequence[int]) -> bytes:
        pieces = [right(tokenizer, [token]).decode("utf-8", "replace") for token in ids]
        return "".join(pieces).encode("utf-8")

    planting.method(BpeTokenizer, "decode_content", wrong)


def _names_read(planting: Planting, read: Callable[[Collection[str], Mapping[str, int]], Collection[str]]) -> None:
    """Read other names as tokens than those that are allowed."""
    right = special_tokens.encode_with_special

    def wrong(
        tokenizer: BpeTokenizer, text: str, allowed: Collection[str] = (), names: Mapping[str, int] = CONTROL_NAMES
    ) -> list[int]:
        return right(tokenizer, text, read(allowed, names), names)

    planting.function(right, wrong)


def _all_names(_: Collection[str], names: Mapping[str, int]) -> Collection[str]:
    return tuple(names)


def _no_names(_: Collection[str], __: Mapping[str, int]) -> Collection[str]:
    return ()


def _names_unmerged(planting: Planting) -> None:
    """Take a name that is not allowed out of the text, a byte an id, and encode what stands around it."""
    right = special_tokens.encode_with_special

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

    planting.function(right, wrong)


def _streamed_alone(planting: Planting) -> None:
    def wrong(stream: TextStream, token: int) -> str:
        return stream._tokenizer.decode_content([token]).decode("utf-8", "replace")

    planting.method(TextStream, "push", wrong)


def _end_lost(planting: Planting) -> None:
    def wrong(stream: TextStream) -> str:
        stream._start()
        return ""

    planting.method(TextStream, "finish", wrong)


def _fault(
    slug: str,
    title: str,
    story: str,
    precedent: str,
    plant: Callable[[Planting], None],
    expected: str,
    kinds: tuple[str, ...] = (),
) -> Fault:
    return Fault(f"tokenizer.{slug}", title, story, precedent, TOKENIZER, plant, "", kinds, exact(NGRAM), (expected,))


TOKENIZING: Final = (
    _fault(
        "from-the-left",
        "merges applied from left to right",
        "The first pair that has a rule is joined, whatever its rank. Texts in which ranks ascend hide it.",
        "ztxz16/fastllm#715; rasbt/LLMs-from-scratch#558",
        _from_the_left,
        "tok.golden",
        ("T01",),
    ),
    _fault(
        "ties-last-seen",
        "of pairs as frequent the last one seen is merged",
        "The comparison takes what is as large as the best so far. Texts without ties hide it.",
        "karpathy/minbpe#90; huggingface/tokenizers#1065",
        partial(_chosen, choose=_last_seen),
        "tok.fit",
        ("T02",),
    ),
    _fault(
        "ties-largest",
        "of pairs as frequent the largest is merged",
        "Pairs are compared together with their counts, in descending order.",
        "huggingface/tokenizers#1065",
        partial(_chosen, choose=_largest),
        "tok.fit",
        ("T02",),
    ),
    _fault(
        "overlaps-once",
        "overlapping occurrences counted once",
        "In `aaaaa` the pair counts twice, where the definition sees four. Texts without runs of one byte hide it."
        " Which of the two is meant differs from tokenizer to tokenizer.",
        "karpathy/minbpe#72",
        partial(_counted, count=_without_overlaps),
        "tok.fit",
        ("T03",),
    ),
    _fault(
        "over-borders",
        "pairs counted across the border of two documents",
        "The end of one document and the beginning of the next one make a pair.",
        "NVIDIA/TensorRT-Model-Connect#942; kekzl/imp#660",
        partial(_counted, count=_over_borders),
        "tok.fit",
        ("T04",),
    ),
    _fault(
        "words-first",
        "text cut into words before merging",
        "No merge holds a space behind another byte, as in tokenizers that split before they count.",
        "ggml-org/llama.cpp#3502",
        _words,
        "tok.fit",
        ("T04",),
    ),
    _fault(
        "twice-at-least",
        "a pair that occurs once is not merged",
        "Learning stops at a least count that nobody has asked for.",
        "",
        _twice_at_least,
        "tok.fit",
    ),
    _fault(
        "each-alone",
        "each token decoded alone",
        "Tokens become text one by one, and what is no text by itself becomes U+FFFD. Texts of ASCII hide it.",
        "exo-explore/exo#1691; huanglizhuo/QwenASR#12",
        _each_alone,
        "tok.roundtrip",
        ("T05",),
    ),
    _fault(
        "controls-from-text",
        "what spells a control token becomes one",
        "Bytes that are written as control tokens are, here 0 and 1, become their ids, so that a text can end itself.",
        "google-deepmind/gemma#770; huggingface/tokenizers#1437",
        _controls_from_text,
        "tok.golden",
        ("T06",),
    ),
    _fault(
        "normalised",
        "text normalised before encoding",
        "A letter and its accent are composed, so that what is decoded is not what was encoded.",
        "",
        partial(_rewritten, rewrite=_composed),
        "tok.golden",
    ),
    _fault(
        "line-ends",
        "line ends changed before encoding",
        "CR LF becomes LF, as files that are opened as text do on some systems.",
        "",
        partial(_rewritten, rewrite=_line_ends),
        "tok.golden",
    ),
    _fault(
        "names-from-text",
        "a special token's name in a text becomes the token",
        "Whoever writes `<eos>` ends the document, although nobody asked for tokens. Texts that spell none hide it.",
        "google-deepmind/gemma#770; huggingface/tokenizers#1437",
        partial(_names_read, read=_all_names),
        "tok.special",
        ("T06",),
    ),
    _fault(
        "names-never",
        "a special token that was asked for stays text",
        "The list of allowed names is not read. Callers that never ask hide it.",
        "",
        partial(_names_read, read=_no_names),
        "tok.special",
    ),
    _fault(
        "names-unmerged",
        "a special token's name in a text is kept from merges",
        "Text that spells a token becomes bytes, to be safe, where it is text like any other. Names whose characters no"
        " merge joins hide it.",
        "",
        _names_unmerged,
        "tok.special",
    ),
    _fault(
        "streamed-alone",
        "each token of a stream decoded alone",
        "What is no text by itself becomes U+FFFD at once, although the next token completes it. Texts of ASCII hide"
        " it, and so does decoding at the end.",
        "soniqo/speech-swift#41; Blaizzy/mlx-vlm#1778",
        _streamed_alone,
        "tok.stream",
        ("T05",),
    ),
    _fault(
        "stream-end-lost",
        "the unfinished character at the end of a stream lost",
        "What is held back for the next token is dropped when none comes. Texts that end in a whole character hide it.",
        "",
        _end_lost,
        "tok.stream",
    ),
)
"""What is wrong between bytes and ids."""
