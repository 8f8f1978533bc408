"""The stages that an engine shows of one forward pass on given weights, as STAGE records with every value."""

from __future__ import annotations

from collections.abc import Sequence

from cai_conformance.backends.decoder.stages import records_of, staged_ids
from cai_conformance.backends.errors import NotOffered
from cai_conformance.engines.description import Feature
from cai_conformance.engines.opened import OpenedModel
from cai_conformance.engines.path import EngineSession
from cai_conformance.trace.records import Record
from cai_conformance.vectors import VectorCase


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
