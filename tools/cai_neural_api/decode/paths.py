"""The ways from the tokens so far to the prediction of the next one: a net encoded again, or streamed.

A *path* is asked for one prediction after the other, each time with one token more. What it answers must not depend on
the path, as long as the path is exact.

Where a net keeps its predictions: how many future tokens it has heads for, and where the logits of each head are.

A net of one head ends in a softmax. A net of several ends in the concatenation of their softmaxes, head 0 first; head 0
predicts the next token.

Whether a net looks ahead: whether what it says behind a token depends on later ones. Found by trying.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from cai_neural_api.net.graph import Net
from cai_neural_api.net.session import NetSession
from cai_neural_api.net.structure import LayerSpec
from cai_neural_api.training.pairs import language_model
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.decoding.session import Session
from cai_reference.decoding.speculation import TokenShiftSession
from cai_reference.models.token_shift_draft import TokenShiftDraft

SOFTMAX: Final = "TNNetPointwiseSoftMax"
CONCATENATION: Final = "TNNetDeepConcat"


@dataclass(frozen=True)
class Prediction:
    """What a head says about one token.

    Attributes:
        scores: [vocabulary], of which the first largest is chosen.
        logits: [vocabulary], the scores before the softmax, or the scores themselves where a net has none.
    """

    scores: Array
    logits: Array

    @property
    def choice(self) -> int:
        """The id of the largest score, of several the lowest."""
        return int(np.argmax(self.scores))

    @property
    def margin(self) -> float:
        """How far the logit of the choice is above the largest other one; below 0 if rounding alone made it so."""
        others = np.delete(self.logits, self.choice)
        return float(self.logits[self.choice] - np.max(others)) if others.size else float("inf")


@dataclass(frozen=True)
class Heads:
    """The heads of a net.

    Attributes:
        vocabulary: how many ids there are.
        count: how many heads.
        logits: for each head the layer whose output its softmax reads; None where there is no such layer.
    """

    vocabulary: int
    count: int
    logits: tuple[int | None, ...]

    @classmethod
    def of(cls, net: Net) -> Heads:
        """Find the heads of a net.

        Raises:
            LegacyError: its output is not a row of probabilities a token.
        """
        vocabulary, count = language_model(net)
        return cls(vocabulary, count, _logit_layers(net.specs, count))

    def prediction(self, outputs: Sequence[Array], row: int, head: int = 0) -> Prediction:
        """Return what one head predicts in a row, from the outputs [tokens, depth] of all layers."""
        scores = outputs[-1][row, head * self.vocabulary : (head + 1) * self.vocabulary]
        layer = self.logits[head]
        return Prediction(scores, scores if layer is None else outputs[layer][row])


def _logit_layers(specs: Sequence[LayerSpec], count: int) -> tuple[int | None, ...]:
    last = specs[-1]
    if last.kind == SOFTMAX and count == 1:
        return (last.previous,)
    if last.kind == CONCATENATION and [specs[index].kind for index in last.listed] == [SOFTMAX] * count:
        return tuple(specs[index].previous for index in last.listed)
    return (None,) * count


PADDING: Final = 0
"""What stands behind the tokens of a padded input."""


class NetPath(Protocol):
    """A way to predictions. `forwards` counts runs of the net."""

    forwards: int

    def prefill(self, ids: Sequence[int]) -> None:
        """Take note of the first tokens of a prompt, behind which nobody asks for a prediction."""
        ...

    def next(self, ids: Sequence[int]) -> Prediction:
        """Return the prediction behind `ids`, which are one token longer than what was seen before."""
        ...


class EncodingPath:
    """What paths share that encode tokens again for every prediction, and remember nothing."""

    def __init__(self, net: Net, arithmetic: Arithmetic) -> None:
        self.forwards = 0
        self._net = net
        self._arithmetic = arithmetic
        self._heads = Heads.of(net)

    def prefill(self, ids: Sequence[int]) -> None:
        """Nothing is remembered, so there is nothing to do."""

    def encoded(self, ids: Sequence[int]) -> tuple[Array, ...]:
        """Run the net on these tokens alone, and return the outputs [tokens, depth] of all layers."""
        self.forwards += 1
        return tuple(output[0] for output in self._net.run(self._arithmetic, [list(ids)]).outputs)


class PaddedPath(EncodingPath):
    """Encodes everything again, padded with zeros to the context, as the library's *full* arm does."""

    def next(self, ids: Sequence[int]) -> Prediction:
        """Run the whole context and read the row of the newest token."""
        return self._heads.prediction(self.outputs(ids), len(ids) - 1)

    def outputs(self, ids: Sequence[int]) -> tuple[Array, ...]:
        """Return the outputs [context, depth] of all layers."""
        return self.encoded([*ids, *[PADDING] * (self._net.context - len(ids))])


class PrefixPath(EncodingPath):
    """Encodes everything again, without padding."""

    def next(self, ids: Sequence[int]) -> Prediction:
        """Run the tokens and read the last row."""
        return self._heads.prediction(self.encoded(ids), -1)


class TwoTokenPath(EncodingPath):
    """Encodes the two newest tokens and reads the second row, for nets whose only memory is a token shift."""

    def next(self, ids: Sequence[int]) -> Prediction:
        """Run the two newest tokens; id 0 stands before the first, whose embedding is zero."""
        return self._heads.prediction(self.encoded([PADDING, *ids][-2:]), 1)


class ForgetfulPath(EncodingPath):
    """Encodes every chunk by itself: what the library's session makes of a net of which it collects nothing."""

    def __init__(self, net: Net, arithmetic: Arithmetic) -> None:
        super().__init__(net, arithmetic)
        self._fed = 0

    def prefill(self, ids: Sequence[int]) -> None:
        """Feed token after token."""
        for token in ids:
            self.feed([token])

    def next(self, ids: Sequence[int]) -> Prediction:
        """Feed what is new."""
        return self._heads.prediction(self.feed(ids[self._fed :]), -1)

    def feed(self, ids: Sequence[int]) -> tuple[Array, ...]:
        """Return the outputs [tokens, depth] of all layers for these tokens alone."""
        self._fed += len(ids)
        return self.encoded(ids)


class SessionPath:
    """Streams a net through a session, a token a step; the prompt goes in by `chunk` tokens."""

    def __init__(self, session: NetSession, chunk: int = 1) -> None:
        self.forwards = 0
        self.session = session
        self._heads = Heads.of(session.net)
        self._chunk = chunk
        self._fed = 0

    @classmethod
    def open(cls, net: Net, arithmetic: Arithmetic, chunk: int = 1, *, carries_shift: bool = False) -> SessionPath:
        """Open a session with room for the context and a token more, as the published programs do.

        Raises:
            NetSessionError (not-streamable): a layer needs the whole sequence.
        """
        return cls(NetSession(net, arithmetic, net.context + 1, carries_shift=carries_shift), chunk)

    def prefill(self, ids: Sequence[int]) -> None:
        """Feed the tokens by chunks."""
        for first in range(0, len(ids), self._chunk):
            self.feed(ids[first : first + self._chunk])

    def next(self, ids: Sequence[int]) -> Prediction:
        """Feed what is new."""
        return self._heads.prediction(self.feed(ids[self._fed :]), -1)

    def feed(self, ids: Sequence[int]) -> tuple[Array, ...]:
        """Feed tokens behind those fed before, and return the outputs [tokens, depth] of all layers."""
        self.forwards += 1
        outputs = self.session.step(ids, self._fed)
        self._fed += len(ids)
        return outputs


class SnapshotPath(SessionPath):
    """Takes a snapshot before every step, goes astray by a step, and is restored."""

    def next(self, ids: Sequence[int]) -> Prediction:
        """Feed a wrong token, go back, and feed the right one."""
        snapshot, fed = self.session.snapshot(), self._fed
        # The neighbour of the right id; id 0 could not be told from padding.
        self.feed([1 if ids[-1] != 1 else min(2, self._heads.vocabulary - 1)])
        self.session.restore(snapshot)
        self._fed = fed
        return super().next(ids)


class RefeedingPath(SessionPath):
    """Cuts its caches back before every step by up to `chunk` tokens, and feeds those again in one window."""

    def next(self, ids: Sequence[int]) -> Prediction:
        """Cut back, then feed what was cut and what is new."""
        self._fed = max(0, self._fed - self._chunk)
        self.session.truncate(self._fed)
        return super().next(ids)


class DecoderPath:
    """Streams the decoder that a net is, through the decoder family's own session."""

    def __init__(self, session: Session) -> None:
        self.forwards = 0
        self._session = session

    def prefill(self, ids: Sequence[int]) -> None:
        """Feed token after token."""
        for token in ids:
            self._feed([token])

    def next(self, ids: Sequence[int]) -> Prediction:
        """Feed what is new; a decoder gives logits, and the largest is chosen."""
        logits = self._feed(ids[self._session.length :])
        return Prediction(logits, logits)

    def _feed(self, ids: Sequence[int]) -> Array:
        self.forwards += 1
        row: Array = self._session.feed(ids)[0][-1]
        return row


class DraftPath:
    """Streams the draft that a net is, through the draft family's own session."""

    def __init__(self, model: TokenShiftDraft, arithmetic: Arithmetic) -> None:
        self.forwards = 0
        self._session = TokenShiftSession(model, arithmetic)

    def prefill(self, ids: Sequence[int]) -> None:
        """Nothing: the two newest tokens are all that a draft sees."""

    def next(self, ids: Sequence[int]) -> Prediction:
        """Ask the draft."""
        self.forwards += 1
        logits = self._session.logits(ids)
        return Prediction(logits, logits)


ROUNDING: Final = 1e-9
"""Rows of one batch may differ by rounding alone; what depends on other tokens differs by more."""


def look_ahead(net: Net, arithmetic: Arithmetic) -> int | None:
    """Return the first row of the output that changes with later tokens, in some trials; None if none did.

    The tokens from some position on are replaced, for a position near the start, in the middle and at the end.

    Raises:
        LegacyError: the net does not score the ids that it reads.
        NetError: the net does not run.
    """
    vocabulary, context = Heads.of(net).vocabulary, net.context
    ids = np.array([1 + position % max(1, vocabulary - 1) for position in range(context)]) % vocabulary
    for start in sorted({1, context // 2, context - 1} - {0}):
        other = ids.copy()
        other[start:] = (other[start:] + 1) % vocabulary
        first, second = net.output(arithmetic, np.stack([ids, other]))
        changed = np.max(np.abs(first[:start] - second[:start]), axis=1) > ROUNDING
        if np.any(changed):
            return int(np.argmax(changed))
    return None
