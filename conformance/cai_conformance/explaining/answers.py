"""Which mistake, planted into the reference, gives the very answers that a backend gave to the vector cases.

This sees what single rows do not: loops, rules for ties, rollbacks. It tries the cases that failed first, and then asks
whether the others come out as the backend's, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from cai_conformance.backends.decoder.edges import OPERATIONS
from cai_conformance.backends.decoder.edges import answer as reference_answer
from cai_conformance.backends.decoder.setting import DecoderSetting
from cai_conformance.diagnosis import Diagnosis
from cai_conformance.explaining.tolerances import floor_of, relative_floor
from cai_conformance.faults import FAULTS, Fault, Place
from cai_conformance.judges.evidence import Evidence
from cai_conformance.trace.records import Record
from cai_conformance.vectors import Answer, VectorCase
from cai_conformance.verdicts import Verdict
from cai_reference.arithmetic import FAST
from cai_reference.errors import CaiReferenceError

MOST: Final = 3
"""How many mistakes are named."""


def explain_answers(evidence: Evidence, failed: Sequence[Verdict]) -> Diagnosis:
    """Name the mistakes that reproduce all answers of the backend, those that failed first.

    Raises:
        BackendError, TraceError: the backend failed when it was asked again.
    """
    given = evidence.question.given
    assert given is not None
    names = {verdict.check for verdict in failed}
    answers = [(case, evidence.edges.find("SAMPLE", case=case.identifier)) for case in evidence.question.vectors.cases]
    known = [(case, answer) for case, answer in answers if answer is not None and case.operation in OPERATIONS]
    suite = evidence.question.request.suite
    wrong = [pair for pair in known if f"{suite}::{pair[0].check}[{pair[0].case}]" in names]
    if not wrong:
        return Diagnosis()
    setting = DecoderSetting(given.phase, given.sizes, FAST, given.weights)
    relative = relative_floor(floor_of(evidence))
    rest = [pair for pair in known if pair not in wrong]
    fits: list[Fault] = []
    for fault in FAULTS:
        if fault.places != frozenset({Place.TRAINING}) and _gives(fault, [*wrong, *rest], setting, relative):
            fits.append(fault)
        if len(fits) == MOST:
            break
    if not fits:
        return Diagnosis()
    cases = len(wrong)
    lines = tuple(
        f"fits: {fault.title} ({fault.slug}): gives the backend's answers, {cases} wrong ones among {len(known)}"
        for fault in fits
    )
    token = next((found for verdict in failed for found in verdict.differences if found.field == "ids"), None)
    known_token = token is not None and token.index is not None and token.expected.isdecimal()
    return Diagnosis(
        lines,
        stage=f"choice of tokens in {token.record}" if token is not None else "",
        index=(token.index,) if token is not None and token.index is not None else (),
        expected=float(token.expected) if token is not None and known_token else None,
        found=float(token.found) if token is not None and known_token and token.found.isdecimal() else None,
        origin="added" if token is not None else "",
        conventions=tuple(fault.slug for fault in fits),
        titles=tuple(fault.title for fault in fits),
    )


def _gives(
    fault: Fault, answers: Sequence[tuple[VectorCase, Record]], setting: DecoderSetting, relative: float
) -> bool:
    with fault.planted():
        for case, found in answers:
            try:
                made = reference_answer(case, setting)
            except (CaiReferenceError, ArithmeticError, ValueError, IndexError):
                return False
            if not _equal(made, found, relative):
                return False
    return True


def _equal(made: Answer, found: Record, relative: float) -> bool:
    if made.ids is not None:
        return found.has("ids") and tuple(found.integers("ids")) == made.ids
    if made.values is not None:
        if not found.has("values"):
            return False
        one, other = np.array(made.values), np.array(found.bits("values"))
        if one.shape != other.shape:
            return False
        return bool(np.all(np.abs(one - other) <= relative * max(1.0, float(np.max(np.abs(one))))))
    return found.has("text") and found.get("text") == made.text
