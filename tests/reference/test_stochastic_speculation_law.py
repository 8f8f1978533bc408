"""The law of speculative sampling, by enumerating every path of draws through the code, and that it can fail.

Target and draft are tables over four ids whose probabilities, quotients and residuals are binary fractions, so that
the enumerated law must equal the law of the target's chain exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.decoding import stochastic_speculation
from cai_reference.decoding.generation import Limits
from cai_reference.decoding.sampling import Distribution, SamplingSettings, UnitInterval, choose, draw
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
from cai_reference.splitmix import SplitMix64
from support_sampling import EXACT, IMPOSSIBLE, Law, TablePath, chain_law, distance, law_of, probabilities_of

NEVER = IMPOSSIBLE
PLAIN = SamplingSettings()

# Rows by the last token: ½ ¼ ⅛ ⅛, then ½ ½ 0 0, then ¼ each, then ⅛ ⅛ ½ ¼.
TARGET = ((-1.0, -2.0, -3.0, -3.0), (-1.0, -1.0, NEVER, NEVER), (-2.0,) * 4, (-3.0, -3.0, -1.0, -2.0))
# ⅛ ⅛ ½ ¼ for ½ ¼ ⅛ ⅛; ¼ each for ½ ½ 0 0; ½ 0 ½ 0 for ¼ each; 0 0 ½ ½ for ⅛ ⅛ ½ ¼.
DRAFT = ((-3.0, -3.0, -1.0, -2.0), (-2.0,) * 4, (-1.0, NEVER, -1.0, NEVER), (NEVER, NEVER, -1.0, -1.0))

CLEARLY = Fraction(1, 50)
"""What separates a biased rule from the right one, whose distance is 0."""

Rule = Callable[[Array, Proposal, UnitInterval], Commit]


def sampled_law(length: int, block: int, eos: int | None = None, start: int = 0) -> Law[tuple[int, ...]]:
    """Return the law of what speculation generates behind one token."""

    def generated(generator: SplitMix64) -> tuple[int, ...]:
        draft = SampledDraft(TablePath(DRAFT), PLAIN, EXACT)
        limits = Limits(eos, length, 99)
        return sample_speculatively(TablePath(TARGET), draft, [start], limits, PLAIN, block, generator, EXACT).ids

    return law_of(generated)


class TestTheLaw:
    """What is generated has the law of the target, whatever the blocks."""

    @pytest.mark.parametrize("start", range(4))
    @pytest.mark.parametrize("block", [0, 1, 2])
    def test_two_tokens(self, block: int, start: int) -> None:
        """From every row: guesses that the draft prefers, that it excludes, that the target excludes."""
        assert chain_law(TARGET, start, 2) == sampled_law(2, block, start=start)

    @pytest.mark.parametrize("block", [2, *(pytest.param(block, marks=pytest.mark.exhaustive) for block in (1, 3))])
    def test_three_tokens(self, block: int) -> None:
        """Blocks that end inside, at and behind the budget."""
        assert chain_law(TARGET, 0, 3) == sampled_law(3, block)

    @pytest.mark.parametrize("eos", [1, *(pytest.param(eos, marks=pytest.mark.exhaustive) for eos in (0, 2, 3))])
    def test_three_tokens_or_fewer(self, eos: int) -> None:
        """Every id as EOS: texts that end inside a block are as likely as those that end without one."""
        assert chain_law(TARGET, 0, 3, eos) == sampled_law(3, 2, eos)

    def test_a_target_with_top_k(self) -> None:
        """The law is the one behind the settings: what top-k 2 leaves of ½ ¼ ⅛ ⅛ is ⅔ and ⅓, whatever is guessed."""
        rows = (TARGET[0],) * 4

        def generated(generator: SplitMix64) -> tuple[int, ...]:
            draft = SampledDraft(TablePath(((-2.0,) * 4,) * 4), PLAIN, EXACT)
            cut = SamplingSettings(top_k=2)
            return sample_speculatively(TablePath(rows), draft, [0], Limits(None, 2, 9), cut, 2, generator, EXACT).ids

        third = Fraction(1, 3)
        expected: Law[tuple[int, ...]] = {
            (0, 0): 4 * third**2,
            (0, 1): 2 * third**2,
            (1, 0): 2 * third**2,
            (1, 1): third**2,
        }
        assert distance(expected, law_of(generated)) < Fraction(1, 2**50)

    @given(
        st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any),
        st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any),
    )
    @settings(max_examples=25)
    def test_one_place_with_any_laws(self, wanted: list[int], given_: list[int]) -> None:
        """Where quotients and residuals round, the distance to the target is at rounding level."""
        target, law = np.array(wanted) / sum(wanted), np.array(given_) / sum(given_)
        expected: Law[int] = {token: Fraction(p) for token, p in enumerate(target.tolist()) if p}
        found = place_law(verify, target, law)
        assert distance(expected, found) < Fraction(1, 2**50)


def place_law(rule: Rule, target: Array, law: Array) -> Law[int]:
    """Return the law of one place: a guess from the draft's law, then a rule."""

    def committed(generator: SplitMix64) -> int:
        guess = choose(law, generator.unit()).token
        return rule(target, Proposal(guess, law), generator).token

    return law_of(committed)


# ── biased rules ─────────────────────────────────────────────────────────────────────────────────────────────────────


def replaced(weights: Array, unit: float) -> Commit:
    """Draw a replacement from weights that need not add up to 1."""
    return Commit(choose(weights / sum(weights.tolist()), unit).token, Source.RESIDUAL, (unit,))


def softmax_of_the_residual(target: Array, proposal: Proposal, generator: UnitInterval) -> Commit:
    """Take max(p − q, 0) for logits."""
    if generator.unit() < acceptance(target, proposal):
        return Commit(proposal.token, Source.ACCEPTED, ())
    return replaced(STRICT.exp(np.maximum(target - proposal.law, 0.0)), generator.unit())


def target_instead_of_the_residual(target: Array, proposal: Proposal, generator: UnitInterval) -> Commit:
    """Draw the replacement from p."""
    if generator.unit() < acceptance(target, proposal):
        return Commit(proposal.token, Source.ACCEPTED, ())
    return replaced(target, generator.unit())


def residual_without_clipping(target: Array, proposal: Proposal, generator: UnitInterval) -> Commit:
    """Draw the replacement from |p − q|, so that what the draft has over the target counts as well."""
    if generator.unit() < acceptance(target, proposal):
        return Commit(proposal.token, Source.ACCEPTED, ())
    surplus = np.abs(target - proposal.law)
    return replaced(surplus if surplus.any() else target, generator.unit())


def one_number_for_both(target: Array, proposal: Proposal, generator: UnitInterval) -> Commit:
    """Use the number of the test for the residual, too: it is above the threshold, so the last ids come too often."""
    unit = generator.unit()
    if unit < acceptance(target, proposal):
        return Commit(proposal.token, Source.ACCEPTED, ())
    return replaced(residual(target, proposal.law), unit)


def quotient_upside_down(target: Array, proposal: Proposal, generator: UnitInterval) -> Commit:
    """Accept with min(1, q/p)."""
    wanted, law = float(target[proposal.token]), float(proposal.law[proposal.token])
    if generator.unit() < (1.0 if wanted <= law else law / wanted):
        return Commit(proposal.token, Source.ACCEPTED, ())
    return replaced(residual(target, proposal.law), generator.unit())


def law_that_was_not_drawn_from(target: Array, proposal: Proposal, generator: UnitInterval) -> Commit:
    """Weigh guesses by the draft's law at another temperature: its probabilities squared."""
    squares = proposal.law * proposal.law
    return verify(target, Proposal(proposal.token, squares / sum(squares.tolist())), generator)


def equality_with_the_largest(target: Array, proposal: Proposal, generator: UnitInterval) -> Commit:
    """Accept what greedy decoding would choose, as if there were no chance."""
    if proposal.token == int(np.argmax(target)):
        return Commit(proposal.token, Source.ACCEPTED, ())
    return replaced(target, generator.unit())


def bonus_from_the_wrong_place(target: Distribution, generator: UnitInterval) -> Commit:
    """Draw the bonus from a law that is not the target's behind the block: here even."""
    return Commit(choose(np.full(4, 0.25), generator.unit()).token, Source.BONUS, ())


BIASED: list[Rule] = [
    softmax_of_the_residual,
    target_instead_of_the_residual,
    residual_without_clipping,
    one_number_for_both,
    quotient_upside_down,
    law_that_was_not_drawn_from,
    equality_with_the_largest,
]

HALF_LAW = np.array([0.5, 0.25, 0.125, 0.125])
EVEN_LAW = np.full(4, 0.25)


class TestBiasedRules:
    """Each plausible mistake moves the law by far more than rounding could."""

    @pytest.mark.parametrize("rule", BIASED, ids=lambda rule: rule.__name__)
    def test_a_biased_rule_is_seen(self, rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
        """In the law of two tokens, generated by the same loop around another rule."""
        monkeypatch.setattr(stochastic_speculation, "verify", rule)
        assert distance(chain_law(TARGET, 0, 2), sampled_law(2, 1)) > CLEARLY

    def test_a_bonus_from_the_wrong_place_is_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Behind a block that was accepted whole."""
        monkeypatch.setattr(stochastic_speculation, "bonus", bonus_from_the_wrong_place)
        assert distance(chain_law(TARGET, 0, 2), sampled_law(2, 1)) > CLEARLY

    def test_a_distance_by_hand(self) -> None:
        """½ ¼ ⅛ ⅛ guessed evenly: a quarter is rejected, and of that p gives only half to where all of it belongs."""
        biased = place_law(target_instead_of_the_residual, HALF_LAW, EVEN_LAW)
        expected = {0: Fraction(3, 8), 1: Fraction(5, 16), 2: Fraction(5, 32), 3: Fraction(5, 32)}
        assert expected == biased
        right = dict(enumerate(probabilities_of(TARGET[0])))
        assert right == place_law(verify, HALF_LAW, EVEN_LAW)
        assert distance(right, biased) == Fraction(1, 8)

    def test_a_bonus_that_is_left_out_is_no_bias(self) -> None:
        """The law is that of the target all the same; what shows is the count: as many tokens as accepted guesses."""
        assert chain_law(TARGET, 0, 2) == law_of(lambda generator: without_bonus(generator, 2)[0])
        tokens, accepted = without_bonus(SplitMix64(11), 40)
        assert 0 < accepted < len(tokens) == 40
        draft = SampledDraft(TablePath(DRAFT), PLAIN, EXACT)
        right = sample_speculatively(
            TablePath(TARGET), draft, [0], Limits(None, 40, 99), PLAIN, 1, SplitMix64(11), EXACT
        )
        # One token a pass, and one more for each guess that was accepted, where nothing is left out.
        assert 40 == sum(1 + each.accepted for each in right.passes)
        assert len(right.passes) < 40


def without_bonus(generator: SplitMix64, length: int) -> tuple[tuple[int, ...], int]:
    """Speculate by blocks of one guess and commit nothing behind it; return the tokens and how many were guesses."""
    ids, accepted = [0], 0
    draft = SampledDraft(TablePath(DRAFT), PLAIN, EXACT)
    while len(ids) <= length:
        (proposal,) = draft.propose(ids, 1, generator)
        commit = verify(np.array([float(p) for p in probabilities_of(TARGET[ids[-1]])]), proposal, generator)
        ids.append(commit.token)
        accepted += commit.source is Source.ACCEPTED
    return tuple(ids[1:]), accepted


class TestTheEnumeration:
    """Does the instrument measure?"""

    def test_it_finds_a_law_that_is_known(self) -> None:
        """Two draws, of which the smaller part of the first is looked at again."""

        def nested(generator: SplitMix64) -> str:
            first = generator.unit()
            if first < 0.25:
                return "low" if first < 0.125 else "middle"
            return "high" if generator.unit() < 0.5 else "other"

        eighth = Fraction(1, 8)
        assert {"low": eighth, "middle": eighth, "high": 3 * eighth, "other": 3 * eighth} == law_of(nested)

    def test_it_counts_what_is_never_reached(self) -> None:
        """A number of which it is known that it is at least ½ is not below ¼."""

        def impossible(generator: SplitMix64) -> bool:
            unit = generator.unit()
            return not unit < 0.5 and unit < 0.25

        assert {False: Fraction(1)} == law_of(impossible)

    def test_distances_by_hand(self) -> None:
        """Half the sum of differences."""
        half = Fraction(1, 2)
        assert 0 == distance({0: half, 1: half}, {1: half, 0: half})
        assert 1 == distance({0: Fraction(1)}, {1: Fraction(1)})
        assert half == distance({0: Fraction(1)}, {0: half, 1: half})

    def test_the_greedy_distribution_draws_nothing(self) -> None:
        """One path only."""
        one = Distribution((2,), np.array([0.0, 0.0, 1.0]), 1.0, greedy=True)
        assert {2: Fraction(1)} == law_of(lambda generator: draw(one, generator).token)
