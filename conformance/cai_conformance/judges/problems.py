"""Many contradictions as one finding: the first one is told, the others are counted and not kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from struct import Struct
from typing import TypeAlias

from cai_conformance.judges.finding import Finding
from cai_conformance.trace.records import Trace, shortened

_DOUBLE = Struct(">d")

Problem: TypeAlias = str | Callable[[], str]
"""A sentence, or what makes it, where that takes long and is needed of the first one only."""


def finding_of(problems: Iterable[Problem], met: str) -> Finding:
    """Return that there are problems, or, without any, what was met."""
    remaining = iter(problems)
    first = next(remaining, None)
    if first is None:
        return Finding.passed(met)
    rest = sum(1 for _ in remaining)
    return Finding.failed((first if isinstance(first, str) else first()) + (f" (and {rest} more)" if rest else ""))


def label_of(kind: str, **key: str) -> str:
    """Return the label of a record of which only the key is known."""
    return " ".join([kind, *(shortened(f"{name}={text}") for name, text in key.items())])


def shown_numbers(numbers: list[int]) -> str:
    """Return a list of numbers for a message, the first hundred of very many."""
    return str(numbers) if len(numbers) <= 1000 else f"{str(numbers[:100])[:-1]}, … and {len(numbers) - 100} more]"


def losses_with_bits(trace: Trace) -> Iterator[tuple[tuple[str, str, str], tuple[str, str] | None]]:
    """Yield step, `train` and `validation` of each LOSS record, and the bits of both from the BITS record of the step.

    Absent bits are an empty text; None stands for no BITS record. Both kinds ascend by their step, so that one walk
    over each of them is enough.
    """
    all_bits = trace.rows("BITS", "step", "train", "validation")
    current = next(all_bits, None)
    for step, train, validation in trace.rows("LOSS", "step", "train", "validation"):
        while current is not None and int(current[0]) < int(step):
            current = next(all_bits, None)
        met = current is not None and current[0] == step
        yield (step, train, validation), (current[1], current[2]) if met and current is not None else None


def first_steps(trace: Trace, kind: str, count: int = 64) -> str:
    """Return the steps of the records of a kind for a message, shortened."""
    return shortened(str([int(step) for (step,) in islice(trace.rows(kind, "step"), count)]))


def prints_as(bits: str, text: str) -> bool:
    """Return whether the double of sixteen digits, which are known to be that, prints as a text, its sign included."""
    (value,) = _DOUBLE.unpack(bytes.fromhex(bits))
    return f"{value:.6f}" == text
