"""A trained net with the vocabulary that it was trained on: what a prompt becomes, and the tokens behind it.

Where net and vocabulary have different numbers of ids, both are used as they are: an id that the net chooses and the
vocabulary has not adds no text, as in the library, and a prompt with an id that the net has not is refused.

A net in which no token sees later ones is streamed, any other one encodes its whole context for every token. Unlike the
library's session, the one here carries token shifts, so that what is streamed is what the net learned.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cai_conformance.chatting.errors import PromptFillsContext, UnsuitableNet, UnusablePrompt
from cai_conformance.errors import InputUnreadable
from cai_conformance.interchange.files import FilePath, read_file
from cai_conformance.interchange.nets import read_net
from cai_conformance.nets.memory import check_run, check_session
from cai_reference.arithmetic import Arithmetic
from cai_reference.errors import CaiReferenceError
from cai_reference.legacy.generation import GenerationEnd, Step, StreamLimits, streamed, whole_context
from cai_reference.legacy.generation.steps import check_ids, check_net
from cai_reference.legacy.sampling import Sampler
from cai_reference.legacy.tokenizer import Vocabulary, decode, encode
from cai_reference.legacy.training.language_model import require_probabilities
from cai_reference.nets.graph.layers.attention import WHOLE_SEQUENCE, DotProductAttention
from cai_reference.nets.graph.net import Net
from cai_reference.nets.graph.session import NetSession


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
        NotALanguageModel, SeveralFutureTokens: the net does not end in probabilities of the next token.
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
            InputUnreadable, UnreadableNet: a file cannot be read, or is damaged.
            UnsuitableNet: the net cannot continue texts.
        """
        file = read_net(net)
        try:
            known = Vocabulary.parse(read_file(vocabulary))
        except CaiReferenceError as error:
            raise InputUnreadable(os.fspath(vocabulary), str(error)) from None
        try:
            return cls(Net.from_file(file), known, arithmetic)
        except CaiReferenceError as error:
            raise UnsuitableNet(os.fspath(net), str(error)) from error

    def prompt(self, text: bytes) -> Prompt:
        """Encode a prompt.

        Raises:
            UnusablePrompt: it is empty, holds a byte that the tokenizer keeps for itself, or an id that the net
                does not know.
            PromptFillsContext: no token has room behind it.
        """
        if not text:
            raise UnusablePrompt("it is empty")
        try:
            ids = tuple(encode(self.vocabulary, text))
            check_ids(ids, self.known)
        except CaiReferenceError as error:
            raise UnusablePrompt(str(error)) from error
        if len(ids) >= self.net.context:
            raise PromptFillsContext(len(ids), self.net.context - 1)
        return Prompt(text, ids, decode(self.vocabulary, ids))

    def steps(self, ids: Sequence[int], new_tokens: int | None, sampler: Sampler) -> Iterator[Step]:
        """Return the steps behind a prompt, one a token, up to a number of them or to the end of the context.

        Raises:
            NetTooLarge: that takes too much memory.
            NetError, LegacySamplingError: from a step, if the net cannot be run or nothing can be chosen.
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


def _limited(steps: Iterator[Step], most: int) -> Iterator[Step]:
    for count, step in enumerate(steps, 1):
        if count >= most and step.end is not GenerationEnd.TOKEN:
            yield replace(step, end=GenerationEnd.LIMIT)
            return
        yield step
