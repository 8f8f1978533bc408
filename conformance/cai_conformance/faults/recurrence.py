"""Faults of the recurrence: its decay, and states that are kept, forgotten or stepped wrongly between calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from cai_conformance.faults.cache import kept_between_sequences
from cai_conformance.faults.fault import FORWARD, SESSION, Family
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import given
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable
from cai_reference.autograd.features import logistic
from cai_reference.autograd.operations import sigmoid
from cai_reference.decoding.layer_states import LayerState, SsmState
from cai_reference.layers.diagonal_ssm import DiagonalSsm

_decay = Family(FORWARD, given("cai.diagonal-ssm"))


@_decay(
    "ssm.euler",
    "Euler's step for the decay",
    "fwd.oracle",
    seen_in="state-spaces/mamba#114; johnma2006/mamba-minimal#2",
    knob="recurrence",
    kinds="S06",
)
def _euler(patch: Patch) -> None:
    """The decay is 1 − Δ instead of exp(−Δ)."""

    # Take 1 + ln σ(a), the first two terms of the exponential, for the decay σ(a).
    def of(right: Callable[[Arithmetic, Array], Array], arithmetic: Arithmetic, x: Array) -> Array:
        return 1.0 + arithmetic.log(right(arithmetic, x))

    def recorded(_: object, tape: Tape, x: Variable) -> Variable:
        def pullback(adjoint: Array) -> tuple[Array]:
            return (adjoint * (1.0 - sigmoid(tape.arithmetic, x.value)),)

        return tape.record("euler", of(sigmoid, tape.arithmetic, x.value), (x,), pullback)

    patch.within((DiagonalSsm, "__call__"), logistic, recorded)
    patch.within((SsmState, "feed"), sigmoid, of)


_recurrence = Family(SESSION, given("cai.diagonal-ssm"))


@_recurrence(
    "ssm.state-kept",
    "the recurrent state is kept between sequences",
    "kv.split kv.reuse",
    seen_in="NovaSky-AI/SkyRL#2056",
    kinds="S01",
)
def _state_kept(patch: Patch) -> None:
    """A new sequence goes on from the last state of the one before; the first sequence hides it."""
    kept_between_sequences(patch, kind=SsmState)


@_recurrence(
    "ssm.chunk-from-zero",
    "every call starts the recurrence from zero",
    "kv.split ssm.split",
    seen_in="huggingface/transformers#46741",
    kinds="S04",
    workloads=given("cai.diagonal-ssm", "cai.hybrid"),
)
def _from_zero(patch: Patch) -> None:
    """What earlier calls have left is not read."""
    feed = SsmState.feed

    def wrong(state: SsmState, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        fresh = replace(state, states=(*state.states[:-1], np.zeros(state.states[-1].shape)))
        return feed(fresh, tape, x, position)

    patch.replace((SsmState, "feed"), wrong)


@_recurrence(
    "ssm.one-step-a-call",
    "the recurrence takes one step a call",
    "kv.split ssm.split",
    seen_in="huggingface/transformers#46084",
    kinds="S05",
)
def _one_step_a_call(patch: Patch) -> None:
    """After a call of several tokens the state holds the last of them only; feeding one at a time hides it."""
    # Step the recurrence once for a whole chunk: the state after it is that of its last token alone.
    feed = SsmState.feed

    def wrong(state: SsmState, tape: Tape, x: Array, position: int) -> tuple[Array, LayerState]:
        if x.shape[0] == 1:
            return feed(state, tape, x, position)
        mixed, _ = feed(state, tape, x, position)
        last, after = feed(state, tape, x[-1:], position)
        assert isinstance(after, SsmState)
        padding = (after.states[-1],) * (x.shape[0] - 1)
        states = (*after.states, *padding)[-(state.slack + 1) :]
        mixed = np.concatenate([mixed[:-1], last])
        return mixed, replace(after, states=states, length=state.length + x.shape[0])

    patch.replace((SsmState, "feed"), wrong)


DECAY: Final = tuple(_decay)
"""What is wrong with the recurrence in both paths."""

RECURRENCE: Final = tuple(_recurrence)
"""What is wrong with what a session keeps of it."""
