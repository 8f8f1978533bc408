"""What the tests of engines share: the reference in fast arithmetic as an engine, ways to spoil it, short questions.

An engine here is a plain Python object. It has the model that a suite ships; what a test is about is changed in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from cai_conformance.backends.engine.backend import EngineBackend
from cai_conformance.backends.engine.files import FolderModel, read_folder
from cai_conformance.backends.engine.given_model import OpenedModel
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.backends.reference.engine import ReferenceEngine
from cai_conformance.checks.evidence import Evidence, Question
from cai_conformance.checks.tolerance.floor import FloorSource, NoiseFloor, NoiseLevel
from cai_conformance.checks.tolerance.policy import parse_policy
from cai_conformance.engine import (
    Description,
    Engine,
    Evaluated,
    Generated,
    GenerationOrder,
    Loaded,
    LossAndGradients,
    OptimizerState,
    Piece,
    SavedTraining,
    TrainingBatch,
    TrainingSettings,
)
from cai_conformance.faults import Fault
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.fixtures.vectors import Answer, Answers, VectorCase, read_vectors, write_vectors
from cai_conformance.run.questions import Options, question_for
from cai_conformance.suites import find_suite
from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import FAST
from support_foreign_engines import given

SUITE: Final = "llama.gqa-window"
"""A window, shared keys and a tied head, in the layout of engines."""
NATIVE: Final = "cai.grouped-hybrid"
"""States, a latent and groups, in the reference's own layout."""
HEADS: Final = "cai.multi-token"
"""Several heads."""
STAGED: Final = "fwd.oracle.last"
"""The case whose tokens are those of whole passes."""


class Wrapped:
    """An engine around the reference; what it says about itself can be changed.

    Attributes:
        loads: how often a folder was loaded.
        closed: whether it was let go of.
    """

    def __init__(self, computing: Arithmetic = FAST, **stated: Any) -> None:
        self.inner = ReferenceEngine(computing)
        self.description: Description = replace(self.inner.description, **stated)
        self.loads = 0
        self.closed = False

    def load(self, folder: Path, precision: str | None = None) -> Loaded:
        """Load, in whatever format."""
        self.loads += 1
        return self.inner.load(folder)

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Evaluate pieces."""
        return self.inner.evaluate(pieces, observe=observe)

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        self.inner.clear(slot)

    def drop(self, slot: int, first: int, last: int | None = None) -> None:
        """Cut a slot back."""
        self.inner.drop(slot, first, last)

    def copy(self, source: int, target: int) -> None:
        """Copy a slot."""
        self.inner.copy(source, target)

    def generate(self, order: GenerationOrder) -> Generated:
        """Generate."""
        return self.inner.generate(order)

    def gradients(self, batch: TrainingBatch) -> LossAndGradients:
        """Return loss and gradients."""
        return self.inner.gradients(batch)

    def start_training(self, settings: TrainingSettings) -> None:
        """Begin."""
        self.inner.start_training(settings)

    def train_step(self, batch: TrainingBatch) -> float:
        """Take a step."""
        return self.inner.train_step(batch)

    def training_state(self) -> OptimizerState:
        """Return weights and moments."""
        return self.inner.training_state()

    def save_training(self, directory: Path) -> SavedTraining:
        """Save."""
        return self.inner.save_training(directory)

    def resume_training(self, directory: Path) -> None:
        """Go on."""
        self.inner.resume_training(directory)

    def close(self) -> None:
        """Let go."""
        self.closed = True
        self.inner.close()


class Planted(Wrapped):
    """The reference with a mistake, which is there only while the engine computes."""

    def __init__(self, fault: Fault | None, **stated: Any) -> None:
        super().__init__(**stated)
        self._fault = fault

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Evaluate pieces."""
        with self._wrong():
            return super().evaluate(pieces, observe=observe)

    def drop(self, slot: int, first: int, last: int | None = None) -> None:
        """Cut a slot back."""
        with self._wrong():
            super().drop(slot, first, last)

    def copy(self, source: int, target: int) -> None:
        """Copy a slot."""
        with self._wrong():
            super().copy(source, target)

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        with self._wrong():
            super().clear(slot)

    def generate(self, order: GenerationOrder) -> Generated:
        """Generate."""
        with self._wrong():
            return super().generate(order)

    def gradients(self, batch: TrainingBatch) -> LossAndGradients:
        """Return loss and gradients."""
        with self._wrong():
            return super().gradients(batch)

    def start_training(self, settings: TrainingSettings) -> None:
        """Begin."""
        with self._wrong():
            super().start_training(settings)

    def train_step(self, batch: TrainingBatch) -> float:
        """Take a step."""
        with self._wrong():
            return super().train_step(batch)

    def training_state(self) -> OptimizerState:
        """Return weights and moments."""
        with self._wrong():
            return super().training_state()

    def save_training(self, directory: Path) -> SavedTraining:
        """Save."""
        with self._wrong():
            return super().save_training(directory)

    def resume_training(self, directory: Path) -> None:
        """Go on."""
        with self._wrong():
            super().resume_training(directory)

    @contextmanager
    def _wrong(self) -> Iterator[None]:
        with nullcontext() if self._fault is None else self._fault.planted():
            yield


@contextmanager
def folders_read_once() -> Iterator[None]:
    """Let the reference read each folder once, and give every engine a copy: it draws a model before it fills it."""
    kept: dict[tuple[tuple[str, bytes], ...], FolderModel] = {}

    def read_once(folder: Path) -> FolderModel:
        files = tuple((path.name, path.read_bytes()) for path in sorted(folder.iterdir()))
        if files not in kept:
            kept[files] = read_folder(folder)
        return replace(kept[files], model=deepcopy(kept[files].model))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cai_conformance.backends.reference.engine.read_folder", read_once)
        yield


@cache
def question(suite: str = SUITE, policy: str = "auto", arithmetic: str = "float64", *only: str) -> Question:
    """Return the question about a suite's given weights, with all of its vector cases or some of them, by their ids.

    The case whose tokens are those of whole passes is always among them.
    """
    options = Options(arithmetic, profile="edges", policy=parse_policy(policy))
    asked = question_for(find_suite(suite), GoldenStore(locate()), options)
    if only:
        kept = tuple(case for case in asked.vectors.cases if case.identifier in {STAGED, *only})
        data = write_vectors(suite, asked.request.suite_version, kept)
        asked = replace(asked, request=replace(asked.request, vectors=data))
    vars(asked)["given"] = given(suite)
    return asked


def vector_case(suite: str, identifier: str) -> VectorCase:
    """Return one vector case of a suite."""
    cases = read_vectors((locate() / suite / "vectors.json").read_bytes()).cases
    return next(case for case in cases if case.identifier == identifier)


def opened_in(engine: Engine, suite: str = SUITE) -> OpenedModel:
    """Return a suite's model in an engine."""
    return OpenedModel(engine, given(suite))


def evidence_of(engine: Engine, asked: Question) -> Evidence:
    """Return the evidence about an engine, which answers as a backend does."""
    return Evidence(EngineBackend("engine", lambda: engine), asked)


def level_of(ulps: float, divergence: float = 0.0) -> NoiseLevel:
    """Return a floor that is one number."""
    return NoiseLevel((FloorSource("chosen", ulps, divergence),))


def floor_of(near: float, far: float | None = None, precision: str = "float64", divergence: float = 0.0) -> NoiseFloor:
    """Return a floor of chosen numbers."""
    levels = level_of(near, divergence), level_of(near if far is None else far, divergence)
    return NoiseFloor(precision, *levels, measured=True)


def evidence_with(
    asked: Question, answers: dict[str, Answer], floor: NoiseFloor, opened: OpenedModel | None = None
) -> Evidence:
    """Return evidence of given answers by the ids of cases, and of a given floor; the engine is asked again, if any."""
    evidence = Evidence(EngineBackend("engine", lambda: ReferenceEngine(FAST)), asked)
    known = Answers(asked.request.arithmetic, dict(asked.conventions.fields), answers)
    vars(evidence).update({"answers": known, "floor": floor, "opened": opened})
    return evidence


class Tracing:
    """A program that answers traces, with a mistake in it: it cannot be driven."""

    name = "tracing"

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def trace(self, request: TraceRequest) -> bytes:
        """Answer wrongly."""
        with self._fault.planted():
            return ReferenceBackend().trace(request)

    def replay(self, request: TraceRequest) -> bytes:
        """Answer wrongly again."""
        return self.trace(request)
