"""Foreign Python objects as engines: whatever they do wrong is an error with their name, and no traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final, cast

import numpy as np
import pytest

from cai_conformance.backends.engine.backend import EngineBackend
from cai_conformance.backends.engine.features import copying, dropping, failing, generating, poisonable, training
from cai_conformance.backends.engine.given_model import folder_of
from cai_conformance.backends.engine.guard import GuardedEngine, Starting
from cai_conformance.backends.errors import NotOffered
from cai_conformance.backends.protocol import ask
from cai_conformance.backends.registry import resolve
from cai_conformance.checks.kv_cache import judge_neighbours
from cai_conformance.checks.probe.driven import probing
from cai_conformance.engine import (
    Engine,
    EngineBroken,
    EngineError,
    Evaluated,
    Feature,
    Generated,
    GenerationOrder,
    Piece,
    Precision,
    Refused,
    TrainingBatch,
    TrainingSettings,
)
from support_engines import SUITE, Wrapped, evidence_with, floor_of, opened_in, question
from support_foreign_engines import given
from support_refusals import refuses

PIECE: Final = Piece(0, 0, (0, 5), (1,))
BATCH: Final = TrainingBatch(((0, 5),), (((5, 1),),))
SETTINGS: Final = TrainingSettings(0.01, 0.9, 0.99, 1e-4, 0.1, None, ())


class Foreign(Wrapped):
    """An engine one of whose methods does something else."""

    def __init__(self, method: str = "", does: Callable[..., object] | None = None, **stated: Any) -> None:
        super().__init__(**stated)
        if does is not None:
            setattr(self, method, does)


def raising(error: BaseException) -> Callable[..., object]:
    """Return what raises."""

    def raised(*_: object, **__: object) -> object:
        raise error

    return raised


def loaded(engine: Wrapped) -> GuardedEngine:
    """Return a guarded engine with a model in it."""
    guarded = GuardedEngine(engine)
    with folder_of(given(SUITE).files()) as folder:
        guarded.load(folder)
    return guarded


CALLS: Final[dict[str, Callable[[GuardedEngine], object]]] = {
    "evaluate": lambda engine: engine.evaluate([PIECE]),
    "clear": lambda engine: engine.clear(0),
    "drop": lambda engine: engine.drop(0, 1),
    "copy": lambda engine: engine.copy(0, 1),
    "generate": lambda engine: engine.generate(GenerationOrder((0, 5), 2)),
    "gradients": lambda engine: engine.gradients(BATCH),
    "start_training": lambda engine: engine.start_training(SETTINGS),
    "train_step": lambda engine: engine.train_step(BATCH),
    "training_state": lambda engine: engine.training_state(),
    "poison": lambda engine: engine.poison(0.0),
    "fail_after": lambda engine: engine.fail_after(1),
    "close": lambda engine: engine.close(),
}


class TestErrors:
    """What a foreign object raises."""

    @pytest.mark.parametrize("method", CALLS)
    def test_a_foreign_error_is_told_in_one_line(self, method: str) -> None:
        """Of whatever class, in whatever method."""
        guarded = loaded(Foreign(method, raising(RuntimeError("out of\nmemory"))))
        with pytest.raises(EngineBroken) as caught:
            CALLS[method](guarded)
        assert f"reference crashed in {method}: RuntimeError: out of memory" == str(caught.value)

    def test_it_cannot_end_the_program(self) -> None:
        """Ctrl-C still can."""
        with pytest.raises(EngineBroken):
            loaded(Foreign("clear", raising(SystemExit(3)))).clear(0)
        with pytest.raises(KeyboardInterrupt):
            loaded(Foreign("clear", raising(KeyboardInterrupt()))).clear(0)

    def test_an_error_of_engines_is_passed_on(self) -> None:
        """As it is."""
        error = Refused("mine", "a call", "it is Monday")
        with pytest.raises(Refused) as caught:
            loaded(Foreign("evaluate", raising(error))).evaluate([PIECE])
        assert caught.value is error

    def test_an_engine_goes_on_behind_an_error(self) -> None:
        """It is an object, and may be asked something else."""
        engine = Foreign("copy", raising(ValueError()))
        guarded = loaded(engine)
        with pytest.raises(EngineBroken):
            guarded.copy(0, 1)
        assert (1, 1, 320) == guarded.evaluate([PIECE])[0].logits.shape


class TestAnswers:
    """What a foreign object returns."""

    @pytest.mark.parametrize(
        ("logits", "message"),
        [
            (np.zeros((1, 320)), "logits of shape [1, 320] where [1, 1, 320] was asked for"),
            (np.zeros((2, 1, 320)), "logits of shape [2, 1, 320] where [1, 1, 320] was asked for"),
            (np.zeros((1, 1, 319)), "logits of shape [1, 1, 319] where [1, 1, 320] was asked for"),
            (np.zeros((1, 2, 320)), "logits of shape [1, 2, 320]"),
            (np.zeros((1, 1, 0)), "logits of shape [1, 1, 0]"),
        ],
    )
    def test_rows_have_the_shape_of_the_model(self, logits: np.ndarray[Any, Any], message: str) -> None:
        """The same heads and ids in every call; what the first one had is what the model has."""
        engine = Wrapped()
        guarded = loaded(engine)
        guarded.evaluate([PIECE])
        cast("Any", engine).evaluate = lambda pieces, observe: (Evaluated(logits),)
        with refuses(EngineError, "answer-out-of-shape") as caught:
            guarded.evaluate([PIECE])
        assert message in str(caught.value)

    def test_another_number_of_answers(self) -> None:
        """Than pieces."""
        guarded = loaded(Foreign("evaluate", lambda pieces, observe: ()))
        with refuses(EngineError, "answer-out-of-shape"):
            guarded.evaluate([PIECE])

    @pytest.mark.parametrize("answer", [None, 7, [None], [(1, 2)], [Evaluated(cast("Any", "rows"))]])
    def test_what_is_no_answer(self, answer: object) -> None:
        """Objects of other types."""
        with pytest.raises(EngineError):
            loaded(Foreign("evaluate", lambda pieces, observe: answer)).evaluate([PIECE])

    def test_numbers_are_widened(self) -> None:
        """Single precision, or lists of lists."""
        single = np.full((1, 1, 320), 0.1, dtype=np.float32)
        found = loaded(Foreign("evaluate", lambda pieces, observe: [Evaluated(cast("Any", single))])).evaluate([PIECE])
        assert found[0].logits.dtype == np.float64
        assert float(np.float32(0.1)) == found[0].logits[0, 0, 0]
        listed = Evaluated(cast("Any", [[[0.5] * 320]]), {"x": cast("Any", [1, 2])})
        (answer,) = loaded(Foreign("evaluate", lambda pieces, observe: [listed])).evaluate([PIECE])
        assert (0.5, [1.0, 2.0]) == (answer.logits[0, 0, 0], answer.stages["x"].tolist())

    @pytest.mark.parametrize("method", ["load", "generate", "gradients", "training_state"])
    def test_other_types_are_told(self, method: str) -> None:
        """Than the ones that the protocol has."""
        engine = Foreign(method, lambda *_: {"ids": [1]})
        with refuses(EngineError, "answer-out-of-shape") as caught:
            CALLS[method](loaded(engine)) if method != "load" else loaded(engine)
        assert "reference answered an object of the type dict where " in str(caught.value)

    def test_tokens_and_losses_are_numbers(self) -> None:
        """Whatever they were; a list of a loss is none."""
        ids = Generated(cast("Any", np.array([3, 4])))
        assert (3, 4) == loaded(Foreign("generate", lambda order: ids)).generate(GenerationOrder((0,), 2)).ids
        assert 0.5 == loaded(Foreign("train_step", lambda batch: np.float32(0.5))).train_step(BATCH)
        with pytest.raises(EngineBroken):
            loaded(Foreign("train_step", lambda batch: "much")).train_step(BATCH)


class TestDescriptions:
    """What a foreign object says about itself."""

    @pytest.mark.parametrize(
        ("stated", "message"),
        [
            ({"precision": Precision.uniform("fp8")}, "the format 'fp8' is none of float64"),
            ({"precisions": ("float64", "half")}, "the format 'half' is none of float64"),
            ({"arithmetic": "exact"}, "exact"),
            ({"slots": 0}, "0 slots"),
        ],
    )
    def test_what_cannot_be_judged_is_refused_at_once(self, stated: dict[str, Any], message: str) -> None:
        """In its own words."""
        with pytest.raises(EngineBroken) as caught:
            GuardedEngine(Wrapped(**stated))
        assert str(caught.value).startswith("Wrapped crashed in its description: ")
        assert message in str(caught.value)

    def test_a_description_is_needed(self) -> None:
        """Of the right type."""
        for described in (object(), {"name": "mine"}):
            engine = Wrapped()
            cast("Any", engine).description = described
            with pytest.raises(EngineBroken):
                GuardedEngine(engine)

    def test_a_feature_without_its_methods_is_none(self) -> None:
        """Also one of four methods; arms belong to a loop."""

        class Bare:
            description = Wrapped(features=frozenset(Feature)).description

            def load(self, *_: object) -> object: ...
            def evaluate(self, *_: object) -> object: ...
            def clear(self, *_: object) -> object: ...
            def close(self) -> object: ...
            def train_step(self, *_: object) -> object: ...
            def copy(self, *_: object) -> object: ...

        guarded = GuardedEngine(cast("Engine", Bare()))
        assert frozenset({Feature.COPY, Feature.OBSERVE}) == guarded.description.features
        assert frozenset() == guarded.description.arms
        assert copying(guarded) is guarded
        for offered in (dropping, generating, training, poisonable, failing):
            assert offered(guarded) is None

    def test_what_is_not_listed_is_not_offered(self) -> None:
        """Whatever methods there are."""
        guarded = GuardedEngine(Wrapped(features=frozenset({Feature.TRAIN})))
        assert training(guarded) is guarded
        assert dropping(guarded) is None
        assert generating(guarded) is None


class TestStarting:
    """Engines from modules."""

    def test_the_first_is_there_and_others_are_made(self) -> None:
        """One that is there alone is returned again."""
        first = Wrapped()
        starting = Starting("mine", first, Wrapped)
        guarded = starting()
        guarded.close()
        assert first.closed
        starting().clear(0)
        only = Starting("mine", first, None)
        only().close()
        only().close()

    def test_one_that_cannot_be_made(self) -> None:
        """Says why."""
        with pytest.raises(EngineBroken) as caught:
            Starting("mine", None, cast("Callable[[], Engine]", raising(OSError("no device"))))()
        assert "mine cannot be started: OSError: no device" == str(caught.value)

    @pytest.mark.parametrize(
        ("attribute", "again"),
        [pytest.param("Made", True, marks=pytest.mark.exhaustive), ("make", True), ("there", False)],
    )
    def test_a_module_may_hold_an_engine_or_make_one(
        self, monkeypatch: pytest.MonkeyPatch, attribute: str, again: bool
    ) -> None:
        """A class, a function, or an object; an object answers no second run."""
        module = ModuleType("foreign_engines")
        made: list[Wrapped] = []

        def make() -> Wrapped:
            made.append(Wrapped())
            return made[-1]

        vars(module).update({"Made": Wrapped, "make": make, "there": Wrapped()})
        monkeypatch.setitem(sys.modules, "foreign_engines", module)
        backend = resolve(f"foreign_engines:{attribute}")
        assert isinstance(backend, EngineBackend)
        asked = question(SUITE, "auto", "float64", "fwd.oracle.far").request
        first = ask(backend, asked)
        if again:
            assert first == backend.replay(asked)
        else:
            with pytest.raises(NotOffered):
                backend.replay(asked)
        assert first == ask(backend, asked)
        assert len(made) == (2 if attribute == "make" else 0)

    def test_an_engine_may_have_a_name(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is no backend for that."""
        module = ModuleType("foreign_engines")
        engine = Wrapped()
        cast("Any", engine).name = "mine"
        vars(module)["engine"] = engine
        monkeypatch.setitem(sys.modules, "foreign_engines", module)
        assert isinstance(resolve("foreign_engines:engine"), EngineBackend)


def test_an_engine_that_changes_its_shape_does_not_end_a_run() -> None:
    """The check is errored with its name."""

    class Ragged(Wrapped):
        def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
            answers = super().evaluate(pieces, observe=observe)
            return tuple(Evaluated(answer.logits[:, :, : 320 - len(pieces)]) for answer in answers)

    evidence = evidence_with(question(), {}, floor_of(4.0), opened_in(GuardedEngine(Ragged())))
    with refuses(EngineError, "answer-out-of-shape"):
        probing(judge_neighbours)(evidence)
