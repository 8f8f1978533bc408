"""What the state of an optimiser has to be to go with a model: checked before anything is built from it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cai_reference.autograd.graph import first_non_finite
from cai_reference.training.adamw import AdamWState, ParameterGroups
from cai_reference.training.errors import Shape
from cai_reference.training.state_errors import (
    GroupNames,
    InvalidBetaPower,
    MomentNames,
    MomentPresence,
    MomentShape,
    NegativeSecondMoment,
    NonFiniteMoment,
)


def check_optimizer_state(state: AdamWState, groups: ParameterGroups | None, parameters: Mapping[str, Shape]) -> None:
    """Check step, powers, moments and groups against each other and against the parameters' names and shapes.

    Raises:
        InvalidBetaPower, MomentPresence: the state does not fit itself.
        MomentNames, MomentShape, NonFiniteMoment, NegativeSecondMoment: looked at in this order, parameter by
            parameter in the order of names.
        GroupNames: the groups name other parameters.
    """
    for name, power in (("beta1", state.beta1_power), ("beta2", state.beta2_power)):
        valid = power == 1.0 if state.step == 0 else 0.0 <= power < 1.0
        if not valid:
            raise InvalidBetaPower(name, power, state.step)
    if (state.step == 0) != (not state.moments):
        raise MomentPresence(state.step, len(state.moments))
    expected = tuple(sorted(parameters))
    actual = tuple(sorted(state.moments))
    if actual and actual != expected:
        raise MomentNames(expected, actual)
    for name in actual:
        _check_moments(name, state, parameters[name])
    if groups is not None:
        named = tuple(sorted(groups.decay + groups.no_decay))
        if named != expected:
            raise GroupNames(expected, named)


def _check_moments(name: str, state: AdamWState, shape: Shape) -> None:
    moments = state.moments[name]
    for kind, values in (("first", moments.first), ("second", moments.second)):
        if values.shape != shape:
            raise MomentShape(name, kind, shape, values.shape)
        index = first_non_finite(values)
        if index is not None:
            raise NonFiniteMoment(name, kind, index, float(values.flat[index]))
    negative = moments.second < 0.0
    if negative.any():
        index = int(np.argmax(negative))
        raise NegativeSecondMoment(name, index, float(moments.second.flat[index]))
