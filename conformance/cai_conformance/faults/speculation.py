"""Faults of speculation: what is accepted, what is committed behind it, when it ends, and by which law it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_conformance.faults.fault import Family, Place
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import COURSE, DENSE, exact, given, run
from cai_reference.arithmetic import Array
from cai_reference.decoding import speculation, stochastic_speculation
from cai_reference.decoding.generation import DecoderStop, DraftPass, Generation, Limits, Path, check_prompt, stop_after
from cai_reference.decoding.greedy import greedy_token
from cai_reference.decoding.sampling import UnitInterval, choose, compensated_sum
from cai_reference.decoding.speculation import Draft, LaterHeads, SelfDraft
from cai_reference.decoding.stochastic_speculation import Commit, Proposal, SampledDraft, Source


@dataclass(frozen=True)
class Rules:
    """Greedy speculation with its usual mistakes as switches; all off is the reference's loop.

    Attributes:
        bonus_twice: the token behind a block that was accepted whole is committed two times.
        later_matches: guesses count behind a wrong one, too.
        stop_at_end: whether to stop is asked at the end of a block only.
        whole_blocks: a block is as long as ever, however few tokens are left.
        bonus_accepted: the token behind the guesses is counted among the accepted ones.
    """

    bonus_twice: bool = False
    later_matches: bool = False
    stop_at_end: bool = False
    whole_blocks: bool = False
    bonus_accepted: bool = False

    def speculate(self, path: Path, draft: Draft, prompt: Sequence[int], limits: Limits, block: int) -> Generation:
        """Generate as `speculate` of the reference does, but for what is switched on."""
        check_prompt(prompt, limits)
        path.prefill(prompt[:-1])
        ids, rows, passes = list(prompt), list[Array](), list[DraftPass]()
        stop: DecoderStop | None = None if limits.new_tokens > 0 else DecoderStop.LIMIT
        while stop is None:
            room = min(limits.new_tokens - len(rows), limits.context - len(ids))
            most = limits.context - len(ids) if self.whole_blocks else room
            guesses = draft.propose(ids, min(block, most - 1))
            heads = path.after([*ids, *guesses], len(guesses) + 1)
            before, accepted = len(ids), 0
            for offset in range(len(guesses) + 1):
                rows.append(heads[0][offset])
                ids.append(greedy_token(rows[-1]))
                right = offset < len(guesses) and guesses[offset] == ids[-1]
                accepted += right
                stop = stop_after(ids[-1], len(rows), len(ids), limits)
                if self._ends(stop, right=right, left=len(guesses) - offset):
                    break
            committed = len(ids) - before
            if self.bonus_twice and committed == len(guesses) + 1 > 1 and stop is None:
                rows.append(rows[-1])
                ids.append(ids[-1])
                stop = stop_after(ids[-1], len(rows), len(ids), limits)
            counted = accepted + (self.bonus_accepted and committed > accepted)
            passes.append(DraftPass(len(guesses), counted, committed, len(guesses) + 1 - committed))
            path.keep(min(before + committed - 1, len(ids) - 1))
            draft.committed([logits[committed - 1] for logits in heads])
        return Generation(tuple(ids[len(prompt) :]), tuple(rows), stop, path.forwards, draft.forwards, tuple(passes))

    def _ends(self, stop: DecoderStop | None, *, right: bool, left: int) -> bool:
        """Tell whether a block ends behind a token; `left` guesses follow it."""
        if stop is not None and not self.stop_at_end and not self.whole_blocks:
            return True
        return left == 0 or not (right or self.later_matches)


def _rules(patch: Patch, rules: Rules) -> None:
    patch.replace(speculation.speculate, rules.speculate)


def _residual(patch: Patch, changed: Callable[[Array, Array], Array]) -> None:
    patch.replace(stochastic_speculation.residual, changed)


def _through_softmax(target: Array, law: Array) -> Array:
    raised = np.exp(target - law)
    return raised / compensated_sum(raised.tolist())


def _of_target(target: Array, law: Array) -> Array:
    return target


BY_LAW: Final = exact(COURSE)


_speculation = Family(frozenset({Place.SPECULATION}), BY_LAW)


@_speculation(
    "speculation.draft-misses-tokens",
    "the draft is not told of tokens that were accepted",
    "spec.self",
    seen_in="vllm-project/vllm#5765",
    kinds="P02",
    workloads=run(DENSE, "cai.speculative"),
)
def _newest_only(patch: Patch) -> None:
    """Behind an accepted block the draft is fed the newest token alone.

    What is generated stays right; fewer guesses are.
    """
    # Feed the draft the newest token, and no other that was committed since.
    skipped: dict[int, int] = {}

    def wrong(draft: SelfDraft, ids: Sequence[int], count: int) -> list[int]:
        session, guesses = draft._session, list[int]()
        if session.length == 0:
            skipped.pop(id(draft), None)
        for _ in range(count):
            sequence = [*ids, *guesses]
            new = sequence[session.length + skipped.get(id(draft), 0) :]
            if session.length and not guesses:
                skipped[id(draft)] = skipped.get(id(draft), 0) + len(new) - 1
                new = new[-1:]
            guesses.append(greedy_token(session.feed(new)[0][-1]))
            draft.forwards += 1
        if count:
            session.truncate(len(ids) - skipped.get(id(draft), 0))
        return guesses

    patch.replace((SelfDraft, "propose"), wrong)


@_speculation(
    "speculation.bonus-twice",
    "the token behind an accepted block is committed twice",
    "spec.eq gen.given",
    seen_in="ml-explore/mlx-lm#1528",
    kinds="P04",
    workloads=(*given(DENSE), *run(DENSE)),
)
def _bonus_twice(patch: Patch) -> None:
    """It is taken from the last row, and taken again when the next block begins.

    Drafts that are never wholly right hide it.
    """
    _rules(patch, rules=Rules(bonus_twice=True))


@_speculation(
    "speculation.later-matches",
    "guesses count behind a wrong one",
    "spec.eq gen.given",
    seen_in="huggingface/transformers#30042",
    kinds="P05",
    workloads=(*given(DENSE), *run(DENSE)),
)
def _later_matches(patch: Patch) -> None:
    """Matches are counted, where only those before the first mismatch should be.

    Drafts that are right or wrong throughout hide it.
    """
    _rules(patch, rules=Rules(later_matches=True))


@_speculation(
    "speculation.stop-inside-missed",
    "a stop inside a block is missed",
    "spec.eos",
    seen_in="huggingface/transformers#47912; LostRuins/koboldcpp#1276",
    kinds="P06",
    workloads=run(DENSE),
)
def _stop_inside_missed(patch: Patch) -> None:
    """Only the last token of a block is looked at. A stop on the last place hides it."""
    _rules(patch, rules=Rules(stop_at_end=True))


@_speculation(
    "speculation.whole-blocks",
    "a block exceeds the budget",
    "spec.budget",
    seen_in="sgl-project/sglang#31599",
    kinds="P07",
    workloads=run(DENSE),
)
def _whole_blocks(patch: Patch) -> None:
    """Guesses are made and committed as if there were room for all of them. Large budgets hide it."""
    _rules(patch, rules=Rules(whole_blocks=True))


@_speculation(
    "speculation.bonus-counted", "the token behind the guesses counts as accepted", "spec.trace", workloads=run(DENSE)
)
def _bonus_counted(patch: Patch) -> None:
    """The rate of acceptance looks better than it is, and tokens stay right."""
    _rules(patch, rules=Rules(bonus_accepted=True))


@_speculation(
    "speculation.stale-heads",
    "later heads guess from the row before",
    "run.decode",
    seen_in="ohdearquant/lattice#1373; ml-explore/mlx-lm#1175",
    kinds="P10",
    workloads=run("cai.multi-token"),
)
def _stale_heads(patch: Patch) -> None:
    """They see the token before the newest one. What is generated stays right; fewer guesses are."""
    # Let later heads guess from the row before the one that gave the newest token.
    # Drafts are kept beside their rows, so that their identities are not used again.
    last: dict[int, tuple[LaterHeads, list[Array]]] = {}

    def wrong(draft: LaterHeads, heads: Sequence[Array]) -> None:
        _, stale = last.get(id(draft), (draft, list(heads)))
        last[id(draft)] = (draft, list(heads))
        draft._guesses = [greedy_token(logits) for logits in stale[1:]]

    patch.replace((LaterHeads, "committed"), wrong)


@_speculation(
    "speculation.residual-through-softmax",
    "the residual goes through softmax",
    "spec.law",
    seen_in="huggingface/transformers#28508",
    kinds="P08",
)
def _residual_through_softmax(patch: Patch) -> None:
    """What the target has over the draft is taken for logits."""
    _residual(patch, changed=_through_softmax)


@_speculation(
    "speculation.residual-of-target",
    "a rejected place is drawn from the target",
    "spec.law",
    seen_in="huggingface/transformers#28508",
    kinds="P08",
)
def _residual_of_target(patch: Patch) -> None:
    """The law of the target is used, where the residual should be."""
    _residual(patch, changed=_of_target)


@_speculation(
    "speculation.ratio-undivided", "guesses accepted by the target's probability alone", "spec.law", kinds="P09"
)
def _undivided(patch: Patch) -> None:
    """The law of the draft is left out; a draft that is certain hides it."""
    right = stochastic_speculation.acceptance

    def wrong(target: Array, proposal: Proposal) -> float:
        right(target, proposal)
        return float(target[proposal.token])

    patch.replace(right, wrong)


@_speculation(
    "speculation.another-law",
    "guesses weighed by a law from which they were not drawn",
    "smp.seed",
    seen_in="jaymody/speculative-sampling#3; deepseek-ai/DeepSpec#31",
    kinds="P09",
    workloads=given(DENSE),
)
def _another_law(patch: Patch) -> None:
    """The draft draws behind its temperature and top-k, and hands over another law."""
    # Hand over guesses with a law from which they were not drawn: each as likely as any other.
    propose = SampledDraft.propose

    def wrong(draft: SampledDraft, ids: Sequence[int], count: int, generator: UnitInterval) -> list[Proposal]:
        drawn = propose(draft, ids, count, generator)
        return [Proposal(each.token, np.full(len(each.law), 1.0 / len(each.law))) for each in drawn]

    patch.replace((SampledDraft, "propose"), wrong)


@_speculation("speculation.one-draw", "one draw for the test and for the residual", "spec.law")
def _one_draw(patch: Patch) -> None:
    """The number that has rejected a guess draws the token in its place."""

    # Draw from the residual with the number that has rejected the guess.
    def wrong(target: Array, proposal: Proposal, generator: UnitInterval) -> Commit:
        threshold, unit = stochastic_speculation.acceptance(target, proposal), generator.unit()
        if unit < threshold:
            return Commit(proposal.token, Source.ACCEPTED, (unit,))
        left = stochastic_speculation.residual(target, proposal.law)
        return Commit(choose(left, unit).token, Source.RESIDUAL, (unit, unit))

    patch.replace(stochastic_speculation.verify, wrong)


@_speculation("speculation.accepts-the-border", "a draw equal to the ratio is accepted", "spec.law")
def _accepts_the_border(patch: Patch) -> None:
    """A guess that the target excludes is accepted by a draw of 0."""

    def wrong(target: Array, proposal: Proposal, generator: UnitInterval) -> Commit:
        threshold, unit = stochastic_speculation.acceptance(target, proposal), generator.unit()
        if unit <= threshold:
            return Commit(proposal.token, Source.ACCEPTED, (unit,))
        second, left = generator.unit(), stochastic_speculation.residual(target, proposal.law)
        return Commit(choose(left, second).token, Source.RESIDUAL, (unit, second))

    patch.replace(stochastic_speculation.verify, wrong)


SPECULATION: Final = tuple(_speculation)
"""What is wrong with guessing ahead."""
