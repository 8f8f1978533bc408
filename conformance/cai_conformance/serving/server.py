"""A Python engine as a program: one thread takes messages and another answers them, so that one can be cancelled.

A Python engine cannot be interrupted in the middle of a call. A request that is cancelled is answered at once; what it
was doing goes on, and what is asked next waits for it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import IO, Final

from cai_conformance.backends.errors import one_line
from cai_conformance.engines.errors import Refused
from cai_conformance.engines.protocol import Engine
from cai_conformance.serving.answering import ENVELOPE, Answerer, NotKnown
from cai_conformance.serving.errors import ProtocolViolation
from cai_conformance.serving.fields import Fields, integer, text
from cai_conformance.serving.limits import LINE_BYTES, TEXT
from cai_conformance.serving.lines import Json, format_line, parse_line
from cai_conformance.serving.streams import printable
from cai_conformance.serving.validation import Validator

Message = dict[str, Json]

_END: Final = None


def serve(engine: Engine, stdin: IO[bytes], stdout: IO[bytes], *, validate: bool = False) -> None:
    """Answer messages with an engine until `stop`, or until there are no more; then close it.

    Args:
        engine: what answers.
        stdin: lines with messages.
        stdout: where lines with answers go.
        validate: whether every message and answer is held against its JSON Schema, too.

    Raises:
        ProtocolViolation: a line cannot be read, so that there is no id to answer.
        ValidatorMissing: the library for `validate` is not installed.
    """
    try:
        server = _Server(engine, stdout, Validator() if validate else None)
        threading.Thread(target=server.read, args=(stdin,), name="cai-conform messages", daemon=True).start()
        server.work()
    finally:
        engine.close()


class _Server:
    def __init__(self, engine: Engine, stdout: IO[bytes], validator: Validator | None) -> None:
        self._answerer = Answerer(engine)
        self._stdout = stdout
        self._validator = validator
        self._waiting: queue.SimpleQueue[Message | ProtocolViolation | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open: dict[int, str] = {}
        """What each request asks that has not been answered."""

    def read(self, stdin: IO[bytes]) -> None:
        """Take messages as they come, and see to those that cancel others."""
        try:
            for line in _lines(stdin):
                message = parse_line(line)
                number = integer(message.get("id"), "'id' of a message")
                do = str(message.get("do"))
                with self._lock:
                    if number in self._open:
                        raise ProtocolViolation("a message", f"has the id {number}, which waits for its answer")
                    self._open[number] = do
                if do == "cancel":
                    self._cancel(number, message)
                else:
                    self._waiting.put(message)
                if do == "stop":
                    return
            self._waiting.put(_END)
        except ProtocolViolation as error:
            self._waiting.put(error)

    def work(self) -> None:
        """Answer what waits, one after the other."""
        while (message := self._waiting.get()) is not _END:
            if isinstance(message, ProtocolViolation):
                raise message
            number = integer(message["id"], "'id' of a message")
            with self._lock:
                do = self._open.get(number)
            if do is None:
                continue
            self._answer(number, self._outcome(do, message))
            if do == "stop":
                return

    def _outcome(self, do: str, message: Message) -> Message:
        try:
            self._check(do, message)
            if do == "stop":
                Fields(message, "the message", ENVELOPE)
                return {"ok": {}}
            return {"ok": self._answerer.answer(do, message)}
        except NotKnown as error:
            return {"skipped": str(error)}
        except Refused as error:
            return {"skipped": _reason(error.reason)}
        # Whatever an engine raises is the reason to report, and the next request may still be answered.
        except Exception as error:
            return {"errored": _reason(str(error) if isinstance(error, ProtocolViolation) else one_line(error))}

    def _check(self, do: str, message: Message) -> None:
        text(message.get("do"), "'do' of the message")
        integer(message.get("seconds"), "'seconds' of the message", 1)
        if self._validator is not None and self._validator.knows(do):
            self._validator.check_message(message)

    def _cancel(self, number: int, message: Message) -> None:
        try:
            self._check("cancel", message)
            request = Fields(message, "the message", f"{ENVELOPE} request").integer("request")
        except ProtocolViolation as error:
            self._answer(number, {"errored": _reason(str(error))})
            return
        self._answer(request, {"errored": "it was cancelled"})
        self._answer(number, {"ok": {}})

    def _answer(self, number: int, outcome: Message) -> None:
        """Answer a request, unless it has been answered."""
        answer: Message = {"id": number, **outcome}
        with self._lock:
            do = self._open.pop(number, None)
            if do is None:
                return
            if self._validator is not None and self._validator.knows(do):
                self._validator.check_answer(do, answer)
            try:
                line = format_line(answer)
            except ProtocolViolation as error:
                line = format_line({"id": number, "errored": str(error)})
            self._stdout.write(line)
            self._stdout.flush()


def _lines(stdin: IO[bytes]) -> Iterator[bytes]:
    """Yield lines without their ends; a last one that has none is cut off, and an error."""
    while line := stdin.readline(LINE_BYTES + 1):
        if len(line) > LINE_BYTES:
            raise ProtocolViolation("a message", f"has more than {LINE_BYTES} bytes")
        if not line.endswith(b"\n"):
            raise ProtocolViolation("the input", "ends within a line")
        yield line[:-1]


def _reason(text: str) -> str:
    shown = printable(" ".join(text.split()))
    return shown[:TEXT] or "it does not say why"
