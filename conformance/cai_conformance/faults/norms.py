"""Faults of normalisation: where epsilon stands and how large it is, the gain, the mean, and the α of dynamic tanh."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from cai_conformance.faults.fault import FORWARD, Fault
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import DENSE, WINDOWED, given
from cai_reference.arithmetic import Array
from cai_reference.autograd import Tape, Variable, add, mean_over, multiply, reshape, scale, tanh
from cai_reference.layers import rms_norm
from cai_reference.layers.dyt import DynamicTanh
from cai_reference.layers.rms_norm import InverseForm


def _epsilon(planting: Planting, used: float) -> None:
    right = rms_norm.rms_norm

    def wrong(tape: Tape, x: Variable, gain: Variable, epsilon: float, form: InverseForm) -> Variable:
        return right(tape, x, gain, used, form)

    planting.function(right, wrong)


def _epsilon_outside(planting: Planting) -> None:
    """Divide by √m + ε instead of √(m + ε)."""

    def wrong(tape: Tape, x: Variable, gain: Variable, epsilon: float, form: InverseForm) -> Variable:
        axis = len(x.shape) - 1
        means = reshape(tape, mean_over(tape, multiply(tape, x, x), axis), (*x.shape[:-1], 1))
        root = np.sqrt(means.value)
        inverse = 1.0 / (root + epsilon)

        def pullback(adjoint: Array) -> tuple[Array]:
            return (adjoint * (-0.5 * inverse * inverse / root),)

        return multiply(tape, multiply(tape, x, tape.record("inverse", inverse, (means,), pullback)), gain)

    planting.function(rms_norm.rms_norm, wrong)


def _gain_plus_one(planting: Planting) -> None:
    right = rms_norm.rms_norm

    def wrong(tape: Tape, x: Variable, gain: Variable, epsilon: float, form: InverseForm) -> Variable:
        return right(tape, x, add(tape, gain, tape.constant(np.ones(1))), epsilon, form)

    planting.function(right, wrong)


def _centred(planting: Planting) -> None:
    """Subtract the mean, as LayerNorm does."""
    right = rms_norm.rms_norm

    def wrong(tape: Tape, x: Variable, gain: Variable, epsilon: float, form: InverseForm) -> Variable:
        means = reshape(tape, mean_over(tape, x, len(x.shape) - 1), (*x.shape[:-1], 1))
        return right(tape, add(tape, x, scale(tape, means, -1.0)), gain, epsilon, form)

    planting.function(right, wrong)


def _alpha_ignored(planting: Planting) -> None:
    def wrong(norm: DynamicTanh, tape: Tape, x: Variable) -> Variable:
        return add(tape, multiply(tape, norm.gamma, tanh(tape, x)), norm.beta)

    planting.method(DynamicTanh, "__call__", wrong)


NORMS: Final = (
    Fault(
        "norm.eps-outside",
        "epsilon outside the root",
        "The norm divides by √mean + ε. Only rows with small values show it.",
        "allenai/OLMo#281; mosaicml/llm-foundry#372",
        FORWARD,
        _epsilon_outside,
        "place of epsilon",
        kinds=("F02",),
        vehicles=given(WINDOWED),
        expected=("fwd.oracle",),
    ),
    *(
        Fault(
            f"norm.eps-{exponent}",
            f"epsilon {exponent} in the norms",
            "A usual epsilon is used instead of the one that the model states.",
            "stanford-cs336/assignment1-basics#93",
            FORWARD,
            partial(_epsilon, used=float(exponent)),
            "norm epsilon",
            kinds=("F02",),
            vehicles=given(DENSE),
            expected=("fwd.oracle",),
        )
        for exponent in ("1e-5", "1e-6", "1e-8")
    ),
    Fault(
        "norm.gain-plus-one",
        "gain counted from 1",
        "The norm multiplies by 1 + gain, as some families of models do.",
        "",
        FORWARD,
        _gain_plus_one,
        "norm gain",
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
    Fault(
        "norm.mean-subtracted",
        "mean subtracted before the norm",
        "LayerNorm is used where the model has RMSNorm.",
        "",
        FORWARD,
        _centred,
        "norm kind",
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
    Fault(
        "norm.alpha-ignored",
        "dynamic tanh without its α",
        "tanh(x) is taken instead of tanh(α·x); a fresh model, whose α is 1, hides it.",
        "",
        FORWARD,
        _alpha_ignored,
        "norm alpha",
        vehicles=given("cai.local-global"),
        expected=("fwd.oracle",),
    ),
)
"""What is wrong with norms."""
