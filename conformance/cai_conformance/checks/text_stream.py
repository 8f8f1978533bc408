"""The judge of text that is decoded id by id: the pieces make the whole, and none splits a character.

A backend may give a character out later than it could. One whose text ends inside a character may refuse the end,
where the reference puts U+FFFD.
"""

from __future__ import annotations

from typing import Final

from cai_conformance.checks.finding import Finding
from cai_conformance.fixtures.text_pieces import REFUSED, REPLACEMENT, read_piece
from cai_conformance.fixtures.vectors import Answer, VectorCase
from cai_conformance.verdicts import Difference, Problem

OPERATION: Final = "bpe.decode-stream"


def judge_stream(case: VectorCase, answer: Answer) -> Finding:
    """Judge the pieces of an answer that has a text and nothing else."""
    assert case.expected is not None and case.expected.text is not None and answer.text is not None
    expected, found = case.expected.text.split(" "), answer.text.split(" ")
    if expected == found:
        return Finding.passed("the one right answer", case=case.case)
    if len(expected) != len(found):
        return _failed(case, Problem.SHAPE, None, f"{len(expected)} pieces", f"{len(found)} pieces")
    right = _joined(expected)
    refused = found[-1] == REFUSED and right.endswith(REPLACEMENT)
    for place, piece in enumerate(found[:-1] if refused else found):
        data = read_piece(piece)
        if data is None:
            return _failed(case, Problem.VALUE, place, "hexadecimal digits of bytes", piece)
        if not _is_text(data):
            return _failed(case, Problem.VALUE, place, "whole characters", piece)
    if refused:
        right, found = right.removesuffix(REPLACEMENT), found[:-1]
    whole = _joined(found)
    if whole != right:
        return _failed(case, Problem.VALUE, None, f"{right.hex()} in all", f"{whole.hex()} in all")
    if refused:
        return Finding.passed("the pieces make the whole, and the end inside a character is refused", case=case.case)
    return Finding.passed("the pieces make the whole, some of them later than they could", case=case.case)


def _failed(case: VectorCase, problem: Problem, place: int | None, expected: str, found: str) -> Finding:
    difference = Difference(problem, case.label, "text", place, expected, found)
    return Finding.failed(f"{difference}. Typical cause: {case.sees}", (difference,), case=case.case)


def _joined(pieces: list[str]) -> bytes:
    return b"".join(read_piece(piece) or b"" for piece in pieces)


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
