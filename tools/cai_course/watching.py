"""Training and evaluation, watched: what a run does on its way, which its result does not say.

`watched_run` makes the updates of a `SelectionPlan` one part at a time and notes the order of the parts, whether
gradients are finite and cleared, whether parameters stay the same objects, and how many graphs an evaluation leaves.
It shares the parts with the run that it watches, and not the loop: where both agree in every bit, the loop is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cai_reference.arithmetic import Arithmetic
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.backward import backward
from cai_reference.models.llama import Llama
from cai_reference.text.story_batches import StoryBatch
from cai_reference.training.adamw import AdamW
from cai_reference.training.clipping import clip_to
from cai_reference.training.decoder_training import PlannedEpoch, window_batch
from cai_reference.training.model_kinds import ParameterSnapshot, copy_of, copy_of_optimizer
from cai_reference.training.selection import LossCheckpoint, SelectionPlan, Update, evaluate_windows


@dataclass(frozen=True)
class WatchedUpdate:
    """One update.

    Attributes:
        update: what the run itself would say of it.
        events: its parts, in the order in which they were done.
        finite: whether all gradients were.
        nodes_preserved: whether the parameters are the objects that they were.
        cleared: whether all gradients are zero afterwards.
    """

    update: Update
    events: tuple[str, ...]
    finite: bool
    nodes_preserved: bool
    cleared: bool


@dataclass(frozen=True)
class WatchedCheckpoint:
    """Losses after a step, and how many nodes of a graph each of the two evaluations left."""

    losses: LossCheckpoint
    train_nodes: int
    validation_nodes: int


@dataclass(frozen=True)
class WatchedRun:
    """All updates and checkpoints, and the state at each checkpoint."""

    updates: tuple[WatchedUpdate, ...]
    checkpoints: tuple[WatchedCheckpoint, ...]
    states: tuple[ParameterSnapshot, ...]


class CountingModel:
    """A model for evaluation that counts the nodes of the graphs that its losses leave."""

    def __init__(self, model: Llama) -> None:
        self._model = model
        self.parameters: tuple[Parameter, ...] = model.parameters
        self.nodes = 0

    def loss(self, tape: Tape, batch: StoryBatch) -> Variable:
        """Return the model's loss."""
        loss = self._model.loss(tape, batch)
        self.nodes += recorded_nodes(loss)
        return loss


def recorded_nodes(result: Variable) -> int:
    """Return how many results of operations a graph holds, parameters and constants left out."""
    seen: set[int] = set()
    waiting = [result]
    while waiting:
        variable = waiting.pop()
        if variable.pullback is not None and id(variable) not in seen:
            seen.add(id(variable))
            waiting.extend(variable.parents)
    return len(seen)


def counted_evaluation(model: Llama, windows: PlannedEpoch, arithmetic: Arithmetic) -> tuple[float, int]:
    """Return the mean loss over windows, and how many nodes of graphs it left."""
    counting = CountingModel(model)
    return evaluate_windows(counting, windows, arithmetic), counting.nodes


def watched_run(plan: SelectionPlan, model: Llama, optimizer: AdamW, arithmetic: Arithmetic) -> WatchedRun:
    """Train copies of model and optimiser as the plan says."""
    trained, stepped = copy_of(model), copy_of_optimizer(optimizer)
    checkpoints = [_measured(0, plan, trained, arithmetic)]
    states = [ParameterSnapshot.of(0, trained.parameters, stepped)]
    updates: list[WatchedUpdate] = []
    for step in range(1, plan.rates.steps + 1):
        updates.append(_updated(step, plan, trained, stepped, arithmetic))
        if step in plan.checkpoints:
            checkpoints.append(_measured(step, plan, trained, arithmetic))
            states.append(ParameterSnapshot.of(step, trained.parameters, stepped))
    return WatchedRun(tuple(updates), tuple(checkpoints), tuple(states))


def _updated(step: int, plan: SelectionPlan, model: Llama, optimizer: AdamW, arithmetic: Arithmetic) -> WatchedUpdate:
    events: list[str] = []
    nodes = model.parameters
    batch = plan.updates.plan[(step - 1) % len(plan.updates.plan)]
    loss = model.loss(Tape(arithmetic), window_batch(plan.updates.epoch, batch))
    value = float(loss.value)
    events.append("forward")
    backward(loss)
    events.append("backward")
    finite = all(bool(np.isfinite(parameter.gradient).all()) for parameter in model.parameters)
    events.append("finite-check")
    clip = clip_to(model.parameters, plan.maximum_norm)
    events.append("clip")
    rate = plan.rates.rate(step, arithmetic)
    optimizer.step_at(rate, model.parameters, clip.transform)
    events.append("adamw-step")
    for parameter in model.parameters:
        parameter.zero_gradient()
    events.append("zero-grad")
    cleared = not any(parameter.gradient.any() for parameter in model.parameters)
    return WatchedUpdate(
        Update(step, batch, rate, value, clip), tuple(events), finite, _same(nodes, model.parameters), cleared
    )


def _measured(step: int, plan: SelectionPlan, model: Llama, arithmetic: Arithmetic) -> WatchedCheckpoint:
    train, train_nodes = counted_evaluation(model, plan.train_evaluation, arithmetic)
    validation, validation_nodes = counted_evaluation(model, plan.validation, arithmetic)
    return WatchedCheckpoint(LossCheckpoint(step, train, validation), train_nodes, validation_nodes)


def _same(before: Sequence[Parameter], after: Sequence[Parameter]) -> bool:
    return len(before) == len(after) and all(one is other for one, other in zip(before, after, strict=True))


def stored(parameters: Sequence[Parameter]) -> tuple[list[bytes], list[bytes]]:
    """Return the bits of values and gradients."""
    return [one.value.tobytes() for one in parameters], [one.gradient.tobytes() for one in parameters]


def same_bits(one: ParameterSnapshot, other: ParameterSnapshot) -> bool:
    """Tell whether two states are equal in every bit: parameters, moments, powers, steps."""
    return _words(one) == _words(other)


def _words(state: ParameterSnapshot) -> tuple[object, ...]:
    optimizer = state.optimizer
    moments = [(name, pair.first.tobytes(), pair.second.tobytes()) for name, pair in sorted(optimizer.moments.items())]
    powers = (optimizer.beta1_power, optimizer.beta2_power)
    return state.step, [values.tobytes() for values in state.values], optimizer.step, powers, moments
