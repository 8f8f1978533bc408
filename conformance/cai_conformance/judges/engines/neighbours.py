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
from cai_conformance.engines.opened import OpenedModel
from cai_conformance.engines.path import evaluate_checked
from cai_conformance.engines.protocol import Piece
from cai_conformance.judges.engines.driving import Judge, drawn_ids, driven, probe_ids
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.measured_rows import allowed_ulps
from cai_conformance.judges.vectors import EXACT_ARITHMETIC
from cai_conformance.measuring.distances import distance_between
from cai_reference.arithmetic import Array

CASES: Final = ("shape", "content")
ROWS: Final = 3
SEEDS: Final = ((11, 12), (21, 22))
"""Two sets of neighbours, of equal lengths."""

Sequence = tuple[int, ...]


@dataclass(frozen=True)
class _Runs:
    """Logits [tokens, vocabulary] of one sequence: alone, and beside two sets of neighbours."""

    alone: Array
    beside: Array
    beside_others: Array


def _judge(evidence: Evidence, opened: OpenedModel) -> tuple[Finding, ...]:
    if opened.description.slots < ROWS:
        return (Finding.skipped(f"the engine holds {opened.description.slots} sequences at once, not {ROWS}"),)
    opened.load()
    ids = probe_ids(evidence)
    sets = [_neighbours(opened, ids, seeds) for seeds in SEEDS]
    runs = _Runs(_rows(opened, [ids]), *(_rows(opened, [neighbours[0], ids, neighbours[1]]) for neighbours in sets))
    return (_shape(evidence, opened, runs), _content(evidence, opened, runs))


judge_batch: Judge = driven(_judge)


def _neighbours(opened: OpenedModel, ids: Sequence, seeds: tuple[int, int]) -> tuple[Sequence, Sequence]:
    """Return a shorter and a longer sequence, so that the batch is ragged."""
    context = opened.given.sizes.context
    return drawn_ids(opened, seeds[0], len(ids) - 6), drawn_ids(opened, seeds[1], min(len(ids) + 5, context))


def _rows(opened: OpenedModel, sequences: list[Sequence]) -> Array:
    """Return the logits of the middle sequence: most tokens in one call, the last ones in calls of one token each."""
    engine, whole = opened.engine, 4
    for slot in range(len(sequences)):
        engine.clear(slot)
    middle = len(sequences) // 2
    rows: list[Array] = []
    shortest = min(map(len, sequences)) - whole
    firsts = [len(sequence) - whole for sequence in sequences]
    assert shortest > 0
    pieces = [
        Piece(slot, 0, sequence[:first], tuple(range(first)))
        for slot, (sequence, first) in enumerate(zip(sequences, firsts, strict=True))
    ]
    rows.extend(evaluate_checked(engine, pieces)[middle].logits[0])
    for step in range(whole):
        pieces = [
            Piece(slot, first + step, (sequence[first + step],), (0,))
            for slot, (sequence, first) in enumerate(zip(sequences, firsts, strict=True))
        ]
        rows.extend(evaluate_checked(engine, pieces)[middle].logits[0])
    for slot in range(len(sequences)):
        engine.clear(slot)
    return np.stack(rows)


def _shape(evidence: Evidence, opened: OpenedModel, runs: _Runs) -> Finding:
    worst, row = _worst(runs.alone, runs.beside, evidence)
    if worst == 0.0:
        return Finding.passed("alone and in a ragged batch of three, every logit has the same bits", case="shape")
    allowed = _allowed(evidence, opened)
    text = f"in a ragged batch of three, row {row} moves by {worst:.3g} ULP at its largest logit"
    if worst > allowed:
        return Finding.failed(
            f"{text}, and rounding explains {allowed:.3g}: more than the shape of a call", case="shape"
        )
    if opened.description.nondeterminism is Nondeterminism.NONE:
        told = "the engine says that its bits depend on nothing, so `shape` has to be declared"
        return Finding.failed(f"{text}: rounding, {allowed:.3g} allowed; but {told}", case="shape")
    return Finding.passed(f"{text}: rounding by the shape of a call, {allowed:.3g} allowed", case="shape")


def _content(evidence: Evidence, opened: OpenedModel, runs: _Runs) -> Finding:
    worst, row = _worst(runs.beside, runs.beside_others, evidence)
    if worst == 0.0:
        return Finding.passed("other neighbours of the same lengths change no bit", case="content")
    text = f"other tokens in the neighbours move row {row} by {worst:.3g} ULP at its largest logit"
    declared = opened.description.nondeterminism in (Nondeterminism.BATCH, Nondeterminism.RUN)
    if declared and worst <= _allowed(evidence, opened):
        return Finding.passed(f"{text}: rounding, as the engine declares", case="content")
    return Finding.failed(
        f"{text}, though the shape of the call is the same: sequences leak into each other", case="content"
    )


def _allowed(evidence: Evidence, opened: OpenedModel) -> float:
    """Return by how many units rounding may move a row: by none where bits are compared."""
    floor, policy = evidence.floor, evidence.question.policy
    if floor is None or policy.is_exact(bitwise=opened.description.arithmetic == EXACT_ARITHMETIC):
        return 0.0
    return allowed_ulps(policy, floor.near)


def _worst(one: Array, other: Array, evidence: Evidence) -> tuple[float, int]:
    floor = evidence.floor
    precision = "float64" if floor is None else floor.precision
    distances = [distance_between(*pair, precision).ulps for pair in zip(one, other, strict=True)]
    row = int(np.argmax(distances))
    return distances[row], row
