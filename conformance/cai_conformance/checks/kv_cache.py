"""The KV cache of an engine: the rows of other calls over the same tokens are those of one whole call.

Token by token, in two calls cut anywhere, in a slot that was used before or copied, around the lengths by which memory
is divided, and up to what a slot can hold. In a batch two questions are kept apart. When the *shape* of a call changes,
other sums may be taken in another order: that is rounding, and is held to the floor. When only the *content* of the
neighbours changes, nothing at all may change, unless the engine says that it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_conformance.backends.engine.features import copying, dropping
from cai_conformance.backends.engine.session import EngineSession, evaluate_checked, evaluate_one, full_logits
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.probe.driven import ProbeJudge, fed, fed_by
from cai_conformance.checks.probe.probe import Probe
from cai_conformance.checks.probe.self_check import self_check
from cai_conformance.checks.rows import (
    MOVED_BY_NEIGHBOURS,
    ROWS,
    Allowance,
    RowComparison,
    concluded,
    repeated,
    reshaped,
)
from cai_conformance.checks.tolerance.distance import distance_between
from cai_conformance.checks.witness import Met, Witness, told
from cai_conformance.engine import Nondeterminism, Piece, Refused
from cai_conformance.verdicts import Level
from cai_reference.arithmetic import Array

STEPS: Final = 12
"""How many tokens are fed one by one; more where a window has to be left."""
CUT: Final = 9
"""How many tokens are cut in two."""
NAMED_CUTS: Final = {"one": 1, "two": 2, "half": CUT // 2}
"""Cuts that are named: a first call of one token, of two, and of half the sequence."""

CALLS: Final = Witness("call of one token", "calls of one token")
CUTS: Final = Witness("cut in two", "cuts in two")
BEYOND: Final = Witness(
    "row beyond the window", "rows beyond the window", where="if a window is shorter than the sequence"
)


@self_check(
    "kv.steps",
    Level.I2,
    "token by token, a sequence gives every row of one whole call",
    "Positions that restart, keys that are turned twice, stale rows, a window that only one of the two paths has.",
    witnesses=(ROWS, CALLS, BEYOND),
    catches=(
        "cache.keys-rotated-again cache.values-one-behind cache.window-ignored mla.key-cached-unturned rope.restart"
    ),
)
def judge_steps(probe: Probe) -> tuple[Finding, ...]:
    """Feed one token a call, and compare every row."""
    window, base = probe.facts.window, probe.rows()
    count = min(probe.length, max(STEPS, 0 if window is None else window + 3))
    comparison = RowComparison(reshaped(probe))
    rows = fed_by(EngineSession(probe.engine), probe.ids[:count], range(1, count))
    for place in range(count):
        comparison.compare(
            base[:, place : place + 1], rows[:, place : place + 1], f"token {place} in a call of its own"
        )
    return (concluded(comparison, [CALLS.met(count), *beyond_window(probe, count)]),)


@self_check(
    "kv.cuts",
    Level.I2,
    "cut in two calls anywhere, a sequence gives every row of one whole call",
    "The smallest cut that fails says where to look: one token in front, one behind, or any length.",
    witnesses=(ROWS, CUTS, BEYOND),
    catches="cache.chunk-unmasked cache.keys-rotated-again cache.mask-top-left cache.newest-row-only rope.restart",
)
def judge_cuts(probe: Probe) -> tuple[Finding, ...]:
    """Cut a sequence in two at every place, and compare every row of the second call."""
    comparison, rows = RowComparison(reshaped(probe)), cut_rows(probe)
    for cut, found in rows.items():
        comparison.compare(probe.rows()[:, cut : cut + found.shape[1]], found, f"the second call, cut after {cut}")
    count = max(rows, default=0) + 1
    return (concluded(comparison, [CUTS.met(len(rows)), *beyond_window(probe, count)]),)


def cut_rows(probe: Probe) -> Mapping[int, Array]:
    """Return, for each cut, the rows [heads, tokens, vocabulary] of the second of two calls.

    Raises:
        `answer-out-of-shape`, EngineError: the engine failed.
    """
    return probe.memory.remembered("rows of cuts", lambda: _cut_rows(probe))


def going_on(judge: ProbeJudge) -> ProbeJudge:
    """Return a judge for which a refusal is a failure, unless the engine never goes on behind a first call.

    What refuses to go on after a cut, a copy or a failed call has lost count of its tokens.
    """

    def judged(probe: Probe) -> tuple[Finding, ...]:
        cut_rows(probe)
        try:
            return judge(probe)
        except Refused as error:
            return (Finding.failed(f"what the engine takes elsewhere it refuses here: {error}"),)

    return judged


def beyond_window(probe: Probe, count: int) -> list[Met]:
    """Say how many of the first `count` rows no longer see the first token, if there is a window that can be left."""
    window = probe.facts.window
    if window is None:
        return []
    return [BEYOND.met(count - window, needed=window < probe.length)]


def _cut_rows(probe: Probe) -> Mapping[int, Array]:
    ids, engine = probe.ids[:CUT], probe.engine
    rows: dict[int, Array] = {}
    for cut in range(1, len(ids)):
        engine.clear(0)
        # Rows of a first call are those of a whole sequence, which are compared elsewhere.
        evaluate_one(engine, Piece(0, 0, ids[:cut], ()))
        second = tuple(range(len(ids) - cut))
        rows[cut] = evaluate_one(engine, Piece(0, cut, ids[cut:], second)).logits
    return rows


OTHERS: Final = Witness("other sequence", "other sequences", cases=("clear",))
COPIES: Final = Witness("copy", "copies", cases=("copy",))
RETURNS: Final = Witness("return to a copy", "returns to a copy")
FIRST, LENGTH = 4, 8
"""Where a sequence is cut in two calls, and how long it is."""
OTHER_SEED: Final = 402
NO_COPY: Final = "the engine has no feature copy, or one slot only"


@self_check(
    "kv.reuse",
    Level.I2,
    "a slot that was emptied is as new, and a copy goes its own way",
    "Sequences A, B and A in one slot: the last gives the bits of the first. After a copy both slots go on apart.",
    cases=("clear", "copy"),
    witnesses=(ROWS, OTHERS, COPIES),
    catches="cache.kept-between-sequences ssm.state-kept",
)
@going_on
def judge_reuse(probe: Probe) -> tuple[Finding, ...]:
    """Evaluate A, B and A in one slot; go on with both of two slots after one was copied into the other."""
    try:
        copied = _after_copy(probe)
    except Refused as error:
        copied = Finding.failed(f"a slot whose copy was fed does not go on: {error}", case="copy")
    return (_after_clear(probe), copied)


def judge_snapshot(probe: Probe) -> tuple[Finding, ...]:
    """Keep a copy of a slot, spoil the slot, and return to the copy, twice."""
    if not _can_copy(probe):
        return (Finding.skipped(NO_COPY),)
    copier = copying(probe.engine)
    assert copier is not None
    comparison, spoilt, base = RowComparison(reshaped(probe)), probe.others(FIRST, 3), probe.rows()
    fed(EngineSession(probe.engine), probe.ids[:FIRST])
    copier.copy(0, 1)
    for attempt in ("once", "twice"):
        _on(probe, 0, FIRST, spoilt)
        copier.copy(1, 0)
        found = _on(probe, 0, FIRST, probe.ids[FIRST : FIRST + 2])
        comparison.compare(base[:, FIRST : FIRST + 2], found, f"after returning {attempt} to a copy")
        copier.copy(1, 0)
    _clear(probe)
    return (concluded(comparison, [RETURNS.met(2)]),)


def _after_clear(probe: Probe) -> Finding:
    ids, comparison = probe.ids[:LENGTH], RowComparison(repeated(probe))
    other = probe.drawn(OTHER_SEED, LENGTH - 2)
    first = fed_by(EngineSession(probe.engine), ids, (FIRST,))
    between = fed(EngineSession(probe.engine), other)
    again = fed_by(EngineSession(probe.engine), ids, (FIRST,))
    comparison.compare(first, again, "a sequence again, after another one")
    whole = RowComparison(reshaped(probe))
    whole.compare(probe.rows()[:, :LENGTH], first, "a sequence in a slot that was used before")
    moved = OTHERS.met(between.tobytes() != first[:, : LENGTH - 2].tobytes())
    return concluded(comparison if whole.holds else whole, [moved], "clear")


def _after_copy(probe: Probe) -> Finding:
    if not _can_copy(probe):
        return Finding.skipped(NO_COPY, "copy")
    copier = copying(probe.engine)
    assert copier is not None
    comparison, other = RowComparison(reshaped(probe)), probe.others(FIRST, 4)
    # Whole sequences are evaluated in a slot that is in use below, so they come first.
    probe.rows()
    fed(EngineSession(probe.engine), probe.ids[:FIRST])
    copier.copy(0, 1)
    _on(probe, 1, FIRST, other[:2])
    _compare(probe, comparison, 0, FIRST, "a slot whose copy went another way")
    copier.copy(0, 1)
    _on(probe, 0, FIRST + 2, other[2:])
    _compare(probe, comparison, 1, FIRST + 2, "the copy of a slot that went another way")
    _clear(probe)
    return concluded(comparison, [COPIES.met(2)], "copy")


def _compare(probe: Probe, comparison: RowComparison, slot: int, place: int, where: str) -> None:
    found = _on(probe, slot, place, probe.ids[place : place + 2])
    comparison.compare(probe.rows()[:, place : place + 2], found, where)


def _on(probe: Probe, slot: int, place: int, ids: tuple[int, ...]) -> Array:
    return evaluate_one(probe.engine, Piece(slot, place, ids, tuple(range(len(ids))))).logits


def _clear(probe: Probe) -> None:
    for slot in (0, 1):
        probe.engine.clear(slot)


def _can_copy(probe: Probe) -> bool:
    return copying(probe.engine) is not None and probe.description.slots > 1


LENGTHS: Final = Witness("length around which calls end", "lengths around which calls end", cases=("blocks",))
TOKENS: Final = Witness("token", "tokens", cases=("capacity",))
REFUSALS: Final = Witness("refusal", "refusals", 2, ("capacity",))
BLOCKS: Final = (16, 32)
"""Lengths in which engines allocate rows."""
MOST_CAPACITY: Final = 512
"""A slot that holds more is not filled: that would take long, and show no more."""
CAPACITY_SEED: Final = 403


@self_check(
    "kv.edge",
    Level.I2,
    "lengths around chunks, windows, blocks of memory and the capacity are like any other",
    "The last token that fits is right, one more is refused, and a refusal leaves the slot as it was.",
    cases=("blocks", "capacity"),
    witnesses=(ROWS, LENGTHS, TOKENS, REFUSALS),
)
@going_on
def judge_edges(probe: Probe) -> tuple[Finding, ...]:
    """Walk one slot past every edge by single tokens, up to the last token that fits."""
    # Whole sequences are evaluated in the slot that is walked, so they come first.
    probe.rows()
    session = EngineSession(probe.engine)
    return (_blocks(probe, session), _capacity(probe, session))


def _blocks(probe: Probe, session: EngineSession) -> Finding:
    window, base, comparison = probe.facts.window, probe.rows(), RowComparison(reshaped(probe))
    lengths = {probe.facts.chunk, *BLOCKS, *([] if window is None else [window])}
    edges = sorted(length for length in lengths if length < probe.length - 1)
    # A call up to one token before an edge, then the token that meets it, and the one behind.
    bounds = sorted({length + by for length in edges for by in (-1, 0, 1) if length + by > 0})
    for bound in bounds:
        first = session.length
        if bound > first:
            rows = fed(session, probe.ids[first:bound])
            comparison.compare(base[:, first:bound], rows, f"tokens {first} to {bound - 1}")
    return concluded(comparison, [LENGTHS.met(len(edges))], "blocks")


def _capacity(probe: Probe, session: EngineSession) -> Finding:
    capacity = probe.capacity
    if capacity is None:
        return Finding.skipped("the engine does not say how many tokens a slot holds", "capacity")
    if capacity > MOST_CAPACITY:
        return Finding.skipped(f"a slot holds {capacity} tokens, and no more than {MOST_CAPACITY} are fed", "capacity")
    ids, base = _whole(probe, capacity)
    if len(ids) != len(probe.ids):
        session = EngineSession(probe.engine)
    comparison = RowComparison(reshaped(probe))
    first, last = session.length, capacity - 1
    if last > first:
        comparison.compare(base[:, first:last], fed(session, ids[first:last]), f"tokens {first} to {last - 1}")
    refusals = _refused(session, ids[:2])
    if refusals:
        row = fed(session, ids[last:])
        comparison.compare(base[:, last:], row, "the last token that fits, after two were refused")
        refusals += _refused(session, ids[:1])
    met = [TOKENS.met(capacity), REFUSALS.met(refusals)]
    if refusals < REFUSALS.least:
        return Finding.failed(f"a slot that holds {capacity} tokens took one more; {told(met)}", case="capacity")
    if dropping(probe.engine) is not None:
        _once_more(session, ids, base, comparison)
    return concluded(comparison, met, "capacity")


def _whole(probe: Probe, capacity: int) -> tuple[tuple[int, ...], Array]:
    if capacity == probe.length:
        return probe.ids, probe.rows()
    ids = probe.drawn(CAPACITY_SEED, capacity)
    return ids, full_logits(probe.engine, ids)


def _refused(session: EngineSession, ids: tuple[int, ...]) -> int:
    try:
        session.feed(ids)
    except Refused:
        return 1
    return 0


def _once_more(session: EngineSession, ids: tuple[int, ...], base: Array, comparison: RowComparison) -> None:
    """See that the refusal in a full slot changed nothing: take the last token back, and feed it again."""
    last = session.length - 1
    try:
        session.truncate(last)
    except Refused:
        return
    comparison.compare(base[:, last:], fed(session, ids[last:]), "the last token again, after one more was refused")


EXCHANGED: Final = Witness("exchanged token of neighbours", "exchanged tokens of neighbours", cases=("content",))
SEQUENCES: Final = 3
SEEDS: Final = ((11, 12), (21, 22))
"""Two sets of neighbours, of equal lengths."""
BATCH_LENGTH: Final = 9
"""How many tokens the sequence in the middle has: more than a window of the suites."""
SHORTER, LONGER = 4, 3
"""By how many tokens its neighbours differ, so that the batch is ragged."""
SINGLE_STEPS: Final = 2
"""How many of the last tokens are evaluated in calls of one token a sequence."""

Sequence = tuple[int, ...]


@dataclass(frozen=True)
class _Runs:
    """Logits [tokens, vocabulary] of one sequence: alone, and beside two sets of neighbours."""

    alone: Array
    beside: Array
    beside_others: Array


@self_check(
    "kv.batch",
    Level.I2,
    "a sequence in a batch gives the logits that it gives alone",
    "Rounding may follow the shape of a call, where the engine says so. What the neighbours hold must not "
    "matter: if only that is changed, every bit stays.",
    cases=("shape", "content"),
    witnesses=(ROWS, EXCHANGED),
    catches="cache.memory-shared",
)
def judge_neighbours(probe: Probe) -> tuple[Finding, ...]:
    """Evaluate a sequence alone, beside two others, and beside two more of the same lengths."""
    if probe.description.slots < SEQUENCES:
        held = probe.description.slots
        return (Finding.skipped(f"the engine holds {held} sequences at once, not {SEQUENCES}"),)
    ids = probe.ids[:BATCH_LENGTH]
    sets = [
        (
            probe.drawn(first, max(len(ids) - SHORTER, SINGLE_STEPS + 1)),
            probe.drawn(second, min(len(ids) + LONGER, probe.length)),
        )
        for first, second in SEEDS
    ]
    alone = _rows(probe, [ids])
    runs = _Runs(alone, *(_rows(probe, [before, ids, behind]) for before, behind in sets))
    allowance = reshaped(probe)
    exchanged = sum(one != other for pair in zip(*sets, strict=True) for one, other in zip(*pair, strict=True))
    found = (_shape(probe, runs, allowance), _content(probe, runs, allowance))
    return tuple(each.having_met(ROWS.met(len(alone)), EXCHANGED.met(exchanged)) for each in found)


def _rows(probe: Probe, sequences: list[Sequence]) -> Array:
    """Return the logits of the middle sequence: most tokens in one call, the last ones in calls of one token each."""
    engine, middle = probe.engine, len(sequences) // 2
    for slot in range(len(sequences)):
        engine.clear(slot)
    firsts = [len(sequence) - SINGLE_STEPS for sequence in sequences]
    # Rows are wanted of the middle sequence alone: its neighbours are there to be in the way.
    pieces = [
        Piece(slot, 0, sequence[:first], tuple(range(first)) if slot == middle else ())
        for slot, (sequence, first) in enumerate(zip(sequences, firsts, strict=True))
    ]
    rows = [*evaluate_checked(engine, pieces)[middle].logits[0]]
    for step in range(SINGLE_STEPS):
        pieces = [
            Piece(slot, first + step, (sequence[first + step],), (0,) if slot == middle else ())
            for slot, (sequence, first) in enumerate(zip(sequences, firsts, strict=True))
        ]
        rows.extend(evaluate_checked(engine, pieces)[middle].logits[0])
    for slot in range(len(sequences)):
        engine.clear(slot)
    return np.stack(rows)


def _shape(probe: Probe, runs: _Runs, allowance: Allowance) -> Finding:
    worst, row = _worst(runs.alone, runs.beside, allowance)
    if worst == 0.0:
        return Finding.passed("alone and in a ragged batch of three, every logit has the same bits", case="shape")
    allowed = allowance.ulps
    text = f"in a ragged batch of three, row {row} moves by {worst:.3g} ULP at its largest logit"
    if not worst <= allowed:
        return Finding.failed(
            f"{text}, and rounding explains {allowed:.3g}: more than the shape of a call", case="shape"
        )
    if probe.description.nondeterminism is Nondeterminism.NONE:
        told = "the engine says that its bits depend on nothing, so `shape` has to be declared"
        return Finding.failed(f"{text}: rounding, {allowed:.3g} allowed; but {told}", case="shape")
    return Finding.passed(f"{text}: rounding by the shape of a call, {allowed:.3g} allowed", case="shape")


def _content(probe: Probe, runs: _Runs, allowance: Allowance) -> Finding:
    worst, row = _worst(runs.beside, runs.beside_others, allowance)
    if worst == 0.0:
        return Finding.passed("other neighbours of the same lengths change no bit", case="content")
    text = f"other tokens in the neighbours move row {row} by {worst:.3g} ULP at its largest logit"
    declared = probe.description.nondeterminism in MOVED_BY_NEIGHBOURS
    if declared and worst <= allowance.ulps:
        return Finding.passed(f"{text}: rounding, as the engine declares", case="content")
    return Finding.failed(
        f"{text}, though the shape of the call is the same: sequences leak into each other", case="content"
    )


def _worst(one: Array, other: Array, allowance: Allowance) -> tuple[float, int]:
    distances = [distance_between(*pair, allowance.precision).ulps for pair in zip(one, other, strict=True)]
    row = int(np.argmax(distances))
    return distances[row], row
