"""What the judges of one suite may look at: answers and traces of the backend, the golden, the vectors.

Everything is computed on first use and kept. A backend that fails raises the same error for every judge that needs the
answer; the runner turns it into verdicts.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar, cast

from cai_conformance.backends.arithmetics import precision_of
from cai_conformance.backends.engine.given_model import GivenModel, OpenedModel
from cai_conformance.backends.protocol import AnsweringBackend, Backend, TraceRequest, ask, ask_again, ask_cases, spell
from cai_conformance.backends.trace_file import TraceFileBackend
from cai_conformance.checks.tolerance.floor import NoiseFloor, estimated_floor, measured_floor
from cai_conformance.checks.tolerance.policy import AUTO, Policy
from cai_conformance.errors import ConformanceError
from cai_conformance.fixtures.vectors import Answers, VectorFile, read_vectors
from cai_conformance.trace.compare import compare
from cai_conformance.trace.grammar import Grammar
from cai_conformance.trace.parse import parse
from cai_conformance.trace.records import Record, Trace
from cai_conformance.verdicts import Difference

Value = TypeVar("Value")


@dataclass(frozen=True)
class Question:
    """What is asked of a backend: the request, how its answers are read, and what they are held against.

    Attributes:
        request: the main request; its profile decides what is comparable.
        grammar: the records of the suite.
        conventions: the CONVENTION record that the suite follows, whatever the input.
        golden: the accepted trace; None where the input is not the suite's own.
        policy: what may differ on given weights.
        unoffered: why the backend has no run of its own, where its answers on given weights are judged instead.
    """

    request: TraceRequest
    grammar: Grammar
    conventions: Record
    golden: Trace | None
    policy: Policy = AUTO
    unoffered: str = ""

    def of_given_weights(self, reason: str) -> Question:
        """Return the question that is left for a backend that makes no run, and says why."""
        return replace(self, request=replace(self.request, profile="edges"), golden=None, unoffered=reason)

    @property
    def own(self) -> bool:
        """Whether the suite's own input is asked about, or its vector cases, and nothing of the user's."""
        return self.request.profile in ("golden", "edges") and not self.request.examples

    @cached_property
    def given(self) -> GivenModel | None:
        """The model that the suite gives; None where it has none."""
        return GivenModel.of(self.request)

    @cached_property
    def vectors(self) -> VectorFile:
        """The vector cases of the suite."""
        return read_vectors(self.request.vectors)


class Evidence:
    """The answers of one backend to one question."""

    def __init__(self, backend: Backend, question: Question, executor: ThreadPoolExecutor | None = None) -> None:
        self.backend = backend
        self.question = question
        self._executor = executor
        self._main: Future[bytes] | None = None
        self._replay: Future[bytes] | None = None
        self._shared: dict[str, object] = {}
        self._failures: dict[str, ConformanceError] = {}

    def start(self, *, needs_replay: bool) -> None:
        """Begin runs in the background, where there is an executor for them.

        The main run is begun only for a backend that says it may be asked several things at once (`concurrent`).
        """
        if self._executor is None:
            return
        request = self.question.request
        if getattr(self.backend, "concurrent", False) and not self.asked_directly:
            self._main = self._executor.submit(ask, self.backend, request)
        if needs_replay:
            self._replay = self._executor.submit(ask_again, self.backend, request)

    @cached_property
    def main_bytes(self) -> bytes:
        """The bytes of the main trace."""
        if self._main is not None:
            return self._main.result()
        if self.asked_directly:
            answers, vectors = self.answers, self.question.vectors
            return self._once("main", lambda: spell(self.backend, self.question.request, answers, vectors.digest))
        return self._once("main", lambda: ask(self.backend, self.question.request))

    def settle(self) -> None:
        """Ask for the main trace, so that a backend that refuses or fails says so; a file of one is not read for it.

        Raises:
            BackendError, FixtureError: as the backend does.
        """
        if isinstance(self.backend, TraceFileBackend):
            self.backend.check(self.question.request)
        else:
            _ = self.main_bytes

    @cached_property
    def main(self) -> Trace:
        """The main trace.

        Raises:
            TraceError: it breaks the grammar or its envelope.
        """
        stored = self._stored(self.question.request)
        return self._parsed(self.main_bytes) if stored is None else stored

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """What differs between the golden and the main trace; nothing where there is no golden."""
        golden = self.question.golden
        return () if golden is None else compare(golden, self.main, self.question.grammar)

    @cached_property
    def edges(self) -> Trace:
        """The trace of the answers to the vector cases, of a backend that prints traces."""
        if self.question.request.profile == "edges":
            return self.main
        request = replace(self.question.request, profile="edges")
        stored = self._stored(request)
        return self._once("edges", lambda: self._parsed(ask(self.backend, request))) if stored is None else stored

    @cached_property
    def answers(self) -> Answers:
        """The answers to the vector cases: the backend's own object, or what its trace of them holds.

        Raises:
            BackendError, FixtureError: as the backend does.
            TraceError: a trace breaks the grammar or its envelope.
        """
        backend, request = self.backend, replace(self.question.request, profile="edges")
        if isinstance(backend, AnsweringBackend):
            return self._once("answers", lambda: ask_cases(backend, request))
        return Answers.of_trace(self.edges, self.question.vectors.cases)

    @cached_property
    def replay(self) -> bytes:
        """The bytes of a second run."""
        if self._replay is not None:
            return self._replay.result()
        return self._once("replay", lambda: ask_again(self.backend, self.question.request))

    @cached_property
    def opened(self) -> OpenedModel | None:
        """The backend's engine with the given model; None where it cannot be driven.

        Raises:
            EngineError: it cannot be started.
        """
        opens = getattr(self.backend, "opened", None)
        found = self._once("opened", lambda: opens(self.question.request)) if callable(opens) else None
        return found if isinstance(found, OpenedModel) else None

    @cached_property
    def floor(self) -> NoiseFloor | None:
        """What rounding does to the backend's rows on given weights; None where the suite has no model to give.

        Raises:
            EngineError: the engine failed.
        """
        given = self.question.given
        return None if given is None else self._once("floor", lambda: self._floor_of(given))

    @property
    def opened_before(self) -> OpenedModel | None:
        """The engine with its model, if any judge looked at it."""
        found = vars(self).get("opened")
        return found if isinstance(found, OpenedModel) else None

    @property
    def floor_used(self) -> NoiseFloor | None:
        """The floor, if any judge looked at it."""
        found = vars(self).get("floor")
        return found if isinstance(found, NoiseFloor) else None

    def remembered(self, name: str, compute: Callable[[], Value]) -> Value:
        """Return what several judges share, computed by the first of them, or raise the error that it met."""
        if name not in self._shared:
            self._shared[name] = self._once(name, compute)
        return cast("Value", self._shared[name])

    @property
    def asked_directly(self) -> bool:
        """Whether the main question is one of vector cases, and its answers come without a trace."""
        return self.question.request.profile == "edges" and isinstance(self.backend, AnsweringBackend)

    def _once(self, name: str, compute: Callable[[], Value]) -> Value:
        """Return an answer, or raise the error that there was: what failed may have taken long to fail."""
        if name in self._failures:
            raise self._failures[name].with_traceback(None)
        try:
            return compute()
        except ConformanceError as error:
            self._failures[name] = error
            raise

    def _floor_of(self, given: GivenModel) -> NoiseFloor:
        cases = self.question.vectors.cases
        if self.opened is not None:
            return measured_floor(self.opened, cases)
        return estimated_floor(given, cases, precision_of(self.answers.arithmetic))

    def _parsed(self, data: bytes) -> Trace:
        return parse(data, self._grammar_of)

    def _stored(self, request: TraceRequest) -> Trace | None:
        """Return the trace of a file, which is read once for all suites; None of any other backend."""
        if not isinstance(self.backend, TraceFileBackend):
            return None
        return self.backend.parsed(request, self._grammar_of)

    def _grammar_of(self, suite: str) -> Grammar | None:
        return self.question.grammar if suite == self.question.grammar.suite else None
