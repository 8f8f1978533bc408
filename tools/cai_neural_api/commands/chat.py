"""`cai-conform chat`: continue line after line with a trained net, on a terminal or in a pipe."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

import typer

from cai_conform import options
from cai_conform.terminal import output, say
from cai_neural_api.choices import SamplerKind, Semantics
from cai_neural_api.commands import generate
from cai_neural_api.commands.printing import INTERRUPTED, ArithmeticName

if TYPE_CHECKING:
    from rich.console import Console

    from cai_neural_api.chat import Drawing, Writer

PROMPT = "> "


def chat(
    net: generate.NetPath,
    vocabulary: generate.VocabularyPath,
    max_new: generate.MaxNew = None,
    sampler: generate.SamplerOption = SamplerKind.GREEDY,
    semantics: generate.SemanticsOption = Semantics.LIBRARY,
    k: generate.K = None,
    p: generate.P = None,
    q: generate.Q = None,
    temperature: generate.Temperature = None,
    seed: generate.Seed = 0,
    stop: generate.StopTexts = None,
    arithmetic: ArithmeticName = "fast",
    color: options.Color = options.ColorChoice.AUTO,
) -> None:
    r"""Continue line after line with a trained net.

    There is no history, as in the published program: each line is a prompt of
    its own, and is printed again with what comes behind it. In a pipe, one line
    goes in and one line comes out; a line break in it is spelt `\n`.

    A line that cannot be continued, such as one longer than the context, is
    answered by a sentence on standard error, and in a pipe by an empty line, as
    an empty line is. The exit code stays 0.

    `exit` and the end of the input leave. Ctrl-C stops an answer; a second one
    leaves with exit code 130.
    """
    from cai_neural_api.chat import SamplerSettings

    settings = SamplerSettings(sampler, semantics, k, p, q, temperature, seed)
    writer, drawing = generate.load(net, vocabulary, settings, arithmetic)
    stops = generate.stop_texts(stop)
    talk = _Talk(writer, drawing, max_new, stops, output(color))
    raise typer.Exit(talk.run())


class _Talk:
    """One chat: lines in, answers out."""

    def __init__(
        self, writer: Writer, drawing: Drawing, max_new: int | None, stops: tuple[bytes, ...], console: Console
    ) -> None:
        from cai_neural_api.chat import StopWatch

        # An empty text to stop at is refused before the first line is read.
        StopWatch(stops)
        self._writer, self._drawing, self._max_new, self._stops = writer, drawing, max_new, stops
        self._console = console
        self._interactive = sys.stdin is not None and sys.stdin.isatty()
        self._waiting = False
        self._interruptions = 0

    def run(self) -> int:
        """Answer lines up to the end of the input, and return the exit code."""
        try:
            if not self._interactive:
                self._answer_all()
                return 0
            with self._interruptible():
                _edit_lines()
                say("cai-conform: each line is continued on its own; exit or Ctrl-D leaves, Ctrl-C stops an answer")
                self._answer_all()
            return 0
        except KeyboardInterrupt:
            if self._interactive:
                _end_prompt()
            return INTERRUPTED

    def _answer_all(self) -> None:
        for line in self._typed() if self._interactive else _piped():
            if line.strip() == b"exit":
                return
            self._answer(line)

    def _answer(self, line: bytes) -> None:
        from cai_conformance.report.terminal import printable
        from cai_neural_api.chat import ChatContinuation
        from cai_neural_api.errors import ChatInputError

        if not line:
            self._nothing()
            return
        try:
            prompt = self._writer.prompt(line)
        except ChatInputError as error:
            say(f"cai-conform: {printable(str(error))}")
            self._nothing()
            return
        if prompt.loss:
            say(f"cai-conform: {prompt.loss}")
        made = ChatContinuation(self._writer, prompt, self._drawing, self._max_new, self._stops)
        generate.show_as_it_comes(self._console, prompt, made, interrupted=lambda: self._interruptions > 0)

    def _nothing(self) -> None:
        if not self._interactive:
            print(flush=True)

    def _typed(self) -> Iterator[bytes]:
        """Yield what is typed, line by line; a second Ctrl-C without a line between is raised."""
        while True:
            try:
                self._waiting = True
                line = _input()
                self._waiting = False
            except EOFError:
                _end_prompt()
                return
            except KeyboardInterrupt:
                self._waiting = False
                if self._interruptions:
                    raise
                self._interruptions = 1
                _end_prompt()
                say("cai-conform: Ctrl-C again leaves")
                continue
            self._interruptions = 0
            yield line

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let Ctrl-C interrupt the wait for a line at once, and an answer between two tokens."""

        def interrupt(number: int, frame: FrameType | None) -> None:
            if self._waiting or self._interruptions:
                raise KeyboardInterrupt
            self._interruptions += 1

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _edit_lines() -> None:
    """Have typed lines edited and recalled, where the system can do that."""
    with suppress(ImportError):
        import readline  # noqa: F401  # input() uses it once it is imported
    # What is no character comes as surrogates, and goes back to the bytes that were typed.
    with suppress(AttributeError):
        sys.stdin.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]  # a text file, on a terminal


def _input() -> bytes:
    """Return a typed line; where standard output is no terminal, the prompt goes to standard error."""
    if sys.stdout.isatty():
        line = input(PROMPT)
    else:
        print(PROMPT, end="", file=sys.stderr, flush=True)
        line = input()
    return line.encode(sys.stdin.encoding, "surrogateescape")


def _end_prompt() -> None:
    """End the line of a prompt behind which nothing was typed."""
    print(file=sys.stdout if sys.stdout.isatty() else sys.stderr)


def _piped() -> Iterator[bytes]:
    """Yield the lines of standard input as they come."""
    if sys.stdin is None:
        return
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n").removesuffix(b"\r")
