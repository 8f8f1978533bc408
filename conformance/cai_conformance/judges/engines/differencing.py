"""The judge of gradients without an oracle: central differences of the engine's own loss.

All tensors move at once, each along a drawn direction in proportion to its size, forward and back. The loss must change
by what the engine's own gradients say. Ids repeat, and rows are padded, so that sums into the embedding show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_conformance.backends.decoder.given import Tensors
from cai_conformance.engines.features import training
from cai_conformance.engines.training import TrainingEngine
from cai_conformance.judges.engines.driving import UNTRAINED
from cai_conformance.judges.engines.training_batches import THREE, gradients_of, rows_of
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Witness, told, unmet
from cai_conformance.probing.probe import Probe
from cai_reference.arithmetic import Array
from cai_reference.splitmix import SplitMix64

REPEATED: Final = Witness("repeated id", "repeated ids")
PADDED: Final = Witness("padded place", "padded places")
TENSORS: Final = Witness("tensor", "tensors")
WITNESSES: Final = (REPEATED, PADDED, TENSORS)
SEED: Final = 406
LEAST_SIZE: Final = 2.0**-4
"""How far an entry moves at least, in steps: tensors of zeros move, too."""


@dataclass(frozen=True)
class _Step:
    """How far tensors move, in proportion to their size, and by which part of all terms the difference may be off."""

    size: float
    allowed: float


STEPS: Final = {"float64": _Step(2.0**-14, 2e-6), "float32": _Step(2.0**-8, 1e-3)}
"""A short step meets rounding, a long one curvature; in formats with fewer bits nothing lies between them."""
CURVED: Final = 2.0**-10
"""Steps that are not shorter are taken twice, single and double, so that curvature cancels."""


def judge_differences(probe: Probe) -> tuple[Finding, ...]:
    """Compare gradients with central differences of the loss."""
    engine = training(probe.engine)
    if engine is None:
        return (Finding.skipped(UNTRAINED),)
    precision = probe.description.precision.coarsest
    if precision not in STEPS:
        return (Finding.skipped(f"{precision} is too coarse: a step that rounding does not hide is bent"),)
    if not probe.model.tensors:
        return (Finding.skipped("the values of the model cannot be changed"),)
    step, rows = STEPS[precision], rows_of(probe)
    gradients = probe.model.by_name(dict(gradients_of(probe, engine, *THREE).gradients))
    expected, found, terms = _differences(probe, engine, gradients, step)
    probe.model.load()
    off = abs(found - expected) / max(terms, np.finfo(np.float64).tiny)
    met = [REPEATED.met(rows.repeated), PADDED.met(rows.padded), TENSORS.met(len(gradients))]
    text = (
        f"the gradients say that the loss changes by {expected:.9g}, it changes by {found:.9g}: "
        f"off by {off:.2g} of all terms, {step.allowed:g} allowed; {told(met)}"
    )
    if unmet(met):
        return (Finding.failed(f"this shows nothing, for it met {unmet(met)}; {text}"),)
    return (Finding.passed(text, met=met) if off <= step.allowed else Finding.failed(text),)


def _differences(probe: Probe, engine: TrainingEngine, gradients: Tensors, step: _Step) -> tuple[float, float, float]:
    """Return the change that the gradients say, the change of the loss, and the size of all terms of the former."""
    values = probe.model.tensors
    directions = _directions(values)
    # The fourth-order difference: (8 · near − far) / 6, which a cubic bends by nothing.
    changes: list[tuple[float, float, float]] = []
    for factor in (1.0, 2.0):
        losses: list[float] = []
        moved: list[Tensors] = []
        for sign in (1.0, -1.0):
            by = sign * factor * step.size
            at = {name: _in_file(value + by * directions[name]) for name, value in values.items()}
            with probe.model.changed(f"moved by {by}", at):
                probe.model.load()
                losses.append(engine.gradients(rows_of(probe).batch(*THREE)).loss)
            moved.append(at)
        parts = [float(np.sum(gradients[name] * (moved[0][name] - moved[1][name]))) for name in values]
        changes.append((sum(parts), losses[0] - losses[1], sum(map(abs, parts))))
        if step.size < CURVED:
            return changes[0]
    near, far = changes
    return near[0], (8.0 * near[1] - far[1]) / 6.0, near[2]


def _in_file(value: Array) -> Array:
    """Round to single precision, which a model's file holds, so that the step is the one which arrives."""
    rounded: Array = value.astype(np.float32).astype(np.float64)
    return rounded


def _directions(values: Tensors) -> Tensors:
    """Draw a direction for each tensor: signs, times the size of its entries."""
    generator, directions = SplitMix64(SEED), {}
    for name in sorted(values):
        value = values[name]
        signs = _signs(generator, value.size).reshape(value.shape)
        size = float(np.sqrt(np.mean(value * value))) if value.size else 0.0
        directions[name] = signs * max(size, LEAST_SIZE)
    return directions


def _signs(generator: SplitMix64, count: int) -> Array:
    """Return as many signs, 64 a draw."""
    words = [generator.next_u64() for _ in range((count + 63) // 64)]
    bits = [(word >> place) & 1 for word in words for place in range(64)]
    signs: Array = np.array(bits[:count], dtype=np.float64) * 2.0 - 1.0
    return signs
