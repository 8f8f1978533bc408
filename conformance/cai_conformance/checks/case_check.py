"""A check over vector cases: small questions with one right answer each, which a suite ships."""

from __future__ import annotations

from cai_conformance.checks.check import Check, check
from cai_conformance.checks.vectors import vector_check
from cai_conformance.checks.witness import Witness
from cai_conformance.verdicts import Level


def case_check(
    name: str, level: Level, summary: str, explanation: str, *witnesses: Witness, catches: str = ""
) -> Check:
    """Declare a check over the vector cases that name it; a suite has it where it has such cases."""
    declared = check(
        name,
        level,
        summary,
        explanation,
        requires=("trace.convention",),
        of_edges=True,
        witnesses=witnesses,
        catches=catches,
    )
    return declared(vector_check(name))
