"""The judge of training that selects: rates, clipping, and which checkpoint was kept, recounted from the trace.

What makes this mean something: a smallest validation loss before the end, updates that were clipped and others that
were not, and batches that were taken more than once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, pairwise
from math import inf
from typing import Final

from cai_conformance.judges.decoder.reading import DecodeTrace, decode_trace
from cai_conformance.judges.evidence import Evidence
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.problems import Problem, finding_of, label_of, losses_with_bits, shown_numbers
from cai_conformance.judges.witness import Met, Witness
from cai_conformance.trace.records import float_of_bits

BEFORE: Final = Witness("update before the selected step", "updates before the selected step")
BEHIND: Final = Witness("update behind the selected step", "updates behind the selected step")
CLIPPED: Final = Witness("clipped update", "clipped updates")
WHOLE: Final = Witness("update that was not clipped", "updates that were not clipped")
AGAIN: Final = Witness("batch taken again", "batches taken again")
WITNESSES: Final = (BEFORE, BEHIND, CLIPPED, WHOLE, AGAIN)


def judge_selection(evidence: Evidence) -> tuple[Finding, ...]:
    """Return the first contradiction, or what was met."""
    trace = decode_trace(evidence)
    problems: Iterator[Problem] = chain[Problem](_checkpoints(trace), _updates(trace), _selected(trace))
    losses, result = trace.trace.all("LOSS"), trace.trace.all("RESULT")[0]
    clipped = losses[-1].get("clipped")
    text = f"step {result.get('selected_step')} of {result.get('step')} selected, {clipped} updates clipped"
    return (finding_of(problems, text).having_met(*_met(trace)),)


def _met(trace: DecodeTrace) -> list[Met]:
    result, last = trace.trace.all("RESULT")[0], trace.trace.all("LOSS")[-1]
    steps, selected, clipped = result.integer("step"), result.integer("selected_step"), last.integer("clipped")
    return [
        BEFORE.met(selected),
        BEHIND.met(steps - selected),
        CLIPPED.met(clipped),
        WHOLE.met(steps - clipped),
        AGAIN.met(trace.size("steps") - trace.trace.all("SPLIT")[0].integer("batches")),
    ]


def rate_of(rates: list[float], steps: int, step: int) -> float:
    """Return the rate of an update: each rate has an equal part of the steps.

    rate_of([4, 2], 8, 5)  →  2
    """
    return next(rate for place, rate in enumerate(rates) if step <= steps * (place + 1) // len(rates))


def _checkpoints(trace: DecodeTrace) -> Iterator[str]:
    found = [int(step) for (step,) in trace.trace.rows("LOSS", "step")]
    if found != trace.config.integers("checkpoints"):
        shown = shown_numbers(found)
        yield f"LOSS: losses after the steps {shown}, but CONFIG has {trace.config.get('checkpoints')}"


def _updates(trace: DecodeTrace) -> Iterator[Problem]:
    steps, rates = trace.size("steps"), trace.config.reals("rates")
    if not rates:
        yield "CONFIG, field rates: there is none"
        return
    for text, rate, norm, clipped in trace.trace.rows("LOSS", "step", "rate", "norm", "clipped"):
        step = int(text)
        wanted = rate_of(rates, steps, step) if 0 < step <= steps else 0.0
        if float(rate) != wanted:
            yield partial(_problem, text, "rate", f"{rate}, but {wanted:.6f} follows from CONFIG")
        if not 0 <= int(clipped) <= step:
            yield partial(_problem, text, "clipped", f"{clipped} of {text} updates")
        if not float(norm) >= 0.0:
            yield partial(_problem, text, "norm", norm)
    yield from _clipped(trace)


def _clipped(trace: DecodeTrace) -> Iterator[Problem]:
    clip, written = trace.config.real("clip"), trace.config.get("clip")
    for earlier, later in pairwise(trace.trace.rows("LOSS", "step", "norm", "clipped")):
        step, norm, clipped = later
        more, between = int(clipped) - int(earlier[2]), int(step) - int(earlier[0])
        # Of the updates in between only the norm of the last one is told.
        least, most = (1, between) if float(norm) > clip else (0, between - 1)
        if norm != written and not least <= more <= most:
            text = f"{more} more in {between} updates, the last with a norm of {norm}"
            yield partial(_problem, step, "clipped", text)


def _problem(step: str, field: str, text: str) -> str:
    return f"{label_of('LOSS', step=step)}, field {field}: {text}"


def _selected(trace: DecodeTrace) -> Iterator[str]:
    result = trace.trace.all("RESULT")[0]
    best, step, loss, exact = inf, "", "", True
    for (text, _, printed), bits in losses_with_bits(trace.trace):
        validation = bits[1] if bits is not None else ""
        exact = exact and bool(validation)
        value = float_of_bits(validation) if validation else float(printed)
        if not step or value < best:
            best, step, loss = value, text, printed
    if result.get("selected_validation") != loss:
        stated = result.get("selected_validation")
        yield f"RESULT, field selected_validation: {stated}, but the smallest validation loss is {loss}"
    stated = result.get("selected_step")
    alike = trace.trace.find("LOSS", step=stated)
    # Of losses that print alike only exact bits tell the smallest.
    if stated != step and (exact or alike is None or alike.get("validation") != loss):
        yield f"RESULT, field selected_step: {stated}, but the earliest smallest validation loss is that of step {step}"
