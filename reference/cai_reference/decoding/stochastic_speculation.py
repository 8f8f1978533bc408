"""Speculative sampling: guess a block by one law, correct it to another, and keep that other law exactly.

With the target's law p and the draft's law q at a place, a guess x drawn from q is accepted with probability
min(1, p(x) / q(x)). At the first rejection the place is drawn anew from the residual max(p − q, 0), divided by its sum,
and the rest of the block is dropped. Behind a block that was accepted whole one more token, the bonus, is drawn from p.
Every token then has the law that `sample_generation` gives it, whatever the draft (Leviathan, Kalman and Matias, "Fast
inference from transformers via speculative decoding", 2023; Chen and others, "Accelerating large language model
decoding with speculative sampling", 2023).

The laws are those after temperature, top-k, top-p and min-p. A token that q excludes is never guessed and comes from
residuals and bonuses alone; one that p excludes is never accepted.

Draws of a pass, in this order, each used once: those of the draft, guess by guess; then for each guess, until one is
rejected, the draw of its test; then that of the residual or the bonus. A test takes its draw even where the outcome is
certain. A bonus at temperature 0 takes none. EOS ends the block in which it is committed, and nothing is drawn after
it; no block exceeds the budget or the context. Without guesses this is `sample_generation`, draw by draw.

A stochastic draft hands over each guess with the law from which it was drawn, because the target must weigh the guess
by exactly that law: any other biases the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.decoding.errors import SamplingError
from cai_reference.decoding.generation import DecoderStop, DraftPass, Limits, Path, check_prompt, stop_after
from cai_reference.decoding.sampling import (
    Distribution,
    SamplingSettings,
    UnitInterval,
    choose,
    compensated_sum,
    distribution_of,
    draw,
)
from cai_reference.splitmix import SplitMix64


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

    def propose(self, ids: Sequence[int], count: int, generator: UnitInterval) -> list[Proposal]:
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

    def propose(self, ids: Sequence[int], count: int, generator: UnitInterval) -> list[Proposal]:
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


class Source(StrEnum):
    """Where a committed token came from."""

    ACCEPTED = "accepted"
    RESIDUAL = "residual"
    BONUS = "bonus"


@dataclass(frozen=True)
class Commit:
    """A committed token, its source, and the numbers drawn for it after the draft's: test, then residual or bonus."""

    token: int
    source: Source
    units: tuple[float, ...]


@dataclass(frozen=True)
class SpeculativeGeneration:
    """What came after a prompt, and how.

    Attributes:
        commits: the new tokens with their sources, EOS included where it ended.
        rows: for each new token the target's logits [vocabulary] at its place.
        stop: why it ended.
        forwards: calls of the target, prefill included.
        draft_forwards: calls of a draft model.
        passes: the passes; `accepted` counts guesses that were committed.
        state: the generator's, after the last draw.
    """

    commits: tuple[Commit, ...]
    rows: tuple[Array, ...]
    stop: DecoderStop
    forwards: int
    draft_forwards: int
    passes: tuple[DraftPass, ...]
    state: int

    @property
    def ids(self) -> tuple[int, ...]:
        """The new tokens."""
        return tuple(commit.token for commit in self.commits)


def acceptance(target: Array, proposal: Proposal) -> float:
    """Return min(1, p(x) / q(x)) for a guess x, with p the target's law [vocabulary] and q the draft's.

    Raises:
        SamplingError (proposal-width): the laws are over different vocabularies.
        SamplingError (impossible-proposal): q(x) is 0, or x is no id.
    """
    vocabulary = len(target)
    if len(proposal.law) != vocabulary:
        raise SamplingError("proposal-width", draft=len(proposal.law), target=vocabulary)
    if not (0 <= proposal.token < vocabulary and proposal.law[proposal.token] > 0.0):
        raise SamplingError("impossible-proposal", token=proposal.token, vocabulary=vocabulary)
    wanted, given = float(target[proposal.token]), float(proposal.law[proposal.token])
    # without dividing where the quotient would be 1 or more
    return 1.0 if wanted >= given else wanted / given


def residual(target: Array, law: Array) -> Array:
    """Return max(p − q, 0) [vocabulary] divided by its sum: what the target has over the draft.

    Two laws that differ only by rounding may leave nothing; then it is the target's law.
    """
    # only where the target wants more than the draft gave
    surplus = np.maximum(target - law, 0.0)
    mass = compensated_sum(surplus.tolist())
    return surplus / mass if mass > 0.0 else target


def verify(target: Array, proposal: Proposal, generator: UnitInterval) -> Commit:
    """Accept a guess, or draw from the residual; one draw for the test, a second one for the residual.

    Raises:
        SamplingError (proposal-width, impossible-proposal): before anything is drawn.
    """
    threshold = acceptance(target, proposal)
    unit = generator.unit()
    # strict: a guess that the target excludes is not accepted by a draw of 0
    if unit < threshold:
        return Commit(proposal.token, Source.ACCEPTED, (unit,))
    # the first number is known to be large, so that it cannot be used twice
    second = generator.unit()
    return Commit(choose(residual(target, proposal.law), second).token, Source.RESIDUAL, (unit, second))


def bonus(target: Distribution, generator: UnitInterval) -> Commit:
    """Draw the token behind an accepted block."""
    choice = draw(target, generator)
    return Commit(choice.token, Source.BONUS, () if choice.unit is None else (choice.unit,))


def sample_speculatively(
    path: Path,
    draft: StochasticDraft,
    prompt: Sequence[int],
    limits: Limits,
    settings: SamplingSettings,
    block: int,
    generator: SplitMix64,
    arithmetic: Arithmetic,
) -> SpeculativeGeneration:
    """Generate with guesses of a draft, at most `block` a pass; a budget of 0 calls nothing and draws nothing.

    After each pass the path is cut to what was committed, less one, as in greedy speculation.

    Raises:
        DecodingError (empty-prompt, prompt-too-long): before any model call.
        SessionError, AutogradError: path or draft failed.
        SamplingError, `non-finite-logit`: a choice failed, or a proposal is impossible.
    """
    check_prompt(prompt, limits)
    ids = list(prompt)
    rows: list[Array] = []
    commits: list[Commit] = []
    passes: list[DraftPass] = []
    stop: DecoderStop | None = None if limits.new_tokens > 0 else DecoderStop.LIMIT
    if stop is None:
        path.prefill(prompt[:-1])
    while stop is None:
        room = min(limits.new_tokens - len(rows), limits.context - len(ids))
        proposals = draft.propose(ids, min(block, room - 1), generator)
        heads = path.after([*ids, *(proposal.token for proposal in proposals)], len(proposals) + 1)
        before = len(ids)
        accepted = 0
        for offset in range(len(proposals) + 1):
            rows.append(heads[0][offset])
            target = distribution_of(rows[-1], settings, arithmetic)
            if offset < len(proposals):
                commits.append(verify(target.probabilities, proposals[offset], generator))
            else:
                commits.append(bonus(target, generator))
            ids.append(commits[-1].token)
            right = commits[-1].source is Source.ACCEPTED
            accepted += right
            stop = stop_after(ids[-1], len(rows), len(ids), limits)
            if stop is not None or not right:
                break
        committed = len(ids) - before
        passes.append(DraftPass(len(proposals), accepted, committed, len(proposals) + 1 - committed))
        path.keep(len(ids) - 1)
        draft.committed([logits[committed - 1] for logits in heads])
    return SpeculativeGeneration(
        tuple(commits), tuple(rows), stop, path.forwards, draft.forwards, tuple(passes), generator.state
    )
