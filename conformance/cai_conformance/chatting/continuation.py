"""A text in the making: bytes to show as they come, and afterwards the ids, the draws, and why it ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cai_conformance.chatting.drawing import Draw, Drawing
from cai_conformance.chatting.showing import StopWatch
from cai_conformance.chatting.writer import Prompt, Writer
from cai_reference.legacy.generation import GenerationEnd

STOP_TEXT: Final = "stop-text"
"""The end of a text that met one to stop at; the other ends are those of `GenerationEnd`."""


class Continuation:
    """What comes behind a prompt.

    The character of an id that ends a text is not part of the text: it is none that anybody would read. A text to stop
    at is taken away, but the ids in which it came stay.

    Attributes:
        ids: the new ids so far.
        draws: for each of them the number that was drawn, None where none was.
        text: the bytes that were shown so far.
        end: why it ended; empty before.

    Args:
        writer, prompt: who continues what.
        drawing: what chooses; its generator moves on.
        new_tokens: at most so many; as many as the context has room for if None.
        stops: texts before which it ends.

    Raises:
        EmptyStopText: one of these is empty.
    """

    def __init__(
        self,
        writer: Writer,
        prompt: Prompt,
        drawing: Drawing,
        new_tokens: int | None = None,
        stops: Sequence[bytes] = (),
    ) -> None:
        self.ids: list[int] = []
        self.draws: list[Draw | None] = []
        self.text = b""
        self.end = ""
        self._writer = writer
        self._drawing = drawing
        self._watch = StopWatch(stops)
        self._steps = writer.steps(prompt.ids, new_tokens, drawing.sampler)

    def pieces(self) -> Iterator[bytes]:
        """Yield bytes to show, one piece a token; a piece may be empty, and may end within a character.

        Raises:
            NetError, LegacySamplingError: the net cannot be run, or nothing can be chosen.
        """
        drawn = len(self._drawing.draws)
        for step in self._steps:
            fresh = self._drawing.draws[drawn:]
            drawn += len(fresh)
            self.ids.append(step.token)
            self.draws.append(fresh[-1] if fresh else None)
            ended = step.end is GenerationEnd.TOKEN
            yield self._shown(self._watch.push(b"" if ended else self._writer.text_of(step.token)))
            if self._watch.stopped or step.end is not None:
                self.end = STOP_TEXT if self._watch.stopped else str(step.end)
                break
        yield self._shown(self._watch.finish())

    def _shown(self, piece: bytes) -> bytes:
        self.text += piece
        return piece
