"""Both sides of the serve protocol: answers as the client reads them, messages as the server reads them."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np

from cai_conformance.backends.serve.channel import Deadlines, read_answer
from cai_conformance.backends.serve.client import ServeEngine
from cai_conformance.backends.serve.lines import Json, format_line, parse_line
from cai_conformance.backends.serve.messages import Fields, read_description, read_loaded
from cai_conformance.backends.serve.server import Answerer, NotKnown, serve
from cai_conformance.backends.serve.tensors import TensorReader, check_shapes, read_evaluated, write_pieces
from cai_conformance.backends.serve.training_messages import (
    check_generated,
    check_tensors,
    read_generated,
    read_gradients,
    read_loss,
    read_saved,
    read_state,
    write_batch,
    write_order,
    write_settings,
)
from cai_conformance.backends.serve.validation import Validator
from cai_conformance.engine import EngineError, Generated, GenerationOrder, OptimizerState, Piece
from fuzzing.target import OWN, Target, scratch_file, scratch_folder
from support_serving_engine import BATCH, SETTINGS, ArithmeticEngine

PIECES: Final = (Piece(0, 0, (5, 6, 7), (0, 2)), Piece(1, 4, (1,), ()))
ORDER: Final = GenerationOrder((1, 2), 3, "cached", None, 2)
CAT: Final = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
"""A program that answers what stands in a file, whatever it is asked."""


def messages() -> dict[str, dict[str, Json]]:
    """Return what is asked, in an order in which an engine can answer it."""
    scratch = scratch_folder() / "serve"
    scratch.mkdir(exist_ok=True)
    contents: dict[str, dict[str, Json]] = {
        "start": {"protocol": "1", "client": "test", "scratch": str(scratch)},
        "load": {"folder": "/a", "precision": "float16"},
        "evaluate": write_pieces(PIECES, observe=True),
        "clear": {"slot": 1},
        "drop": {"slot": 1, "first": 2, "last": None},
        "copy": {"source": 0, "target": 1},
        "generate": write_order(ORDER),
        "gradients": write_batch(BATCH),
        "start-training": write_settings(SETTINGS),
        "train-step": write_batch(BATCH),
        "training-state": {},
        "save-training": {"directory": "/a"},
        "resume-training": {"directory": "/a"},
        "poison": {"value": "7ff8000000000000"},
        "fail-after": {"layers": 1},
        "cancel": {"request": 1},
    }
    return {
        do: {"id": number, "do": do, "seconds": 20, **content} for number, (do, content) in enumerate(contents.items())
    }


def message_lines() -> list[bytes]:
    """Return each message as a line without its end."""
    return [format_line(message)[:-1] for message in messages().values()]


def sittings() -> list[bytes]:
    """Return several messages that a server gets one after the other."""
    lines = [line + b"\n" for line in message_lines()]
    stop = format_line({"id": 99, "do": "stop", "seconds": 1})
    return [b"".join([*lines, stop]), b"".join([lines[0], lines[2], stop]), b"".join(lines[:3])]


class SmallEngine(ArithmeticEngine):
    """The engine without its large tensor, so that everything stands in the line, and with few likely ids."""

    def generate(self, order: GenerationOrder) -> Generated:
        """Return as many likely ids as a small vocabulary has."""
        return super().generate(replace(order, top=min(order.top, 5)))

    def training_state(self) -> OptimizerState:
        """Return the smaller tensors."""
        state = super().training_state()
        return OptimizerState(state.first_moments, state.first_moments, state.second_moments)


@cache
def answers() -> dict[str, bytes]:
    """Return the answer of this package's server to every message."""
    engine, found = SmallEngine(), {}
    answerer = Answerer(engine)
    for do, message in messages().items():
        try:
            found[do] = format_line({"id": message["id"], "ok": answerer.answer(do, message)})[:-1]
        except (NotKnown, EngineError) as error:
            found[do] = format_line({"id": message["id"], "skipped": str(error)})[:-1]
    return found


def answer_lines() -> list[bytes]:
    """Return each answer, and one that has failed, behind the name of what was asked."""
    lines = [do.encode() + b"\n" + line for do, line in answers().items()]
    return [*lines, b"evaluate\n" + format_line({"id": 3, "errored": "out of memory"})[:-1], *tensors_in_files()]


def tensors_in_files() -> list[bytes]:
    """Return an answer whose tensor stands in a file."""
    data = np.arange(6.0).tobytes()
    scratch_file("serve/t.bin", data)
    tensor: dict[str, Json] = {
        "dtype": "float64",
        "shape": [2, 3],
        "file": "t.bin",
        "offset": 0,
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    answer: dict[str, Json] = {
        "id": 3,
        "ok": {"loss": "3ff0000000000000", "gradients": [{"name": "w", "value": tensor}]},
    }
    return [b"gradients\n" + format_line(answer)[:-1]]


READERS: Final[dict[str, Callable[[Json, TensorReader], object]]] = {
    "start": lambda answer, _: read_description(answer),
    "load": lambda answer, _: read_loaded(answer),
    "evaluate": lambda answer, tensors: check_shapes(
        "engine", read_evaluated(answer, PIECES, tensors, observe=True), PIECES, None
    ),
    "generate": lambda answer, _: check_generated("engine", read_generated(answer), ORDER),
    "gradients": lambda answer, tensors: check_tensors(
        "engine", read_gradients(answer, tensors).gradients, {"w": (2, 3), "b": ()}
    ),
    "train-step": lambda answer, _: read_loss(answer),
    "training-state": read_state,
    "save-training": lambda answer, _: read_saved(answer),
}


def _read_nothing(answer: Json, _: TensorReader) -> object:
    return Fields(answer, "the answer")


@cache
def _validator() -> Validator:
    return Validator()


def read_answer_line(data: bytes) -> None:
    """Read an answer as the client does; what it takes must fit the schema, too."""
    name, _, line = data.partition(b"\n")
    do = name.decode("utf-8", "replace")
    if do not in answers():
        do = "evaluate"
    answer = parse_line(line)
    read_answer(answer)
    if "ok" in answer:
        tensors = TensorReader(scratch_folder() / "serve")
        READERS.get(do, _read_nothing)(answer["ok"], tensors)
    _validator().check_answer(do, answer)


def read_message(data: bytes) -> None:
    """Read a message as the server does; an engine that fails at nothing answers it."""
    message = parse_line(data)
    do = str(message.get("do"))
    answerer = Answerer(SmallEngine())
    answerer.answer("start", messages()["start"])
    try:
        answerer.answer(do, message)
    except (NotKnown, *OWN):
        return


def read_sitting(data: bytes) -> None:
    """Serve lines until they end; every answer must be one that the client can read."""
    written = io.BytesIO()
    try:
        serve(SmallEngine(), io.BytesIO(data), written)
    finally:
        for line in written.getvalue().splitlines():
            read_answer(parse_line(line))


def conversation() -> list[bytes]:
    """Return what a program says from its start to its end."""
    found = []
    order = ("start", "load", "evaluate", "generate", "train-step")
    for number, do in enumerate(order, 1):
        answer = json.loads(answers()[do])
        answer["id"] = number
        found.append(format_line(answer))
    return [b"".join(found), b"".join([*found, format_line({"id": 6, "ok": {}})])]


def read_program(data: bytes) -> None:
    """Ask a program that says these bytes."""
    path = scratch_file("said.bin", data)
    with ServeEngine([sys.executable, "-S", "-c", CAT, str(path)], deadlines=Deadlines(20.0, 20.0)) as engine:
        engine.load(scratch_folder())
        engine.evaluate(PIECES, observe=True)
        engine.generate(ORDER)
        engine.train_step(BATCH)


TARGETS = (
    Target("serve.answer", answer_lines, read_answer_line, share=120),
    Target("serve.message", message_lines, read_message, share=120),
    Target("serve.sitting", sittings, read_sitting, share=60),
    Target("serve.program", conversation, read_program, share=1),
)
