"""All values of all stages that an engine shows of one forward pass on given weights, as STAGE records.

The pass is that of the vector case `fwd.oracle.last`, so that every program knows its tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from cai_conformance.backends.errors import NotOffered
from cai_conformance.engines.description import Feature
from cai_conformance.engines.opened import OpenedModel
from cai_conformance.engines.path import EngineSession
from cai_conformance.trace.formatting import format_bits_list, format_integers, format_real, format_reals
from cai_conformance.trace.records import Record
from cai_conformance.vectors import VectorCase
from cai_reference.arithmetic import Array

STAGED_CASE: Final = "fwd.oracle.last"
"""The case whose tokens are run."""


def staged_ids(cases: Sequence[VectorCase]) -> tuple[int, ...]:
    """Return the tokens of the pass whose stages are shown."""
    case = next(case for case in cases if case.identifier == STAGED_CASE)
    ids = case.input["ids"]
    assert isinstance(ids, list)
    return tuple(int(str(token)) for token in ids)


def stage_records(name: str, opened: OpenedModel, cases: Sequence[VectorCase]) -> list[Record]:
    """Return the records of every stage that the engine shows.

    Raises:
        NotOffered: it shows none.
        EngineError: it failed.
    """
    if Feature.OBSERVE not in opened.description.features:
        raise NotOffered(name, "the profile stages", "it has no feature observe")
    stages = EngineSession(opened.engine).observed(staged_ids(cases)).stages
    return records_of(stages)


def records_of(stages: Mapping[str, Array]) -> list[Record]:
    """Return one STAGE record a stage, with every value, in order."""
    return [_record(index, name, value) for index, (name, value) in enumerate(stages.items())]


def _record(index: int, name: str, value: Array) -> Record:
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
