"""The checks of one sequence that somebody asks about: its ids, where it starts, and in which calls it is fed.

| check | its rows are held against |
|---|---|
| `fwd.oracle` | the reference's, of the same model folder |
| `rope.shift` | the engine's own from position 0 |
| `kv.steps`, `kv.cuts` | the engine's own in one call |
| `kv.rollback` | the same, behind what was dropped |
| `kv.reuse` | the same, behind a slot that was emptied or copied; one that was emptied, in an engine that loaded anew |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np

from cai_conformance.backends.engine.features import copying, dropping
from cai_conformance.backends.engine.session import evaluate_one, full_logits
from cai_conformance.checks import forward, kv_cache, rollback, rotary
from cai_conformance.checks.check import Check
from cai_conformance.checks.finding import counted
from cai_conformance.checks.probe.probe import other_ids
from cai_conformance.checks.probe.self_check import SelfCheck
from cai_conformance.checks.rows import Allowance, RowComparison, reshaped, restarted
from cai_conformance.engine import Engine, Piece, Refused
from cai_conformance.run.probe.calls import Calls, Drop, Feed, Step, Turn
from cai_conformance.run.probe.judged import CheckedFolder, Judged, ProbeWay, judged_safely
from cai_conformance.verdicts import Level, Outcome
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.autograd import Tape

NEAR: Final = 5
"""The last start at which an angle has all its digits."""
BLOCK: Final = 4
"""How many tokens are guessed, and taken back, at once."""
SLOTS: Final = 2
MANY: Final = 12
"""Longer sequences are cut in two near their ends, after a third and in half; shorter ones everywhere."""


class Against(StrEnum):
    """Whose rows are right."""

    REFERENCE = "the reference"
    WHOLE = "one call"
    FIRST_START = "position 0"


@dataclass(frozen=True)
class SequenceCheck:
    """A check of one sequence.

    Attributes:
        declared: the check, where it is declared.
        case: the one of its cases that this is; empty where there is none.
        against: whose rows are right.
        fits: whether it is about a sequence in these calls.
        asked: the calls that are made of ids [tokens] from a start, below a vocabulary.
        behind: the first step behind which rows are compared is the one behind the first of this kind; None for all.
        anew: whether right rows come from an engine that has just loaded.
        going_on: whether a refusal behind the first call is a failure.
    """

    declared: Check | SelfCheck
    against: Against
    fits: Callable[[Calls], bool]
    asked: Callable[[Sequence[int], int, int], tuple[Calls, ...]]
    case: str = ""
    behind: type[Drop] | Turn | None = None
    anew: bool = False
    going_on: bool = False

    @property
    def name(self) -> str:
        """The name of the check."""
        return self.declared.name

    @property
    def level(self) -> Level:
        """Where it stands in its track."""
        return self.declared.level

    @property
    def identifier(self) -> str:
        """Name and case, such as `kv.reuse[copy]`."""
        return f"{self.name}[{self.case}]" if self.case else self.name


def judge_sequence(check: SequenceCheck, calls: Calls, folder: CheckedFolder) -> Judged:
    """Feed a sequence, and compare its rows.

    Raises:
        InputError (folder-unreadable): the reference has to read the folder, and cannot.
    """
    return judged_safely(lambda: _judged(check, calls, folder))


def judge_all(check: SequenceCheck, asked: Sequence[Calls], folder: CheckedFolder) -> tuple[Judged, Calls | None]:
    """Judge a sequence in several calls up to the first that fails; return what was found, and these calls.

    Raises:
        InputError (folder-unreadable): as `judge_sequence`.
    """
    passed: list[Judged] = []
    last = Judged.skipped("it takes more tokens, or another start")
    for calls in asked:
        last = judge_sequence(check, calls, folder)
        if last.fails:
            return last, calls
        if last.outcome is Outcome.PASS:
            passed.append(last)
    if not passed:
        return last, None
    told = passed[-1].message if len(asked) == 1 else f"{counted(len(passed), 'way')} to feed it; {passed[-1].message}"
    return replace(passed[-1], message=told), None


def _judged(check: SequenceCheck, calls: Calls, folder: CheckedFolder) -> Judged:
    probe = folder.probe
    reason = _why_not(probe.engine, calls)
    if reason:
        return Judged.skipped(reason)
    probe.model.load()
    allowance = _allowance(check, calls, folder)
    comparison = RowComparison(replace(allowance, ulps=folder.allowed(allowance.ulps)))
    # What was asked before must not matter, so that the answer is the same whenever this is asked.
    probe.engine.load(folder.path)
    found, refusal, refusals = _fed(probe.engine, calls)
    right = _RightRows(check, calls, folder)
    if refusal is not None:
        if not check.going_on or not found:
            raise refusal[1]
        right.of(refusal[0])
        text = f"what the engine takes in one call it refuses here: {refusal[1]}"
        return Judged(Outcome.FAIL, text, way=ProbeWay.REFUSAL)
    first = 0 if check.behind is None else _places(calls, check.behind)[0]
    compared = [each for each in found if each.step >= first]
    for number, each in enumerate(compared, start=len(found) - len(compared) + 1):
        rows = right.of(each.tokens)[:, -each.rows.shape[1] :]
        comparison.compare(rows, each.rows, f"call {number}" if len(found) > 1 else "the call")
    if check.behind is Drop and refusals and comparison.holds:
        return Judged.skipped("every cut is refused, and what is held stays as it was")
    text = f"{counted(len(found), 'call')}, held against {check.against.value}"
    finding = comparison.finding(text)
    return Judged(finding.outcome, finding.message, finding.differences)


@dataclass(frozen=True)
class _Found:
    """The rows [heads, tokens, vocabulary] of one call, and all tokens that the slot then holds."""

    step: int
    tokens: tuple[int, ...]
    rows: Array


Refusal: TypeAlias = tuple[tuple[int, ...], Refused]
"""The tokens that a slot would hold, and why it does not."""


def _fed(engine: Engine, calls: Calls) -> tuple[list[_Found], Refusal | None, int]:
    """Make the calls; return the rows of each, the refusal of one to be fed, and how many cuts were refused."""
    slots: list[tuple[int, ...]] = [(), ()]
    dropper, copier = dropping(engine), copying(engine)
    slot = refusals = 0
    found: list[_Found] = []
    used = range(SLOTS if any(isinstance(step, Turn) and step is not Turn.CLEAR for step in calls.steps) else 1)
    for each in used:
        engine.clear(each)
    for place, step in enumerate(calls.steps):
        if isinstance(step, Feed):
            piece = Piece(slot, calls.start + len(slots[slot]), step.tokens, tuple(range(len(step.tokens))))
            try:
                rows = evaluate_one(engine, piece).logits
            except Refused as error:
                return found, ((*slots[slot], *step.tokens), error), refusals
            slots[slot] += step.tokens
            found.append(_Found(place, slots[slot], rows))
        elif isinstance(step, Drop):
            length = len(slots[slot]) - step.count
            if length < 0:
                break
            assert dropper is not None, "it was looked at before"
            try:
                dropper.drop(slot, calls.start + length)
            except Refused:
                # What is held stays as it was, and so it has to go on.
                refusals += 1
                continue
            slots[slot] = slots[slot][:length]
        elif step is Turn.CLEAR:
            engine.clear(slot)
            slots[slot] = ()
        elif step is Turn.COPY:
            assert copier is not None, "it was looked at before"
            copier.copy(slot, 1 - slot)
            slots[1 - slot] = slots[slot]
        else:
            slot = 1 - slot
    for each in used:
        engine.clear(each)
    return found, None, refusals


class _RightRows:
    """The rows that are right, each sequence computed once."""

    def __init__(self, check: SequenceCheck, calls: Calls, folder: CheckedFolder) -> None:
        self._check, self._folder = check, folder
        self._start = 0 if check.against is Against.FIRST_START else calls.start
        # The rows of a sequence are the first of those of a longer one, wherever it goes on so.
        held = [each.tokens for each in calls.holdings()]
        self._longest = {
            tokens: max((other for other in held if other[: len(tokens)] == tokens), key=len) for tokens in held
        }
        self._known: dict[tuple[int, ...], Array] = {}

    def of(self, tokens: tuple[int, ...]) -> Array:
        """Return the rows [heads, tokens, vocabulary] of a sequence."""
        whole = self._longest.get(tokens, tokens)
        if whole not in self._known:
            self._known[whole] = self._computed(whole)
        return self._known[whole][:, : len(tokens)]

    def _computed(self, tokens: tuple[int, ...]) -> Array:
        if self._check.against is Against.REFERENCE:
            model = self._folder.reference.model
            heads = model.forward(Tape(STRICT, recording=False), tokens, 1, self._start)
            return np.stack([logits.value[0] for logits in heads])
        engine = self._folder.probe.engine
        if self._check.anew:
            engine.load(self._folder.path)
        return full_logits(engine, tokens, self._start)


def _allowance(check: SequenceCheck, calls: Calls, folder: CheckedFolder) -> Allowance:
    near = reshaped(folder.probe)
    moved = check.against is Against.FIRST_START or (check.against is Against.REFERENCE and calls.start > 0)
    if not moved or (near.exact and check.against is Against.REFERENCE):
        return near
    return max(near, restarted(folder.probe, far=calls.start > NEAR), key=lambda each: each.ulps)


def _why_not(engine: Engine, calls: Calls) -> str:
    if calls.drops and dropping(engine) is None:
        return "the engine has no feature drop"
    if Turn.COPY in calls.steps and (copying(engine) is None or engine.description.slots < SLOTS):
        return "the engine has no feature copy, or one slot only"
    if Turn.OTHER in calls.steps and engine.description.slots < SLOTS:
        return "the engine holds one sequence only"
    return ""


def _places(calls: Calls, kind: type[Drop] | Turn) -> list[int]:
    """Return where steps of a kind stand."""
    return [
        place
        for place, step in enumerate(calls.steps)
        if step is kind or (isinstance(kind, type) and isinstance(step, kind))
    ]


def _fed_only(calls: Calls) -> bool:
    return len(calls.feeds) == len(calls.steps)


def _goes_on(calls: Calls, kind: type[Drop] | Turn) -> bool:
    """Tell whether something is fed behind the first step of a kind, and the last step feeds."""
    return bool(_places(calls, kind)) and isinstance(calls.steps[-1], Feed)


def _steps(ids: Sequence[int], start: int, _vocabulary: int) -> tuple[Calls, ...]:
    return (Calls.cut(ids, range(1, len(ids)), start),) if len(ids) > 1 else ()


def _cuts(ids: Sequence[int], start: int, _vocabulary: int) -> tuple[Calls, ...]:
    places = set(range(1, len(ids)))
    if len(ids) > MANY:
        places &= {1, 2, 3, len(ids) // 3, len(ids) // 2, *range(len(ids) - 3, len(ids))}
    return tuple(Calls.cut(ids, (cut,), start) for cut in sorted(places))


def _later(ids: Sequence[int], start: int, _vocabulary: int) -> tuple[Calls, ...]:
    if not start:
        return ()
    halves = (Calls.cut(ids, (len(ids) // 2,), start),) if len(ids) > 1 else ()
    return (Calls.at_once(ids, start), *halves)


def _rollbacks(ids: Sequence[int], start: int, vocabulary: int) -> tuple[Calls, ...]:
    """Take back guesses early, halfway and late; then most tokens, and all."""
    whole = tuple(ids)
    return tuple(Calls(steps, start) for steps in _rolled_back(whole, len(ids) - 1, vocabulary))


def _rolled_back(ids: tuple[int, ...], last: int, vocabulary: int) -> Iterator[tuple[Step, ...]]:
    lengths = sorted({min(3, last), len(ids) // 2, last} - {0})
    for length in lengths:
        for count in (1, BLOCK):
            wrong = tuple(other_ids([ids[(length + place) % len(ids)] for place in range(count)], vocabulary))
            yield (Feed(ids[:length]), Feed(wrong), Drop(count), Feed(ids[length : length + 1]))
    if last:
        kept = max(1, len(ids) // 3)
        yield (Feed(ids), Drop(len(ids) - kept), Feed(ids[kept : kept + 1]))
    yield (Feed(ids), Drop(len(ids)), Feed(ids[:1]))


def _cleared(ids: Sequence[int], start: int, vocabulary: int) -> tuple[Calls, ...]:
    parts = Calls.cut(ids, (len(ids) // 2,) if len(ids) > 1 else ()).steps
    return (Calls((Feed(other_ids(ids, vocabulary)), Turn.CLEAR, *parts), start),)


def _copied(ids: Sequence[int], start: int, vocabulary: int) -> tuple[Calls, ...]:
    if len(ids) < SLOTS:
        return ()
    half = len(ids) // 2
    first, rest, wrong = Feed(tuple(ids[:half])), Feed(tuple(ids[half:])), Feed(other_ids(ids[half:], vocabulary))
    return (
        Calls((first, Turn.COPY, Turn.OTHER, wrong, Turn.OTHER, rest), start),
        Calls((first, Turn.COPY, wrong, Turn.OTHER, rest), start),
    )


SEQUENCE_CHECKS: Final = (
    SequenceCheck(
        forward.BATCH,
        Against.REFERENCE,
        lambda calls: len(calls.steps) == 1,
        lambda ids, start, _: (Calls.at_once(ids, start),),
    ),
    SequenceCheck(
        kv_cache.judge_steps,
        Against.WHOLE,
        lambda calls: _fed_only(calls) and len(calls.steps) > 1 and all(len(feed.tokens) == 1 for feed in calls.feeds),
        _steps,
    ),
    SequenceCheck(kv_cache.judge_cuts, Against.WHOLE, lambda calls: _fed_only(calls) and len(calls.steps) > 1, _cuts),
    SequenceCheck(
        rollback.judge_rollback,
        Against.WHOLE,
        lambda calls: _goes_on(calls, Drop) and not any(isinstance(step, Turn) for step in calls.steps),
        _rollbacks,
        behind=Drop,
        going_on=True,
    ),
    SequenceCheck(
        kv_cache.judge_reuse,
        Against.WHOLE,
        lambda calls: _goes_on(calls, Turn.CLEAR) and Turn.COPY not in calls.steps,
        _cleared,
        "clear",
        Turn.CLEAR,
        anew=True,
        going_on=True,
    ),
    SequenceCheck(
        kv_cache.judge_reuse,
        Against.WHOLE,
        lambda calls: _goes_on(calls, Turn.COPY) and Turn.CLEAR not in calls.steps,
        _copied,
        "copy",
        Turn.COPY,
        going_on=True,
    ),
    SequenceCheck(
        rotary.judge_shift, Against.FIRST_START, lambda calls: bool(calls.start) and _fed_only(calls), _later
    ),
)
"""In the order of judging."""
