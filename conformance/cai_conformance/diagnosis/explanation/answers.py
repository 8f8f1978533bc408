"""Which mistake gives the answers to the vector cases of a decode suite.

This sees what single rows do not: loops, rules for ties, rollbacks.

Which seeded faults, planted into the reference, give the very answers that a backend gave.

Why a case of the n-gram suite is wrong: its operations are units, so that each check is explained by itself.

Of an encoded text, the first byte is told at which two splits part, with the pieces on both sides.

Which seeded faults a measured tolerance would let pass: those that move rows, but by less than is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from cai_conformance.backends.engine.given_model import GivenModel
from cai_conformance.backends.reference.decoder_answers import OF_NO_MODEL, OF_THE_MODEL, GivenReference
from cai_conformance.backends.reference.ngram_answers import OPERATIONS, NgramSetting
from cai_conformance.backends.reference.ngram_answers import answer as reference_answer
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.tolerance.distance import distance_between
from cai_conformance.checks.tolerance.floor import NoiseFloor, row_cases
from cai_conformance.checks.tolerance.policy import FACTOR
from cai_conformance.diagnosis.diagnosis import Diagnosis
from cai_conformance.diagnosis.distances import scale_of, ulp_between
from cai_conformance.diagnosis.explanation.inference import floor_of, relative_floor
from cai_conformance.faults.catalogue import GUESSES
from cai_conformance.faults.fault import Fault, Place
from cai_conformance.fixtures.vectors import Answer, VectorCase
from cai_conformance.verdicts import Difference, Verdict
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST, STRICT, named
from cai_reference.errors import CaiReferenceError
from cai_reference.text.tokenizer import CONTENT_OFFSET, BpeTokenizer

MOST: Final = 3
"""How many mistakes are named."""

Answered: TypeAlias = tuple[VectorCase, Answer]
Answerer: TypeAlias = Callable[[VectorCase], Answer]


OF_INFERENCE: Final = tuple(fault for fault in GUESSES if fault.places != frozenset({Place.TRAINING}))
"""What is tried where nothing is trained."""


def fitting_faults(
    wrong: Sequence[Answered],
    rest: Sequence[Answered],
    answer: Answerer,
    relative: float,
    candidates: Sequence[Fault] = GUESSES,
) -> list[Fault]:
    """Return the faults that reproduce all answers; the wrong ones are tried first, because they rule out most.

    Args:
        wrong: cases with answers that are not the right ones.
        rest: cases with right answers, which a fault must leave as they are.
        answer: what the reference answers.
        relative: up to which part of the largest number of an answer its numbers may be off.
        candidates: what is tried, in this order.
    """
    fits: list[Fault] = []
    for fault in candidates:
        if _gives(fault, [*wrong, *rest], answer, relative):
            fits.append(fault)
        if len(fits) == MOST:
            break
    return fits


def rounding_line(wrong: Sequence[Answered], answer: Answerer, relative: float) -> str:
    """Return by how much wrong answers differ from the reference's, where that is rounding; nothing where it is more.

    A fault that leaves these answers as they are would fit such answers as well as any other.

    Args:
        wrong: cases with answers that are not the right ones.
        answer: what the reference answers.
        relative: up to which part of the largest number of an answer a difference is rounding.
    """
    most = 0
    for case, found in wrong:
        made = answer(case)
        if not equal_answers(made, found, relative):
            return ""
        if made.values is not None and found.values is not None:
            pairs = zip(made.values, found.values, strict=True)
            most = max([most, *(ulp_between(one, other, "float64") for one, other in pairs)])
    if not most:
        return ""
    return f"rounding alone, at most {most} ULP: another order of sums, fused products, or other elementary functions"


def fit_lines(fits: Sequence[Fault], wrong: int, known: int) -> tuple[str, ...]:
    """Return a line for each fault."""
    return tuple(
        f"fits: {fault.title} ({fault.slug}): gives the backend's answers, {wrong} wrong ones among {known}"
        for fault in fits
    )


def _gives(fault: Fault, answers: Sequence[Answered], answer: Answerer, relative: float) -> bool:
    with fault.planted():
        for case, found in answers:
            try:
                made = answer(case)
            except (CaiReferenceError, ArithmeticError, ValueError, IndexError):
                return False
            if not equal_answers(made, found, relative):
                return False
    return True


def equal_answers(made: Answer, found: Answer, relative: float) -> bool:
    """Tell whether an answer gives what was made, of which one field is filled."""
    if made.ids is not None:
        return found.ids == made.ids
    if made.values is not None:
        if found.values is None:
            return False
        one, other = np.array(made.values), np.array(found.values)
        if one.shape != other.shape:
            return False
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        apart = np.abs(one[~same] - other[~same])
        # A NaN is at no distance: it is the same or it is not.
        return bool(np.all(apart <= relative * scale_of(one)))
    return found.text == made.text


def explain_answers(evidence: Evidence, failed: Sequence[Verdict]) -> Diagnosis:
    """Name the mistakes that reproduce all answers of the backend, those that failed first.

    Raises:
        BackendError, TraceError: the backend failed when it was asked again.
    """
    given = evidence.question.given
    assert given is not None
    names = {verdict.check for verdict in failed}
    answers = [(case, evidence.answers.of(case)) for case in evidence.question.vectors.cases]
    operations = {*OF_THE_MODEL, *OF_NO_MODEL}
    known = [(case, answer) for case, answer in answers if answer is not None and case.operation in operations]
    suite = evidence.question.request.suite
    wrong = [pair for pair in known if f"{suite}::{pair[0].check}[{pair[0].case}]" in names]
    if not wrong:
        return Diagnosis()
    reference, relative = GivenReference(given, FAST), relative_floor(floor_of(evidence))
    rest = [pair for pair in known if pair not in wrong]
    rounding = rounding_line(wrong, reference.answer, relative)
    if rounding:
        return Diagnosis((rounding,))
    fits = fitting_faults(wrong, rest, reference.answer, relative, OF_INFERENCE)
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
        answer = evidence.answers.of(case)
        if answer is not None and case.operation in OPERATIONS:
            answered.append((case, answer))
    wrong = [pair for pair in answered if f"{suite}::{pair[0].check}[{pair[0].case}]" in names]
    if not wrong:
        return Diagnosis()
    operations = {case.operation for case, _ in wrong}
    rest = [pair for pair in answered if pair not in wrong and pair[0].operation in operations]

    def answered_by_reference(case: VectorCase) -> Answer:
        # By its name, so that mistakes of the arithmetic itself are tried, too.
        return reference_answer(case, NgramSetting(named(STRICT.identifier), evidence.question.request.weights))

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
    if case.expected is None or case.expected.ids is None or found.ids is None:
        return ""
    pairs = case.input["pairs"]
    assert isinstance(pairs, list)
    tokenizer = BpeTokenizer([(int(str(pair[0])), int(str(pair[1]))) for pair in pairs if isinstance(pair, list)])
    right, other = (_pieces(tokenizer, ids) for ids in (case.expected.ids, found.ids))
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


NOTICEABLE: Final = 1e-10
"""Logits that move by less have only been rounded in another way."""


def invisible_faults(given: GivenModel, cases: tuple[VectorCase, ...], floor: NoiseFloor) -> tuple[str, ...]:
    """Return the faults of the forward pass and of sessions that move a row, and none beyond what is allowed.

    Nobody else may use the reference in this process meanwhile.
    """
    reference = GivenReference(given, FAST)
    asked = tuple(row_cases(cases))
    right = {case.identifier: _row(case, reference) for case in asked}
    hidden: list[str] = []
    for fault in GUESSES:
        if not fault.places & {Place.BATCH, Place.SESSION}:
            continue
        moved, seen = False, False
        with fault.planted():
            for case in asked:
                try:
                    row = _row(case, reference)
                except (CaiReferenceError, ArithmeticError, ValueError, IndexError):
                    seen = True
                    break
                distance = distance_between(right[case.identifier], row, floor.precision)
                moved = moved or distance.absolute > NOTICEABLE
                seen = seen or distance.ulps > FACTOR * floor.level(case).ulps
                if seen:
                    break
        if moved and not seen:
            hidden.append(fault.slug)
    return tuple(hidden)


def _row(case: VectorCase, reference: GivenReference) -> Array:
    return np.array(reference.answer(case).values)
