"""Speculation on an engine: the loop is ours, the rows and the cuts are the engine's.

Tokens never show a fault on the draft's side, its acceptance does; and tokens hide small faults of the target, its rows
do not. Where two ids are so close that rounding may exchange them, a difference is a near tie. Of a model with several
heads the later ones are overwritten with the first one's tensors, and one id is favoured in all of them, so that the
right continuation is known: this id, again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_conformance.backends.engine.features import dropping
from cai_conformance.backends.engine.session import EngineSession
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.probe.driven import fed_by
from cai_conformance.checks.probe.probe import Probe
from cai_conformance.checks.probe.self_check import self_check
from cai_conformance.checks.rollback import NO_DROP
from cai_conformance.checks.rows import ROWS, Allowance, RowComparison, concluded, reshaped
from cai_conformance.checks.witness import Met, Witness, told
from cai_conformance.fixtures.given_weights import Tensors
from cai_conformance.verdicts import Level, Outcome
from cai_reference.arithmetic import Array
from cai_reference.decoding.generation import Generation, Limits, StreamingPath, generate
from cai_reference.decoding.speculation import Draft, LaterHeads, ScriptedDraft, SelfDraft, speculate

CASES: Final = ("full", "partial", "never")
PASSES: Final = Witness("pass", "passes")
GUESSES: Final = Witness("guess", "guesses")
ACCEPTED: Final = Witness("accepted", "accepted", least=0)
ROLLED_BACK: Final = Witness("row rolled back", "rows rolled back", least=0)
RIGHT: Final = Witness("right guess", "right guesses", cases=("full",))
PARTIAL: Final = Witness("pass of right and wrong guesses", "passes of right and wrong guesses", cases=("partial",))
WRONG: Final = Witness("wrong guess", "wrong guesses", cases=("never",))
PROMPT: Final = 6
"""How many tokens there are before the first guess."""
TOKENS: Final = 7
"""How many are generated."""
NEVER: Final = 3
"""How many where no guess is right: each takes a pass of its own."""
DRAFT_SLOT: Final = 1
ONE_SLOT: Final = "the engine holds one sequence only"


class NeverRight:
    """Guesses the id after the right one, always."""

    def __init__(self, truth: Sequence[int], prompt_length: int, vocabulary: int) -> None:
        self.forwards = 0
        self._truth, self._prompt_length, self._vocabulary = truth, prompt_length, vocabulary

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """Return wrong guesses."""
        done = len(ids) - self._prompt_length
        return [(token + 1) % self._vocabulary for token in self._truth[done : done + count]]

    def committed(self, heads: Sequence[Array]) -> None:
        """Nothing to learn."""


@dataclass(frozen=True)
class _Passes:
    """What the passes of a generation add up to."""

    passes: int
    proposed: int
    accepted: int
    partial: int
    rolled_back: int

    @classmethod
    def of(cls, generation: Generation) -> _Passes:
        found = generation.passes
        return cls(
            len(found),
            sum(each.proposed for each in found),
            sum(each.accepted for each in found),
            sum(0 < each.accepted < each.proposed for each in found),
            sum(each.rolled_back for each in found),
        )

    @property
    def met(self) -> list[Met]:
        """In words."""
        return [
            PASSES.met(self.passes),
            GUESSES.met(self.proposed),
            ACCEPTED.met(self.accepted),
            ROLLED_BACK.met(self.rolled_back),
        ]


@self_check(
    "spec.twin",
    Level.I3,
    "a model that drafts for itself in a second slot is always right",
    "Counted from the passes: tokens never show a fault on the draft's side, its acceptance does.",
    witnesses=(ROWS, PASSES, GUESSES),
    requires="kv.steps",
)
def judge_twin(probe: Probe) -> tuple[Finding, ...]:
    """Let the model guess for itself in a second slot, and count what is accepted."""
    reason = NO_DROP if dropping(probe.engine) is None else "" if probe.description.slots > DRAFT_SLOT else ONE_SLOT
    if reason:
        return (Finding.skipped(reason),)
    plain, allowance = _plain(probe), reshaped(probe)
    found = _speculated(probe, SelfDraft(EngineSession(probe.engine, DRAFT_SLOT)), TOKENS)
    probe.engine.clear(DRAFT_SLOT)
    counted = _Passes.of(found)
    if counted.accepted < counted.proposed:
        return (_rejected(found, counted, allowance),)
    return (_of_rows(plain, found, counted.met, allowance, ""),)


@self_check(
    "spec.rows",
    Level.I3,
    "speculation commits from the rows that plain greedy decoding gives",
    "Under guesses that are all right, right up to a place, and never right. Tokens hide what rows show.",
    cases=CASES,
    witnesses=(ROWS, PASSES, GUESSES, RIGHT, PARTIAL, WRONG),
    requires="kv.steps",
    catches=(
        "cache.newest-row-only cache.position-plus-one-after-rollback cache.rollback-ignored "
        "cache.stale-row-after-rollback"
    ),
)
def judge_committed_rows(probe: Probe) -> tuple[Finding, ...]:
    """Speculate with guesses that are right, partly right and wrong, and compare the rows of what was committed."""
    if dropping(probe.engine) is None:
        return (Finding.skipped(NO_DROP),)
    plain, block, vocabulary = _plain(probe), probe.facts.block, probe.vocabulary
    drafts: tuple[tuple[Draft, int], ...] = (
        (ScriptedDraft(plain.ids, PROMPT, block, vocabulary, mistakes=False), TOKENS),
        (ScriptedDraft(plain.ids, PROMPT, block, vocabulary), TOKENS),
        (NeverRight(plain.ids, PROMPT, vocabulary), NEVER),
    )
    findings: list[Finding] = []
    for case, (draft, tokens) in zip(CASES, drafts, strict=True):
        found = _speculated(probe, draft, tokens)
        counted = _Passes.of(found)
        needed = {
            "full": RIGHT.met(counted.accepted),
            "partial": PARTIAL.met(counted.partial),
            "never": WRONG.met(counted.proposed - counted.accepted),
        }
        findings.append(_of_rows(plain, found, [*counted.met, needed[case]], reshaped(probe), case))
    return tuple(findings)


def _plain(probe: Probe) -> Generation:
    """Return what greedy decoding gives, one token a call behind the prompt."""
    return probe.memory.remembered("greedy", lambda: _generated(probe))


def _generated(probe: Probe) -> Generation:
    path = StreamingPath(EngineSession(probe.engine), PROMPT)
    return generate(path, probe.ids[:PROMPT], _limits(probe, TOKENS))


def _speculated(probe: Probe, draft: Draft, tokens: int) -> Generation:
    path = StreamingPath(EngineSession(probe.engine), PROMPT)
    return speculate(path, draft, probe.ids[:PROMPT], _limits(probe, tokens), probe.facts.block)


def _limits(probe: Probe, tokens: int) -> Limits:
    # Nothing ends a generation but its budget: an id that ends would make witnesses depend on the weights.
    return Limits(None, tokens, probe.length)


def _of_rows(plain: Generation, found: Generation, met: list[Met], allowance: Allowance, case: str) -> Finding:
    """Compare rows up to the first token that differs, which is a near tie or a fault."""
    comparison = RowComparison(allowance)
    for place, (right, row) in enumerate(zip(plain.rows, found.rows, strict=False)):
        comparison.compare(right[None, None], row[None, None], f"the row of token {place}")
        ours, theirs = plain.ids[place], found.ids[place]
        if ours == theirs or not comparison.holds:
            continue
        gap = float(right[ours] - right[theirs])
        return Finding(
            Outcome.NEAR_TIE, f"token {place} is {theirs}, not {ours}, which leads by {gap:.3g}; {told(met)}", case=case
        )
    return concluded(comparison, met, case)


def _rejected(found: Generation, counted: _Passes, allowance: Allowance) -> Finding:
    """Say which guess was rejected; one whose row has two ids that rounding may exchange is a near tie."""
    place = 0
    for each in found.passes:
        if each.accepted < each.proposed:
            break
        place += each.committed
    place += each.accepted
    row = found.rows[place]
    second, first = np.sort(row)[-2:]
    gap = float(first - second)
    text = (
        f"{counted.accepted} of {counted.proposed} guesses of the model for itself were accepted; {told(counted.met)}"
    )
    text += f"; the first that was rejected is token {place}, where the largest logit leads by {gap:.3g}"
    if gap <= 2.0 * allowance.absolute(row):
        return Finding(Outcome.NEAR_TIE, text)
    return Finding.failed(text)


HEADS: Final = Witness("later head", "later heads", cases=("rows",))
HEAD_PASSES: Final = Witness("pass", "passes", cases=("passes",))
HEAD_GUESSES: Final = Witness("guess", "guesses", cases=("passes",))
HEAD_ROWS, HEAD_CUT = 6, 4
"""How many tokens are fed, and where they are cut in two calls."""
HEAD_PROMPT: Final = 4
HEAD_TOKENS: Final = 6
FAVOURED: Final = 7
FAVOUR: Final = 64.0
"""By how much an id is favoured: more than any logit."""
ONE_HEAD: Final = "the model is not known to predict several tokens, or its heads cannot be exchanged"


@self_check(
    "mtp.self",
    Level.I3,
    "later heads that are copies of the first one say what it says, and guess right",
    "The folder's later heads are overwritten and one id is favoured in all. A head that reads another row, or "
    "another token, says something else.",
    cases=("rows", "passes"),
    witnesses=(ROWS.of("rows"), HEADS, HEAD_PASSES, HEAD_GUESSES),
    of="futures",
    catches="cache.later-heads-behind",
)
def judge_equal_heads(probe: Probe) -> tuple[Finding, ...]:
    """Load a model whose later heads are copies of the first one; compare rows, and count accepted guesses."""
    if not probe.facts.later_heads:
        return (Finding.skipped(ONE_HEAD),)
    with probe.model.changed("equal heads", _equal(probe)):
        probe.model.load()
        findings = (_rows(probe), _passes(probe))
    probe.model.load()
    return findings


def _equal(probe: Probe) -> Tensors:
    values = {name: np.array(value) for name, value in probe.model.tensors.items()}
    for bias in probe.facts.output_biases:
        values[bias][FAVOURED] = FAVOUR
    for first, later in probe.facts.later_heads:
        values[later] = values[first]
    return values


def _rows(probe: Probe) -> Finding:
    comparison = RowComparison(reshaped(probe))
    heads = fed_by(EngineSession(probe.engine), probe.ids[:HEAD_ROWS], (HEAD_CUT,))
    for head in range(1, len(heads)):
        comparison.compare(heads[:1], heads[head : head + 1], f"head {head} as a copy of the first one")
    return concluded(comparison, [HEADS.met(len(heads) - 1)], "rows")


def _passes(probe: Probe) -> Finding:
    if dropping(probe.engine) is None or not probe.facts.output_biases:
        return Finding.skipped("guesses cannot be taken back, or no id can be favoured", "passes")
    later = len({name.split(".")[2] for _, name in probe.facts.later_heads})
    path, limits = StreamingPath(EngineSession(probe.engine), HEAD_PROMPT), Limits(None, HEAD_TOKENS, probe.length)
    found = speculate(path, LaterHeads(), probe.ids[:HEAD_PROMPT], limits, later)
    proposed, accepted = (sum(getattr(each, name) for each in found.passes) for name in ("proposed", "accepted"))
    met = [HEAD_PASSES.met(len(found.passes)), HEAD_GUESSES.met(proposed)]
    if set(found.ids) != {FAVOURED}:
        return Finding.failed(
            f"the id {FAVOURED}, which is favoured, was not generated alone: {list(found.ids)}", case="passes"
        )
    if accepted < proposed or not proposed:
        return Finding.failed(
            f"{accepted} of {proposed} guesses were accepted, where all are right; {told(met)}", case="passes"
        )
    return Finding.passed(f"{told(met)}, all accepted", "passes", met)
