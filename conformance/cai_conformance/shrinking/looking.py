"""Looking for a case that fails: the checks of a suite's given model, in their order, up to the first failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from cai_conformance.probing.batches import BATCH_CHECKS, Batches
from cai_conformance.probing.judged import CheckedFolder, Judged, Way
from cai_conformance.probing.sequences import SEQUENCE_CHECKS, SequenceCheck
from cai_conformance.probing.starts import FAR_START
from cai_conformance.shrinking.cases import AnyCheck, Asked, Case, ModelCheck
from cai_conformance.shrinking.small_models import SmallModel
from cai_conformance.shrinking.trying import Trials
from cai_conformance.suites.decoder.engine_checks import SELF_CHECKS
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
            if judged.fails and judged.way is not Way.CRASH:
                # What fails only behind other questions could not be replayed.
                trials.afresh()
                judged = trials.judged(check, case)
            if judged.fails and judged.way is not Way.CRASH:
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
        for start in STARTS if check.name in ("fwd.oracle", "rope.shift") else STARTS[:1]:
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
