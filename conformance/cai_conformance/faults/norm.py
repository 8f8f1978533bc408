"""Faults of normalisation: where epsilon stands and how large it is, the gain, the mean, and the α of dynamic tanh."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Final

import numpy as np

from cai_conformance.faults.fault import FORWARD, Family
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import DENSE, WINDOWED, given
from cai_reference.arithmetic import Array
from cai_reference.autograd import Tape, Variable
from cai_reference.autograd.features import mean_over, tanh
from cai_reference.autograd.operations import add, multiply, reshape, scale
from cai_reference.layers import rms_norm
from cai_reference.layers.dyt import DynamicTanh
from cai_reference.layers.rms_norm import InverseForm, RmsNorm

_norm = Family(FORWARD, given(DENSE))


@_norm(
    "norm.eps-outside",
    "epsilon outside the root",
    "fwd.oracle",
    seen_in="allenai/OLMo#281; mosaicml/llm-foundry#372",
    knob="place of epsilon",
    kinds="F02",
    workloads=given(WINDOWED),
)
def _epsilon_outside(patch: Patch) -> None:
    """The norm divides by √mean + ε. Only rows with small values show it."""

    # Divide by √m + ε instead of √(m + ε).
    def wrong(tape: Tape, x: Variable, gain: Variable, epsilon: float, form: InverseForm) -> Variable:
        axis = len(x.shape) - 1
        means = reshape(tape, mean_over(tape, multiply(tape, x, x), axis), (*x.shape[:-1], 1))
        root = np.sqrt(means.value)
        inverse = 1.0 / (root + epsilon)

        def pullback(adjoint: Array) -> tuple[Array]:
            return (adjoint * (-0.5 * inverse * inverse / root),)

        return multiply(tape, multiply(tape, x, tape.record("inverse", inverse, (means,), pullback)), gain)

    patch.replace(rms_norm.rms_norm, wrong)


for _epsilon in ("1e-5", "1e-6", "1e-8"):
    _norm(
        f"norm.eps-{_epsilon}",
        f"epsilon {_epsilon} in the norms",
        "fwd.oracle",
        story="A usual epsilon is used instead of the one that the model states.",
        seen_in="stanford-cs336/assignment1-basics#93",
        knob="norm epsilon",
        kinds="F02",
    )(partial(Patch.setting, owner=RmsNorm, name="epsilon", value=float(_epsilon)))


@_norm("norm.gain-plus-one", "gain counted from 1", "fwd.oracle", knob="norm gain")
def _gain_plus_one(patch: Patch) -> None:
    """The norm multiplies by 1 + gain, as some families of models do."""
    patch.arguments(rms_norm.rms_norm, gain=lambda call: add(call.tape, call.gain, call.tape.constant(np.ones(1))))


@_norm("norm.mean-subtracted", "mean subtracted before the norm", "fwd.oracle", knob="norm kind")
def _centred(patch: Patch) -> None:
    """LayerNorm is used where the model has RMSNorm."""

    # Subtract the mean, as LayerNorm does.
    def centred(call: SimpleNamespace) -> Variable:
        x: Variable = call.x
        means = reshape(call.tape, mean_over(call.tape, x, len(x.shape) - 1), (*x.shape[:-1], 1))
        return add(call.tape, x, scale(call.tape, means, -1.0))

    patch.arguments(rms_norm.rms_norm, x=centred)


@_norm(
    "norm.alpha-ignored",
    "dynamic tanh without its α",
    "fwd.oracle",
    knob="norm alpha",
    workloads=given("cai.local-global"),
)
def _alpha_ignored(patch: Patch) -> None:
    """tanh(x) is taken instead of tanh(α·x); a fresh model, whose α is 1, hides it."""

    def wrong(norm: DynamicTanh, tape: Tape, x: Variable) -> Variable:
        return add(tape, multiply(tape, norm.gamma, tanh(tape, x)), norm.beta)

    patch.replace((DynamicTanh, "__call__"), wrong)


NORM: Final = tuple(_norm)
"""What is wrong with norms."""
