"""The judges of golden values: printed records, exact bits, published digests.

Printed text is compared exactly in every arithmetic: nothing is rounded away, and no tolerance is chosen. Bits are
compared where the arithmetic of the golden is also the backend's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding, counted
from cai_conformance.judges.witness import Witness
from cai_conformance.trace.records import Record, list_items
from cai_conformance.trace.values import FieldType
from cai_conformance.verdicts import Difference

Judge = Callable[[Evidence], tuple[Finding, ...]]

FOREIGN = "the input is not the suite's own, so there is no golden for it"

RECORDS: Final = Witness("record of the golden", "records of the golden")
NUMBERS: Final = Witness("compared number", "compared numbers")
LISTS: Final = ("ids", "values", "preview")
"""The fields of a STAGE record that hold what was computed."""


def golden_records(kinds: Collection[str]) -> Judge:
    """Return a judge that compares the records of some kinds with the golden, as one finding."""

    def judge(evidence: Evidence) -> tuple[Finding, ...]:
        golden = evidence.question.golden
        if golden is None:
            return (Finding.skipped(FOREIGN),)
        differences = _differences(evidence, kinds)
        if differences:
            return (Finding.failed(str(differences[0]), differences),)
        records = [record for record in golden.records if record.kind in kinds]
        text = f"{counted(len(records), 'record')} equal to the golden"
        return (Finding.passed(text, met=[RECORDS.met(len(records))]),)

    return judge


def golden_stages(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare each STAGE record with the golden, one finding a stage."""
    golden = evidence.question.golden
    if golden is None:
        return (Finding.skipped(FOREIGN),)
    differences = _differences(evidence, {"STAGE"})
    return tuple(_stage_finding(stage, differences) for stage in golden.all("STAGE"))


def golden_bits(evidence: Evidence) -> tuple[Finding, ...]:
    """Compare the BITS records with the golden, where both are of one arithmetic."""
    golden = evidence.question.golden
    if golden is None:
        return (Finding.skipped(FOREIGN),)
    mine, theirs = golden.envelope.arithmetic, evidence.main.envelope.arithmetic
    if mine != theirs:
        return (Finding.skipped(f"the golden's bits are those of {mine}; the backend ran in {theirs}"),)
    if not evidence.main.all("BITS"):
        return (Finding.skipped("the trace carries no BITS records"),)
    differences = _differences(evidence, {"BITS"})
    if differences:
        return (Finding.failed(str(differences[0]), differences),)
    count = len(golden.all("BITS"))
    text = f"{counted(count, 'record')} equal to the golden in every bit"
    return (Finding.passed(text, met=[RECORDS.met(count)]),)


def _differences(evidence: Evidence, kinds: Collection[str]) -> tuple[Difference, ...]:
    found = tuple(found for found in evidence.differences if found.record.partition(" ")[0] in kinds)
    golden = evidence.question.golden
    if golden is None or golden.envelope.arithmetic == evidence.main.envelope.arithmetic:
        return found
    # Bits and digests of another arithmetic are not comparable; what is printed is.
    return tuple(difference for difference in found if not _is_exact(evidence, difference))


def _is_exact(evidence: Evidence, difference: Difference) -> bool:
    """Tell whether a difference is one of bits or of a digest."""
    grammar, profile = evidence.question.grammar, evidence.question.request.profile
    rule = grammar.rule(profile, difference.record.partition(" ")[0])
    types = {field.type for field in rule.fields if field.name == difference.field} if rule is not None else set()
    return bool(types) and all(kind.is_bits or kind is FieldType.SHA256 for kind in types)


def _stage_finding(stage: Record, differences: tuple[Difference, ...]) -> Finding:
    name = stage.get("name")
    mine = tuple(difference for difference in differences if difference.record == stage.label)
    if mine:
        return Finding.failed(str(mine[0]), mine, case=name)
    numbers = sum(len(list_items(stage.get(field))) for field in LISTS if stage.has(field))
    return Finding.passed("equal to the golden", name, [NUMBERS.met(numbers)])
