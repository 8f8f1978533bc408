"""The judges of disturbances: memory that nobody owns is filled, and calls fail in their middle; nothing may change."""

from __future__ import annotations

import math
from typing import Final

from cai_conformance.backends.engine.features import dropping, failing, poisonable
from cai_conformance.backends.engine.session import EngineSession
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.kv_cache import going_on
from cai_conformance.checks.probe.driven import fed, fed_by
from cai_conformance.checks.probe.probe import Probe
from cai_conformance.checks.probe.self_check import self_check
from cai_conformance.checks.rows import ROWS, RowComparison, concluded, repeated
from cai_conformance.checks.witness import Witness
from cai_conformance.engine import Refused
from cai_conformance.verdicts import Level
from cai_reference.arithmetic import Array

POISONS: Final = (0.0, math.nan, 60000.0)
"""What memory is filled with; the largest fits into a float16."""
FILLED: Final = Witness("poison", "poisons")
CUTS: Final = Witness("cut", "cuts", least=0)
FAILURES: Final = Witness("failed call", "failed calls", least=5)
FIRST, SECOND, LENGTH = 4, 7, 10
"""Where a sequence is cut into three calls, and how long it is."""
NO_POISON: Final = "the engine has no feature poison"
NO_FAILURE: Final = "the engine has no feature fail-after"


@self_check(
    "kv.poison",
    Level.I2,
    "what lies in memory that no position owns does not matter",
    "It is filled with zeros, NaN and large numbers before and within a sequence, and after a cut.",
    witnesses=(ROWS, FILLED),
)
@going_on
def judge_poison(probe: Probe) -> tuple[Finding, ...]:
    """Fill unowned memory before a sequence, within it, and after a cut."""
    poisoner = poisonable(probe.engine)
    if poisoner is None:
        return (Finding.skipped(NO_POISON),)
    comparison, right = RowComparison(repeated(probe)), _undisturbed(probe)
    cuts = 0
    for value in POISONS:
        poisoner.poison(value)
        session = EngineSession(probe.engine)
        poisoner.poison(value)
        for first, last in ((0, FIRST), (FIRST, SECOND)):
            rows = fed(session, probe.ids[first:last])
            comparison.compare(right[:, first:last], rows, f"memory full of {value:g}, tokens {first} to {last - 1}")
            poisoner.poison(value)
        session, cut = _cut_back(probe, session)
        cuts += cut
        poisoner.poison(value)
        rows = fed(session, probe.ids[SECOND:LENGTH])
        comparison.compare(right[:, SECOND:], rows, f"memory full of {value:g}, tokens {SECOND} to {LENGTH - 1}")
        probe.engine.clear(0)
    # The memory is left as it was found by whoever comes next.
    poisoner.poison(0.0)
    return (concluded(comparison, [FILLED.met(len(POISONS)), CUTS.met(cuts)]),)


@self_check(
    "kv.fail",
    Level.I2,
    "a call that fails in its middle leaves the slot as it was",
    "It fails twice in front of each of three calls, at different depths; then the slot goes on.",
    witnesses=(ROWS, FAILURES),
)
@going_on
def judge_failure(probe: Probe) -> tuple[Finding, ...]:
    """Let calls fail in their middle, twice, and go on."""
    failer = failing(probe.engine)
    if failer is None:
        return (Finding.skipped(NO_FAILURE),)
    comparison, right = RowComparison(repeated(probe)), _undisturbed(probe)
    session = EngineSession(probe.engine)
    met = 0
    for first, last in ((0, FIRST), (FIRST, SECOND), (SECOND, LENGTH)):
        for blocks in (1, 0) if first else (0,):
            failer.fail_after(blocks)
            met += _failed(session, probe.others(first, 2))
        rows = fed(session, probe.ids[first:last])
        comparison.compare(right[:, first:last], rows, f"after calls that failed, tokens {first} to {last - 1}")
    probe.engine.clear(0)
    if met < FAILURES.least:
        return (Finding.failed(f"of {FAILURES.least} calls that were told to fail, {met} failed"),)
    return (concluded(comparison, [FAILURES.met(met)]),)


def _undisturbed(probe: Probe) -> Array:
    return fed_by(EngineSession(probe.engine), probe.ids[:LENGTH], (FIRST, SECOND))


def _cut_back(probe: Probe, session: EngineSession) -> tuple[EngineSession, int]:
    """Feed other tokens and drop them, so that there are rows which were owned once."""
    if dropping(probe.engine) is None:
        return session, 0
    length = session.length
    fed(session, probe.others(length, 2))
    try:
        session.truncate(length)
    except Refused:
        # They are still there, so the sequence is built anew.
        fresh = EngineSession(probe.engine)
        fed_by(fresh, probe.ids[:length], (FIRST,))
        return fresh, 0
    return session, 1


def _failed(session: EngineSession, ids: tuple[int, ...]) -> int:
    try:
        session.feed(ids)
    except Refused:
        return 1
    return 0
