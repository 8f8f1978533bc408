"""The judges of evaluation: it changes nothing, and a batch is worth what its rows are worth."""

from __future__ import annotations

from typing import Final

import numpy as np

from cai_conformance.engines.description import MANTISSA_BITS
from cai_conformance.engines.features import training
from cai_conformance.engines.path import EngineSession
from cai_conformance.engines.training import LossAndGradients
from cai_conformance.judges.engines.comparing import RowComparison, repeated
from cai_conformance.judges.engines.driving import UNTRAINED, fed
from cai_conformance.judges.engines.meeting import concluded
from cai_conformance.judges.engines.training_batches import TWO, gradients_of, loss_allowance, rows_of
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.measured_rows import COARSE_BITS
from cai_conformance.judges.witness import Met, Witness, told
from cai_conformance.probing.probe import Probe

PURE_CASES: Final = ("rows", "gradients")
BATCH_CASES: Final = ("weights", "order")
BETWEEN: Final = Witness("batch of gradients between", "batches of gradients between", cases=("rows",))
TENSORS: Final = Witness("gradient", "gradients", cases=("gradients",))
PURE_WITNESSES: Final = (BETWEEN, TENSORS)
ROWS: Final = Witness("row", "rows", least=2)
TARGETS: Final = Witness("target", "targets")
PADDED: Final = Witness("padded place", "padded places")
BATCH_WITNESSES: Final = (ROWS, TARGETS, PADDED)
TOKENS: Final = 6
"""How many tokens are evaluated before and after."""


def judge_pure(probe: Probe) -> tuple[Finding, ...]:
    """Evaluate, ask for gradients, evaluate again, ask again; all bits stay."""
    engine = training(probe.engine)
    if engine is None:
        return (Finding.skipped(UNTRAINED),)
    comparison, ids = RowComparison(repeated(probe)), probe.ids[:TOKENS]
    before = fed(EngineSession(probe.engine), ids)
    first = gradients_of(probe, engine, *TWO)
    after = fed(EngineSession(probe.engine), ids)
    comparison.compare(before, after, "evaluated again, after gradients were asked for")
    again = engine.gradients(rows_of(probe).batch(*TWO))
    rows = concluded(comparison, [BETWEEN.met(bool(first.gradients))], "rows")
    return (rows, _same(first, again, probe, exact=comparison.allowance.exact))


def judge_evaluated_batch(probe: Probe) -> tuple[Finding, ...]:
    """Compare the loss of a batch with the losses of its rows, and with that of its rows in another order."""
    engine = training(probe.engine)
    if engine is None:
        return (Finding.skipped(UNTRAINED),)
    rows, precision = rows_of(probe), probe.description.precision.coarsest
    together = gradients_of(probe, engine, *TWO).loss
    weights = [rows.count(number) for number in TWO]
    alone = [gradients_of(probe, engine, number).loss for number in TWO]
    mean = sum(weight * loss for weight, loss in zip(weights, alone, strict=True)) / sum(weights)
    turned = gradients_of(probe, engine, *reversed(TWO)).loss
    allowed = loss_allowance(together, precision)
    counts = [ROWS.met(len(TWO)), TARGETS.met(sum(weights)), _padding(probe)]
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
            findings.append(Finding.failed(f"{text}{_fitting(together, alone)}", case=case))
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
    return Finding.passed(text, "gradients", [TENSORS.met(len(names))])


def _padding(probe: Probe) -> Met:
    lengths = [len(rows_of(probe).rows[number]) for number in TWO]
    return PADDED.met(sum(max(lengths) - length for length in lengths))


def _fitting(together: float, alone: list[float]) -> str:
    """Name another mean that gives the loss."""
    others = {"the plain mean of the rows'": float(np.mean(alone)), "the sum of the rows'": float(np.sum(alone))}
    for words, value in others.items():
        if abs(together - value) <= 1e-4 * abs(value):
            return f"; {words} losses is {value:.9g}"
    return ""


def _list(values: list[float]) -> str:
    return "[" + ", ".join(f"{value:.6g}" for value in values) + "]"
