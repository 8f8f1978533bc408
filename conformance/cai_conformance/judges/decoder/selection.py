"""The judge of training that selects: rates, clipping, and which checkpoint was kept, recounted from the trace.

On the suite's own stories it also asks whether the run met what makes this mean something: a smallest validation loss
before the end, updates that were clipped and others that were not, and batches that were taken more than once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from cai_conformance.judges.decoder.reading import DecodeTrace
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding
from cai_conformance.trace.records import Record


def judge_selection(evidence: Evidence) -> tuple[Finding, ...]:
    """Return the first contradiction, or what was met."""
    trace = DecodeTrace(evidence.main)
    problems = [*_checkpoints(trace), *_updates(trace), *_selected(trace)]
    if not problems and evidence.question.request.profile == "golden" and not evidence.question.request.examples:
        problems = list(_witnesses(trace))
    if problems:
        rest = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return (Finding.failed(problems[0] + rest),)
    losses, result = trace.trace.all("LOSS"), trace.trace.all("RESULT")[0]
    clipped = losses[-1].get("clipped")
    met = f"step {result.get('selected_step')} of {result.get('step')} selected, {clipped} updates clipped"
    return (Finding.passed(met),)


def rate_of(rates: list[float], steps: int, step: int) -> float:
    """Return the rate of an update: each rate has an equal part of the steps.

    rate_of([4, 2], 8, 5)  →  2
    """
    return next(rate for place, rate in enumerate(rates) if step <= steps * (place + 1) // len(rates))


def _checkpoints(trace: DecodeTrace) -> Iterator[str]:
    found = [record.integer("step") for record in trace.trace.all("LOSS")]
    if found != trace.config.integers("checkpoints"):
        yield f"LOSS: losses after the steps {found}, but CONFIG has {trace.config.get('checkpoints')}"


def _updates(trace: DecodeTrace) -> Iterator[str]:
    losses, steps = trace.trace.all("LOSS"), trace.size("steps")
    rates, clip = trace.config.reals("rates"), trace.config.real("clip")
    if not rates:
        yield "CONFIG, field rates: there is none"
        return
    for record in losses:
        step, rate = record.integer("step"), record.real("rate")
        wanted = rate_of(rates, steps, step) if 0 < step <= steps else 0.0
        if rate != wanted:
            yield f"{record.label}, field rate: {record.get('rate')}, but {wanted:.6f} follows from CONFIG"
        if not 0 <= record.integer("clipped") <= step:
            yield f"{record.label}, field clipped: {record.get('clipped')} of {step} updates"
        if not record.real("norm") >= 0.0:
            yield f"{record.label}, field norm: {record.get('norm')}"
    for earlier, later in pairwise(losses):
        more = later.integer("clipped") - earlier.integer("clipped")
        between = later.integer("step") - earlier.integer("step")
        # Of the updates in between only the norm of the last one is told.
        least, most = (1, between) if later.real("norm") > clip else (0, between - 1)
        if later.get("norm") != trace.config.get("clip") and not least <= more <= most:
            norm = later.get("norm")
            yield f"{later.label}, field clipped: {more} more in {between} updates, the last with a norm of {norm}"


def _selected(trace: DecodeTrace) -> Iterator[str]:
    result, losses = trace.trace.all("RESULT")[0], trace.trace.all("LOSS")
    best = min(losses, key=lambda record: _validation(trace, record))
    step, loss = best.get("step"), best.get("validation")
    if result.get("selected_validation") != loss:
        stated = result.get("selected_validation")
        yield f"RESULT, field selected_validation: {stated}, but the smallest validation loss is {loss}"
    alike = {record.get("step") for record in losses if record.get("validation") == loss}
    # Of losses that print alike only exact bits tell the smallest.
    allowed = {step} if all(_bits_of(trace, record) is not None for record in losses) else alike
    if result.get("selected_step") not in allowed:
        stated = result.get("selected_step")
        yield f"RESULT, field selected_step: {stated}, but the earliest smallest validation loss is that of step {step}"


def _validation(trace: DecodeTrace, record: Record) -> float:
    """Return a validation loss, exactly where the trace has its bits."""
    exact = _bits_of(trace, record)
    return record.real("validation") if exact is None else exact


def _bits_of(trace: DecodeTrace, record: Record) -> float | None:
    found = trace.trace.find("BITS", step=record.get("step"))
    return found.bits("validation")[0] if found is not None and found.has("validation") else None


def _witnesses(trace: DecodeTrace) -> Iterator[str]:
    losses, result = trace.trace.all("LOSS"), trace.trace.all("RESULT")[0]
    batches = trace.trace.all("SPLIT")[0].integer("batches")
    if not 0 < result.integer("selected_step") < result.integer("step"):
        yield f"RESULT, field selected_step: {result.get('selected_step')}, so that selection decided nothing"
    if not 0 < losses[-1].integer("clipped") < result.integer("step"):
        yield f"{losses[-1].label}, field clipped: {losses[-1].get('clipped')}, so that the limit decided nothing"
    if batches >= trace.size("steps"):
        yield f"SPLIT, field batches: {batches}, so that none was taken twice"
