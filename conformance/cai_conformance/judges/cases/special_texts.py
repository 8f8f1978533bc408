"""Counters of the cases about special tokens and about text that is decoded id by id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from cai_conformance.judges.cases.answers import Counter, Input, ids_of
from cai_conformance.judges.cases.texts import FIRST_MERGE, MERGED_IDS
from cai_conformance.judges.witness import Met, Witness
from cai_conformance.text_pieces import REPLACEMENT, read_piece
from cai_conformance.vectors import Answer
from cai_reference.text import BpeTokenizer

SPELLED: Final = Witness("name of a token that stays text", "names of tokens that stay text")
ASKED: Final = Witness("token that was asked for", "tokens that were asked for")
INSIDE: Final = Witness("id that ends inside a character", "ids that end inside a character")
CUT_OFF: Final = Witness("unfinished character at the end", "unfinished characters at the end")


def _special(given: Input, answer: Answer) -> Iterator[Met]:
    text, ids = bytes.fromhex(given["bytes"]), ids_of(answer)
    asked = sum(ids.count(each["id"]) for each in given["special"])
    yield ASKED.met(asked)
    yield SPELLED.met(sum(text.count(bytes.fromhex(each["spelled"])) for each in given["special"]) - asked)
    yield MERGED_IDS.met(sum(token >= FIRST_MERGE for token in ids))


def _streamed(given: Input, answer: Answer) -> Iterator[Met]:
    tokenizer = BpeTokenizer([(left, right) for left, right in given["pairs"]])
    ids = given["ids"]
    starts = [tokenizer.decode_content(ids[: place + 1]) for place in range(len(ids))]
    yield INSIDE.met(sum(start.decode("utf-8", "ignore").encode("utf-8") != start for start in starts))
    yield CUT_OFF.met(read_piece((answer.text or "").rpartition(" ")[2]) == REPLACEMENT)


COUNTERS: Final[Mapping[str, Counter]] = {
    "bpe.encode-special": _special,
    "bpe.decode-stream": _streamed,
}
