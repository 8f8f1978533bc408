"""The judge of batches: does a sequence get other logits because of what is evaluated beside it?

Two questions are kept apart. When the *shape* of a call changes, other sums may be taken in another order: that is
rounding, and is held to the floor. When only the *content* of the neighbours changes, nothing at all may change, unless
the engine says that it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_conformance.engines.description import Nondeterminism
from cai_conformance.engines.path import evaluate_checked
from cai_conformance.engines.protocol import Piece
from cai_conformance.judges.engines.comparing import MOVED_BY_NEIGHBOURS, Allowance, reshaped
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Witness
from cai_conformance.measuring.distances import distance_between
from cai_conformance.probing.probe import Probe
from cai_reference.arithmetic import Array

CASES: Final = ("shape", "content")
ROWS: Final = Witness("compared row", "compared rows")
EXCHANGED: Final = Witness("exchanged token of neighbours", "exchanged tokens of neighbours", cases=("content",))
WITNESSES: Final = (ROWS, EXCHANGED)
SEQUENCES: Final = 3
SEEDS: Final = ((11, 12), (21, 22))
"""Two sets of neighbours, of equal lengths."""
LENGTH: Final = 9
"""How many tokens the sequence in the middle has: more than a window of the suites."""
SHORTER, LONGER = 4, 3
"""By how many tokens its neighbours differ, so that the batch is ragged."""
STEPS: Final = 2
"""How many of the last tokens are evaluated in calls of one token a sequence."""

Sequence = tuple[int, ...]


@dataclass(frozen=True)
class _Runs:
    """Logits [tokens, vocabulary] of one sequence: alone, and beside two sets of neighbours."""

    alone: Array
    beside: Array
    beside_others: Array


def judge_neighbours(probe: Probe) -> tuple[Finding, ...]:
    """Evaluate a sequence alone, beside two others, and beside two more of the same lengths."""
    if probe.description.slots < SEQUENCES:
        held = probe.description.slots
        return (Finding.skipped(f"the engine holds {held} sequences at once, not {SEQUENCES}"),)
    ids = probe.ids[:LENGTH]
    sets = [
        (
            probe.drawn(first, max(len(ids) - SHORTER, STEPS + 1)),
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
    firsts = [len(sequence) - STEPS for sequence in sequences]
    # Rows are wanted of the middle sequence alone: its neighbours are there to be in the way.
    pieces = [
        Piece(slot, 0, sequence[:first], tuple(range(first)) if slot == middle else ())
        for slot, (sequence, first) in enumerate(zip(sequences, firsts, strict=True))
    ]
    rows = [*evaluate_checked(engine, pieces)[middle].logits[0]]
    for step in range(STEPS):
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
