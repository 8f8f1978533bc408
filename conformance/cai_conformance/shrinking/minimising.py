"""From a case that fails to a smallest one, and what is to be said about both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cai_conformance.judges.finding import counted
from cai_conformance.probing.judged import Judged, Way
from cai_conformance.shrinking.cases import AnyCheck, Case
from cai_conformance.shrinking.looking import Found
from cai_conformance.shrinking.reducers import reducers_for
from cai_conformance.shrinking.search import Shrunk, shrink
from cai_conformance.shrinking.trying import MOST_CRASHES, SameFailure, Trials

MOST_TRIALS: Final = 600
"""How many cases are tried, if nobody says."""

Told = Callable[[str], None]
"""Hears of each case that is tried."""


@dataclass(frozen=True)
class Smallest:
    """A smallest case that fails, beside the first one.

    Attributes:
        suite: whose model failed.
        check: which.
        first, last: both cases.
        first_judged, last_judged: what was said about them.
        trials: how many cases were tried.
        finished: whether nothing smaller was left to be tried.
        only_own: why no other model than the suite's was tried; empty where others were.
        notes: what else is to be said.
    """

    suite: str
    check: AnyCheck
    first: Case
    last: Case
    first_judged: Judged
    last_judged: Judged
    trials: int
    finished: bool
    only_own: str = ""
    notes: tuple[str, ...] = ()


def smallest(found: Found, suite: str, trials: Trials, most: int = MOST_TRIALS, told: Told | None = None) -> Smallest:
    """Make a case that fails as small as it gets.

    Args:
        found: the case.
        suite: whose model it has.
        trials: where cases are tried.
        most: how many are tried at most.
        told: hears of each.

    Raises:
        EngineError: the engine cannot be started again.
    """
    shrunk, last = _shrunk(found, trials, most, told, afresh=False)
    if not last.fails:
        # Engines remember what they should not: some case failed because of the one before.
        shrunk, last = _shrunk(found, trials, most, told, afresh=True)
    check, way = found.check, found.judged.way
    only_own = trials.unloadable if trials.unloaded and not trials.loaded else ""
    notes: list[str] = []
    if way is not Way.CRASH and trials.crashes >= MOST_CRASHES:
        notes.append(f"the engine crashed on {MOST_CRASHES} smaller cases, so that no more were tried")
    elif not shrunk.finished:
        notes.append(f"{most} cases were tried, and no more; --trials allows others")
    if not last.fails:
        notes.append("asked once more, the smallest case did not fail: chance, or what was asked before, decides")
    if shrunk.case.model.seed is None and not only_own:
        notes.append("on drawn weights the failure does not show, so the suite's own model was kept")
    return Smallest(
        suite,
        check,
        found.case,
        shrunk.case,
        found.judged,
        last,
        shrunk.trials,
        shrunk.finished,
        only_own,
        tuple(notes),
    )


def _shrunk(found: Found, trials: Trials, most: int, told: Told | None, *, afresh: bool) -> tuple[Shrunk[Case], Judged]:
    """Return a smallest case, and what an engine that has seen nothing else says about it."""
    check, way = found.check, found.judged.way
    telling = SameFailure(trials, check, way, afresh=afresh)
    if not telling(found.case):
        # It fails by little, and so may smaller ones.
        telling = SameFailure(trials, check, way, clearly=False, afresh=afresh)

    def fails(case: Case, /) -> bool:
        still = telling(case)
        if told is not None:
            told(_seen(case))
        return still

    shrunk = shrink(found.case, reducers_for(check, models=True), fails, most)
    trials.afresh()
    return shrunk, trials.judged(check, shrunk.case)


def _seen(case: Case) -> str:
    """Say how large a case is, in a few words."""
    layers = f"{counted(case.model.layers, 'layer')} of width {case.model.configuration.width}"
    return layers if case.asked is None else f"{layers}, {counted(len(case.ids), 'id')}"
