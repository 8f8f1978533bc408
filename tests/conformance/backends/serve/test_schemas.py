"""Schemas and hand-written reading held against each other: of changed messages, both accept one or both refuse it."""

from __future__ import annotations

import ast
import builtins
import copy
import hashlib
import io
import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from cai_conformance.backends.serve import validation
from cai_conformance.backends.serve.channel import read_answer
from cai_conformance.backends.serve.client import ServeEngine
from cai_conformance.backends.serve.errors import ProtocolViolation
from cai_conformance.backends.serve.lines import Json
from cai_conformance.backends.serve.messages import Fields, read_description, read_loaded
from cai_conformance.backends.serve.server import serve
from cai_conformance.backends.serve.tensors import TensorReader, read_evaluated, write_pieces
from cai_conformance.backends.serve.training_messages import (
    read_generated,
    read_gradients,
    read_loss,
    read_saved,
    read_state,
    write_batch,
    write_order,
    write_settings,
)
from cai_conformance.backends.serve.validation import SCHEMAS, Validator, schema
from cai_conformance.engine import EngineError, GenerationOrder, Piece
from cai_conformance.errors import BackendError
from support_refusals import refuses
from support_serving_engine import BATCH, SETTINGS, ArithmeticEngine

PIECES = [Piece(0, 0, (5, 9), (0, 1)), Piece(1, 7, (3,), ())]

MESSAGES: dict[str, dict[str, Json]] = {
    "start": {"protocol": "1", "client": "test", "scratch": "."},
    "load": {"folder": "/a", "precision": "float16"},
    "evaluate": write_pieces(PIECES, observe=True),
    "clear": {"slot": 1},
    "drop": {"slot": 1, "first": 2, "last": None},
    "copy": {"source": 0, "target": 1},
    "generate": write_order(GenerationOrder((1, 2), 3, "cached", 2, 2)),
    "gradients": write_batch(BATCH),
    "start-training": write_settings(SETTINGS),
    "train-step": write_batch(BATCH),
    "training-state": {},
    "save-training": {"directory": "/a"},
    "resume-training": {"directory": "/a"},
    "poison": {"value": "7ff8000000000000"},
    "fail-after": {"layers": 1},
    "cancel": {"request": 1},
    "stop": {},
}

READERS: dict[str, Callable[[Json, TensorReader], object]] = {
    "start": lambda answer, _: read_description(answer),
    "load": lambda answer, _: read_loaded(answer),
    "evaluate": lambda answer, tensors: read_evaluated(answer, PIECES, tensors, observe=True),
    "generate": lambda answer, _: read_generated(answer),
    "gradients": read_gradients,
    "train-step": lambda answer, _: read_loss(answer),
    "training-state": read_state,
    "save-training": lambda answer, _: read_saved(answer),
}
"""What reads the answer to each message; to the others, nothing is answered."""

VALUES: list[Json] = [None, True, 0, -1, 2**53 + 1, "", "x", "3ff0000000000000", "float64", [], [1], [[1]], {}]
"""What is put into the place of every value."""

STEPS = [29, pytest.param(1, marks=pytest.mark.exhaustive)]
"""A sample of the changes always, all of them where there is time."""

FREE = {"conventions", "claimed"}
"""Objects that have keys of their own choice."""

UNSAID = (
    "does not ascend",
    "has two pieces for one slot",
    "is 1, not an integer from 0 to 0",
    "not of one shape",
    "entries, not 2",
    "the coarsest of its formats",
    "has 'w' twice",
    "has 'embedding' twice",
    "has an id twice",
    "is not base 64",
    "where shape and format need",
    "is no name below the folder",
    "cannot be read",
    "were announced",
    "another sha256",
)
"""What only the reading by hand knows: it depends on two values at once, on the engine, or on bytes."""


@pytest.fixture(scope="module")
def validator() -> Validator:
    """The schemas, read once."""
    return Validator()


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Json]]:
    """An answer to each message, from this package's own server."""
    scratch = str(tmp_path_factory.mktemp("scratch"))
    found = {}
    for do, content in MESSAGES.items():
        asked: dict[str, Json] = {"id": 2, "do": do, "seconds": 1, **content}
        start: dict[str, Json] = {"id": 1, "do": "start", "seconds": 1, **MESSAGES["start"], "scratch": scratch}
        engine = _SmallState()
        found[do] = _served(engine, start, asked)
        assert "ok" in found[do], found[do]
    return found


class TestAgreement:
    """Everything is changed everywhere, one change at a time."""

    @pytest.mark.parametrize("do", MESSAGES)
    @pytest.mark.parametrize("step", STEPS)
    def test_messages(self, validator: Validator, do: str, step: int, tmp_path: Path) -> None:
        """The server and the schema."""
        message: dict[str, Json] = {"id": 2, "do": do, "seconds": 1, **MESSAGES[do]}
        if do == "start":
            message["scratch"] = str(tmp_path)
        validator.check_message(message)
        counts = [0, 0]
        for changed in islice(changes(message), 0, None, step):
            # Without its id a message cannot be answered, and with another `do` it is another one.
            if not isinstance(changed, dict) or changed.get("do") != do or changed.get("id") != 2:
                continue
            start: dict[str, Json] = {"id": 1, **MESSAGES["start"], "do": "start", "seconds": 1}
            answer = _served(_SmallState(), {**start, "scratch": str(tmp_path)}, changed)
            reason = str(answer.get("errored", ""))
            counts[not reason] += 1
            _agree(reason, lambda: validator.check_message(changed), changed)  # noqa: B023 - called at once
        assert min(counts) > 0 or step > 1

    @pytest.mark.parametrize("do", MESSAGES)
    @pytest.mark.parametrize("step", STEPS)
    def test_answers(self, validator: Validator, answers: dict[str, dict[str, Json]], do: str, step: int) -> None:
        """The client and the schema."""
        validator.check_answer(do, answers[do])
        counts = [0, 0]
        for changed in islice(changes(answers[do]), 0, None, step):
            reason = _refusal(do, changed)
            counts[not reason] += 1
            _agree(reason, lambda: validator.check_answer(do, changed), changed)  # type: ignore[arg-type]  # noqa: B023
        assert min(counts) > 0 or step > 1

    def test_a_tensor_in_a_file(self, validator: Validator, tmp_path: Path) -> None:
        """Its keys are others than those of one in the line."""
        (tmp_path / "rows.bin").write_bytes(bytes(8))
        tensor: Json = {
            "dtype": "float64",
            "shape": [1],
            "file": "rows.bin",
            "offset": 0,
            "sha256": hashlib.sha256(bytes(8)).hexdigest(),
        }
        answer: Json = {"loss": "7ff0000000000000", "gradients": [{"name": "w", "value": tensor}]}
        assert "" == _refusal("gradients", {"id": 1, "ok": answer}, tmp_path)
        for changed in changes({"id": 1, "ok": answer}):
            reason = _refusal("gradients", changed, tmp_path)
            _agree(reason, lambda: validator.check_answer("gradients", changed), changed)  # type: ignore[arg-type]  # noqa: B023

    @pytest.mark.parametrize("word", ["skipped", "errored"])
    def test_what_was_not_done(self, validator: Validator, word: str) -> None:
        """The same for every message."""
        for changed in changes({"id": 3, word: "no rollback here"}):
            reason = _refusal("drop", changed)
            _agree(reason, lambda: validator.check_answer("drop", changed), changed)  # type: ignore[arg-type]  # noqa: B023


RECORDED: dict[str, dict[str, str]] = json.loads(Path(__file__).with_name("recorded_verdicts.json").read_text("utf-8"))
"""Of every change of each message and answer, in the order of `changes`, whether the schema took it: a bit each."""


class TestRecorded:
    """What was accepted stays accepted, and what was refused stays refused."""

    @pytest.mark.parametrize("do", MESSAGES)
    def test_messages(self, validator: Validator, do: str) -> None:
        """Each with one change in every place."""
        message: dict[str, Json] = {"id": 2, "do": do, "seconds": 1, **MESSAGES[do]}
        assert RECORDED["message"][do] == _verdicts(
            lambda changed: validator.check_message({**changed, "do": do}), message
        )

    @pytest.mark.parametrize("do", MESSAGES)
    def test_answers(self, validator: Validator, answers: dict[str, dict[str, Json]], do: str) -> None:
        """Each with one change in every place."""
        assert RECORDED["answer"][do] == _verdicts(lambda changed: validator.check_answer(do, changed), answers[do])


def _verdicts(check: Callable[[dict[str, Json]], None], value: dict[str, Json]) -> str:
    """Return a bit for each change that leaves an object, the first one foremost, as hexadecimal digits behind a 1."""
    bits = 1
    for changed in changes(value):
        if isinstance(changed, dict):
            try:
                check(changed)
                bits = bits << 1 | 1
            except ProtocolViolation:
                bits <<= 1
    return f"{bits:x}"


class TestSchemas:
    """The files themselves."""

    @pytest.mark.parametrize("name", SCHEMAS)
    def test_they_are_schemas(self, name: str) -> None:
        """Of draft 2020-12."""
        import jsonschema

        found = schema(name)
        jsonschema.Draft202012Validator.check_schema(found)
        assert "https://json-schema.org/draft/2020-12/schema" == found["$schema"]
        assert f"urn:cai-conform:serve:1:{name}" == found["$id"]

    def test_every_message_has_two(self) -> None:
        """One for what is asked, one for what is answered; the whole file is any of them."""
        for name in ("message", "answer"):
            found = schema(name)
            assert list(MESSAGES) == list(found["$defs"])
            assert [f"#/$defs/{do}" for do in MESSAGES] == [part["$ref"] for part in found["anyOf"]]

    def test_a_broken_message_is_said_with_its_place(self, validator: Validator) -> None:
        """And no longer than a sentence."""
        message: dict[str, Json] = {"id": 1, "do": "evaluate", "seconds": 1, **write_pieces(PIECES, observe=True)}
        message["pieces"][1]["tokens"] = ["x" * 1000]  # type: ignore[index,call-overload]
        with pytest.raises(ProtocolViolation) as caught:
            validator.check_message(message)
        assert "the message evaluate breaks its schema at pieces/1/tokens/0: 'xxx" in str(caught.value)
        assert len(str(caught.value)) < 300

    def test_a_missing_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One sentence, and the command that helps."""
        imported = builtins.__import__

        def without(name: str, *rest: object) -> object:
            if name == "jsonschema":
                raise ModuleNotFoundError("No module named 'jsonschema'", name="jsonschema")
            return imported(name, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(builtins, "__import__", without)
        with refuses(BackendError, "validator-missing") as caught:
            ServeEngine("./anything", validate=True)
        assert "messages are validated by the library jsonschema, which is not installed" == str(caught.value)
        assert "pip install 'cai-conform[validate]'" == caught.value.next_command

    def test_the_library_is_imported_late(self) -> None:
        """Whoever does not validate does not need it."""
        tree = ast.parse(Path(validation.__file__).read_text(encoding="utf-8"))
        early = [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
        assert ["json"] == early


class _SmallState(ArithmeticEngine):
    """The engine without its large tensor, so that everything stands in the line."""

    def training_state(self) -> object:  # type: ignore[override]
        """Return the smaller tensors."""
        state = super().training_state()
        return type(state)(state.first_moments, state.first_moments, state.second_moments)


def changes(value: Json) -> Iterator[Json]:
    """Yield a value with one change in it, in every place: another value, a key less, a key more, an entry more."""
    yield from VALUES
    yield from _inner(value, own_keys=False)


def _inner(value: Json, *, own_keys: bool) -> Iterator[Json]:
    if isinstance(value, dict):
        yield {**value, "x_own": [1]} if not own_keys else {**value, "more": "3ff0000000000000"}
        if not own_keys:
            yield {**value, "unknown": 1}
        for key, inner in value.items():
            yield {name: kept for name, kept in value.items() if name != key}
            for changed in [*VALUES, *_inner(inner, own_keys=key in FREE)]:
                yield {**value, key: changed}
    elif isinstance(value, list):
        yield [*value, *copy.deepcopy(value[:1])]
        # One entry stands for all of its kind.
        for place in range(min(len(value), 2)):
            for changed in [*VALUES, *_inner(value[place], own_keys=False)]:
                yield [*value[:place], changed, *value[place + 1 :]]


def _served(engine: ArithmeticEngine, *messages: dict[str, Json]) -> dict[str, Json]:
    answers = io.BytesIO()
    serve(engine, io.BytesIO(b"".join(json.dumps(message).encode() + b"\n" for message in messages)), answers)
    found: list[dict[str, Json]] = [json.loads(line) for line in answers.getvalue().splitlines()]
    return next(answer for answer in found if answer["id"] == messages[-1]["id"])


def _refusal(do: str, answer: Json, scratch: Path = Path()) -> str:
    """Return why the client would not take an answer; nothing if it would."""
    try:
        if not isinstance(answer, dict):
            raise ProtocolViolation("the line", "is not an object")
        read_answer(answer)
        if "ok" in answer:
            READERS.get(do, _nothing)(answer["ok"], TensorReader(scratch))
    except (ProtocolViolation, EngineError) as error:
        return str(error)
    return ""


def _nothing(answer: Json, _: TensorReader) -> object:
    return Fields(answer, "the answer")


def _agree(reason: str, check: Callable[[], None], changed: Json) -> None:
    try:
        check()
        fits = True
    except ProtocolViolation:
        fits = False
    if reason and fits:
        assert any(text in reason for text in UNSAID), (reason, changed)
    elif not reason:
        assert fits, changed
