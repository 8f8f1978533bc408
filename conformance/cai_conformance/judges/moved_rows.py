"""The judge of which rows move when one token is exchanged, where bits are not defined.

No row may move that the reference does not move. A row that the reference moves by less than rounding hides may stay.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cai_conformance.engines.given_model import GivenModel
from cai_conformance.judges.finding import Finding, counted
from cai_conformance.judges.measured_rows import allowed_ulps
from cai_conformance.measuring.distances import distance_between
from cai_conformance.measuring.floor import NoiseFloor
from cai_conformance.measuring.policy import Policy
from cai_conformance.trace.formatting import format_integers
from cai_conformance.trace.records import Record
from cai_conformance.vectors import VectorCase
from cai_conformance.verdicts import Difference, Problem
from cai_reference.arithmetic import STRICT, Array
from cai_reference.autograd import Tape

OPERATION: Final = "decoder.moved"


def judge_moved(case: VectorCase, answer: Record, given: GivenModel, policy: Policy, floor: NoiseFloor) -> Finding:
    """Compare the places that moved with those that had to."""
    assert case.expected is not None and case.expected.ids is not None
    right, found = set(case.expected.ids), set(answer.integers("ids") if answer.has("ids") else ())
    hidden = _hidden(case, given, right, allowed_ulps(policy, floor.near), floor.precision) if found < right else set()
    if found - right or right - found - hidden:
        texts = format_integers(sorted(right)), format_integers(sorted(found))
        difference = Difference(Problem.VALUE, answer.label, "ids", None, *texts)
        return Finding.failed(f"{difference}. Typical cause: {case.sees}", (difference,), case=case.case)
    if right == found:
        return Finding.passed("the one right answer", case=case.case)
    rows = counted(len(right - found), "row")
    return Finding.passed(f"{rows} stayed that the reference moves by less than rounding hides", case=case.case)


def _hidden(case: VectorCase, given: GivenModel, right: set[int], allowed: float, precision: str) -> set[int]:
    ids, place, other = case.input["ids"], case.input["place"], case.input["other"]
    assert isinstance(ids, list) and isinstance(place, int) and isinstance(other, int)
    tokens = [int(str(token)) for token in ids]
    rows, moved = (_rows(given, sequence) for sequence in (tokens, [*tokens[:place], other, *tokens[place + 1 :]]))
    return {index for index in right if distance_between(rows[index], moved[index], precision).ulps <= allowed}


def _rows(given: GivenModel, ids: list[int]) -> Array:
    return np.asarray(given.model.forward(Tape(STRICT, recording=False), ids, batch=1)[0].value[0])
