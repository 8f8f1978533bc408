"""Two sequences of tokens that part: a tie within rounding, an exact tie broken by another rule, or a fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cai_reference.arithmetic import Array
from cai_reference.decoding.greedy import margin


class TokenWord(StrEnum):
    """What the first token that differs says."""

    NEAR_TIE = "near tie"
    TIE_RULE = "tie rule"
    FAULT = "fault"
    LENGTH = "another length"


@dataclass(frozen=True)
class TokenFinding:
    """The first token that differs.

    Attributes:
        place: its number among the new tokens, from 0.
        expected, found: the ids; None where a sequence has ended.
        word: what it says.
        margin: the gap between the reference's two largest logits there; 0 where there is no row.
        gap: by how much the reference prefers its own id to the one that was found.
        disagreement: the largest difference of logits that was measured between the two.
    """

    place: int
    expected: int | None
    found: int | None
    word: TokenWord
    margin: float = 0.0
    gap: float = 0.0
    disagreement: float = 0.0

    def __str__(self) -> str:
        lead = f"token {self.place}: expected {_id(self.expected)}, found {_id(self.found)}: {self.word.value}"
        if self.word is TokenWord.LENGTH:
            return lead
        if self.word is TokenWord.TIE_RULE:
            return f"{lead}; both have the largest logit, and the lowest id is to be taken"
        relation = "within" if self.word is TokenWord.NEAR_TIE else "beyond"
        return (
            f"{lead}; the two logits are {self.gap:.3g} apart, {relation} twice the measured difference of "
            f"{self.disagreement:.3g} (the two largest are {self.margin:.3g} apart)"
        )


def token_findings(
    expected: Sequence[int], found: Sequence[int], rows: Sequence[Array], disagreement: float
) -> TokenFinding | None:
    """Judge the first token that differs; None where none does.

    Each logit may be off by the measured difference, one up and one down, so that ids whose logits are closer than
    twice that can change places without a fault.

    Args:
        expected: the reference's new tokens.
        found: the backend's.
        rows: the reference's logits [vocabulary] from which each of its tokens was chosen.
        disagreement: the largest difference between the backend's logits and the reference's, measured on other calls.
    """
    for place, (one, other) in enumerate(zip(expected, found, strict=False)):
        if one == other:
            continue
        row = rows[place]
        known = 0 <= other < len(row)
        gap = float(row[one]) - float(row[other]) if known else float("inf")
        word = TokenWord.FAULT
        if gap == 0.0:
            word = TokenWord.TIE_RULE
        elif gap <= 2.0 * disagreement:
            word = TokenWord.NEAR_TIE
        return TokenFinding(place, one, other, word, margin(row), gap, disagreement)
    shorter = min(len(expected), len(found))
    if len(expected) == len(found):
        return None
    ended = [ids[shorter] if len(ids) > shorter else None for ids in (expected, found)]
    return TokenFinding(shorter, ended[0], ended[1], TokenWord.LENGTH)


def _id(token: int | None) -> str:
    return "the end" if token is None else str(token)
