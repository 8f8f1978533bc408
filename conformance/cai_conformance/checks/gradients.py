"""Loss and gradients of an engine without an oracle, on small ragged batches with repeated ids.

Evaluation changes nothing, and a batch is worth what its rows are worth. Micro batches add up, though they hold unequal
numbers of targets, so that a mean of the two means is another number. A constant that is added to every logit changes
nothing. The gradients are held against central differences of the engine's own loss: all tensors move at once, each
along a drawn direction in proportion to its size, forward and back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_conformance.backends.engine.features import training
from cai_conformance.backends.engine.session import EngineSession
from cai_conformance.checks.finding import Finding
from cai_conformance.checks.probe.driven import UNTRAINED, ProbeJudge, fed
from cai_conformance.checks.probe.probe import Probe
from cai_conformance.checks.probe.self_check import self_check
from cai_conformance.checks.probe.training_rows import THREE, TWO, gradients_of, loss_allowance, most_units, rows_of
from cai_conformance.checks.rows import ROWS, RowComparison, concluded, repeated
from cai_conformance.checks.tolerance.distance import unit_in_last_place
from cai_conformance.checks.tolerance.rows import COARSE_BITS
from cai_conformance.checks.tolerance.training import GRADIENT, TrainingPart, rounding_units
from cai_conformance.checks.witness import Met, Witness, told, unmet
from cai_conformance.engine import MANTISSA_BITS, LossAndGradients, Refused, TrainingEngine
from cai_conformance.fixtures.given_weights import Tensors
from cai_conformance.verdicts import Level
from cai_reference.arithmetic import Array
from cai_reference.splitmix import SplitMix64


def _trained(judge: Callable[[Probe, TrainingEngine], tuple[Finding, ...]]) -> ProbeJudge:
    """Return a judge that is skipped where the engine does not train."""

    def judged(probe: Probe) -> tuple[Finding, ...]:
        engine = training(probe.engine)
        return (Finding.skipped(UNTRAINED),) if engine is None else judge(probe, engine)

    return judged


OF_THREE: Final = Witness("target of three rows", "targets of three rows")
OF_TWO: Final = Witness("target of two rows", "targets of two rows")
UNEQUAL: Final = Witness("target by which the parts differ", "targets by which the parts differ")
GRADIENT_TENSORS: Final = Witness("tensor", "tensors", cases=("gradients",))


@self_check(
    "grad.accum",
    Level.T1,
    "micro batches of three rows and two, weighted by their targets, add up to five",
    "Loss and gradients of every tensor. A mean of the two means is another number, for they hold unequal parts.",
    cases=("loss", "gradients"),
    witnesses=(OF_THREE, OF_TWO, UNEQUAL, GRADIENT_TENSORS),
    catches="gradient.last-sequence loss.mean-of-means loss.pads-counted loss.pads-scored loss.sum",
)
@_trained
def judge_accumulation(probe: Probe, engine: TrainingEngine) -> tuple[Finding, ...]:
    """Add two micro batches, weighted by their targets, and compare with all rows at once."""
    rows, precision = rows_of(probe), probe.description.precision.coarsest
    # The rows of the whole stand in another order than in the parts.
    order = (TWO[0], THREE[0], TWO[1], *THREE[1:])
    whole, three, two = (gradients_of(probe, engine, *numbers) for numbers in (order, THREE, TWO))
    weights = np.array([rows.count(*THREE), rows.count(*TWO)], dtype=np.float64)
    shares = weights / weights.sum()
    counts = [OF_THREE.met(rows.count(*THREE)), OF_TWO.met(rows.count(*TWO))]
    met = told(counts)
    counts.append(UNEQUAL.met(abs(rows.count(*THREE) - rows.count(*TWO))))
    loss = float(shares[0] * three.loss + shares[1] * two.loss)
    allowed, off = loss_allowance(whole.loss, precision), abs(whole.loss - loss)
    text = (
        f"3 + 2 rows give a loss of {loss:.9g}, 5 rows {whole.loss:.9g}: off by {off:.3g}, {allowed:.3g} allowed; {met}"
    )
    of_loss = (
        Finding.passed(text, "loss", counts)
        if off <= allowed
        else Finding.failed(f"{text}{_plain_mean(whole.loss, three.loss, two.loss)}", case="loss")
    )
    right, *parts = (probe.model.by_name(dict(each.gradients)) for each in (whole, three, two))
    units, limit = rounding_units(TrainingPart(1, GRADIENT, right), precision), most_units(precision)
    worst, worst_name = 0.0, ""
    for name, value in right.items():
        distance = np.abs(value - (shares[0] * parts[0][name] + shares[1] * parts[1][name])) / units[name]
        found = float(np.max(distance)) if np.isfinite(distance).all() else np.inf
        if found >= worst:
            worst, worst_name = found, name
    off_by = f"off by {worst:.3g} units at most, at {worst_name}, {limit:g} allowed; {len(right)} tensors, {met}"
    if worst <= limit:
        text = f"gradients of 3 + 2 rows add up to those of 5: {off_by}"
        return (of_loss, Finding.passed(text, "gradients", [*counts, GRADIENT_TENSORS.met(len(right))]))
    return (of_loss, Finding.failed(f"gradients of 3 + 2 rows do not add up to those of 5: {off_by}", case="gradients"))


def _plain_mean(whole: float, three: float, two: float) -> str:
    mean = (three + two) / 2.0
    return f"; the plain mean of the two is {mean:.9g}" if abs(mean - whole) <= 1e-4 * abs(whole) else ""


REPEATED: Final = Witness("repeated id", "repeated ids")
PADDED: Final = Witness("padded place", "padded places")
TENSORS: Final = Witness("tensor", "tensors")
DIRECTION_SEED: Final = 406
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


@self_check(
    "grad.fd",
    Level.T1,
    "the loss changes by what the gradients say",
    "Central differences of the engine's own loss, all tensors moved at once, with repeated ids and padding.",
    witnesses=(REPEATED, PADDED, TENSORS),
    catches=(
        "gradient.gain-never gradient.gain-twice gradient.last-occurrence gradient.last-sequence "
        "gradient.norm-without-mean gradient.one-of-group gradient.tied-once loading.half-precision "
        "loading.head-untied"
    ),
)
@_trained
def judge_differences(probe: Probe, engine: TrainingEngine) -> tuple[Finding, ...]:
    """Compare gradients with central differences of the loss."""
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
    generator, directions = SplitMix64(DIRECTION_SEED), {}
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


BETWEEN: Final = Witness("batch of gradients between", "batches of gradients between", cases=("rows",))
ANSWERED: Final = Witness("gradient", "gradients", cases=("gradients",))
BATCH_ROWS: Final = Witness("row", "rows", least=2)
TARGETS: Final = Witness("target", "targets")

TOKENS: Final = 6
"""How many tokens are evaluated before and after."""


@self_check(
    "eval.pure",
    Level.T1,
    "evaluating, and asking for gradients, changes nothing",
    "Rows before are rows after, and gradients are the same when asked for again: no dropout, no hidden step.",
    cases=("rows", "gradients"),
    witnesses=(ROWS.of("rows"), BETWEEN, ANSWERED),
    catches="evaluation.dropout gradient.never-zeroed",
)
@_trained
def judge_pure(probe: Probe, engine: TrainingEngine) -> tuple[Finding, ...]:
    """Evaluate, ask for gradients, evaluate again, ask again; all bits stay."""
    comparison, ids = RowComparison(repeated(probe)), probe.ids[:TOKENS]
    before = fed(EngineSession(probe.engine), ids)
    first = gradients_of(probe, engine, *TWO)
    after = fed(EngineSession(probe.engine), ids)
    comparison.compare(before, after, "evaluated again, after gradients were asked for")
    again = engine.gradients(rows_of(probe).batch(*TWO))
    rows = concluded(comparison, [BETWEEN.met(bool(first.gradients))], "rows")
    return (rows, _same(first, again, probe, exact=comparison.allowance.exact))


@self_check(
    "eval.batch",
    Level.T1,
    "the loss of a batch is the mean of its rows' weighted by their targets, in any order",
    "Rows of unequal length: padding that counts, and a mean of means, show.",
    cases=("weights", "order"),
    witnesses=(BATCH_ROWS, TARGETS, PADDED),
    catches=(
        "loss.mean-of-means loss.pads-counted loss.pads-scored loss.sum batches.last-filled evaluation.other-batches"
    ),
)
@_trained
def judge_evaluated_batch(probe: Probe, engine: TrainingEngine) -> tuple[Finding, ...]:
    """Compare the loss of a batch with the losses of its rows, and with that of its rows in another order."""
    rows, precision = rows_of(probe), probe.description.precision.coarsest
    together = gradients_of(probe, engine, *TWO).loss
    weights = [rows.count(number) for number in TWO]
    alone = [gradients_of(probe, engine, number).loss for number in TWO]
    mean = sum(weight * loss for weight, loss in zip(weights, alone, strict=True)) / sum(weights)
    turned = gradients_of(probe, engine, *reversed(TWO)).loss
    allowed = loss_allowance(together, precision)
    counts = [BATCH_ROWS.met(len(TWO)), TARGETS.met(sum(weights)), _padding(probe)]
    met = told(counts)
    telling = abs(mean - float(np.mean(alone))) > 4.0 * allowed
    findings: list[Finding] = []
    for case, right, what in (
        ("weights", mean, f"the mean of its rows weighted by their targets, {weights} of {_list(alone)}"),
        ("order", turned, "that of its rows in another order"),
    ):
        off = abs(together - right)
        text = (
            f"the loss of a batch is {together:.9g}, {what} {right:.9g}: off by {off:.3g}, {allowed:.3g} allowed; {met}"
        )
        if not off <= allowed:
            findings.append(Finding.failed(f"{text}{_other_mean(together, alone)}", case=case))
        elif telling:
            findings.append(Finding.passed(text, case, counts))
        elif MANTISSA_BITS[precision] < COARSE_BITS:
            findings.append(Finding.skipped(f"in {precision} no mean can be told from another: {text}", case))
        else:
            findings.append(Finding.failed(f"this shows nothing, for its rows weigh the same; {text}", case=case))
    return tuple(findings)


def _same(first: LossAndGradients, again: LossAndGradients, probe: Probe, *, exact: bool) -> Finding:
    """Compare two answers about one batch."""
    names = sorted(first.gradients)
    allowed = 0.0 if exact else loss_allowance(first.loss, probe.description.precision.coarsest)
    off = abs(first.loss - again.loss)
    if not off <= allowed:
        text = f"the loss of one batch is {first.loss:.9g}, and asked for again {again.loss:.9g}"
        return Finding.failed(f"{text}: something is random, or was changed", case="gradients")
    moved = [
        name
        for name in names
        if name not in again.gradients or first.gradients[name].tobytes() != again.gradients[name].tobytes()
    ]
    if moved and exact:
        return Finding.failed(
            f"gradients of one batch differ when they are asked for again: {moved[0]}", case="gradients"
        )
    if not names:
        return Finding.failed("this shows nothing, for no gradients were given", case="gradients")
    how = "in every bit" if not moved else f"but for rounding in {len(moved)}"
    text = f"loss and {len(names)} gradients of one batch are the same when asked for again, {how}"
    return Finding.passed(text, "gradients", [ANSWERED.met(len(names))])


def _padding(probe: Probe) -> Met:
    lengths = [len(rows_of(probe).rows[number]) for number in TWO]
    return PADDED.met(sum(max(lengths) - length for length in lengths))


def _other_mean(together: float, alone: list[float]) -> str:
    """Name another mean that gives the loss."""
    others = {"the plain mean of the rows'": float(np.mean(alone)), "the sum of the rows'": float(np.sum(alone))}
    for words, value in others.items():
        if abs(together - value) <= 1e-4 * abs(value):
            return f"; {words} losses is {value:.9g}"
    return ""


def _list(values: list[float]) -> str:
    return "[" + ", ".join(f"{value:.6g}" for value in values) + "]"


SHIFTED: Final = Witness("shifted bias", "shifted biases")

ROUNDED: Final = 4.0
"""By how many units of a rounded bias a loss may move: half of one for each of the logits that it depends on."""
SHIFT: Final = 1024.0
"""Beyond what an exponential takes in float64."""
NO_BIAS: Final = "the model has no output bias to which a constant could be added"


@self_check(
    "loss.shift",
    Level.T1,
    "a constant that is added to every logit changes no loss",
    "A logarithm of summed exponentials that does not take out the largest logit overflows.",
    witnesses=(SHIFTED, TARGETS),
    catches="loss.overflows",
)
@_trained
def judge_loss_shift(probe: Probe, engine: TrainingEngine) -> tuple[Finding, ...]:
    """Add a constant to every output bias, and compare the losses."""
    precision = probe.description.precision.coarsest
    if not probe.facts.output_biases or not probe.model.tensors:
        return (Finding.skipped(NO_BIAS),)
    if MANTISSA_BITS[precision] < COARSE_BITS:
        return (Finding.skipped(f"in {precision} logits beyond {SHIFT:g} have no digits left"),)
    plain = gradients_of(probe, engine, *TWO).loss
    try:
        shifted = _shifted(probe, engine)
    except Refused as error:
        return (Finding.failed(f"logits that are all {SHIFT:g} larger have no loss: {error}"),)
    finally:
        probe.model.load()
    # A file holds single precision: biases lose digits to the constant, and nothing else may show.
    allowed = ROUNDED * unit_in_last_place(SHIFT, "float32")
    off = abs(plain - shifted)
    text = f"the loss is {plain:.9g}, and {shifted:.9g} where every logit is {SHIFT:g} larger: {allowed:.2g} allowed"
    if not off <= allowed:
        return (Finding.failed(text),)
    biases = sum(probe.model.tensors[name].size for name in probe.facts.output_biases)
    return (Finding.passed(text, met=[SHIFTED.met(biases), TARGETS.met(rows_of(probe).count(*TWO))]),)


def _shifted(probe: Probe, engine: TrainingEngine) -> float:
    values = dict(probe.model.tensors)
    for name in probe.facts.output_biases:
        values[name] = values[name] + SHIFT
    with probe.model.changed(f"logits larger by {SHIFT:g}", values):
        probe.model.load()
        return engine.gradients(rows_of(probe).batch(*TWO)).loss
