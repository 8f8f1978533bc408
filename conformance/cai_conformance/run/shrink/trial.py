"""The engine that cases are tried on. One that broke is started again: a later case is none of its business.

Trying cases: the folder of a model is written and loaded, and the check that failed is asked about it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Final

from cai_conformance.backends.engine.backend import EngineBackend
from cai_conformance.backends.engine.given_model import GivenModel, folder_of
from cai_conformance.backends.protocol import Backend
from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.backends.reference.engine import ReferenceEngine
from cai_conformance.checks.tolerance.policy import Policy
from cai_conformance.engine import EngineError
from cai_conformance.errors import SelectionError
from cai_conformance.faults.catalogue import fault_named
from cai_conformance.faults.fault import HeldFault
from cai_conformance.faults.planted import WrongEngine
from cai_conformance.run.probe.batches import BatchCheck, Batches, judge_batches
from cai_conformance.run.probe.calls import Calls
from cai_conformance.run.probe.judged import CheckedFolder, Judged, ProbeWay
from cai_conformance.run.probe.runner import NAME, probe_of_folder, probed_verdicts
from cai_conformance.run.probe.sequences import SequenceCheck, judge_sequence
from cai_conformance.run.shrink.models import SmallModel
from cai_conformance.run.shrink.search import AnyCheck, Case, ModelCheck
from cai_conformance.suites.probe import SELF_CHECKS
from cai_conformance.verdicts import Outcome
from cai_reference.arithmetic.instances import named
from cai_reference.errors import CaiReferenceError

FAULT: Final = "fault:"
"""What stands before the slug of a seeded fault, in the place of a backend."""
SLACK: Final = 4
"""How far windowed and recurrent layers of a wrong reference can be cut back."""


def driver_of(backend: Backend, arithmetic: str | None = None) -> EngineBackend:
    """Return what hands out the engine of a backend, and another one after it was closed.

    Args:
        backend: an engine's, or the reference.
        arithmetic: of the reference; `strict/1` if None.

    Raises:
        SelectionError (not-driven): the backend prints traces.
        ArithmeticFault (unknown-arithmetic): the arithmetic has another name.
    """
    if isinstance(backend, EngineBackend):
        return backend
    if isinstance(backend, ReferenceBackend):
        computing = named(arithmetic or "strict/1")
        return EngineBackend(backend.name, lambda: ReferenceEngine(computing))
    raise SelectionError("not-driven", backend=backend.name)


def wrong_backend(slug: str, arithmetic: str | None = None) -> EngineBackend:
    """Return the reference with a seeded fault, as the backend of an engine.

    Raises:
        FaultError (unknown-fault): there is none of this slug.
        ArithmeticFault (unknown-arithmetic): the arithmetic has another name.
    """
    fault, computing = fault_named(slug), named(arithmetic or "strict/1")
    # Each engine has a fault of its own: what one remembers, another one has not seen.
    return EngineBackend(f"{FAULT}{slug}", lambda: WrongEngine(computing, SLACK, HeldFault(fault)))


NOTHING_SHOWN: Final = "this shows nothing"
"""How a failure begins whose check met nothing of what it needs: that is no difference."""
MOST_CRASHES: Final = 12
"""After how many crashes no further case is tried."""


class Trials:
    """Tries cases on one engine, which holds the model of the last one.

    Args:
        driver: hands out the engine.
        given: the model of the suite.
        policy: what may differ.

    Attributes:
        loaded, unloaded: how many drawn models the engine took, and how many it did not.
        unloadable: what it said about the first of these.
        crashes: how many cases crashed it.
    """

    def __init__(self, driver: EngineBackend, given: GivenModel, policy: Policy) -> None:
        self.loaded = self.unloaded = self.crashes = 0
        self.unloadable = ""
        self._driver, self._given, self._policy = driver, given, policy
        self._kept = ExitStack()
        self._model: SmallModel | None = None
        self._folder: CheckedFolder | None = None

    def afresh(self) -> None:
        """Remove what was written, and ask another engine from now on, which has seen nothing."""
        self._leave()
        with suppress(EngineError):
            self._driver.close()

    def judged(self, check: AnyCheck, case: Case, *, clearly: bool = False) -> Judged:
        """Return what a check says about a case; a model that cannot be loaded is skipped.

        Args:
            check: which.
            case: a model, and what is asked.
            clearly: whether a difference has to be far beyond the tolerance.
        """
        try:
            folder = self.folder(case.model)
        except CaiReferenceError as error:
            return Judged.skipped(f"there is no such model: {error}")
        except EngineError as error:
            self.afresh()
            return Judged.skipped(f"it is not loaded: {error}")
        found = _asked(check, case, replace(folder, clearly=clearly))
        if found.way is ProbeWay.CRASH and found.fails:
            self.crashes += 1
            self.afresh()
        return found

    def folder(self, model: SmallModel) -> CheckedFolder:
        """Return the folder of a model, which the engine has loaded.

        Raises:
            CaiReferenceError: there is no such model.
            EngineError: the engine does not load it, or cannot be started.
        """
        if self._folder is None or self._model != model:
            self._leave()
            files = model.files(self._given)
            path = self._kept.enter_context(folder_of(files))
            probe = probe_of_folder(self._driver.engine, path, self._policy)
            try:
                probe.model.load()
            except EngineError as error:
                if model.seed is not None:
                    self.unloaded += 1
                    self.unloadable = self.unloadable or str(error)
                raise
            self.loaded += model.seed is not None
            self._model, self._folder = model, CheckedFolder(probe, path)
        return self._folder

    def _leave(self) -> None:
        self._kept.close()
        self._model = self._folder = None


@contextmanager
def trials_on(driver: EngineBackend, given: GivenModel, policy: Policy) -> Iterator[Trials]:
    """Try cases for a while."""
    trials = Trials(driver, given, policy)
    try:
        yield trials
    finally:
        trials.afresh()


class SameFailure:
    """Tells whether a case fails as the first one did: the same check, in the same way.

    Args:
        trials: where cases are tried.
        check: which failed.
        way: how.
        clearly: whether by far more than the tolerance, so that a fault is not exchanged for rounding.
        afresh: whether each case is asked of an engine that has seen no other.
    """

    def __init__(
        self, trials: Trials, check: AnyCheck, way: ProbeWay, *, clearly: bool = True, afresh: bool = False
    ) -> None:
        self._trials, self._check, self._way = trials, check, way
        self._clearly, self._afresh = clearly, afresh

    def __call__(self, case: Case, /) -> bool:
        """Try a case; where the engine has crashed too often on others, nothing is tried."""
        if self._way is not ProbeWay.CRASH and self._trials.crashes >= MOST_CRASHES:
            return False
        if self._afresh:
            self._trials.afresh()
        found = self._trials.judged(self._check, case, clearly=self._clearly)
        return found.fails and found.way is self._way


def _asked(check: AnyCheck, case: Case, folder: CheckedFolder) -> Judged:
    if isinstance(check, SequenceCheck):
        assert isinstance(case.asked, Calls)
        return judge_sequence(check, case.asked, folder)
    if isinstance(check, BatchCheck):
        assert isinstance(case.asked, Batches)
        return judge_batches(check, case.asked, folder)
    return judge_model(check, folder)


def judge_model(check: ModelCheck, folder: CheckedFolder) -> Judged:
    """Ask a check with questions of its own, and what it requires. A failure that met nothing is none."""
    wanted, required = f"{NAME}::{check.identifier}", check.check.requires
    checks = tuple(each for each in SELF_CHECKS if each.name in (check.check.name, required))
    (verdict,) = probed_verdicts(folder.probe, lambda identifier: identifier == wanted, checks)
    if verdict.outcome is Outcome.FAIL and verdict.message.startswith(NOTHING_SHOWN):
        return Judged.skipped(verdict.message)
    way = ProbeWay.CRASH if verdict.outcome is Outcome.ERRORED else ProbeWay.VALUE
    return Judged(verdict.outcome, verdict.message, verdict.differences, way)
