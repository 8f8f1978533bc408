"""The reference's answers to the vector cases about the optimiser of the course's decoder (course, chapter 33)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from cai_conformance.backends.decoder.setting import DecoderSetting, Input, Operation
from cai_conformance.vectors import Answer
from cai_reference.arithmetic import from_hex_bits
from cai_reference.autograd import Parameter
from cai_reference.training import AdamW, AdamWConfiguration
from cai_reference.training.clipping import clip_to
from cai_reference.training.decay_groups import all_but_gains


def _update(given: Input, _: DecoderSetting) -> Answer:
    """Take updates with stored gradients; return the norm of each before clipping, then all weights at the end."""
    parameters = [
        Parameter(name, np.array([from_hex_bits(digits) for digits in values]))
        for name, values in given["weights"].items()
    ]
    rates = [from_hex_bits(digits) for digits in given["rates"]]
    numbers = (from_hex_bits(given[name]) for name in ("beta1", "beta2", "epsilon", "weight_decay"))
    optimizer = AdamW(AdamWConfiguration(rates[0], *numbers), all_but_gains(parameters))
    norms: list[float] = []
    for rate, gradients in zip(rates, given["gradients"], strict=True):
        for parameter in parameters:
            parameter.gradient = np.array([from_hex_bits(digits) for digits in gradients[parameter.name]])
        clip = clip_to(parameters, from_hex_bits(given["maximum_norm"]))
        optimizer.step_at(rate, parameters, clip.transform)
        norms.append(clip.before)
    weights = [value for parameter in parameters for value in parameter.value.tolist()]
    return Answer(values=(*norms, *weights))


COURSE_OPERATIONS: Final[Mapping[str, Operation]] = {"course.update": _update}
