"""The tokenizer: merges as they are learned, bytes to ids, ids to bytes, special tokens, and text id by id.

Small texts on which one rule each decides. What compares an answer is `vectors`, and of pieces of text `text_stream`.
"""

from __future__ import annotations

from typing import Final

from cai_conformance.checks.case_check import case_check
from cai_conformance.checks.case_witnesses import (
    ASKED,
    BORDERS,
    BROKEN,
    COMPARED,
    CUT_OFF,
    INSIDE,
    LOW_BYTES,
    MERGED,
    MERGED_IDS,
    MERGES,
    OVERLAPS,
    SINGLES,
    SPACES,
    SPELLED,
    TIES,
)
from cai_conformance.verdicts import Level

FIT: Final = case_check(
    "tok.fit",
    Level.I0,
    "merges are learned as defined, ties and document borders included",
    "Small texts whose merges depend on one rule each: the tie rule, overlapping counts, borders, single occurrences, "
    "spaces. The published corpus never ties, so its trace cannot see these.",
    MERGES,
    TIES.of("tie", "tie-last", "tie-numeric"),
    OVERLAPS.of("overlap"),
    BORDERS.of("border"),
    SINGLES.of("single"),
    SPACES.of("space"),
    catches=(
        "tokenizer.over-borders tokenizer.overlaps-once tokenizer.ties-largest tokenizer.ties-last-seen "
        "tokenizer.twice-at-least tokenizer.words-first merge.one-document merge.ties-by-bytes "
        "merge.ties-first-seen"
    ),
)
ENCODING: Final = case_check(
    "tok.golden",
    Level.I0,
    "bytes become the ids that the merges prescribe",
    "One pass a merge in rank order, control ids apart from the bytes 0 and 1.",
    COMPARED,
    MERGED.of("rank", "passes"),
    LOW_BYTES.of("bytes"),
    catches=(
        "tokenizer.controls-from-text tokenizer.from-the-left tokenizer.line-ends tokenizer.normalised "
        "encode.backwards encode.nfkc encode.strip"
    ),
)
DECODING: Final = case_check(
    "tok.roundtrip",
    Level.I0,
    "any ids decode to their bytes, canonical or not",
    "Decoding is byte exact, also for sequences that encoding would not produce.",
    COMPARED,
    MERGED_IDS.of("not-canonical"),
    BROKEN.of("bytes"),
    catches="tokenizer.each-alone decode.replaces",
)
SPECIAL: Final = case_check(
    "tok.special",
    Level.I0,
    "special tokens are made only when asked for",
    "Text that spells a special token is text, and merges as text does: whoever wrote it must not be able to end a "
    "document. A caller who names the token gets its id, and no merge reaches over it.",
    SPELLED,
    ASKED.of("allowed"),
    MERGED_IDS.of("spelled-merged", "allowed"),
    catches="tokenizer.names-from-text tokenizer.names-never tokenizer.names-unmerged special.after-merges",
)
STREAM: Final = case_check(
    "tok.stream",
    Level.I0,
    "text that is decoded id by id is the whole, in whole characters",
    "Ids end inside characters. What is given out for each id, joined, is the text; no piece ends inside a "
    "character. Of a character that never ends, one U+FFFD is left, or the end is refused.",
    INSIDE,
    CUT_OFF.of("cut-off"),
    catches="tokenizer.stream-end-lost tokenizer.streamed-alone stream.end-by-bytes",
)
