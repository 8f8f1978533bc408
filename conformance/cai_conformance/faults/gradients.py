"""Faults of gradients whose loss is right: gains, heads, and what is left from the step before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import COURSE, DENSE, NGRAM, Vehicle, exact, given, run
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Parameter, Tape, Variable, probability
from cai_reference.layers import grouped_query_attention, rms_norm
from cai_reference.layers.rms_norm import InverseForm
from cai_reference.training.adamw import AdamW, GradientTransform

TRAINING: Final = frozenset({Place.TRAINING})


def _gain(planting: Planting, times: int) -> None:
    """Let the gradient toward a row pass the gain a wrong number of times."""
    right = rms_norm.rms_norm

    def wrong(tape: Tape, x: Variable, gain: Variable, epsilon: float, form: InverseForm) -> Variable:
        normalized = right(tape, x, tape.constant(np.ones(gain.shape)), epsilon, form)

        def pullback(adjoint: Array) -> tuple[Array, Array]:
            toward = adjoint
            for _ in range(times):
                toward = toward * gain.value
            axes = tuple(range(adjoint.ndim - 1))
            return toward, tape.arithmetic.sum(adjoint * normalized.value, axis=axes)

        return tape.record("gain", normalized.value * gain.value, (normalized, gain), pullback)

    planting.function(right, wrong)


def _one_of_group(planting: Planting) -> None:
    """Let keys that several query heads share learn from the first of them alone."""
    right = grouped_query_attention.repeat_heads

    def wrong(tape: Tape, x: Variable, times: int) -> Variable:
        value = right(Tape(tape.arithmetic, recording=False), x, times).value

        def pullback(adjoint: Array) -> tuple[Array]:
            return (adjoint[:, ::times],)

        return tape.record("repeat heads", value, (x,), pullback)

    planting.function(right, wrong)


def _never_zeroed(planting: Planting) -> None:
    def wrong(parameter: Parameter) -> None:
        """Leave the gradient as it is."""

    planting.method(Parameter, "zero_gradient", wrong)


def _nothing_learned(planting: Planting) -> None:
    right = AdamW.step_with

    def wrong(
        optimizer: AdamW,
        parameters: Sequence[Parameter],
        gradients: dict[str, Array],
        transform: GradientTransform | None = None,
    ) -> None:
        values = [parameter.value for parameter in parameters]
        right(optimizer, parameters, gradients, transform)
        for parameter, value in zip(parameters, values, strict=True):
            parameter.assign(value)

    planting.method(AdamW, "step_with", wrong)


def _without_maximum(planting: Planting) -> None:
    """Take the logarithm of a plain sum of exponentials; what overflows gives an infinite loss."""
    right = probability._mean_nll

    def wrong(
        arithmetic: Arithmetic, logits: Array, targets: Sequence[int]
    ) -> tuple[probability.NormalizedRows, float]:
        rows, _ = right(arithmetic, logits, targets)
        flat = logits.reshape(len(targets), -1)
        with np.errstate(over="ignore", invalid="ignore"):
            normalizers = arithmetic.log(arithmetic.sum(arithmetic.exp(flat), axis=1))
            losses = normalizers - flat[np.arange(len(targets)), list(targets)]
            return rows, float(arithmetic.sum(losses) / len(targets))

    planting.function(right, wrong)


def _fault(
    slug: str,
    title: str,
    story: str,
    precedent: str,
    plant: Callable[[Planting], None],
    expected: tuple[str, ...],
    kinds: tuple[str, ...],
    vehicles: tuple[Vehicle, ...],
) -> Fault:
    return Fault(slug, title, story, precedent, TRAINING, plant, "", kinds, vehicles, expected)


GRADIENTS: Final = (
    _fault(
        "gradient.gain-never",
        "the norm's backward leaves out the gain",
        "Rows get the gradient of a norm without one. A fresh model, whose gains are 1, hides it.",
        "NVIDIA/Megatron-LM#6859",
        partial(_gain, times=0),
        ("grad.given", "grad.fd"),
        ("L05",),
        given(DENSE, COURSE),
    ),
    _fault(
        "gradient.gain-twice",
        "the norm's backward takes the gain twice",
        "Rows get a gradient that has passed the gain two times. A fresh model hides it.",
        "ooples/AiDotNet#695",
        partial(_gain, times=2),
        ("grad.given", "grad.fd"),
        ("L05",),
        given(DENSE),
    ),
    _fault(
        "gradient.one-of-group",
        "shared keys learn from one of their queries",
        "The gradient is that of the first query head, where those of all that share should add up.",
        "",
        _one_of_group,
        ("grad.given", "grad.fd"),
        (),
        given("llama.gqa-window"),
    ),
    _fault(
        "gradient.never-zeroed",
        "gradients of earlier steps stay",
        "They add up from step to step. The first step hides it.",
        "",
        _never_zeroed,
        ("opt.given", "grad.given", "eval.pure"),
        (),
        given(DENSE),
    ),
    _fault(
        "training.nothing-learned",
        "updates are computed and not taken",
        "Moments go on, and weights stay as they were.",
        "",
        _nothing_learned,
        ("opt.given", "run.learning"),
        (),
        (*given(DENSE), *run("cai.kv-cache", NGRAM)),
    ),
    _fault(
        "loss.no-maximum",
        "the maximum is not subtracted",
        "The exponential of a large logit does not exist. Small logits hide it.",
        "pytorch/pytorch#11752; FluxML/NNlib.jl#68",
        _without_maximum,
        ("loss.shift",),
        ("F08",),
        exact(NGRAM),
    ),
)
"""What is wrong with gradients and updates, and a loss that overflows."""
