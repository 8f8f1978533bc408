"""AdamW: Adam with decoupled weight decay.

For a weight w with gradient g, at step t::

    m ← β₁·m + (1 − β₁)·g                    v ← β₂·v + (1 − β₂)·(g·g)
    m̂ = m / (1 − β₁ᵗ)                        v̂ = v / (1 − β₂ᵗ)
    w ← (w − η·(m̂ / (√v̂ + ε))) − (η·λ)·w

(Kingma and Ba, 2015; Loshchilov and Hutter, 2019; course, chapter 22.) The powers βᵗ are running products, not `pow`; ε
stands outside the root; the decay uses the weight before the update. A step computes and checks everything before it
writes anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter
from cai_reference.autograd.graph import first_non_finite
from cai_reference.training.errors import (
    DuplicateGroupedParameter,
    DuplicateParameterName,
    EmptyGroupedParameterName,
    EmptyParameterGroups,
    EmptyParameterSet,
    GradientShapeMismatch,
    InvalidBeta1,
    InvalidBeta2,
    InvalidDecayProduct,
    InvalidEpsilon,
    InvalidGradientNormalization,
    InvalidGradientScale,
    InvalidLearningRate,
    InvalidWeightDecay,
    MissingGradient,
    NonFiniteArithmetic,
    ParameterInMultipleGroups,
    ParameterSetChanged,
    ParameterShapeChanged,
)

STAGES: Final = (
    "first moment",
    "squared gradient",
    "second moment",
    "bias-corrected first moment",
    "bias-corrected second moment",
    "adaptive direction",
    "adaptive update",
    "decoupled decay update",
    "updated parameter",
)


@dataclass(frozen=True)
class AdamWConfiguration:
    """The five hyperparameters.

    Raises:
        InvalidLearningRate, InvalidBeta1, InvalidBeta2, InvalidEpsilon, InvalidWeightDecay, InvalidDecayProduct:
            looked at
            in this order; the product only where the decay is not 0.
    """

    learning_rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.learning_rate) and self.learning_rate > 0.0):
            raise InvalidLearningRate(self.learning_rate)
        if not 0.0 <= self.beta1 < 1.0:
            raise InvalidBeta1(self.beta1)
        if not 0.0 <= self.beta2 < 1.0:
            raise InvalidBeta2(self.beta2)
        if not (np.isfinite(self.epsilon) and self.epsilon > 0.0):
            raise InvalidEpsilon(self.epsilon)
        if not (np.isfinite(self.weight_decay) and self.weight_decay >= 0.0):
            raise InvalidWeightDecay(self.weight_decay)
        product = self.learning_rate * self.weight_decay
        if self.weight_decay != 0.0 and not 0.0 < product < 1.0:
            raise InvalidDecayProduct(self.learning_rate, self.weight_decay, product)


@dataclass(frozen=True)
class ParameterGroups:
    """Which parameters decay and which do not; together they name every parameter exactly once.

    Raises:
        EmptyParameterGroups, EmptyGroupedParameterName, DuplicateGroupedParameter, ParameterInMultipleGroups:
            otherwise.
    """

    decay: tuple[str, ...]
    no_decay: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.decay and not self.no_decay:
            raise EmptyParameterGroups
        for group, names in (("decay", self.decay), ("no-decay", self.no_decay)):
            seen: set[str] = set()
            for name in names:
                if not name:
                    raise EmptyGroupedParameterName(group)
                if name in seen:
                    raise DuplicateGroupedParameter(group, name)
                seen.add(name)
        for name in self.no_decay:
            if name in self.decay:
                raise ParameterInMultipleGroups(name)


class GradientTransform(Protocol):
    """What is done to every gradient before the moments see it; the stored gradients stay as they are."""

    def check(self) -> None:
        """Raise if the transform is not valid."""
        ...

    def __call__(self, gradient: Array) -> Array:
        """Return the gradient that the step uses."""
        ...


@dataclass(frozen=True)
class GradientScale:
    """Multiply every gradient by one factor, finite and positive."""

    factor: float

    def check(self) -> None:
        """Raise InvalidGradientScale if the factor is not valid."""
        if not (np.isfinite(self.factor) and self.factor > 0.0):
            raise InvalidGradientScale(self.factor)

    def __call__(self, gradient: Array) -> Array:
        """Return g · factor."""
        return gradient * self.factor


@dataclass(frozen=True)
class GradientNormalization:
    """Divide, then multiply, for factors that would underflow as one number."""

    divisor: float
    multiplier: float

    def check(self) -> None:
        """Raise InvalidGradientNormalization if a number is not valid."""
        if not all(np.isfinite(value) and value > 0.0 for value in (self.divisor, self.multiplier)):
            raise InvalidGradientNormalization(self.divisor, self.multiplier)

    def __call__(self, gradient: Array) -> Array:
        """Return (g / divisor) · multiplier."""
        return gradient / self.divisor * self.multiplier


@dataclass(frozen=True)
class Moments:
    """The running means of one parameter, of its shape."""

    first: Array
    second: Array


@dataclass(frozen=True)
class AdamWState:
    """Everything that a step reads besides weights and gradients: t, β₁ᵗ, β₂ᵗ, and the moments by name."""

    step: int = 0
    beta1_power: float = 1.0
    beta2_power: float = 1.0
    moments: Mapping[str, Moments] = field(default_factory=dict)


class AdamW:
    """The optimiser: a configuration, groups, and a state that moves on by one step at a time."""

    def __init__(self, configuration: AdamWConfiguration, groups: ParameterGroups) -> None:
        self.configuration = configuration
        self.groups = groups
        self.state = AdamWState()

    def moments(self, parameter: Parameter) -> Moments:
        """Return the running means of a parameter; zeros before its first step."""
        zeros = np.zeros(parameter.shape)
        return self.state.moments.get(parameter.name, Moments(zeros, zeros))

    def step(self, parameters: Sequence[Parameter], transform: GradientTransform | None = None) -> None:
        """Update every parameter from its stored gradient, or raise and change nothing.

        Raises:
            InvalidGradientScale, InvalidGradientNormalization: the transform is not valid.
            EmptyParameterSet, DuplicateParameterName, ParameterSetChanged: the names do not fit.
            GradientShapeMismatch, ParameterShapeChanged, NonFiniteArithmetic: parameter by parameter.
        """
        gradients = {parameter.name: parameter.gradient for parameter in parameters}
        self.step_with(parameters, gradients, transform)

    def step_at(
        self, learning_rate: float, parameters: Sequence[Parameter], transform: GradientTransform | None = None
    ) -> None:
        """As `step`, at a rate of this step alone, as a schedule has it; the configuration keeps its own.

        Raises:
            InvalidLearningRate, InvalidDecayProduct: the rate is not valid; and as `step`.
        """
        own = self.configuration
        self.configuration = replace(own, learning_rate=learning_rate)
        try:
            self.step(parameters, transform)
        finally:
            self.configuration = own

    def step_with(
        self,
        parameters: Sequence[Parameter],
        gradients: Mapping[str, Array],
        transform: GradientTransform | None = None,
    ) -> None:
        """As `step`, with the gradients given by name.

        Raises:
            MissingGradient: a parameter has none; and as `step`.
        """
        if transform is not None:
            transform.check()
        self._check_names([parameter.name for parameter in parameters])
        configuration, before = self.configuration, self.state
        powers = before.beta1_power * configuration.beta1, before.beta2_power * configuration.beta2
        moments: dict[str, Moments] = {}
        values: list[Array] = []
        for parameter in parameters:
            gradient = self._checked_gradient(parameter, gradients)
            if transform is not None:
                with np.errstate(over="ignore", under="ignore"):
                    gradient = transform(gradient)
            value, moments[parameter.name] = self._updated(parameter, gradient, powers)
            values.append(value)
        for parameter, value in zip(parameters, values, strict=True):
            parameter.assign(value)
        self.state = AdamWState(before.step + 1, *powers, moments)

    def _check_names(self, names: list[str]) -> None:
        if not names:
            raise EmptyParameterSet
        first_position: dict[str, int] = {}
        for position, name in enumerate(names):
            first = first_position.setdefault(name, position)
            if first != position:
                raise DuplicateParameterName(name, first, position)
        actual = tuple(sorted(names))
        grouped = tuple(sorted(self.groups.decay + self.groups.no_decay))
        known = tuple(sorted(self.state.moments)) or grouped
        for expected in (grouped, known):
            if actual != expected:
                raise ParameterSetChanged(expected, actual)

    def _checked_gradient(self, parameter: Parameter, gradients: Mapping[str, Array]) -> Array:
        name = parameter.name
        if name not in gradients:
            raise MissingGradient(name)
        gradient = gradients[name]
        if gradient.shape != parameter.shape:
            raise GradientShapeMismatch(name, parameter.shape, gradient.shape)
        moments = self.state.moments.get(name)
        if moments is not None and moments.first.shape != parameter.shape:
            raise ParameterShapeChanged(name, moments.first.shape, parameter.shape)
        return gradient

    def _updated(self, parameter: Parameter, g: Array, powers: tuple[float, float]) -> tuple[Array, Moments]:
        """Return the new weights and moments of one parameter; the names are those of the formulas."""
        rate, beta1, beta2 = self.configuration.learning_rate, self.configuration.beta1, self.configuration.beta2
        decay = self.configuration.weight_decay if parameter.name in self.groups.decay else 0.0
        moments = self.moments(parameter)
        w = parameter.value
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            m = beta1 * moments.first + (1.0 - beta1) * g
            squared = g * g
            v = beta2 * moments.second + (1.0 - beta2) * squared
            m_hat = m / (1.0 - powers[0])
            v_hat = v / (1.0 - powers[1])
            direction = m_hat / (np.sqrt(v_hat) + self.configuration.epsilon)
            update = rate * direction
            shrinkage = (rate * decay) * w
            updated = (w - update) - shrinkage
        stages = (m, squared, v, m_hat, v_hat, direction, update, shrinkage, updated)
        if any(first_non_finite(values) is not None for values in stages):
            raise _first_failure(parameter.name, stages)
        return updated, Moments(m, v)


def _first_failure(name: str, stages: Sequence[Array]) -> NonFiniteArithmetic:
    """Return the error of the first weight, row-major, that fails, at its first failing stage."""
    finite = np.stack([np.isfinite(values).ravel() for values in stages])
    index = int(np.argmin(finite.all(axis=0)))
    stage = int(np.argmin(finite[:, index]))
    return NonFiniteArithmetic(name, index, STAGES[stage], float(stages[stage].flat[index]))
