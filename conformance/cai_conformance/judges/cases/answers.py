"""Counters of vector cases: what they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from cai_conformance.judges.witness import Met, Witness
from cai_conformance.vectors import Answer
from cai_reference.arithmetic import from_hex_bits

Input: TypeAlias = Mapping[str, Any]  # JSON: what each operation expects is what its cases hold
Counter: TypeAlias = Callable[[Input, Answer], Iterable[Met]]

COMPARED: Final = Witness("compared value", "compared values")
TIES: Final = Witness("tie", "ties")
DISTINCT: Final = Witness("distinct token", "distinct tokens", least=2)


def length_of(answer: Answer) -> int:
    """Return how many integers, doubles or bytes an answer has."""
    if answer.text is not None:
        return len(answer.text.replace(" ", "")) // 2
    return len(ids_of(answer)) + len(answer.values or ())


def ids_of(answer: Answer) -> Sequence[int]:
    """Return the integers of an answer; none of another one."""
    return answer.ids or ()


def doubles(digits: Iterable[str]) -> list[float]:
    """Return doubles that are written as sixteen hex digits each."""
    return [from_hex_bits(text) for text in digits]


def tied_with_largest(values: Sequence[float]) -> int:
    """Return how many values are equal to the largest one, itself left out."""
    return max(0, list(values).count(max(values)) - 1) if values else 0
