"""Stages of a forward pass on trained weights: each with its shape, its norm, and a few of its values.

Eight flat indices are drawn without repetition by SplitMix64(index of the stage), four of them in the last row, so
that a port can print the same places without printing everything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cai_conformance.fixtures.vectors import VectorCase
from cai_conformance.trace.format import format_bits_list, format_integers, format_real, format_reals
from cai_conformance.trace.records import Record
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable
from cai_reference.models.stack import DecoderStack
from cai_reference.splitmix import SplitMix64, below

STAGED_CASE: Final = "fwd.oracle.last"
"""The case whose tokens are run."""

PROBED = 8
PROBED_IN_LAST_ROW = 4


@dataclass(frozen=True)
class Stage:
    """One stage: its place in the pass, its name, its whole value, and the flat indices that are printed."""

    index: int
    name: str
    value: Array
    at: tuple[int, ...]

    @property
    def values(self) -> list[float]:
        """The values at the drawn places."""
        flat = self.value.ravel()
        return [float(flat[place]) for place in self.at]

    def norm(self, arithmetic: Arithmetic) -> float:
        """Return the root of the ascending sum of squares."""
        return math.sqrt(float(arithmetic.sum(self.value * self.value)))


def record_stages(model: DecoderStack, ids: Sequence[int], arithmetic: Arithmetic) -> tuple[Stage, ...]:
    """Run one sequence through the batch path and keep every stage, without the batch axis."""
    kept: list[tuple[str, Array]] = []

    def keep(name: str, value: Variable) -> None:
        kept.append((name, value.value[0]))

    model.forward(Tape(arithmetic, recording=False), ids, batch=1, observe=keep)
    return tuple(
        Stage(index, name, value, drawn_places(index, value.size, value.shape[-1]))
        for index, (name, value) in enumerate(kept)
    )


def drawn_places(index: int, size: int, row: int) -> tuple[int, ...]:
    """Return ascending flat indices: first some of the last row, then some of the whole, none twice."""
    generator = SplitMix64(index)
    chosen: set[int] = set()
    for wanted, first, count in ((PROBED_IN_LAST_ROW, size - row, row), (PROBED, 0, size)):
        while len(chosen) < min(wanted, size if first == 0 else count):
            chosen.add(first + below(generator, count))
    return tuple(sorted(chosen))


def staged_ids(cases: Sequence[VectorCase]) -> tuple[int, ...]:
    """Return the tokens of the pass whose stages are shown."""
    case = next(case for case in cases if case.identifier == STAGED_CASE)
    ids = case.input["ids"]
    assert isinstance(ids, list)
    return tuple(int(str(token)) for token in ids)


def records_of(stages: Mapping[str, Array]) -> list[Record]:
    """Return one STAGE record a stage, with every value, in order."""
    return [_whole_record(index, name, value) for index, (name, value) in enumerate(stages.items())]


def _whole_record(index: int, name: str, value: Array) -> Record:
    flat = value.ravel().tolist()
    return Record(
        "STAGE",
        (
            ("index", str(index)),
            ("name", name),
            ("shape", format_integers(value.shape)),
            ("at", format_integers(range(len(flat)))),
            ("values", format_reals(flat)),
            ("bits", format_bits_list(flat)),
            ("norm", format_real(math.sqrt(math.fsum(one * one for one in flat)) if flat else 0.0)),
        ),
    )
