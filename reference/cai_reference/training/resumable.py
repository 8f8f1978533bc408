"""A training run that can be stopped after any step, and go on as if it had not been.

A step is: the next batch of the shuffled order, forward, backward, clip, AdamW at the scheduled rate, zero gradients.
Everything that a later step depends on is in the state: values, both moments, the optimiser's step and powers, the
place in the schedule, which is the step, the place in the data, and every generator that is drawn from. In strict
arithmetic four steps have the bits of two steps, a new run of the same set-up with that state, and two more.

The state also says what it goes with: sizes, hyperparameters, groups, schedule, clip, data, arithmetic. A run that is
set up otherwise refuses it and says what differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, backward
from cai_reference.autograd.graph import first_non_finite
from cai_reference.splitmix import SplitMix64
from cai_reference.training.adamw import AdamW, AdamWConfiguration, AdamWState, ParameterGroups
from cai_reference.training.clipping import Clip, check_maximum_norm, clip_to
from cai_reference.training.copies import Model, assign_all
from cai_reference.training.data_order import DataOrder, OrderPlace, check_place
from cai_reference.training.examples import Examples
from cai_reference.training.model_kinds import AnyConfiguration, AnyModel, least_weights, new_model
from cai_reference.training.optimizer_state import check_optimizer_state
from cai_reference.training.schedules import AnySchedule
from cai_reference.training.state_errors import (
    StateDiffers,
    StateShape,
    StateSteps,
    StateTooSmall,
    StateValueNotFinite,
    StateValues,
)


@dataclass(frozen=True)
class Setup:
    """What a run is, apart from where it stands.

    Attributes:
        optimizer: the hyperparameters; their rate is not used, the schedule's is.
        groups: what decays.
        schedule: the rate of every step.
        maximum_norm: gradients are clipped to this norm; None for no limit.
        batch_size: examples a step.
        arithmetic: in which everything is computed.

    Raises:
        InvalidMaximumNorm: the limit is not finite and positive.
    """

    optimizer: AdamWConfiguration
    groups: ParameterGroups
    schedule: AnySchedule
    maximum_norm: float | None
    batch_size: int
    arithmetic: Arithmetic

    def __post_init__(self) -> None:
        if self.maximum_norm is not None:
            check_maximum_norm(self.maximum_norm)


@dataclass(frozen=True)
class TrainingState:
    """Everything from which a run goes on.

    Attributes:
        configuration: of the model.
        setup: what the run is.
        examples: how many examples it is trained on.
        data: their digest.
        step: how many steps have been made, which is the place in the schedule.
        values: of all parameters by name, in registry order.
        optimizer: step, powers, moments.
        place: in the data.
        generators: the states of all other generators, by name.

    Raises:
        StateSteps, OptimizerStateError, StateValueNotFinite: the parts do not fit each other;
        ZeroBatchSize, NoExamples, OrderOutOfRange: the place is none.
    """

    configuration: AnyConfiguration
    setup: Setup
    examples: int
    data: str
    step: int
    values: Mapping[str, Array]
    optimizer: AdamWState
    place: OrderPlace
    generators: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.step != self.optimizer.step:
            raise StateSteps(self.step, self.optimizer.step)
        shapes = {name: values.shape for name, values in self.values.items()}
        check_optimizer_state(self.optimizer, self.setup.groups, shapes)
        for name, values in self.values.items():
            index = first_non_finite(values)
            if index is not None:
                raise StateValueNotFinite(name, index, float(values.flat[index]))
        check_place(self.examples, self.setup.batch_size, self.place)

    def model(self) -> AnyModel:
        """Return a new model with these values.

        Raises:
            StateTooSmall, StateValues, StateShape: the values are not those of the configuration.
            MixerError: the configuration is none.
        """
        least, found = least_weights(self.configuration), sum(values.size for values in self.values.values())
        if least > found:
            raise StateTooSmall(least, found)
        model = new_model(self.configuration)
        self.check_values(model)
        assign_all(model.parameters, list(self.values.values()))
        return model

    def check_values(self, model: AnyModel) -> None:
        """Compare the values with a model's parameters.

        Raises:
            StateValues, StateShape: names, their order or shapes differ.
        """
        expected, found = tuple(parameter.name for parameter in model.parameters), tuple(self.values)
        if expected != found:
            raise StateValues(expected, found)
        for parameter in model.parameters:
            shape = self.values[parameter.name].shape
            if shape != parameter.shape:
                raise StateShape(parameter.name, parameter.shape, shape)


@dataclass(frozen=True)
class CompletedStep:
    """What is known after one step: its number, its examples, its rate, the loss before it, the clip."""

    step: int
    examples: tuple[int, ...]
    learning_rate: float
    loss: float
    clip: Clip | None


class ResumableTraining(Generic[Model]):
    """A run over a model, which is trained in place.

    Args:
        model: what is trained.
        setup: how.
        examples: on what.
        seed: of the order of the data.
        generators: others that are drawn from beside the run, by name, so that they are kept with it.

    Raises:
        ZeroBatchSize, NoExamples: there is nothing to take.
    """

    def __init__(
        self,
        model: Model,
        setup: Setup,
        examples: Examples[Model],
        seed: int,
        generators: Mapping[str, SplitMix64] | None = None,
    ) -> None:
        self.model: Model = model
        self.setup = setup
        self.examples: Examples[Model] = examples
        self.generators = dict(generators or {})
        self._optimizer = AdamW(setup.optimizer, setup.groups)
        self._order = DataOrder.from_seed(examples.count, setup.batch_size, seed)

    @property
    def step_count(self) -> int:
        """How many steps have been made."""
        return self._optimizer.state.step

    def step(self) -> CompletedStep:
        """Make one step, or raise and change nothing.

        Raises:
            ScheduleError, ModelError, LayerError, AutogradError, ClipError, AdamWError: a leaf that says why.
        """
        model, arithmetic = self.model, self.setup.arithmetic
        step, chosen = self.step_count + 1, self._order.next_batch()
        rate = self.setup.schedule.rate(step, arithmetic)
        clip = None
        try:
            loss = self.examples.loss(model, Tape(arithmetic), chosen)
            backward(loss)
            if self.setup.maximum_norm is not None:
                clip = clip_to(model.parameters, self.setup.maximum_norm)
            self._optimizer.step_at(rate, model.parameters, clip.transform if clip else None)
        finally:
            for parameter in model.parameters:
                parameter.zero_gradient()
        self._order.advance()
        return CompletedStep(step, chosen, rate, float(loss.value), clip)

    def state(self) -> TrainingState:
        """Return everything from which the run goes on; later steps do not change it."""
        return TrainingState(
            self.model.configuration,
            self.setup,
            self.examples.count,
            self.examples.digest,
            self.step_count,
            {parameter.name: parameter.value for parameter in self.model.parameters},
            self._optimizer.state,
            self._order.place,
            {name: generator.state for name, generator in self.generators.items()},
        )

    def restore(self, state: TrainingState) -> None:
        """Go on from a state, or raise and change nothing.

        Raises:
            StateDiffers: the run is set up otherwise; looked at part by part, the configuration first.
            StateValues, StateShape: the values are of other parameters.
        """
        for part, expected, found in self._parts(state):
            if expected != found:
                raise StateDiffers(part, str(expected), str(found))
        state.check_values(self.model)
        assign_all(self.model.parameters, list(state.values.values()))
        for parameter in self.model.parameters:
            parameter.zero_gradient()
        self._optimizer.state = state.optimizer
        self._order.go_to(state.place)
        for name, generator in self.generators.items():
            generator.state = state.generators[name]

    def _parts(self, state: TrainingState) -> list[tuple[str, object, object]]:
        own, other = self.setup, state.setup
        return [
            ("configuration", self.model.configuration, state.configuration),
            ("optimiser", own.optimizer, other.optimizer),
            ("groups", _sorted_groups(own.groups), _sorted_groups(other.groups)),
            ("schedule", own.schedule, other.schedule),
            ("largest norm", own.maximum_norm, other.maximum_norm),
            ("batch size", own.batch_size, other.batch_size),
            ("arithmetic", own.arithmetic.identifier, other.arithmetic.identifier),
            ("number of examples", self.examples.count, state.examples),
            ("digest of the examples", self.examples.digest, state.data),
            ("generators", sorted(self.generators), sorted(state.generators)),
        ]


def _sorted_groups(groups: ParameterGroups) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(sorted(groups.decay)), tuple(sorted(groups.no_decay))
