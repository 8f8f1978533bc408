"""One request and its answer, within a deadline; whatever else happens ends the program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from cai_conformance.backends.serve.errors import ProtocolViolation
from cai_conformance.backends.serve.lines import Json, Object, format_line, parse_line
from cai_conformance.backends.serve.messages import Fields, integer
from cai_conformance.backends.serve.process import LINE_BYTES, Child
from cai_conformance.backends.serve.streams import ErrorTail, LineReader, StreamWriter, printable
from cai_conformance.backends.serve.validation import Validator
from cai_conformance.engine import EngineBroken, Refused
from cai_conformance.verdicts import WALL

_SETTLE_SECONDS: Final = 2.0
"""How long to wait for how a program ended that has closed its output, and for its last words."""

_LONG: Final = (
    "start",
    "load",
    "gradients",
    "start-training",
    "train-step",
    "training-state",
    "save-training",
    "resume-training",
)


@dataclass(frozen=True)
class Deadlines:
    """How many seconds a program has for an answer.

    Attributes:
        long: to start, to load a model, and for whatever concerns training.
        short: for everything else.
    """

    long: float = 60.0
    short: float = 20.0

    def of(self, do: str) -> float:
        """Return the deadline of a message."""
        return self.long if do in _LONG else self.short


class Channel:
    """Asks one program, one thing at a time. A failed request ends the program; only a refusal leaves it running."""

    def __init__(self, name: str, command: Sequence[str], deadlines: Deadlines, validator: Validator | None) -> None:
        """Start a program.

        Raises:
            EngineBroken: the system refuses to.
        """
        self.name = name
        self._deadlines = deadlines
        self._validator = validator
        self._ids = count(1)
        self._answered: set[int] = set()
        self._cancelling: set[int] = set()
        self._waiting = 0
        self._broken = ""
        try:
            self._child = Child(command)
        except OSError as error:
            raise EngineBroken(name, f"cannot be started: {error.strerror or error}") from None
        self._writer = StreamWriter(self._child.stdin)
        self._reader = LineReader(self._child.stdout, LINE_BYTES)
        self._tail = ErrorTail(self._child.stderr)

    def ask(self, do: str, content: Object | None = None) -> Json:
        """Send a message, and return what stands under `ok`.

        Raises:
            Refused: the program skips it.
            EngineBroken: it answers `errored`, nothing at all in time, or what is no answer.
        """
        if self._broken:
            raise EngineBroken(self.name, self._broken)
        seconds = self._deadlines.of(do)
        number = next(self._ids)
        try:
            self._send({"id": number, "do": do, "seconds": max(1, math.ceil(seconds)), **(content or {})})
            self._waiting = number
            answer = self._answer(do, number, WALL() + seconds)
        except TimeoutError:
            raise self.failed(f"does not answer {do} within {seconds:g} s") from None
        except ProtocolViolation as error:
            raise self.failed(f"broke the protocol at {do}: {error}") from None
        except BaseException:
            # Above all an interruption from the keyboard.
            self.end()
            raise
        finally:
            self._waiting = 0
        if "skipped" in answer:
            raise Refused(self.name, do, printable(str(answer["skipped"])))
        if "errored" in answer:
            raise self.failed(f"failed at {do}: {answer['errored']}")
        return answer["ok"]

    def cancel(self) -> bool:
        """From another thread: ask that the present request be answered at once; tell whether there is one."""
        waiting = self._waiting
        if not waiting or self._broken:
            return False
        number = next(self._ids)
        self._cancelling.add(number)
        self._send(
            {"id": number, "do": "cancel", "seconds": max(1, math.ceil(self._deadlines.short)), "request": waiting}
        )
        return True

    def stop(self, seconds: float) -> str:
        """Ask the program to end, and end it; return what was wrong with that, or nothing."""
        problem = self._broken
        if not problem:
            self._deadlines = Deadlines(seconds, seconds)
            try:
                answer = self.ask("stop")
                Fields(answer, "the answer to stop")
                self._writer.close()
                problem = self._how_it_stopped(seconds)
            except Refused as error:
                problem = f"refuses to stop: {error.reason}"
            except ProtocolViolation as error:
                problem = f"broke the protocol at stop: {error}"
            except EngineBroken as error:
                problem = error.problem
        self.end()
        return problem

    def end(self) -> None:
        """End the program and everything it started; may be called again."""
        self._broken = self._broken or "has been closed"
        try:
            self._child.end()
        finally:
            for stream in (self._writer, self._reader, self._tail):
                stream.join()

    def failed(self, problem: str) -> EngineBroken:
        """End the program, and return the error that says why, with its last words."""
        self.end()
        words = self._tail.text()
        self._broken = printable(problem) + (f"; its last words on standard error: {words}" if words else "")
        return EngineBroken(self.name, self._broken)

    def _send(self, message: Object) -> None:
        if self._validator is not None:
            self._validator.check_message(message)
        self._writer.write(format_line(message))

    def _answer(self, do: str, number: int, deadline: float) -> dict[str, Json]:
        """Return the answer to a request; those to cancelling stand between."""
        while True:
            line = self._reader.next(deadline - WALL())
            if line is None:
                raise self.failed(self._how_it_left(do, deadline))
            answer = parse_line(line)
            found = integer(answer.get("id"), "'id' of an answer")
            mine = found == number
            if not mine and found not in self._cancelling:
                twice = "again" if found in self._answered else "instead"
                raise ProtocolViolation("its answer", f"is to request {found} {twice}, where {number} waits")
            self._cancelling.discard(found)
            self._answered.add(found)
            if self._validator is not None:
                self._validator.check_answer(do if mine else "cancel", answer)
            read_answer(answer)
            if mine:
                return answer

    def _how_it_left(self, do: str, deadline: float) -> str:
        if self._child.wait(min(deadline - WALL(), _SETTLE_SECONDS)):
            return f"{self._child.how_it_ended()} before it answered {do}"
        return f"closed its output before it answered {do}, and did not end"

    def _how_it_stopped(self, seconds: float) -> str:
        try:
            if self._reader.next(seconds) is not None:
                return "says more after it has answered stop"
        except (TimeoutError, ProtocolViolation):
            return "does not close its output after it has answered stop"
        if not self._child.wait(seconds):
            return "does not end after it has answered stop"
        return "" if self._child.code == 0 else f"{self._child.how_it_ended()} after it has answered stop"


def read_answer(answer: dict[str, Json]) -> None:
    """Check what every answer has: an id, and one of three outcomes.

    Raises:
        ProtocolViolation: it has none of them or several, keys that nobody knows, or no reason for what was not done.
    """
    outcomes = [key for key in ("ok", "skipped", "errored") if key in answer]
    if len(outcomes) != 1:
        raise ProtocolViolation("its answer", f"has {' and '.join(outcomes) or 'neither ok nor skipped nor errored'}")
    fields = Fields(answer, "its answer", f"id {outcomes[0]}")
    fields.integer("id")
    if outcomes[0] == "ok":
        if not isinstance(answer["ok"], dict):
            raise ProtocolViolation("its answer", "has something else than an object under 'ok'")
    else:
        fields.text(outcomes[0])
