"""The noise floor of a model that no reference knows: what an engine's own rows differ by where rounding alone differs.

Nothing is fed in several calls for it: calls are what is judged. Since there is no estimate to hold it against, it
counts up to a fixed number of units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from cai_conformance.backends.engine.session import evaluate_checked, full_logits
from cai_conformance.checks.probe.probe import FAR_START, Probe
from cai_conformance.checks.tolerance.distance import distance_between
from cai_conformance.checks.tolerance.floor import FloorSource, NoiseFloor, NoiseLevel
from cai_conformance.engine import MANTISSA_BITS, Piece, Refused
from cai_conformance.run.probe.folder import ProbedFolder
from cai_reference.arithmetic import Array

TOKENS: Final = 24
SHIFTS: Final = (1, 2, 5)
"""By how many positions sequences are moved."""
ORDERS: Final = 2
"""In how many orders channels are put."""
MOST_FINE, MOST_COARSE = 64.0, 8.0
"""The most units that count, in formats with 24 bits or more, and in those with fewer."""
FINE_BITS: Final = 23


def own_floor(probe: Probe, model: ProbedFolder) -> NoiseFloor:
    """Measure an engine on the shared sequence of a probe.

    Raises:
        `answer-out-of-shape`, EngineError: the engine failed.
    """
    model.load()
    description, ids = probe.description, probe.ids[:TOKENS]
    precision = description.precision.coarsest
    base = full_logits(probe.engine, ids)
    sources = [
        _source("later starts", base, [_started(probe, ids, shift) for shift in SHIFTS], precision),
        _source("longer calls and neighbours", base, [_longer(probe, ids), _beside(probe, ids)], precision),
    ]
    finer = [name for name in description.precisions if MANTISSA_BITS[name] > MANTISSA_BITS[precision]]
    if finer:
        best = max(finer, key=lambda name: MANTISSA_BITS[name])
        with model.changed("plain", None, best):
            model.load()
            sources.append(_source(f"its own {best} run", base, [full_logits(probe.engine, ids)], precision))
    orders = [_reordered(probe, model, ids, seed) for seed in range(ORDERS)]
    sources.append(_source(f"{ORDERS} orders of summation", base, orders, precision))
    model.load()
    most = MOST_FINE if MANTISSA_BITS[precision] >= FINE_BITS else MOST_COARSE
    near = NoiseLevel(tuple(sources), most_ulps=most)
    far_base = _started(probe, ids, FAR_START)
    moved = [_started(probe, ids, FAR_START + shift) for shift in SHIFTS]
    far = [] if far_base is None else [_source("later starts", far_base, moved, precision)]
    return NoiseFloor(precision, near, NoiseLevel((*sources, *far), most_ulps=_far(most)), measured=True)


def _far(most: float) -> float:
    # An angle of thousands of radians has lost a dozen bits.
    return most * 64.0


def _source(name: str, base: Array, runs: Sequence[Array | None], precision: str) -> FloorSource:
    distances = [
        distance_between(row, other, precision)
        for run in runs
        if run is not None
        for rows, others in zip(base, run, strict=True)
        for row, other in zip(rows, others, strict=True)
    ]
    finite = [found for found in distances if np.isfinite(found.ulps)]
    return FloorSource(
        name,
        max((found.ulps for found in finite), default=0.0),
        max((found.divergence for found in finite), default=0.0),
    )


def _started(probe: Probe, ids: tuple[int, ...], start: int) -> Array | None:
    positions = probe.facts.positions
    if not probe.facts.rotary or (positions is not None and start + len(ids) > positions):
        return None
    return _unless_refused(lambda: full_logits(probe.engine, ids, start))


def _longer(probe: Probe, ids: tuple[int, ...]) -> Array | None:
    return full_logits(probe.engine, probe.ids)[:, : len(ids)]


def _beside(probe: Probe, ids: tuple[int, ...]) -> Array | None:
    """Evaluate the sequence beside a shorter one."""
    if probe.description.slots < 2:
        return None
    engine, other = probe.engine, probe.drawn(len(ids), max(1, len(ids) - 5))
    for slot in (0, 1):
        engine.clear(slot)
    wanted = tuple(range(len(ids)))
    found = _unless_refused(
        lambda: evaluate_checked(engine, [Piece(1, 0, other, ()), Piece(0, 0, ids, wanted)])[1].logits
    )
    for slot in (0, 1):
        engine.clear(slot)
    return found


def _reordered(probe: Probe, model: ProbedFolder, ids: tuple[int, ...], seed: int) -> Array | None:
    values = model.reordered(seed)
    if values is None:
        return None

    def run() -> Array:
        with model.changed(f"reordered-{seed}", values):
            model.load()
            return full_logits(probe.engine, ids)

    return _unless_refused(run)


def _unless_refused(run: Callable[[], Array]) -> Array | None:
    try:
        return run()
    except Refused:
        return None
