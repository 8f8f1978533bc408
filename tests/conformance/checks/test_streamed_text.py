"""The judge of streamed text: pieces that make the whole pass, late ones too; what is split or lost fails."""

from __future__ import annotations

import pytest

from cai_conformance.checks.finding import Finding
from cai_conformance.checks.text_stream import judge_stream
from cai_conformance.fixtures.text_pieces import read_piece, spell_pieces
from cai_conformance.fixtures.vectors import Answer, VectorCase
from cai_conformance.verdicts import Outcome, Problem

WHOLE = "- c3a9 - e282ac -"
"""Of three bytes of ids: é, then €, then nothing at the end."""
CUT = "- c3a9 - efbfbd"
"""é, the first byte of €, and the end."""


def judged(expected: str, found: str) -> Finding:
    """Return the finding on an answer."""
    case = VectorCase("case", "tok.stream", "bpe.decode-stream", {}, "why", Answer(text=expected))
    return judge_stream(case, Answer(text=found))


class TestWhatPasses:
    """The law, and not only the reference's own pieces."""

    @pytest.mark.parametrize("text", [WHOLE, CUT])
    def test_the_pieces_of_the_reference(self, text: str) -> None:
        """Each as early as it can be."""
        assert (Outcome.PASS, "the one right answer") == (judged(text, text).outcome, judged(text, text).message)

    @pytest.mark.parametrize("found", ["- - c3a9 e282ac -", "- - - - c3a9e282ac", "- c3a9 - - e282ac"])
    def test_pieces_may_come_late(self, found: str) -> None:
        """A program may wait for a whole word."""
        finding = judged(WHOLE, found)
        assert (Outcome.PASS, "case") == (finding.outcome, finding.case)
        assert finding.message == "the pieces make the whole, some of them later than they could"

    @pytest.mark.parametrize("found", ["- c3a9 - refused", "- - c3a9 refused"])
    def test_an_end_inside_a_character_may_be_refused(self, found: str) -> None:
        """What was given out before is the text so far."""
        finding = judged(CUT, found)
        assert finding.outcome is Outcome.PASS
        assert finding.message == "the pieces make the whole, and the end inside a character is refused"


class TestWhatFails:
    """With the place, both sides, and what the case was made to catch."""

    @pytest.mark.parametrize(
        ("expected", "found", "index", "right", "wrong"),
        [
            (WHOLE, "c3 a9 - e282ac -", 0, "whole characters", "c3"),
            (WHOLE, "- c3a9 e282 ac -", 2, "whole characters", "e282"),
            (WHOLE, "- c3a9 - eda080 -", 3, "whole characters", "eda080"),
            (WHOLE, "- C3A9 - e282ac -", 1, "hexadecimal digits of bytes", "C3A9"),
            (WHOLE, "- c3a - e282ac -", 1, "hexadecimal digits of bytes", "c3a"),
            (WHOLE, "- c3a9  e282ac -", 2, "hexadecimal digits of bytes", ""),
            (WHOLE, "- c3a9 - e282ac refused", 4, "hexadecimal digits of bytes", "refused"),
            (WHOLE, "refused c3a9 - e282ac -", 0, "hexadecimal digits of bytes", "refused"),
            (WHOLE, "- - - - -", None, "c3a9e282ac in all", " in all"),
            (WHOLE, "efbfbd efbfbd - e282ac -", None, "c3a9e282ac in all", "efbfbdefbfbde282ac in all"),
            (WHOLE, "- e282ac - c3a9 -", None, "c3a9e282ac in all", "e282acc3a9 in all"),
            (CUT, "- c3a9 - -", None, "c3a9efbfbd in all", "c3a9 in all"),
            (CUT, "- c3a9 efbfbd efbfbd", None, "c3a9efbfbd in all", "c3a9efbfbdefbfbd in all"),
            (CUT, "- c3a9 - e2", 3, "whole characters", "e2"),
            (CUT, "- - - refused", None, "c3a9 in all", " in all"),
            (CUT, "- c3a9 efbfbd refused", None, "c3a9 in all", "c3a9efbfbd in all"),
        ],
    )
    def test_a_wrong_stream(self, expected: str, found: str, index: int | None, right: str, wrong: str) -> None:
        """Split, lost, exchanged, doubled, or no pieces at all."""
        finding = judged(expected, found)
        (difference,) = finding.differences
        assert (Outcome.FAIL, Problem.VALUE, index) == (finding.outcome, difference.problem, difference.index)
        assert (right, wrong, "text") == (difference.expected, difference.found, difference.field)
        assert finding.message == f"{difference}. Typical cause: why"

    @pytest.mark.parametrize("found", ["", "c3a9e282ac", "- c3a9 - e282ac", "- c3a9 - e282ac - -"])
    def test_another_number_of_pieces(self, found: str) -> None:
        """There is one for each id, and one for the end."""
        (difference,) = judged(WHOLE, found).differences
        assert (Problem.SHAPE, "5 pieces") == (difference.problem, difference.expected)


class TestPieces:
    """How they are spelled."""

    def test_pieces_are_hex_and_hyphens(self) -> None:
        """With blanks between them."""
        assert WHOLE == spell_pieces(["", "é", "", "€", ""])

    @pytest.mark.parametrize(
        ("spelled", "data"), [("-", b""), ("c3a9", b"\xc3\xa9"), ("", None), ("c", None), ("c3a9\n", None), ("é", None)]
    )
    def test_one_is_read_back(self, spelled: str, data: bytes | None) -> None:
        """Or is none."""
        assert data == read_piece(spelled)
