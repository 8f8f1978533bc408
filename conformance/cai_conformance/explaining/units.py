"""Why a case of the n-gram suite is wrong: its operations are units, so that each check is explained by itself.

Of an encoded text, the first byte is told at which two splits part, with the pieces on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cai_conformance.backends.ngram.edges import OPERATIONS, Setting
from cai_conformance.backends.ngram.edges import answer as reference_answer
from cai_conformance.diagnosis import Diagnosis
from cai_conformance.explaining.fitting_answers import Answered, fit_lines, fitting_faults, rounding_line
from cai_conformance.judges.evidence import Evidence
from cai_conformance.vectors import Answer, VectorCase
from cai_conformance.verdicts import Verdict
from cai_reference.arithmetic import STRICT, named
from cai_reference.text import BpeTokenizer
from cai_reference.text.tokenizer import CONTENT_OFFSET

ENCODING: Final = "bpe.encode"
RELATIVE: Final = 1e-12
"""Between arithmetics, in proportion to the largest number of an answer."""


def explain_unit(evidence: Evidence, failed: Sequence[Verdict]) -> Diagnosis:
    """Explain the failed cases of one check.

    Raises:
        BackendError, TraceError: the backend failed when it was asked again.
    """
    suite, names = evidence.question.request.suite, {verdict.check for verdict in failed}
    answered: list[Answered] = []
    for case in evidence.question.vectors.cases:
        answer = evidence.edges.find("SAMPLE", case=case.identifier)
        if answer is not None and case.operation in OPERATIONS:
            answered.append((case, answer))
    wrong = [pair for pair in answered if f"{suite}::{pair[0].check}[{pair[0].case}]" in names]
    if not wrong:
        return Diagnosis()
    operations = {case.operation for case, _ in wrong}
    rest = [pair for pair in answered if pair not in wrong and pair[0].operation in operations]

    def answered_by_reference(case: VectorCase) -> Answer:
        # By its name, so that mistakes of the arithmetic itself are tried, too.
        return reference_answer(case, Setting(named(STRICT.identifier), evidence.question.request.weights))

    rounding = rounding_line(wrong, answered_by_reference, RELATIVE)
    # What differs by rounding is told by its bits alone.
    fits = fitting_faults(wrong, rest, answered_by_reference, 0.0 if rounding else RELATIVE)
    split = _split_line(wrong[0]) if wrong[0][0].operation == ENCODING else ""
    first = [line for line in (split, rounding) if line]
    return Diagnosis(
        (*first, *fit_lines(fits, len(wrong), len(wrong) + len(rest))), conventions=tuple(fault.slug for fault in fits)
    )


def _split_line(answered: Answered) -> str:
    """Return where two splits of a text part, in bytes."""
    case, found = answered
    if case.expected is None or case.expected.ids is None or not found.has("ids"):
        return ""
    pairs = case.input["pairs"]
    assert isinstance(pairs, list)
    tokenizer = BpeTokenizer([(int(str(pair[0])), int(str(pair[1]))) for pair in pairs if isinstance(pair, list)])
    right, other = (_pieces(tokenizer, ids) for ids in (case.expected.ids, found.integers("ids")))
    offset = 0
    for one, two in zip(right, other, strict=False):
        if one != two:
            break
        offset += len(one)
    return f"the splits part at byte {offset}: right {_shown(right)}, found {_shown(other)}"


def _pieces(tokenizer: BpeTokenizer, ids: Sequence[int]) -> list[bytes]:
    known = range(CONTENT_OFFSET, tokenizer.vocabulary_size)
    return [tokenizer.decode_content([token]) if token in known else b"?" for token in ids]


def _shown(pieces: Sequence[bytes]) -> str:
    return " | ".join(piece.decode("utf-8", "backslashreplace") for piece in pieces)
