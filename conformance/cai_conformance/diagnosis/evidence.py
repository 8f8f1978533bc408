"""What a backend showed on the given weights, as values that the reference can show, too: rows and steps.

Whatever is planted into the reference, its own answer is as far from the evidence as `residuals` say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np

from cai_conformance.diagnosis.distances import absolute_gaps
from cai_conformance.diagnosis.stages import reference_pass, without_batch_axis
from cai_conformance.faults import Place
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.models.stack import DecoderStack


class ShownEvidence(Protocol):
    """Something that a backend showed."""

    @property
    def places(self) -> frozenset[Place]:
        """Where a fault can act so that this shows it."""
        ...

    def residuals(self, model: DecoderStack, arithmetic: Arithmetic) -> tuple[float, ...]:
        """Return, for each array that was shown, the largest difference to what the reference shows now."""
        ...


@dataclass(frozen=True, eq=False)
class BatchRows:
    """Logits of a full pass over one sequence.

    Attributes:
        ids: the sequence.
        start: the position of its first token.
        wanted: the places behind which logits were asked for.
        rows: float64 [heads, wanted, vocabulary].
        stages: stages that were shown, by the reference's names. What logits hide, such as where positions begin, is
            in queries and keys.
    """

    ids: tuple[int, ...]
    start: int
    wanted: tuple[int, ...]
    rows: Array
    stages: Mapping[str, Array] = field(default_factory=dict)

    @property
    def places(self) -> frozenset[Place]:
        """The batch path."""
        return frozenset({Place.BATCH})

    def residuals(self, model: DecoderStack, arithmetic: Arithmetic) -> tuple[float, ...]:
        """Run the batch path."""
        if not self.stages:
            heads = model.forward(Tape(arithmetic, recording=False), list(self.ids), 1, self.start)
            return (_largest(np.stack([head.value[0][list(self.wanted)] for head in heads]), self.rows),)
        found = reference_pass(model, self.ids, self.start, arithmetic)
        logits = [value for name, value in found.items() if name.startswith("logits.")]
        gaps = [_largest(np.stack([head[list(self.wanted)] for head in logits]), self.rows)]
        gaps += [
            _largest(found[name], without_batch_axis(name, value, found))
            for name, value in self.stages.items()
            if name in found
        ]
        return tuple(gaps)


@dataclass(frozen=True)
class ShownFeed:
    """Tokens are fed in one call."""

    ids: tuple[int, ...]


@dataclass(frozen=True)
class Cut:
    """All but the first tokens are forgotten."""

    length: int


@dataclass(frozen=True)
class Begin:
    """Everything is forgotten, and another sequence begins."""


Call: TypeAlias = ShownFeed | Cut | Begin


@dataclass(frozen=True, eq=False)
class SessionRows:
    """Logits of the last call of a session.

    Attributes:
        calls: what was done; the last one feeds.
        rows: float64 [heads, tokens of the last call, vocabulary]; the newest of them if there are fewer.
        start: the position of the first token.
        slack: how many tokens a windowed or recurrent layer can be cut back.
        latent: what latent attention caches.
    """

    calls: tuple[Call, ...]
    rows: Array
    start: int = 0
    slack: int = 0
    latent: LatentCache = LatentCache.HEADS

    @property
    def places(self) -> frozenset[Place]:
        """Sessions."""
        return frozenset({Place.SESSION})

    def residuals(self, model: DecoderStack, arithmetic: Arithmetic) -> tuple[float, ...]:
        """Replay the calls in a new session."""
        session = Session(model, arithmetic, SessionOptions(self.start, slack=self.slack, latent=self.latent))
        logits: list[Array] = []
        for call in self.calls:
            match call:
                case ShownFeed(ids):
                    logits = session.feed(ids)
                case Cut(length):
                    session.truncate(length)
                case Begin():
                    session.reset()
        return (_largest(np.stack(logits)[:, -self.rows.shape[1] :], self.rows),)


def _largest(expected: Array, found: Array) -> float:
    """Return the largest absolute difference; infinite where shapes differ."""
    return float(np.max(absolute_gaps(expected, found))) if expected.shape == found.shape else float("inf")
