"""How far a token is felt: which rows move when one token is exchanged, and how far windows reach.

On vector cases no row may move that the reference does not move; a row that the reference moves by less than rounding
hides may stay. On an engine the reach is measured: a token reaches window − 1 places behind it in each layer, so that
the last row that a change of the first token moves stands at the sum of that over all layers.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cai_conformance.backends.engine.given_model import GivenModel
from cai_conformance.backends.engine.session import EngineSession, full_logits
from cai_conformance.checks.finding import Finding, counted
from cai_conformance.checks.probe.driven import fed_by
from cai_conformance.checks.probe.probe import Probe
from cai_conformance.checks.probe.self_check import self_check
from cai_conformance.checks.tolerance.distance import distance_between
from cai_conformance.checks.tolerance.floor import NoiseFloor
from cai_conformance.checks.tolerance.policy import Policy
from cai_conformance.checks.tolerance.rows import allowed_ulps
from cai_conformance.checks.witness import Witness
from cai_conformance.engine import Nondeterminism
from cai_conformance.fixtures.vectors import Answer, VectorCase
from cai_conformance.trace.format import format_integers
from cai_conformance.verdicts import Difference, Level, Problem
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.autograd import Tape

OPERATION: Final = "decoder.moved"


def judge_moved(case: VectorCase, answer: Answer, given: GivenModel, policy: Policy, floor: NoiseFloor) -> Finding:
    """Compare the places that moved with those that had to."""
    assert case.expected is not None and case.expected.ids is not None
    right, found = set(case.expected.ids), set(answer.ids or ())
    hidden = _hidden(case, given, right, allowed_ulps(policy, floor.near), floor.precision) if found < right else set()
    if found - right or right - found - hidden:
        texts = format_integers(sorted(right)), format_integers(sorted(found))
        difference = Difference(Problem.VALUE, case.label, "ids", None, *texts)
        return Finding.failed(f"{difference}. Typical cause: {case.sees}", (difference,), case=case.case)
    if right == found:
        return Finding.passed("the one right answer", case=case.case)
    rows = counted(len(right - found), "row")
    return Finding.passed(f"{rows} stayed that the reference moves by less than rounding hides", case=case.case)


def _hidden(case: VectorCase, given: GivenModel, right: set[int], allowed: float, precision: str) -> set[int]:
    ids, place, other = case.input["ids"], case.input["place"], case.input["other"]
    assert isinstance(ids, list) and isinstance(place, int) and isinstance(other, int)
    tokens = [int(str(token)) for token in ids]
    rows, moved = (
        _reference_rows(given, sequence) for sequence in (tokens, [*tokens[:place], other, *tokens[place + 1 :]])
    )
    return {index for index in right if distance_between(rows[index], moved[index], precision).ulps <= allowed}


def _reference_rows(given: GivenModel, ids: list[int]) -> Array:
    return np.asarray(given.model.forward(Tape(STRICT, recording=False), ids, batch=1)[0].value[0])


CASES: Final = ("full", "cached")
MOVED: Final = Witness("row that moves", "rows that move")
STAYED: Final = Witness("row behind that stays", "rows behind that stay")
LONGEST: Final = 512
"""A longer sequence is not evaluated for this."""
SEED: Final = 404
BEYOND: Final = 3
"""How many rows are looked at behind the last one that may move."""
TRIES: Final = 3
"""How many other first tokens are tried: in few bits, a small influence is rounded away now and then."""


@self_check(
    "kv.window",
    Level.I2,
    "the first token is felt exactly as far as the windows of all layers reach",
    "Measured by exchanging it: the last row that moves stands at the sum of window − 1 over the layers. A layer "
    "without a window would hide all of it, so such a model is not asked.",
    cases=CASES,
    witnesses=(MOVED, STAYED),
    catches="window.*",
)
def judge_window(probe: Probe) -> tuple[Finding, ...]:
    """Exchange the first token, and look at which rows move, in one call and in several."""
    reason = _why_not(probe)
    if reason:
        return (Finding.skipped(reason),)
    reach = probe.facts.reach
    assert reach is not None
    ids = probe.drawn(SEED, reach + 1 + BEYOND)
    return tuple(_finding(probe, ids, reach, case) for case in CASES)


def _why_not(probe: Probe) -> str:
    facts = probe.facts
    if not facts.windows:
        return "which layers have a window is not known"
    if facts.window is None:
        return "no layer has a window"
    if facts.reach is None:
        return "a layer that sees everything hides what another one lets go of"
    most = min(limit for limit in (LONGEST, probe.capacity, facts.positions) if limit is not None)
    if facts.reach + 1 + BEYOND > most:
        return f"the first token is felt up to {facts.reach} places behind it, and {most} tokens are evaluated at most"
    if probe.description.nondeterminism is Nondeterminism.RUN:
        return "the engine's bits depend on chance, so that every row moves"
    return ""


def _finding(probe: Probe, ids: tuple[int, ...], reach: int, case: str) -> Finding:
    rows = _rows(probe, ids, case)
    furthest = -1
    moved: list[int] = []
    for attempt in range(1, TRIES + 1):
        other = (ids[0] + attempt * (probe.vocabulary // (TRIES + 1))) % probe.vocabulary
        others = _rows(probe, (other, *ids[1:]), case)
        moved = [place for place in range(len(ids)) if rows[:, place].tobytes() != others[:, place].tobytes()]
        furthest = max([furthest, *moved])
        if furthest >= reach:
            break
    layers, window = probe.facts.layers, probe.facts.window
    text = (
        f"another first token moves rows up to {furthest}; windows of {window} in {layers} layers reach up to {reach}"
    )
    if furthest == reach:
        stayed = len(ids) - reach - 1
        met = [MOVED.met(len(moved)), STAYED.met(stayed)]
        return Finding.passed(f"{text}; {stayed} rows behind stay in every bit", case, met)
    wrong = f"{text}: a window is {'longer' if furthest > reach else 'shorter'}, or rows are kept or lost"
    return Finding.failed(wrong, case=case)


def _rows(probe: Probe, ids: tuple[int, ...], case: str) -> Array:
    if case == "full":
        return full_logits(probe.engine, ids)
    # The first token and the last that it reaches stand alone in their calls.
    end = len(ids) - BEYOND
    return fed_by(EngineSession(probe.engine), ids, sorted({1, end - 1, end}))
