"""An engine as a backend: asked call by call, for answers to vector cases; spelled as traces where one is wanted."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

from cai_conformance.backends.engine.answers import answer_case
from cai_conformance.backends.engine.given_model import GivenModel, Holding, OpenedModel
from cai_conformance.backends.engine.session import EngineSession
from cai_conformance.backends.engine.stages import records_of, staged_ids
from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.protocol import TraceRequest, spell
from cai_conformance.engine import Engine, EngineBroken, EngineError, Feature
from cai_conformance.fixtures.vectors import Answers, read_vectors
from cai_conformance.trace.format import format_trace
from cai_conformance.trace.grammars.common import UNSTATED
from cai_conformance.trace.records import Envelope, Record


class EngineBackend:
    """A backend that drives an engine.

    The engine is opened at the first question, and serves one suite at a time: the folder of another suite is loaded
    when that is asked about.

    Args:
        name: what reports call it.
        open_engine: starts an engine.
        again: whether it starts another one each time.
    """

    def __init__(self, name: str, open_engine: Callable[[], Engine], *, again: bool = True) -> None:
        self.name = name
        self._again = again
        self._open = open_engine
        self._engine: Engine | None = None
        self._failure: EngineError | None = None
        self._opened: OpenedModel | None = None
        self._holding = Holding()
        self._suite = ""
        # Answers and measurements may be asked for from two threads; an engine is one conversation.
        self._lock = RLock()

    @property
    def engine(self) -> Engine:
        """The engine, opened at the first look. One that cannot be started is not tried again.

        Raises:
            EngineError: it cannot be started.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._engine is None:
                try:
                    self._engine = self._open()
                except EngineError as error:
                    self._failure = error
                    raise
            return self._engine

    @property
    def arithmetic(self) -> str:
        """The arithmetic of its answers.

        Raises:
            EngineError: it cannot be started.
        """
        return self.engine.description.arithmetic

    def opened(self, request: TraceRequest) -> OpenedModel | None:
        """Return the engine with the model of a request; None where the suite has no model that can be given.

        Raises:
            EngineError: it cannot be started.
        """
        with self._lock:
            given = GivenModel.of(request)
            if given is None:
                return None
            last = self._opened
            if last is None or self._suite != request.suite or last.given.weights != request.weights:
                self._start_afresh_if_broken()
                last = self._opened = OpenedModel(self.engine, given, self._holding)
                self._suite = request.suite
            return last

    def answer_cases(self, request: TraceRequest) -> Answers:
        """Answer the vector cases of given weights.

        Raises:
            NotOffered: the suite has no model that can be given.
            EngineError: the engine failed.
        """
        with self._lock:
            opened = self._given(request)
            opened.load()
            answered = ((case, answer_case(case, opened)) for case in read_vectors(request.vectors).cases)
            by_case = {case.identifier: answer for case, answer in answered if answer is not None}
            return Answers(self.arithmetic, self._conventions(opened), by_case)

    def trace(self, request: TraceRequest) -> bytes:
        """Answer the profiles of given weights: `edges`, and `stages` where the engine shows them.

        Raises:
            NotOffered: the profile is another one, or the suite has no model that can be given.
            EngineError: the engine failed.
        """
        if request.profile not in ("edges", "stages"):
            raise NotOffered(self.name, f"the profile {request.profile}", "it is given weights, and makes no run")
        vectors = read_vectors(request.vectors)
        if request.profile == "edges":
            return spell(self, request, self.answer_cases(request), vectors.digest)
        with self._lock:
            opened = self._given(request)
            opened.load()
            if Feature.OBSERVE not in opened.description.features:
                raise NotOffered(self.name, "the profile stages", "it has no feature observe")
            stages = records_of(EngineSession(opened.engine).observed(staged_ids(vectors.cases)).stages)
            envelope = Envelope(request.suite, request.suite_version, request.profile, self.arithmetic, vectors.digest)
            conventions = Record("CONVENTION", tuple(self._conventions(opened).items()))
            return format_trace(envelope, (conventions, *stages)).encode("utf-8")

    def replay(self, request: TraceRequest) -> bytes:
        """Answer again with a fresh engine.

        Raises:
            NotOffered: as `trace`, or there is but one engine.
            EngineError: as `trace`.
        """
        if not self._again:
            raise NotOffered(self.name, "a replay", "it is one object, and cannot be started again")
        fresh = EngineBackend(self.name, self._open)
        try:
            return fresh.trace(request)
        finally:
            fresh.close()

    def close(self) -> None:
        """Let go of the engine."""
        with self._lock:
            if self._engine is not None:
                self._engine.close()
            self._engine, self._opened = None, None

    def _start_afresh_if_broken(self) -> None:
        """Let go of an engine that broke in another suite, so that this one is asked anew."""
        if self._engine is None or self._opened is None:
            return
        try:
            self._engine.clear(0)
        except EngineBroken:
            self.close()
        except EngineError:
            # It may refuse before it holds a model; it is alive.
            pass

    def _given(self, request: TraceRequest) -> OpenedModel:
        opened = self.opened(request)
        if opened is None:
            raise NotOffered(self.name, request.suite, "the suite has no model that an engine can be given")
        return opened

    def _conventions(self, opened: OpenedModel) -> dict[str, str]:
        stated = opened.loaded.conventions
        return {name: stated.get(name, UNSTATED) for name, _ in opened.given.phase.conventions(opened.given.sizes)}
