"""Speculative sampling: acceptance, residual, the order of draws, and what happens at the ends of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.decoding.errors import DecodingError, SamplingError
from cai_reference.decoding.generation import DecoderStop, DraftPass, Limits, ReencodingPath, StreamingPath, generate
from cai_reference.decoding.sampled_generation import sample_generation
from cai_reference.decoding.sampling import SamplingSettings, UnitInterval
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.decoding.stochastic_speculation import (
    Commit,
    Proposal,
    SampledDraft,
    Source,
    acceptance,
    residual,
    sample_speculatively,
    verify,
)
from cai_reference.models.decoder import Decoder
from cai_reference.splitmix import SplitMix64
from support_decoder_models import small
from support_refusals import raises
from support_sampling import EXACT, Given, TablePath

P = np.array([0.5, 0.25, 0.125, 0.125])
Q = np.array([0.125, 0.125, 0.5, 0.25])
PLAIN = SamplingSettings()

# Every row of the target is P, every row of the draft Q.
TARGET = ((-1.0, -2.0, -3.0, -3.0),) * 4
DRAFT = ((-3.0, -3.0, -1.0, -2.0),) * 4


@cache
def model_of(name: str) -> Decoder:
    """Return the small model of this name, made once."""
    return small(name)


def speculated(
    generator: SplitMix64, limits: Limits, block: int, prompt: Sequence[int] = (0,)
) -> tuple[tuple[int, ...], tuple[Commit, ...], tuple[DraftPass, ...], DecoderStop]:
    """Speculate from a draft of law Q for a target of law P."""
    path, draft = TablePath(TARGET), SampledDraft(TablePath(DRAFT), PLAIN, EXACT)
    generation = sample_speculatively(path, draft, prompt, limits, PLAIN, block, generator, EXACT)
    assert path.fed == len(prompt) + len(generation.ids) - 1
    return generation.ids, generation.commits, generation.passes, generation.stop


class TestRule:
    """min(1, p/q), then the residual."""

    def test_acceptance_of_each_guess(self) -> None:
        """Where the target wants as much or more, always; elsewhere the quotient."""
        assert [1.0, 1.0, 0.25, 0.5] == [acceptance(P, Proposal(token, Q)) for token in range(4)]
        assert [1.0] * 4 == [acceptance(P, Proposal(token, P)) for token in range(4)]

    def test_residual_is_what_the_target_has_more(self) -> None:
        """⅜ and ⅛ of a half."""
        assert [0.75, 0.25, 0.0, 0.0] == residual(P, Q).tolist()

    def test_the_test_is_strict(self) -> None:
        """A draw of exactly ¼ rejects a guess that a quarter of the draws accept; 0 never accepts the impossible."""
        below = float(np.nextafter(0.25, 0.0))
        assert Commit(2, Source.ACCEPTED, (below,)) == verify(P, Proposal(2, Q), Given(below))
        assert Commit(1, Source.RESIDUAL, (0.25, 0.75)) == verify(P, Proposal(2, Q), Given(0.25, 0.75))
        never = np.array([0.0, 1.0])
        assert Commit(1, Source.RESIDUAL, (0.0, 0.0)) == verify(
            never, Proposal(0, np.array([1.0, 0.0])), Given(0.0, 0.0)
        )

    def test_a_certain_guess_takes_its_draw(self) -> None:
        """So that how many draws there are does not depend on laws."""
        generator = Given(1.0 - 2.0**-53)
        assert verify(P, Proposal(0, Q), generator).source is Source.ACCEPTED
        assert generator.state == 1

    def test_the_residual_is_drawn_with_a_number_of_its_own(self) -> None:
        """The draw of the test says something about the guess, and would say it again."""
        assert [0, 1] == [verify(P, Proposal(2, Q), Given(0.9, second)).token for second in (0.0, 0.75)]

    def test_tokens_that_the_draft_excludes_come_from_the_residual(self) -> None:
        """All that q lacks is surplus."""
        law = np.array([0.0, 0.5, 0.5, 0.0])
        assert [0.8, 0.0, 0.0, 0.2] == residual(P, law).tolist()
        with raises(SamplingError("impossible-proposal", token=0, vocabulary=4)):
            acceptance(P, Proposal(0, law))

    def test_laws_that_differ_by_rounding_leave_the_target(self) -> None:
        """A residual without mass is the target's law, not a division by zero."""
        short = np.array([float(np.nextafter(0.5, 0.0)), 0.5])
        assert short.tolist() == residual(short, np.array([0.5, 0.5])).tolist()
        last = 1.0 - 2.0**-53
        commit = verify(short, Proposal(0, np.array([0.5, 0.5])), Given(last, last))
        assert Commit(1, Source.RESIDUAL, (last, last)) == commit

    @pytest.mark.parametrize("token", [-1, 4])
    def test_a_guess_beyond_the_vocabulary_is_refused(self, token: int) -> None:
        """Before anything is drawn."""
        generator = Given()
        with raises(SamplingError("impossible-proposal", token=token, vocabulary=4)):
            verify(P, Proposal(token, Q), generator)
        with raises(SamplingError("proposal-width", draft=5, target=4)):
            verify(P, Proposal(0, np.ones(5) / 5), generator)
        assert generator.state == 0


class TestBlocks:
    """Draws in their order, ends of blocks, budgets."""

    def test_a_block_that_is_accepted_whole(self) -> None:
        """Two draws of the draft, two tests, the bonus."""
        ids, commits, passes, stop = speculated(Given(0.0, 0.2, 0.9, 0.8, 0.6), Limits(None, 3, 99), 2)
        assert ((0, 1, 1), DecoderStop.LIMIT) == (ids, stop)
        assert (
            Commit(0, Source.ACCEPTED, (0.9,)),
            Commit(1, Source.ACCEPTED, (0.8,)),
            Commit(1, Source.BONUS, (0.6,)),
        ) == commits
        assert (DraftPass(2, 2, 3, 0),) == passes

    @pytest.mark.parametrize("offset", range(3))
    def test_a_block_that_is_rejected_at_each_offset(self, offset: int) -> None:
        """Three guesses of token 2, which a quarter of the tests accept; what is behind the rejection is not tested."""
        generator = Given(0.5, 0.5, 0.5, *[0.1] * offset, 0.25, 0.9)
        ids, commits, passes, stop = speculated(generator, Limits(1, 9, 99), 3)
        accepted = (Commit(2, Source.ACCEPTED, (0.1,)),) * offset
        assert (*accepted, Commit(1, Source.RESIDUAL, (0.25, 0.9))) == commits
        assert ((2,) * offset + (1,), DecoderStop.EOS) == (ids, stop)
        assert (DraftPass(3, offset, offset + 1, 3 - offset),) == passes
        assert len(generator.units) == generator.state

    @pytest.mark.parametrize("budget", range(1, 7))
    @pytest.mark.parametrize("block", range(5))
    def test_no_block_exceeds_budget_or_context(self, block: int, budget: int) -> None:
        """Every budget and block, cut by the one or the other; the counts add up."""
        for limits, stop in (
            (Limits(None, budget, 99), DecoderStop.LIMIT),
            (Limits(None, 99, budget + 1), DecoderStop.CONTEXT),
        ):
            for seed in range(4):
                generator = SplitMix64(seed)
                ids, commits, passes, stopped = speculated(generator, limits, block)
                assert (budget, stop) == (len(ids), stopped)
                assert budget == sum(each.committed for each in passes)
                accepted = sum(commit.source is Source.ACCEPTED for commit in commits)
                assert accepted == sum(each.accepted for each in passes)
                room = budget
                for each in passes:
                    assert each.proposed <= room - 1
                    room -= each.committed
                    assert each.proposed + 1 == each.committed + each.rolled_back
                    assert each.proposed <= block
                drawn = sum(each.proposed for each in passes) + sum(len(commit.units) for commit in commits)
                fresh = SplitMix64(seed)
                for _ in range(drawn):
                    fresh.next_u64()
                assert fresh.state == generator.state

    @pytest.mark.parametrize("offset", range(4))
    def test_eos_ends_a_block_where_it_stands(self, offset: int) -> None:
        """Accepted at each offset, or as the bonus: nothing behind it is drawn or committed."""
        guesses = [0.0] * 3  # token 0
        if offset < 3:
            guesses[offset] = 0.9  # token 3, which is EOS and passes half of the tests
        after = [0.1] * (offset + 1) if offset < 3 else [0.1, 0.1, 0.1, 0.9]
        generator = Given(*guesses, *after)
        ids, commits, passes, stop = speculated(generator, Limits(3, 9, 99), 3)
        assert ((0,) * offset + (3,), DecoderStop.EOS) == (ids, stop)
        assert len(generator.units) == generator.state
        assert (DraftPass(3, min(offset + 1, 3), offset + 1, 3 - offset),) == passes
        assert (Source.BONUS if offset == 3 else Source.ACCEPTED) is commits[-1].source

    def test_eos_from_the_residual_ends_as_well(self) -> None:
        """The guess is token 2, its replacement is token 1, here EOS."""
        ids, commits, _, stop = speculated(Given(0.5, 0.5, 0.9, 0.99), Limits(1, 9, 99), 2)
        assert ((1,), DecoderStop.EOS, Source.RESIDUAL) == (ids, stop, commits[0].source)

    def test_a_budget_of_zero_calls_and_draws_nothing(self) -> None:
        """Neither the target nor the draft."""
        path, draft, generator = TablePath(TARGET), SampledDraft(TablePath(DRAFT), PLAIN, EXACT), SplitMix64(9)
        generation = sample_speculatively(path, draft, [0, 1], Limits(None, 0, 9), PLAIN, 3, generator, EXACT)
        assert ((), DecoderStop.LIMIT, 0, 0, 9) == (
            generation.ids,
            generation.stop,
            generation.forwards,
            generation.draft_forwards,
            generation.state,
        )

    def test_a_prompt_is_looked_at_first(self) -> None:
        """Before any call and any draw."""
        for error, prompt in (
            (DecodingError("empty-prompt"), []),
            (DecodingError("prompt-too-long", length=9, context=9), [0] * 9),
        ):
            generator = SplitMix64(9)
            with raises(error):
                speculated(generator, Limits(None, 2, 9), 2, prompt)
            assert generator.state == 9

    def test_without_guesses_it_is_sampled_generation(self) -> None:
        """Draw by draw: the same tokens, numbers and state."""
        limits = Limits(3, 40, 99)
        plain = sample_generation(TablePath(TARGET), [0], limits, PLAIN, SplitMix64(36), EXACT)
        draft = SampledDraft(TablePath(DRAFT), PLAIN, EXACT)
        alone = sample_speculatively(TablePath(TARGET), draft, [0], limits, PLAIN, 0, SplitMix64(36), EXACT)
        assert (plain.ids, plain.stop, plain.state, plain.forwards) == (
            alone.ids,
            alone.stop,
            alone.state,
            alone.forwards,
        )
        assert [(choice.unit,) for choice in plain.choices] == [commit.units for commit in alone.commits]


class Lying:
    """A draft whose law is of another width, or excludes its guess."""

    def __init__(self, proposal: Proposal) -> None:
        self.forwards = 0
        self.proposal = proposal

    def propose(self, ids: Sequence[int], count: int, generator: UnitInterval) -> list[Proposal]:
        """Return the same proposal always."""
        return [self.proposal] * count

    def committed(self, heads: Sequence[Array]) -> None:
        """Learn nothing."""


def test_a_draft_that_contradicts_itself_is_refused() -> None:
    """In generation as in a single test."""
    for error, proposal in (
        (SamplingError("proposal-width", draft=5, target=4), Proposal(0, np.ones(5) / 5)),
        (SamplingError("impossible-proposal", token=0, vocabulary=4), Proposal(0, np.array([0.0, 1.0, 0.0, 0.0]))),
    ):
        with raises(error):
            sample_speculatively(
                TablePath(TARGET), Lying(proposal), [0], Limits(None, 5, 9), PLAIN, 2, SplitMix64(0), EXACT
            )


class TestModels:
    """Real decoders, sessions that are rolled back, drafts of every kind."""

    WARM = SamplingSettings(temperature=1.5, top_k=9, top_p=0.95, min_p=0.01)
    PROMPT = (3, 7, 2, 5, 1)

    def sampled_draft(self, name: str, *, cached: bool) -> SampledDraft:
        """Return the target itself, but hotter, cached or re-encoding."""
        model = model_of(name)
        session = Session(model, STRICT, SessionOptions(slack=4))
        path = StreamingPath(session) if cached else ReencodingPath(model, STRICT)
        return SampledDraft(path, SamplingSettings(4.0), STRICT)

    @pytest.mark.parametrize(
        "name", ["hybrid", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("attention", "local"))]
    )
    def test_cached_and_reencoded_paths_agree(self, name: str) -> None:
        """Target and draft roll back what was rejected: tokens, sources, draws, passes and state are the same."""
        limits = Limits(None, 14, 24)
        results = []
        for cached in (False, True):
            session = Session(model_of(name), STRICT, SessionOptions(slack=4))
            path = StreamingPath(session) if cached else ReencodingPath(model_of(name), STRICT)
            draft = self.sampled_draft(name, cached=cached)
            results.append(sample_speculatively(path, draft, self.PROMPT, limits, self.WARM, 3, SplitMix64(4), STRICT))
        plain, cached_result = results
        assert plain.commits == cached_result.commits
        assert (plain.passes, plain.stop, plain.state) == (
            cached_result.passes,
            cached_result.stop,
            cached_result.state,
        )
        assert [row.tobytes() for row in plain.rows] == [row.tobytes() for row in cached_result.rows]
        assert {Source.ACCEPTED, Source.RESIDUAL} <= {commit.source for commit in plain.commits}
        assert any(each.rolled_back for each in plain.passes)

    def test_the_target_as_its_own_draft_is_always_accepted(self) -> None:
        """p/q is 1 everywhere, in every bit, though the one re-encodes and the other is cached."""
        model = model_of("hybrid")
        draft = SampledDraft(StreamingPath(Session(model, STRICT, SessionOptions(slack=4))), self.WARM, STRICT)
        generation = sample_speculatively(
            ReencodingPath(model, STRICT), draft, self.PROMPT, Limits(None, 15, 24), self.WARM, 3, SplitMix64(4), STRICT
        )
        assert all(each.accepted == each.proposed for each in generation.passes)
        assert 4 == len(generation.passes) == generation.forwards
        assert Source.RESIDUAL not in {commit.source for commit in generation.commits}

    def test_temperature_zero_gives_the_greedy_tokens(self) -> None:
        """Only the largest logit is ever accepted or left over."""
        limits = Limits(None, 9, 24)
        greedy = generate(ReencodingPath(model_of("attention"), STRICT), self.PROMPT, limits)
        path = StreamingPath(Session(model_of("attention"), STRICT, SessionOptions(slack=4)))
        draft = self.sampled_draft("attention", cached=True)
        cold = sample_speculatively(path, draft, self.PROMPT, limits, SamplingSettings(0.0), 3, SplitMix64(1), STRICT)
        assert (greedy.ids, greedy.stop) == (cold.ids, cold.stop)
        assert any(each.proposed for each in cold.passes) and cold.draft_forwards > 0


class Listening(SampledDraft):
    """A draft that remembers what it is told."""

    def __init__(self) -> None:
        super().__init__(TablePath(DRAFT), PLAIN, EXACT)
        self.told: list[list[float]] = []

    def committed(self, heads: Sequence[Array]) -> None:
        """Remember the logits of the first head."""
        self.told.append(heads[0].tolist())


def test_a_draft_is_told_the_row_of_the_last_committed_token() -> None:
    """After each pass, whole, cut or rejected at once."""
    rows = tuple(tuple(float(-(column + 1) % 4 - token) for column in range(4)) for token in range(4))
    listener = Listening()
    generation = sample_speculatively(
        TablePath(rows), listener, [0], Limits(None, 30, 99), PLAIN, 2, SplitMix64(3), EXACT
    )
    committed = np.cumsum([each.committed for each in generation.passes])
    assert [generation.rows[last - 1].tolist() for last in committed] == listener.told
    assert {1, 2, 3} == {each.committed for each in generation.passes}
