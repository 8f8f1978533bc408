"""Looking for a case that fails: the checks of a suite's given model, in their order, up to the first failure.

From a case that fails to a smallest one, and what is to be said about both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from cai_conformance.checks.finding import counted
from cai_conformance.checks.probe.probe import FAR_START
from cai_conformance.run.probe.batches import BATCH_CHECKS, Batches
from cai_conformance.run.probe.judged import CheckedFolder, Judged, ProbeWay
from cai_conformance.run.probe.sequences import SEQUENCE_CHECKS, Against, SequenceCheck
from cai_conformance.run.shrink.models import SmallModel
from cai_conformance.run.shrink.reducers import reducers_for
from cai_conformance.run.shrink.search import AnyCheck, Asked, Case, ModelCheck, Shrunk, shrink
from cai_conformance.run.shrink.trial import MOST_CRASHES, SameFailure, Trials
from cai_conformance.suites.probe import SELF_CHECKS
from cai_conformance.verdicts import Outcome

TOKENS: Final = 24
"""How many tokens the first sequence has: more than all windows of a suite's model reach."""
STARTS: Final = (0, 1, 5, FAR_START)
LENGTHS: Final = ((6, 4, 5), (5, 3, 6), (4, 6, 3))
"""How many ids the rows of the first batches have."""
BATCH_SEED: Final = 405
OF_SEQUENCES: Final = frozenset({check.name for check in SEQUENCE_CHECKS})


@dataclass(frozen=True)
class Found:
    """A case that fails.

    Attributes:
        check: which fails.
        case: the model of the suite, and what was asked.
        judged: what was said.
    """

    check: AnyCheck
    case: Case
    judged: Judged


@dataclass(frozen=True)
class Look:
    """What a look at a suite's model found.

    Attributes:
        found: what fails first; None where nothing does.
        passed: how many checks passed.
        reasons: why others could not be judged.
    """

    found: Found | None
    passed: int
    reasons: tuple[str, ...]


def checks_of() -> tuple[AnyCheck, ...]:
    """Return all checks, in the order in which they are looked at: those that can be shrunk furthest first."""
    own = (
        ModelCheck(check, case)
        for check in SELF_CHECKS
        if check.name not in OF_SEQUENCES
        for case in check.cases or ("",)
    )
    return (*SEQUENCE_CHECKS, *BATCH_CHECKS, *own)


def identifiers_of(suite: str) -> tuple[str, ...]:
    """Return the full id of each check, in their order."""
    return tuple(f"{suite}::{check.identifier}" for check in checks_of())


def look(trials: Trials, model: SmallModel, suite: str, selected: Callable[[str], bool]) -> Look:
    """Ask the selected checks about a suite's model, up to the first that fails; a crash counts if nothing else does.

    Raises:
        EngineError: the engine cannot be started, or does not load the model.
    """
    passed = 0
    crashed: Found | None = None
    reasons: list[str] = []
    for check in checks_of():
        if not selected(f"{suite}::{check.identifier}"):
            continue
        outcomes: set[Outcome] = set()
        for asked in _asked(check, trials, model):
            case = Case(model, asked)
            judged = trials.judged(check, case)
            if judged.fails and judged.way is not ProbeWay.CRASH:
                # What fails only behind other questions could not be replayed.
                trials.afresh()
                judged = trials.judged(check, case)
            if judged.fails and judged.way is not ProbeWay.CRASH:
                return Look(Found(check, case, judged), passed, tuple(reasons))
            if judged.fails:
                crashed = crashed or Found(check, case, judged)
                break
            outcomes.add(judged.outcome)
            if judged.outcome is not Outcome.PASS:
                reasons.append(judged.message)
        passed += Outcome.PASS in outcomes
    return Look(crashed, passed, tuple(dict.fromkeys(reasons)))


def _asked(check: AnyCheck, trials: Trials, model: SmallModel) -> Iterator[Asked]:
    """Yield what a check is asked about the suite's model."""
    if isinstance(check, ModelCheck):
        yield None
        return
    folder: CheckedFolder = trials.folder(model)
    if isinstance(check, SequenceCheck):
        probe = folder.probe
        for start in STARTS if check.against is not Against.WHOLE else STARTS[:1]:
            yield from check.asked(probe.ids[:TOKENS], start, probe.vocabulary)
        return
    yield _first_batches(folder, steps=len(LENGTHS) if check.later else 1)


def _first_batches(folder: CheckedFolder, steps: int) -> Batches:
    """Return ragged rows, each of which begins with id 0 and ends with an id that it had before."""
    seed = BATCH_SEED
    batches: list[tuple[tuple[int, ...], ...]] = []
    for lengths in LENGTHS[:steps]:
        rows: list[tuple[int, ...]] = []
        for length in lengths:
            drawn = folder.probe.drawn(seed, length - 1)
            rows.append((*drawn, drawn[1]))
            seed += 1
        batches.append(tuple(rows))
    return Batches(tuple(batches))


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
        last_judged: what was said about the smallest.
        trials: how many cases were tried.
        finished: whether nothing smaller was left to be tried.
        only_own: why no other model than the suite's was tried; empty where others were.
        notes: what else is to be said.
    """

    suite: str
    check: AnyCheck
    first: Case
    last: Case
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
    if way is not ProbeWay.CRASH and trials.crashes >= MOST_CRASHES:
        notes.append(f"the engine crashed on {MOST_CRASHES} smaller cases, so that no more were tried")
    elif not shrunk.finished:
        notes.append(f"{most} cases were tried, and no more; --trials allows others")
    if not last.fails:
        notes.append("asked once more, the smallest case did not fail: chance, or what was asked before, decides")
    if shrunk.case.model.seed is None and not only_own:
        notes.append("on drawn weights the failure does not show, so the suite's own model was kept")
    return Smallest(suite, check, found.case, shrunk.case, last, shrunk.trials, shrunk.finished, only_own, tuple(notes))


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
