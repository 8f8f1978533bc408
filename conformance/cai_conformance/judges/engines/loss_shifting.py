"""The judge of the loss under shifts: a constant that is added to every logit changes nothing.

Only the differences of logits count. A logarithm of a sum of exponentials that does not take out the largest logit
overflows here.
"""

from __future__ import annotations

from typing import Final

from cai_conformance.engines.description import MANTISSA_BITS
from cai_conformance.engines.errors import Refused
from cai_conformance.engines.features import training
from cai_conformance.engines.training import TrainingEngine
from cai_conformance.judges.engines.driving import UNTRAINED
from cai_conformance.judges.engines.training_batches import TWO, gradients_of, rows_of
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.measured_rows import COARSE_BITS
from cai_conformance.judges.witness import Witness
from cai_conformance.measuring.distances import unit_in_last_place
from cai_conformance.probing.probe import Probe

SHIFTED: Final = Witness("shifted bias", "shifted biases")
TARGETS: Final = Witness("target", "targets")
WITNESSES: Final = (SHIFTED, TARGETS)
ROUNDED: Final = 4.0
"""By how many units of a rounded bias a loss may move: half of one for each of the logits that it depends on."""
SHIFT: Final = 1024.0
"""Beyond what an exponential takes in float64."""
NO_BIAS: Final = "the model has no output bias to which a constant could be added"


def judge_loss_shift(probe: Probe) -> tuple[Finding, ...]:
    """Add a constant to every output bias, and compare the losses."""
    engine, precision = training(probe.engine), probe.description.precision.coarsest
    if engine is None:
        return (Finding.skipped(UNTRAINED),)
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
