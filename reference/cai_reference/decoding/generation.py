"""Greedy generation by one of several paths: the result, the paths, the plain loop, and when it stops.

A *path* turns the sequence so far into the logits after its newest tokens: by encoding the whole prefix again, or by
feeding a session what it has not seen. What is generated must not depend on the path.

EOS is appended and ends (`eos`); so does the budget (`limit`), and a full context (`context-limit`), looked at in this
order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape
from cai_reference.decoding.errors import DecodingError
from cai_reference.decoding.greedy import greedy_token, margin
from cai_reference.models.stack import DecoderStack


class DecoderStop(StrEnum):
    """Why a generation ended."""

    EOS = "eos"
    LIMIT = "limit"
    CONTEXT = "context-limit"


@dataclass(frozen=True)
class Limits:
    """When to stop: an id that ends (None: none does), a budget of new tokens, and the longest sequence."""

    eos: int | None
    new_tokens: int
    context: int


@dataclass(frozen=True)
class DraftPass:
    """One pass of speculation: tokens proposed, accepted and committed, and fed rows that were undone."""

    proposed: int
    accepted: int
    committed: int
    rolled_back: int


@dataclass(frozen=True)
class Generation:
    """What came after a prompt.

    Attributes:
        ids: the new tokens, EOS included where it ended.
        rows: for each new token the logits [vocabulary] it was chosen from.
        stop: why it ended.
        forwards: calls of the model, prefill included.
        draft_forwards: calls of a draft model.
        passes: the passes of speculation; empty without.
    """

    ids: tuple[int, ...]
    rows: tuple[Array, ...]
    stop: DecoderStop
    forwards: int
    draft_forwards: int = 0
    passes: tuple[DraftPass, ...] = ()

    def margins(self) -> tuple[float, ...]:
        """Return for each new token the gap between the two largest logits."""
        return tuple(margin(row) for row in self.rows)


class Path(Protocol):
    """A way to get logits. `forwards` counts model calls."""

    forwards: int

    def prefill(self, ids: Sequence[int]) -> None:
        """Take note of a prompt's first tokens, whose logits nobody needs."""
        ...

    def after(self, ids: Sequence[int], newest: int) -> list[Array]:
        """Return, for each head, the logits [newest, vocabulary] after each of the last `newest` tokens."""
        ...

    def keep(self, length: int) -> None:
        """Forget what was fed behind the first `length` tokens."""
        ...


class FedTokens(Protocol):
    """What a streaming path feeds: a session, or whatever remembers a sequence as one does."""

    @property
    def length(self) -> int:
        """How many tokens are remembered."""
        ...

    def feed(self, ids: Sequence[int]) -> list[Array]:
        """Feed tokens and return, for each head, the logits [tokens, vocabulary] after each of them."""
        ...

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        ...


class ReencodingPath:
    """Encodes the whole sequence by the batch path, every time."""

    def __init__(self, model: DecoderStack, arithmetic: Arithmetic) -> None:
        self.forwards = 0
        self._model = model
        self._tape = Tape(arithmetic, recording=False)

    def prefill(self, ids: Sequence[int]) -> None:
        """Nothing is remembered, so there is nothing to do."""

    def after(self, ids: Sequence[int], newest: int) -> list[Array]:
        """Encode all of `ids` and return the last rows."""
        self.forwards += 1
        heads = self._model.forward(self._tape, ids, batch=1, newest=newest)
        return [logits.value[0] for logits in heads]

    def keep(self, length: int) -> None:
        """Nothing is remembered, so there is nothing to forget."""


class StreamingPath:
    """Feeds a session what is new; the prompt goes in by chunks."""

    def __init__(self, session: FedTokens, chunk: int = 1) -> None:
        self.forwards = 0
        self.session = session
        self._chunk = chunk

    def prefill(self, ids: Sequence[int]) -> None:
        """Feed the prompt chunk by chunk."""
        for first in range(0, len(ids), self._chunk):
            self._feed(ids[first : first + self._chunk])

    def after(self, ids: Sequence[int], newest: int) -> list[Array]:
        """Feed the tokens that the session has not seen, which are the last `newest`."""
        return [logits[-newest:] for logits in self._feed(ids[self.session.length :])]

    def keep(self, length: int) -> None:
        """Cut the session back."""
        self.session.truncate(length)

    def _feed(self, ids: Sequence[int]) -> list[Array]:
        self.forwards += 1
        return self.session.feed(ids)


def check_prompt(prompt: Sequence[int], limits: Limits) -> None:
    """Refuse a prompt that is empty or fills the context.

    Raises:
        DecodingError (empty-prompt, prompt-too-long): as the names say.
    """
    if not prompt:
        raise DecodingError("empty-prompt")
    if len(prompt) >= limits.context:
        raise DecodingError("prompt-too-long", length=len(prompt), context=limits.context)


def stop_after(token: int, new_tokens: int, length: int, limits: Limits) -> DecoderStop | None:
    """Return why generation ends after `token`, the sequence now being `length` long, or None."""
    # EOS first: a text that ends on its last token has ended, not been cut
    if token == limits.eos:
        return DecoderStop.EOS
    if new_tokens >= limits.new_tokens:
        return DecoderStop.LIMIT
    return DecoderStop.CONTEXT if length >= limits.context else None


def generate(path: Path, prompt: Sequence[int], limits: Limits) -> Generation:
    """Generate one token at a time: prefill all but the last prompt token, then feed the newest token and choose.

    Raises:
        DecodingError (empty-prompt, prompt-too-long): before any model call.
        SessionError, AutogradError, `non-finite-logit`: the path or the choice failed.
    """
    check_prompt(prompt, limits)
    # the last prompt token is fed by the first choice, whose logits it gives
    path.prefill(prompt[:-1])
    ids = list(prompt)
    rows: list[Array] = []
    stop: DecoderStop | None = None if limits.new_tokens > 0 else DecoderStop.LIMIT
    while stop is None:
        rows.append(path.after(ids, 1)[0][0])
        ids.append(greedy_token(rows[-1]))
        stop = stop_after(ids[-1], len(rows), len(ids), limits)
    return Generation(tuple(ids[len(prompt) :]), tuple(rows), stop, path.forwards)
