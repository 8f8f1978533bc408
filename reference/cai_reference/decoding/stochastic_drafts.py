"""Who guesses ahead by chance: a model that is sampled, or a greedy draft taken as certain.

A stochastic draft hands over each guess with the law from which it was drawn, because the target must weigh the guess
by exactly that law: any other biases the text (Leviathan, Kalman and Matias, "Fast inference from transformers via
speculative decoding", 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.decoding.drafts import Draft, TokenShiftSession
from cai_reference.decoding.generation import Path
from cai_reference.decoding.sampling.choice import Units, draw
from cai_reference.decoding.sampling.distribution import distribution_of
from cai_reference.decoding.sampling.settings import SamplingSettings


@dataclass(frozen=True, eq=False)
class Proposal:
    """A guessed token and the law [vocabulary] from which it was drawn."""

    token: int
    law: Array


class StochasticDraft(Protocol):
    """A source of guesses with their laws."""

    @property
    def forwards(self) -> int:
        """How often a draft model was called."""
        ...

    def propose(self, ids: Sequence[int], count: int, generator: Units) -> list[Proposal]:
        """Return at most `count` guesses for what follows `ids`, drawn from `generator` in their order."""
        ...

    def committed(self, heads: Sequence[Array]) -> None:
        """Learn, for each head, the logits [vocabulary] from which the last committed token was chosen."""
        ...


class SampledDraft:
    """A model that is sampled along a path of its own: one draw a guess, none at temperature 0.

    Its settings may differ from the target's; they decide how many guesses are right, not what is generated. A session
    under the path needs as much slack as guesses are made at a time.
    """

    def __init__(self, path: Path, settings: SamplingSettings, arithmetic: Arithmetic) -> None:
        self._path = path
        self._settings = settings
        self._arithmetic = arithmetic

    @property
    def forwards(self) -> int:
        """The calls of the path's model."""
        return self._path.forwards

    def propose(self, ids: Sequence[int], count: int, generator: Units) -> list[Proposal]:
        """Draw one guess after the other; the path then forgets them."""
        proposals: list[Proposal] = []
        for _ in range(count):
            sequence = [*ids, *(proposal.token for proposal in proposals)]
            logits = self._path.after(sequence, 1)[0][0]
            distribution = distribution_of(logits, self._settings, self._arithmetic)
            choice = draw(distribution, generator)
            proposals.append(Proposal(choice.token, distribution.probabilities))
        if count > 0:
            self._path.keep(len(ids))
        return proposals

    def committed(self, heads: Sequence[Array]) -> None:
        """Nothing to learn: the next proposal reads what was committed."""


class TokenShiftPath:
    """The token-shift draft as a path: it reads the two newest tokens and keeps nothing."""

    def __init__(self, session: TokenShiftSession) -> None:
        self.forwards = 0
        self._session = session

    def prefill(self, ids: Sequence[int]) -> None:
        """Nothing is remembered, so there is nothing to do."""

    def after(self, ids: Sequence[int], newest: int) -> list[Array]:
        """Compute each of the last rows from its two tokens."""
        self.forwards += newest
        return [np.array([self._session.logits(ids[:end]) for end in range(len(ids) - newest + 1, len(ids) + 1)])]

    def keep(self, length: int) -> None:
        """Nothing is remembered, so there is nothing to forget."""


class CertainDraft:
    """A greedy draft, each guess of which has all the mass of its law; it takes no draws."""

    def __init__(self, draft: Draft, vocabulary: int) -> None:
        self._draft = draft
        self._vocabulary = vocabulary

    @property
    def forwards(self) -> int:
        """The calls of the greedy draft."""
        return self._draft.forwards

    def propose(self, ids: Sequence[int], count: int, generator: Units) -> list[Proposal]:
        """Pass the guesses on, each with the law that is 1 at it and 0 elsewhere."""
        return [Proposal(token, self._certain(token)) for token in self._draft.propose(ids, count)]

    def committed(self, heads: Sequence[Array]) -> None:
        """Pass on what was committed."""
        self._draft.committed(heads)

    def _certain(self, token: int) -> Array:
        law = np.zeros(self._vocabulary)
        law[token] = 1.0
        return law
