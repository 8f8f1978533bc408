"""Faults of speculation: what is accepted, what is committed behind it, when it ends, and by which law it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import COURSE, DENSE, Vehicle, exact, given, run
from cai_reference.arithmetic import Array
from cai_reference.decoding import speculation, stochastic_speculation
from cai_reference.decoding.drafts import Draft, LaterHeads, SelfDraft
from cai_reference.decoding.generation import DecoderStop, DraftPass, Generation, Limits, Path, check_prompt, stop_after
from cai_reference.decoding.greedy import greedy_token
from cai_reference.decoding.sampling.choice import Units, choose
from cai_reference.decoding.sampling.compensated import compensated_sum
from cai_reference.decoding.stochastic_drafts import Proposal, SampledDraft
from cai_reference.decoding.stochastic_speculation import Commit, Source

SPECULATION: Final = frozenset({Place.SPECULATION})


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


def _rules(planting: Planting, rules: Rules) -> None:
    planting.function(speculation.speculate, rules.speculate)


def _newest_only(planting: Planting) -> None:
    """Feed the draft the newest token, and no other that was committed since."""
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

    planting.method(SelfDraft, "propose", wrong)


def _stale_heads(planting: Planting) -> None:
    """Let later heads guess from the row before the one that gave the newest token."""
    # Drafts are kept beside their rows, so that their identities are not used again.
    last: dict[int, tuple[LaterHeads, list[Array]]] = {}

    def wrong(draft: LaterHeads, heads: Sequence[Array]) -> None:
        _, stale = last.get(id(draft), (draft, list(heads)))
        last[id(draft)] = (draft, list(heads))
        draft._guesses = [greedy_token(logits) for logits in stale[1:]]

    planting.method(LaterHeads, "committed", wrong)


def _residual(planting: Planting, changed: Callable[[Array, Array], Array]) -> None:
    planting.function(stochastic_speculation.residual, changed)


def _through_softmax(target: Array, law: Array) -> Array:
    raised = np.exp(target - law)
    return raised / compensated_sum(raised.tolist())


def _of_target(target: Array, law: Array) -> Array:
    return target


def _undivided(planting: Planting) -> None:
    right = stochastic_speculation.acceptance

    def wrong(target: Array, proposal: Proposal) -> float:
        right(target, proposal)
        return float(target[proposal.token])

    planting.function(right, wrong)


def _another_law(planting: Planting) -> None:
    """Hand over guesses with a law from which they were not drawn: each as likely as any other."""
    propose = SampledDraft.propose

    def wrong(draft: SampledDraft, ids: Sequence[int], count: int, generator: Units) -> list[Proposal]:
        drawn = propose(draft, ids, count, generator)
        return [Proposal(each.token, np.full(len(each.law), 1.0 / len(each.law))) for each in drawn]

    planting.method(SampledDraft, "propose", wrong)


def _one_draw(planting: Planting) -> None:
    """Draw from the residual with the number that has rejected the guess."""

    def wrong(target: Array, proposal: Proposal, generator: Units) -> Commit:
        threshold, unit = stochastic_speculation.acceptance(target, proposal), generator.unit()
        if unit < threshold:
            return Commit(proposal.token, Source.ACCEPTED, (unit,))
        left = stochastic_speculation.residual(target, proposal.law)
        return Commit(choose(left, unit).token, Source.RESIDUAL, (unit, unit))

    planting.function(stochastic_speculation.verify, wrong)


def _accepts_the_border(planting: Planting) -> None:
    def wrong(target: Array, proposal: Proposal, generator: Units) -> Commit:
        threshold, unit = stochastic_speculation.acceptance(target, proposal), generator.unit()
        if unit <= threshold:
            return Commit(proposal.token, Source.ACCEPTED, (unit,))
        second, left = generator.unit(), stochastic_speculation.residual(target, proposal.law)
        return Commit(choose(left, second).token, Source.RESIDUAL, (unit, second))

    planting.function(stochastic_speculation.verify, wrong)


def _fault(
    slug: str,
    title: str,
    story: str,
    precedent: str,
    plant: Callable[[Planting], None],
    expected: tuple[str, ...],
    kinds: tuple[str, ...],
    vehicles: tuple[Vehicle, ...] = run(DENSE),
) -> Fault:
    return Fault(f"speculation.{slug}", title, story, precedent, SPECULATION, plant, "", kinds, vehicles, expected)


BY_LAW: Final = exact(COURSE)

SPECULATING: Final = (
    _fault(
        "draft-misses-tokens",
        "the draft is not told of tokens that were accepted",
        "Behind an accepted block the draft is fed the newest token alone. What is generated stays right; fewer guesses"
        " are.",
        "vllm-project/vllm#5765",
        _newest_only,
        ("spec.self",),
        ("P02",),
        run(DENSE, "cai.speculative"),
    ),
    _fault(
        "bonus-twice",
        "the token behind an accepted block is committed twice",
        "It is taken from the last row, and taken again when the next block begins. Drafts that are never wholly right"
        " hide it.",
        "ml-explore/mlx-lm#1528",
        partial(_rules, rules=Rules(bonus_twice=True)),
        ("spec.eq", "gen.given"),
        ("P04",),
        (*given(DENSE), *run(DENSE)),
    ),
    _fault(
        "later-matches",
        "guesses count behind a wrong one",
        "Matches are counted, where only those before the first mismatch should be. Drafts that are right or wrong"
        " throughout hide it.",
        "huggingface/transformers#30042",
        partial(_rules, rules=Rules(later_matches=True)),
        ("spec.eq", "gen.given"),
        ("P05",),
        (*given(DENSE), *run(DENSE)),
    ),
    _fault(
        "stop-inside-missed",
        "a stop inside a block is missed",
        "Only the last token of a block is looked at. A stop on the last place hides it.",
        "huggingface/transformers#47912; LostRuins/koboldcpp#1276",
        partial(_rules, rules=Rules(stop_at_end=True)),
        ("spec.eos",),
        ("P06",),
    ),
    _fault(
        "whole-blocks",
        "a block exceeds the budget",
        "Guesses are made and committed as if there were room for all of them. Large budgets hide it.",
        "sgl-project/sglang#31599",
        partial(_rules, rules=Rules(whole_blocks=True)),
        ("spec.budget",),
        ("P07",),
    ),
    _fault(
        "bonus-counted",
        "the token behind the guesses counts as accepted",
        "The rate of acceptance looks better than it is, and tokens stay right.",
        "",
        partial(_rules, rules=Rules(bonus_accepted=True)),
        ("spec.trace",),
        (),
    ),
    _fault(
        "stale-heads",
        "later heads guess from the row before",
        "They see the token before the newest one. What is generated stays right; fewer guesses are.",
        "ohdearquant/lattice#1373; ml-explore/mlx-lm#1175",
        _stale_heads,
        ("run.decode",),
        ("P10",),
        run("cai.multi-token"),
    ),
    _fault(
        "residual-through-softmax",
        "the residual goes through softmax",
        "What the target has over the draft is taken for logits.",
        "huggingface/transformers#28508",
        partial(_residual, changed=_through_softmax),
        ("spec.law",),
        ("P08",),
        BY_LAW,
    ),
    _fault(
        "residual-of-target",
        "a rejected place is drawn from the target",
        "The law of the target is used, where the residual should be.",
        "huggingface/transformers#28508",
        partial(_residual, changed=_of_target),
        ("spec.law",),
        ("P08",),
        BY_LAW,
    ),
    _fault(
        "ratio-undivided",
        "guesses accepted by the target's probability alone",
        "The law of the draft is left out; a draft that is certain hides it.",
        "",
        _undivided,
        ("spec.law",),
        ("P09",),
        BY_LAW,
    ),
    _fault(
        "another-law",
        "guesses weighed by a law from which they were not drawn",
        "The draft draws behind its temperature and top-k, and hands over another law.",
        "jaymody/speculative-sampling#3; deepseek-ai/DeepSpec#31",
        _another_law,
        ("smp.seed",),
        ("P09",),
        given(DENSE),
    ),
    _fault(
        "one-draw",
        "one draw for the test and for the residual",
        "The number that has rejected a guess draws the token in its place.",
        "",
        _one_draw,
        ("spec.law",),
        (),
        BY_LAW,
    ),
    _fault(
        "accepts-the-border",
        "a draw equal to the ratio is accepted",
        "A guess that the target excludes is accepted by a draw of 0.",
        "",
        _accepts_the_border,
        ("spec.law",),
        (),
        BY_LAW,
    ),
)
"""What is wrong with guessing ahead."""
