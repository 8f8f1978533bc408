"""The decode arms of a suite: every way in which its model generates, prompt by prompt.

| arm                  | what it is                                                                        |
|----------------------|-----------------------------------------------------------------------------------|
| `full`               | the batch path, the whole prefix each time                                        |
| `cached`             | the session, one token at a time                                                  |
| `chunked`            | the session, the prompt in chunks                                                 |
| `scripted`           | speculation with guesses that are wrong at planned offsets                        |
| `scripted.budget-N`  | the same with a budget of N tokens                                                |
| `scripted.eos-N`     | right guesses, and a stop id that is committed at offset N of a block             |
| `mtp-full`           | later heads draft, head 0 verifies by the batch path                              |
| `mtp-cached`         | the same through the session                                                      |
| `latent`, `absorbed` | the session with the two small caches of latent attention                         |
| `draft`              | speculation with the trained token-shift draft                                    |
| `self-draft`         | the model drafts for itself                                                       |

Beside them, what the caches really hold, and whether a session can be rolled back exactly: floats are counted on
sessions that were fed, and held against the sizes of the arrays that they allocated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from cai_conformance.fixtures.phases import DecodePhase
from cai_conformance.fixtures.sizes import Sizes
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.decoding.errors import SessionError
from cai_reference.decoding.generation import Generation, Limits, ReencodingPath, StreamingPath, generate
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.layer_states import Accounting
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.decoding.speculation import Draft, LaterHeads, ScriptedDraft, SelfDraft, TokenShiftSession, speculate
from cai_reference.models.stack import DecoderStack
from cai_reference.models.token_shift_draft import TokenShiftDraft
from cai_reference.text.tokenizer import EOS

BUDGETS = range(1, 6)


@dataclass(frozen=True)
class ArmResult:
    """What one arm made of one prompt."""

    arm: str
    prompt: int
    prompt_ids: tuple[int, ...]
    generation: Generation


@dataclass(frozen=True)
class Bench:
    """A model with everything that its arms need."""

    phase: DecodePhase
    sizes: Sizes
    model: DecoderStack
    draft: TokenShiftDraft | None
    arithmetic: Arithmetic

    @property
    def limits(self) -> Limits:
        """The ordinary stops: EOS, the budget, the context."""
        return Limits(EOS, self.sizes.new_tokens, self.sizes.context)

    def session(self, latent: LatentCache = LatentCache.HEADS) -> Session:
        """Open a session that can be rolled back by a block."""
        return Session(self.model, self.arithmetic, SessionOptions(slack=self.sizes.slack, latent=latent))

    def streaming(self, chunk: int = 1, latent: LatentCache = LatentCache.HEADS) -> StreamingPath:
        """Open a session and the path through it."""
        return StreamingPath(self.session(latent), chunk)


def run_arms(bench: Bench, prompts: Sequence[tuple[int, ...]]) -> tuple[ArmResult, ...]:
    """Run every arm of the suite on every prompt; arm by arm, prompts in order."""
    by_arm: dict[str, list[ArmResult]] = {}
    for number, prompt in enumerate(prompts):
        full = generate(ReencodingPath(bench.model, bench.arithmetic), prompt, bench.limits)
        for arm, generation in _arms(bench, prompt, full):
            by_arm.setdefault(arm, []).append(ArmResult(arm, number, prompt, generation))
        for arm, generation in _stopped(bench, prompt, full, set(by_arm)):
            by_arm.setdefault(arm, []).append(ArmResult(arm, number, prompt, generation))
    return tuple(result for results in by_arm.values() for result in results)


def _arms(bench: Bench, prompt: tuple[int, ...], full: Generation) -> Iterator[tuple[str, Generation]]:
    limits = bench.limits
    yield "full", full
    yield "cached", generate(bench.streaming(), prompt, limits)
    yield "chunked", generate(bench.streaming(bench.sizes.chunk), prompt, limits)
    if bench.phase.has_latent:
        for latent in (LatentCache.LATENT, LatentCache.ABSORBED):
            yield latent.value, generate(bench.streaming(latent=latent), prompt, limits)
    if bench.phase.futures:
        block = bench.sizes.futures - 1
        path = ReencodingPath(bench.model, bench.arithmetic)
        yield "mtp-full", speculate(path, LaterHeads(), prompt, limits, block)
        yield "mtp-cached", speculate(bench.streaming(), LaterHeads(), prompt, limits, block)
    if bench.draft is not None:
        yield "draft", _speculated(bench, TokenShiftSession(bench.draft, bench.arithmetic), prompt, limits)
    if bench.phase.self_draft:
        yield "self-draft", _speculated(bench, SelfDraft(bench.session()), prompt, limits)
    yield "scripted", _speculated(bench, _script(bench, prompt, full), prompt, limits)


def _stopped(
    bench: Bench, prompt: tuple[int, ...], full: Generation, met: set[str]
) -> Iterator[tuple[str, Generation]]:
    """Run the scripted draft with small budgets, and a stop at each offset, each on the first prompt that has it."""
    block = bench.sizes.block
    for budget in BUDGETS:
        if f"scripted.budget-{budget}" not in met:
            limits = replace(bench.limits, new_tokens=budget)
            yield f"scripted.budget-{budget}", _speculated(bench, _script(bench, prompt, full), prompt, limits)
    for offset in range(block + 1):
        stop_id = stop_at_offset(full.ids, offset, block)
        if stop_id is not None and f"scripted.eos-{offset}" not in met:
            limits = replace(bench.limits, eos=stop_id)
            right = ScriptedDraft(full.ids, len(prompt), block, bench.model.configuration.vocabulary, mistakes=False)
            yield f"scripted.eos-{offset}", _speculated(bench, right, prompt, limits)


def stop_at_offset(ids: Sequence[int], offset: int, block: int) -> int | None:
    """Return a token that first occurs at `offset` within a block of right guesses, in the earliest such block."""
    first = {token: place for place, token in reversed(list(enumerate(ids)))}
    places = [place for place in first.values() if place % (block + 1) == offset]
    return ids[min(places)] if places else None


def _script(bench: Bench, prompt: tuple[int, ...], full: Generation) -> ScriptedDraft:
    return ScriptedDraft(full.ids, len(prompt), bench.sizes.block, bench.model.configuration.vocabulary)


def _speculated(bench: Bench, draft: Draft, prompt: tuple[int, ...], limits: Limits) -> Generation:
    return speculate(bench.streaming(bench.sizes.chunk), draft, prompt, limits, bench.sizes.block)


@dataclass(frozen=True)
class CacheCount:
    """The cache of one layer after so many tokens, in one arm."""

    layer: int
    arm: str
    prefix: int
    accounting: Accounting


class Rollback(StrEnum):
    """How a session that was cut back and fed again compares with one that was not."""

    EXACT = "exact"
    CLOSE = "close"
    WRONG = "wrong"


def count_caches(bench: Bench, ids: Sequence[int], prefixes: Sequence[int]) -> tuple[CacheCount, ...]:
    """Feed a sequence and count every layer's cache at each prefix length, in each arm that keeps another cache."""
    arms = {"cached": LatentCache.HEADS}
    if bench.phase.has_latent:
        arms["latent"] = LatentCache.LATENT
    counts: list[CacheCount] = []
    for arm, latent in arms.items():
        session = bench.session(latent)
        for prefix in prefixes:
            session.feed(ids[session.length : prefix])
            counts += [CacheCount(layer, arm, prefix, found) for layer, found in enumerate(session.accounting())]
    return tuple(counts)


def check_rollback(bench: Bench, ids: Sequence[int]) -> Rollback:
    """Feed, cut back by 1 … slack tokens and feed again, all along a sequence; compare with a session never cut.

    A cut beyond what a ring or a recurrence can honour has to be refused.
    """
    straight = np.concatenate([row for (row,) in _rows(bench.session(), ids)])
    session = bench.session()
    rows: list[Array] = []
    for place in range(len(ids)):
        rows.append(session.feed(ids[place : place + 1])[0])
        back = place % (bench.sizes.slack + 1)
        if 0 < back <= session.length:
            session.truncate(session.length - back)
            again = session.feed(ids[place + 1 - back : place + 1])[0]
            rows[len(rows) - back :] = list(again[:, None, :])
    found = np.concatenate(rows)
    if not _refuses_too_deep_cut(session):
        return Rollback.WRONG
    if found.tobytes() == straight.tobytes():
        return Rollback.EXACT
    return Rollback.CLOSE if np.allclose(found, straight, rtol=0.0, atol=1e-9) else Rollback.WRONG


def _rows(session: Session, ids: Sequence[int]) -> Iterator[list[Array]]:
    for token in ids:
        yield session.feed([token])[:1]


def _refuses_too_deep_cut(session: Session) -> bool:
    """Ask for one token less than the session can honour, where that is above 0."""
    earliest = session.earliest()
    if earliest == 0:
        return True
    try:
        session.truncate(earliest - 1)
    except SessionError as error:
        if error.code != "truncation-refused":
            raise
        return True
    return False
