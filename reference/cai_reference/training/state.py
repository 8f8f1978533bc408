"""The state of a training run: everything from which it goes on, in the same bits, as if it had not been stopped.

Everything that a later step depends on is in the state: values, both moments, the optimiser's step and powers, the
place in the schedule, which is the step, the place in the data, and every generator that is drawn from. The state also
says what it goes with: sizes, hyperparameters, groups, schedule, clip, data, arithmetic.

The place of a run in its data, so that it can be written down and come back to.

Epoch after epoch is shuffled anew by one generator, and cut into batches; the last batch of an epoch keeps its true
number of examples. A place is the number of the epoch, that of the next batch in it, and the state of the generator
before the epoch was shuffled: the order of the epoch, and every order after it, follow from these three.

What the state of an optimiser has to be to go with a model: checked before anything is built from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import first_non_finite
from cai_reference.splitmix import SplitMix64
from cai_reference.text.errors import BatchError
from cai_reference.training.adamw import AdamWConfiguration, AdamWState, ParameterGroups
from cai_reference.training.clipping import check_maximum_norm
from cai_reference.training.errors import Shape, TrainingError
from cai_reference.training.model_kinds import AnyConfiguration, AnyModel, assign_all, least_weights, new_model
from cai_reference.training.schedules import AnySchedule


@dataclass(frozen=True)
class OrderPlace:
    """Where a run stands in its data.

    Attributes:
        epoch: how many epochs are over.
        batch: the next batch of this epoch, from 0.
        generator: the state before this epoch was shuffled.

    Raises:
        SplitMixError (invalid-seed): the state does not fit into 64 bits.
    """

    epoch: int
    batch: int
    generator: int

    def __post_init__(self) -> None:
        SplitMix64(self.generator)


def check_place(examples: int, batch_size: int, place: OrderPlace) -> None:
    """Refuse a place that an order does not have.

    Raises:
        BatchError (zero-batch-size), TrainingError (no-examples): there is no order.
        TrainingError (order-out-of-range): the place is not in it.
    """
    if batch_size < 1:
        raise BatchError("zero-batch-size")
    if examples < 1:
        raise TrainingError("no-examples")
    # The last batch may be smaller: rounded up.
    batches = -(-examples // batch_size)
    if place.epoch < 0 or not 0 <= place.batch < batches:
        raise TrainingError("order-out-of-range", epoch=place.epoch, batch=place.batch, last=batches - 1)


def check_optimizer_state(state: AdamWState, groups: ParameterGroups | None, parameters: Mapping[str, Shape]) -> None:
    """Check step, powers, moments and groups against each other and against the parameters' names and shapes.

    Raises:
        TrainingError (invalid-beta-power, moment-presence): the state does not fit itself.
        TrainingError (moment-names, moment-shape, non-finite-moment, negative-second-moment): looked at in this order,
            parameter by
            parameter in the order of names.
        TrainingError (group-names): the groups name other parameters.
    """
    for name, power in (("beta1", state.beta1_power), ("beta2", state.beta2_power)):
        valid = power == 1.0 if state.step == 0 else 0.0 <= power < 1.0
        if not valid:
            raise TrainingError("invalid-beta-power", name=name, value=power, step=state.step)
    if (state.step == 0) != (not state.moments):
        raise TrainingError("moment-presence", step=state.step, entries=len(state.moments))
    expected = tuple(sorted(parameters))
    actual = tuple(sorted(state.moments))
    if actual and actual != expected:
        raise TrainingError("moment-names", expected=expected, actual=actual)
    for name in actual:
        _check_moments(name, state, parameters[name])
    if groups is not None:
        named = tuple(sorted(groups.decay + groups.no_decay))
        if named != expected:
            raise TrainingError("group-names", expected=expected, actual=named)


def _check_moments(name: str, state: AdamWState, shape: Shape) -> None:
    moments = state.moments[name]
    for kind, values in (("first", moments.first), ("second", moments.second)):
        if values.shape != shape:
            raise TrainingError("moment-shape", name=name, kind=kind, parameter=shape, moment=values.shape)
        index = first_non_finite(values)
        if index is not None:
            raise TrainingError("non-finite-moment", name=name, kind=kind, index=index, value=float(values.flat[index]))
    negative = moments.second < 0.0
    if negative.any():
        index = int(np.argmax(negative))
        raise TrainingError("negative-second-moment", name=name, index=index, value=float(moments.second.flat[index]))


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
        TrainingError (invalid-maximum-norm): the limit is not finite and positive.
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
        TrainingError (state-steps, state-value-not-finite): the parts do not fit each other;
        BatchError (zero-batch-size), TrainingError (no-examples, order-out-of-range): the place is none.
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
            raise TrainingError("state-steps", step=self.step, optimizer=self.optimizer.step)
        shapes = {name: values.shape for name, values in self.values.items()}
        check_optimizer_state(self.optimizer, self.setup.groups, shapes)
        for name, values in self.values.items():
            index = first_non_finite(values)
            if index is not None:
                raise TrainingError("state-value-not-finite", name=name, index=index, value=float(values.flat[index]))
        check_place(self.examples, self.setup.batch_size, self.place)

    def model(self) -> AnyModel:
        """Return a new model with these values.

        Raises:
            TrainingError (state-too-small, state-values, state-shape): the values are not those of the configuration.
            LayerError: the configuration is none.
        """
        least, found = least_weights(self.configuration), sum(values.size for values in self.values.values())
        if least > found:
            raise TrainingError("state-too-small", least=least, found=found)
        model = new_model(self.configuration)
        self.check_values(model)
        assign_all(model.parameters, list(self.values.values()))
        return model

    def check_run(self, configuration: AnyConfiguration, arithmetic: Arithmetic) -> None:
        """Compare what the state goes with to the run that is to go on from it.

        Raises:
            TrainingError (state-differs): the state is one of another model, or was computed in another arithmetic.
        """
        for part, expected, found in (
            ("configuration", configuration, self.configuration),
            ("arithmetic", arithmetic.identifier, self.setup.arithmetic.identifier),
        ):
            if expected != found:
                raise TrainingError("state-differs", part=part, expected=str(expected), found=str(found))

    def check_values(self, model: AnyModel) -> None:
        """Compare the values with a model's parameters.

        Raises:
            TrainingError (state-values, state-shape): names, their order or shapes differ.
        """
        expected, found = tuple(parameter.name for parameter in model.parameters), tuple(self.values)
        if expected != found:
            raise TrainingError("state-values", expected=expected, found=found)
        for parameter in model.parameters:
            shape = self.values[parameter.name].shape
            if shape != parameter.shape:
                raise TrainingError("state-shape", name=parameter.name, expected=parameter.shape, found=shape)
