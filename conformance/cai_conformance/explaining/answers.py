"""Which mistake gives the answers to the vector cases of a decode suite.

This sees what single rows do not: loops, rules for ties, rollbacks.
"""

from __future__ import annotations

from collections.abc import Sequence

from cai_conformance.backends.decoder.edges import OPERATIONS
from cai_conformance.backends.decoder.edges import answer as reference_answer
from cai_conformance.backends.decoder.setting import DecoderSetting
from cai_conformance.diagnosis import Diagnosis
from cai_conformance.explaining.fitting_answers import OF_INFERENCE, fit_lines, fitting_faults, rounding_line
from cai_conformance.explaining.tolerances import floor_of, relative_floor
from cai_conformance.judges.evidence import Evidence
from cai_conformance.vectors import Answer, VectorCase
from cai_conformance.verdicts import Difference, Verdict
from cai_reference.arithmetic import FAST


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

    def answer(case: VectorCase) -> Answer:
        return reference_answer(case, setting)

    rounding = rounding_line(wrong, answer, relative)
    if rounding:
        return Diagnosis((rounding,))
    fits = fitting_faults(wrong, rest, answer, relative, OF_INFERENCE)
    token = next((found for verdict in failed for found in verdict.differences if found.field == "ids"), None)
    if not fits:
        return Diagnosis()
    return _named(Diagnosis(fit_lines(fits, len(wrong), len(known)), conventions=tuple(f.slug for f in fits)), token)


def _named(diagnosis: Diagnosis, token: Difference | None) -> Diagnosis:
    """Add the first token that differs, where one does."""
    if token is None or token.index is None:
        return diagnosis
    return Diagnosis(
        diagnosis.lines,
        f"choice of tokens in {token.record}",
        (token.index,),
        _number(token.expected),
        _number(token.found),
        origin="added",
        conventions=diagnosis.conventions,
    )


def _number(text: str) -> float | None:
    return float(text) if text.isdecimal() else None
