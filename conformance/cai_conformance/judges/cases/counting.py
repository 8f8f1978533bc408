"""What a vector case makes a backend meet: the counter of its operation, and of its answer alone."""

from __future__ import annotations

from typing import Final

from cai_conformance.judges.cases import decoders, ngrams, sampling, special_texts, texts
from cai_conformance.judges.cases.answers import COMPARED, Counter, length_of
from cai_conformance.judges.cases.decoders import TIED_CHOICES, tied_ids
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.witness import Met
from cai_conformance.vectors import VectorCase

COUNTERS: Final[dict[str, Counter]] = {
    **texts.COUNTERS,
    **special_texts.COUNTERS,
    **ngrams.COUNTERS,
    **decoders.COUNTERS,
    **sampling.COUNTERS,
}


def met_in(case: VectorCase, evidence: Evidence) -> tuple[Met, ...]:
    """Return what a backend met that gave the right answer to a case."""
    answer = case.expected
    assert answer is not None
    met = [COMPARED.met(length_of(answer))]
    if case.operation in COUNTERS:
        met += COUNTERS[case.operation](case.input, answer)
    given = evidence.question.given
    if case.input.get("tied") is True and given is not None:
        tied = evidence.remembered("tied ids", lambda: tied_ids(given))
        met.append(TIED_CHOICES.met(sum(token in tied for token in answer.ids or ())))
    return tuple(met)
