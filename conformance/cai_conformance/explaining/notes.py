"""Notes of a report: the floors that judged, and the seeded faults that would pass below them."""

from __future__ import annotations

from collections.abc import Iterator

from cai_conformance.explaining.invisible import invisible_faults
from cai_conformance.judges.evidence import Evidence
from cai_conformance.measuring.policy import FACTOR, PolicyKind


def notes_of(evidence: Evidence) -> Iterator[str]:
    """Yield a line about the floor of a suite, where rows were judged by it, and one about sizes only claimed."""
    if evidence.opened_before is not None and evidence.opened_before.loaded.claimed:
        claims = ", ".join(f"{name} {size}" for name, size in evidence.opened_before.loaded.claimed.items())
        yield f"{evidence.question.request.suite}: claimed by the backend, and not counted: {claims}"
    question, floor = evidence.question, evidence.floor_used
    if floor is None or question.given is None or question.policy.kind is PolicyKind.ULP:
        return
    hidden = invisible_faults(question.given, question.vectors.cases, floor)
    told = (
        f"seeded faults that would hide below it: {', '.join(hidden)}" if hidden else "no seeded fault hides below it"
    )
    yield f"{question.request.suite}: {floor}; {FACTOR:g} floors are allowed, {told}"
