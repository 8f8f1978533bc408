"""Texts continued by trained nets: what a prompt becomes, how tokens are drawn, when to stop, what is shown.

Samplers by the names that users know, each with the generator that belongs to it, and a record of what it drew.

A text in the making: bytes to show as they come, and afterwards the ids, the draws, and why it ended.

From bytes that come a token at a time to what may be shown: up to a text to stop at, in whole characters.

A trained net with the vocabulary that it was trained on: what a prompt becomes, and the tokens behind it.

Where net and vocabulary have different numbers of ids, both are used as they are: an id that the net chooses and the
vocabulary has not adds no text, as in the library, and a prompt with an id that the net has not is refused.

A net in which no token sees later ones is streamed, any other one encodes its whole context for every token. Unlike the
library's session, the one here carries token shifts, so that what is streamed is what the net learned.
"""

from __future__ import annotations

import os
from codecs import getincrementaldecoder
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, TypeVar

import numpy as np

from cai_conformance.errors import InputError
from cai_conformance.fixtures.files import FilePath, read_file
from cai_neural_api.choices import SamplerKind, Semantics
from cai_neural_api.errors import ChatInputError, LegacyError
from cai_neural_api.exchange import read_net
from cai_neural_api.generation import (
    GenerationEnd,
    GenerationStep,
    StreamLimits,
    check_ids,
    check_net,
    streamed,
    whole_context,
)
from cai_neural_api.mersenne import MASK_32, MersenneTwister
from cai_neural_api.net.graph import Net
from cai_neural_api.net.layers.attention import WHOLE_SEQUENCE, DotProductAttention
from cai_neural_api.net.session import NetSession
from cai_neural_api.sampling import LibraryGreedy, LibraryMinP, LibraryTopK, LibraryTopP, Sampler, StandardSampler
from cai_neural_api.structure import check_run, check_session
from cai_neural_api.tokenizer import Vocabulary, decode, encode
from cai_neural_api.training.pairs import require_probabilities
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.errors import CaiReferenceError
from cai_reference.splitmix import SplitMix64

Draw: TypeAlias = int | float
Number = TypeVar("Number", int, float)

DEFAULT_K: Final = 40
DEFAULT_P: Final = 0.9
DEFAULT_Q: Final = 0.1


@dataclass(frozen=True)
class SamplerSettings:
    """A sampler as somebody asks for it; None stands for what was not said.

    Attributes:
        kind, semantics, seed: which sampler, whose, and where its generator starts.
        k, p, q: of top-k, top-p and min-p.
        temperature: of the standard samplers but greedy.

    Raises:
        ChatInputError (setting-unused): a number is given that the sampler does not look at.
        ChatInputError (seed-beyond-generator): the seed does not fit into the 32 bits of the library's generator.
    """

    kind: SamplerKind = SamplerKind.GREEDY
    semantics: Semantics = Semantics.LIBRARY
    k: int | None = None
    p: float | None = None
    q: float | None = None
    temperature: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        numbers = {
            SamplerKind.TOP_K: ("--k", self.k),
            SamplerKind.TOP_P: ("--p", self.p),
            SamplerKind.MIN_P: ("--q", self.q),
        }
        for kind, (option, value) in numbers.items():
            if value is not None and kind is not self.kind:
                raise ChatInputError("setting-unused", option=option, chosen=f"--sampler {self.kind}")
        if self.temperature is not None:
            if self.kind is SamplerKind.GREEDY:
                raise ChatInputError("setting-unused", option="--temperature", chosen="--sampler greedy")
            if self.semantics is Semantics.LIBRARY:
                raise ChatInputError(
                    "setting-unused",
                    option="--temperature",
                    chosen="the library's samplers; --semantics standard has one",
                )
        if self.semantics is Semantics.LIBRARY and self.seed > MASK_32:
            raise ChatInputError("seed-beyond-generator", seed=self.seed, largest=MASK_32)


@dataclass(frozen=True)
class Drawing:
    """A sampler, and the numbers that its generator has given it so far, in order.

    Those of the library are words of 32 bits, the standard ones doubles in [0, 1).
    """

    sampler: Sampler
    draws: list[Draw] = field(default_factory=list)

    @classmethod
    def of(cls, settings: SamplerSettings, vocabulary: int, arithmetic: Arithmetic) -> Drawing:
        """Make a sampler for rows of a net; its generator starts at the seed.

        Raises:
            LegacyError (top-k-too-small, top-p-out-of-range, min-p-out-of-range, temperature-out-of-range): a number is
                out of range.
            LegacyError (top-k-beyond-row): the library's top-k would read past a row.
            SplitMixError (invalid-seed): the seed does not fit into 64 bits.
        """
        draws: list[Draw] = []
        if settings.semantics is Semantics.LIBRARY:
            return cls(_library(settings, vocabulary, draws.append), draws)
        return cls(_standard(settings, arithmetic, draws.append), draws)


class _RecordingTwister(MersenneTwister):
    """The library's generator, overheard."""

    def __init__(self, seed: int, record: Callable[[Draw], None]) -> None:
        super().__init__(seed)
        self._record = record

    def next_u32(self) -> int:
        """Return the next 32 bits, and record them."""
        word = super().next_u32()
        self._record(word)
        return word


class _RecordingSplitMix(SplitMix64):
    """SplitMix64, overheard."""

    def __init__(self, seed: int, record: Callable[[Draw], None]) -> None:
        super().__init__(seed)
        self._record = record

    def unit(self) -> float:
        """Return a double in [0, 1), and record it."""
        unit = super().unit()
        self._record(unit)
        return unit


class _Largest:
    """The largest probability as a double; the first of equal ones. The library compares singles."""

    def choose(self, row: Array) -> int:
        """Return the token."""
        return int(np.argmax(row))


def _library(settings: SamplerSettings, vocabulary: int, record: Callable[[Draw], None]) -> Sampler:
    generator = _RecordingTwister(settings.seed, record)
    if settings.kind is SamplerKind.TOP_K:
        sampler = LibraryTopK(_or(settings.k, DEFAULT_K), generator)
        if sampler.k > vocabulary:
            raise LegacyError("top-k-beyond-row", k=sampler.k, size=vocabulary)
        return sampler
    if settings.kind is SamplerKind.TOP_P:
        return LibraryTopP(_or(settings.p, DEFAULT_P), generator)
    if settings.kind is SamplerKind.MIN_P:
        return LibraryMinP(_or(settings.q, DEFAULT_Q), generator)
    return LibraryGreedy()


def _standard(settings: SamplerSettings, arithmetic: Arithmetic, record: Callable[[Draw], None]) -> Sampler:
    generator = _RecordingSplitMix(settings.seed, record)
    if settings.kind is SamplerKind.GREEDY:
        return _Largest()
    return StandardSampler(
        generator,
        1.0 if settings.temperature is None else settings.temperature,
        _or(settings.k, DEFAULT_K) if settings.kind is SamplerKind.TOP_K else None,
        _or(settings.p, DEFAULT_P) if settings.kind is SamplerKind.TOP_P else None,
        _or(settings.q, DEFAULT_Q) if settings.kind is SamplerKind.MIN_P else None,
        arithmetic,
    )


def _or(given: Number | None, default: Number) -> Number:
    return default if given is None else given


STOP_TEXT: Final = "stop-text"
"""The end of a text that met one to stop at; the other ends are those of `GenerationEnd`."""


class ChatContinuation:
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
        ChatInputError (empty-stop-text): one of these is empty.
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
            NetError, LegacyError: the net cannot be run, or nothing can be chosen.
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


LAYOUT: Final = frozenset("\n\t")
"""Control characters that a text of several lines may keep."""


class StopWatch:
    """Lets bytes pass up to the first of some texts, however these are cut into tokens.

    What could be the start of such a text is held back until it is clear whether it is.

    Attributes:
        stopped: whether one of the texts was found; nothing passes from then on.

    Raises:
        ChatInputError (empty-stop-text): one of them is empty.
    """

    def __init__(self, stops: Sequence[bytes]) -> None:
        if not all(stops):
            raise ChatInputError("empty-stop-text")
        self.stopped = False
        self._stops = tuple(stops)
        self._held = b""

    def push(self, data: bytes) -> bytes:
        """Take the bytes of a token, and return what may be shown now."""
        if self.stopped:
            return b""
        held = self._held + data
        found = [place for place in (held.find(stop) for stop in self._stops) if place >= 0]
        if found:
            self.stopped, self._held = True, b""
            return held[: min(found)]
        keep = max((_overlap(held, stop) for stop in self._stops), default=0)
        self._held = held[len(held) - keep :]
        return held[: len(held) - keep]

    def finish(self) -> bytes:
        """Return what was held back, since nothing follows."""
        held, self._held = self._held, b""
        return held


class Characters:
    r"""Whole characters from bytes that may end within one; nothing that comes out can disturb a terminal.

    Bytes that are no UTF-8 become U+FFFD. Control, format and surrogate characters are spelt as escapes such as `\x1b`,
    but for those in `kept`.
    """

    def __init__(self, kept: Collection[str] = ()) -> None:
        self._kept = kept
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def push(self, data: bytes) -> str:
        """Take bytes, and return the characters that they complete."""
        return self._spelt(self._decoder.decode(data))

    def finish(self) -> str:
        """Return U+FFFD for a character that was not completed, or nothing."""
        return self._spelt(self._decoder.decode(b"", final=True))

    def _spelt(self, text: str) -> str:
        return "".join(
            char if char.isprintable() or char in self._kept else char.encode("unicode-escape").decode("ascii")
            for char in text
        )


def _overlap(data: bytes, stop: bytes) -> int:
    """Return how many bytes at the end of `data` are the start of `stop`."""
    return next((size for size in range(min(len(stop) - 1, len(data)), 0, -1) if data.endswith(stop[:size])), 0)


@dataclass(frozen=True)
class Prompt:
    """A text to continue.

    Attributes:
        text: as it was given.
        ids: what the tokenizer makes of it.
        read_as: the text that these ids stand for, which is what the net reads.
    """

    text: bytes
    ids: tuple[int, ...]
    read_as: bytes

    @property
    def loss(self) -> str:
        """What the tokenizer loses of the text, in a sentence of printable characters; empty if nothing."""
        if self.read_as == self.text:
            return ""
        read = self.read_as.decode("utf-8", "replace")
        if self.read_as.lower() == self.text.lower():
            return f"the net reads {read!r}: the tokenizer ignores the case of whole words"
        return f"the net reads {read!r}: the tokenizer knows no characters beyond ASCII"


class Writer:
    """A net that continues texts.

    Attributes:
        net, vocabulary, arithmetic: what it is made of.
        known: how many ids the net knows.
        streams: whether tokens are streamed.

    Raises:
        LegacyError (several-future-tokens): the net does not end in probabilities of the next token.
    """

    def __init__(self, net: Net, vocabulary: Vocabulary, arithmetic: Arithmetic) -> None:
        self.net, self.vocabulary, self.arithmetic = net, vocabulary, arithmetic
        self.known = check_net(net)
        require_probabilities(net)
        self.streams = not any(
            isinstance(layer, WHOLE_SEQUENCE) or (isinstance(layer, DotProductAttention) and not layer.causal)
            for layer in net.layers
        )

    @classmethod
    def load(cls, net: FilePath, vocabulary: FilePath, arithmetic: Arithmetic) -> Writer:
        """Read a net and a vocabulary.

        Raises:
            InputError (input-unreadable), ExchangeError (unreadable-net): a file cannot be read, or is damaged.
            ChatInputError (unsuitable-net): the net cannot continue texts.
        """
        file = read_net(net)
        try:
            known = Vocabulary.parse(read_file(vocabulary))
        except CaiReferenceError as error:
            raise InputError("input-unreadable", path=os.fspath(vocabulary), problem=str(error)) from None
        try:
            return cls(Net.from_file(file), known, arithmetic)
        except CaiReferenceError as error:
            raise ChatInputError("unsuitable-net", path=os.fspath(net), problem=str(error)) from error

    def prompt(self, text: bytes) -> Prompt:
        """Encode a prompt.

        Raises:
            ChatInputError (unusable-prompt): it is empty, holds a byte that the tokenizer keeps for itself, or an id
                that the net
                does not know.
            ChatInputError (prompt-fills-context): no token has room behind it.
        """
        if not text:
            raise ChatInputError("unusable-prompt", problem="it is empty")
        try:
            ids = tuple(encode(self.vocabulary, text))
            check_ids(ids, self.known)
        except CaiReferenceError as error:
            raise ChatInputError("unusable-prompt", problem=str(error)) from error
        if len(ids) >= self.net.context:
            raise ChatInputError("prompt-fills-context", tokens=len(ids), most=self.net.context - 1)
        return Prompt(text, ids, decode(self.vocabulary, ids))

    def steps(self, ids: Sequence[int], new_tokens: int | None, sampler: Sampler) -> Iterator[GenerationStep]:
        """Return the steps behind a prompt, one a token, up to a number of them or to the end of the context.

        Raises:
            NetInputError (net-too-large): that takes too much memory.
            NetError, LegacyError: from a step, if the net cannot be run or nothing can be chosen.
        """
        most = self.net.context if new_tokens is None else new_tokens
        if not self.streams:
            check_run(self.net)
            return _limited(whole_context(self.net, self.arithmetic, ids, sampler), most)
        room = min(self.net.context, len(ids) + most)
        check_session(self.net, room)
        session = NetSession(self.net, self.arithmetic, room, carries_shift=True)
        return streamed(session, ids, StreamLimits(most, self.net.context), sampler=sampler)

    def text_of(self, token: int) -> bytes:
        """Return the bytes of an id; none beyond the vocabulary."""
        return decode(self.vocabulary, [token])


def _limited(steps: Iterator[GenerationStep], most: int) -> Iterator[GenerationStep]:
    for count, step in enumerate(steps, 1):
        if count >= most and step.end is not GenerationEnd.TOKEN:
            yield replace(step, end=GenerationEnd.LIMIT)
            return
        yield step
