"""AdamW: Adam with decoupled weight decay.

For a weight w with gradient g, at step t::

    m ← β₁·m + (1 − β₁)·g                    v ← β₂·v + (1 − β₂)·(g·g)
    m̂ = m / (1 − β₁ᵗ)                        v̂ = v / (1 − β₂ᵗ)
    w ← (w − η·(m̂ / (√v̂ + ε))) − (η·λ)·w

(Kingma and Ba, 2015; Loshchilov and Hutter, 2019; course, chapter 22.) The powers βᵗ are running products, not `pow`; ε
stands outside the root; the decay uses the weight before the update. A step computes and checks everything before it
writes anything.

Matrices and the embedding table decay. Gains of norms do not, because a gain of 0 is no more natural than one of 1
(course, chapter 33).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter, first_non_finite
from cai_reference.training.errors import AdamWError

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
        `invalid-learning-rate`, `invalid-beta1`, `invalid-beta2`, `invalid-epsilon`, `invalid-weight-decay`,
        `invalid-decay-product`:
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
            raise AdamWError("invalid-learning-rate", value=self.learning_rate)
        if not 0.0 <= self.beta1 < 1.0:
            raise AdamWError("invalid-beta1", value=self.beta1)
        if not 0.0 <= self.beta2 < 1.0:
            raise AdamWError("invalid-beta2", value=self.beta2)
        if not (np.isfinite(self.epsilon) and self.epsilon > 0.0):
            raise AdamWError("invalid-epsilon", value=self.epsilon)
        if not (np.isfinite(self.weight_decay) and self.weight_decay >= 0.0):
            raise AdamWError("invalid-weight-decay", value=self.weight_decay)
        product = self.learning_rate * self.weight_decay
        if self.weight_decay != 0.0 and not 0.0 < product < 1.0:
            raise AdamWError(
                "invalid-decay-product",
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                product=product,
            )


@dataclass(frozen=True)
class ParameterGroups:
    """Which parameters decay and which do not; together they name every parameter exactly once.

    Raises:
        `empty-parameter-groups`, `empty-grouped-parameter-name`, `duplicate-grouped-parameter`,
        `parameter-in-multiple-groups`:
            otherwise.
    """

    decay: tuple[str, ...]
    no_decay: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.decay and not self.no_decay:
            raise AdamWError("empty-parameter-groups")
        for group, names in (("decay", self.decay), ("no-decay", self.no_decay)):
            seen: set[str] = set()
            for name in names:
                if not name:
                    raise AdamWError("empty-grouped-parameter-name", group=group)
                if name in seen:
                    raise AdamWError("duplicate-grouped-parameter", group=group, name=name)
                seen.add(name)
        for name in self.no_decay:
            if name in self.decay:
                raise AdamWError("parameter-in-multiple-groups", name=name)


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
        """Raise `invalid-gradient-scale` if the factor is not valid."""
        if not (np.isfinite(self.factor) and self.factor > 0.0):
            raise AdamWError("invalid-gradient-scale", value=self.factor)

    def __call__(self, gradient: Array) -> Array:
        """Return g · factor."""
        return gradient * self.factor


@dataclass(frozen=True)
class GradientNormalization:
    """Divide, then multiply, for factors that would underflow as one number."""

    divisor: float
    multiplier: float

    def check(self) -> None:
        """Raise `invalid-gradient-normalization` if a number is not valid."""
        if not all(np.isfinite(value) and value > 0.0 for value in (self.divisor, self.multiplier)):
            raise AdamWError("invalid-gradient-normalization", divisor=self.divisor, multiplier=self.multiplier)

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
            AdamWError (invalid-gradient-scale, invalid-gradient-normalization): the transform is not valid.
            AdamWError (empty-parameter-set, duplicate-parameter-name, parameter-set-changed): the names do not fit.
            AdamWError (gradient-shape-mismatch, parameter-shape-changed, non-finite-arithmetic): parameter by
                parameter.
        """
        gradients = {parameter.name: parameter.gradient for parameter in parameters}
        self.step_with(parameters, gradients, transform)

    def step_at(
        self, learning_rate: float, parameters: Sequence[Parameter], transform: GradientTransform | None = None
    ) -> None:
        """As `step`, at a rate of this step alone, as a schedule has it; the configuration keeps its own.

        Raises:
            AdamWError (invalid-learning-rate, invalid-decay-product): the rate is not valid; and as `step`.
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
            AdamWError (missing-gradient): a parameter has none; and as `step`.
        """
        if transform is not None:
            transform.check()
        self._check_names([parameter.name for parameter in parameters])
        configuration, before = self.configuration, self.state
        # β^t by one product a step: pow rounds differently from library to library
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
        # everything has been computed and checked: nothing below can fail half-way
        for parameter, value in zip(parameters, values, strict=True):
            parameter.assign(value)
        self.state = AdamWState(before.step + 1, *powers, moments)

    def _check_names(self, names: list[str]) -> None:
        if not names:
            raise AdamWError("empty-parameter-set")
        first_position: dict[str, int] = {}
        for position, name in enumerate(names):
            first = first_position.setdefault(name, position)
            if first != position:
                raise AdamWError("duplicate-parameter-name", name=name, first=first, repeated=position)
        actual = tuple(sorted(names))
        grouped = tuple(sorted(self.groups.decay + self.groups.no_decay))
        known = tuple(sorted(self.state.moments)) or grouped
        for expected in (grouped, known):
            if actual != expected:
                raise AdamWError("parameter-set-changed", expected=expected, actual=actual)

    def _checked_gradient(self, parameter: Parameter, gradients: Mapping[str, Array]) -> Array:
        name = parameter.name
        if name not in gradients:
            raise AdamWError("missing-gradient", name=name)
        gradient = gradients[name]
        if gradient.shape != parameter.shape:
            raise AdamWError("gradient-shape-mismatch", name=name, parameter=parameter.shape, gradient=gradient.shape)
        moments = self.state.moments.get(name)
        if moments is not None and moments.first.shape != parameter.shape:
            raise AdamWError("parameter-shape-changed", name=name, expected=moments.first.shape, actual=parameter.shape)
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
            # means that start from 0 are too small by this factor
            m_hat = m / (1.0 - powers[0])
            v_hat = v / (1.0 - powers[1])
            # ε outside the root
            direction = m_hat / (np.sqrt(v_hat) + self.configuration.epsilon)
            update = rate * direction
            # decoupled: the decay never passes the moments, and reads the weight before the update
            shrinkage = (rate * decay) * w
            # the update first, then the decay
            updated = (w - update) - shrinkage
        stages = (m, squared, v, m_hat, v_hat, direction, update, shrinkage, updated)
        if any(first_non_finite(values) is not None for values in stages):
            raise _first_failure(parameter.name, stages)
        return updated, Moments(m, v)


def _first_failure(name: str, stages: Sequence[Array]) -> AdamWError:
    """Return the error of the first weight, row-major, that fails, at its first failing stage."""
    finite = np.stack([np.isfinite(values).ravel() for values in stages])
    index = int(np.argmin(finite.all(axis=0)))
    stage = int(np.argmin(finite[:, index]))
    return AdamWError(
        "non-finite-arithmetic", name=name, index=index, stage=STAGES[stage], value=float(stages[stage].flat[index])
    )


def all_but_gains(parameters: Sequence[Parameter]) -> ParameterGroups:
    """Return groups in which everything decays whose name does not end with `.gain`."""
    names = [parameter.name for parameter in parameters]
    gains = tuple(name for name in names if name.endswith(".gain"))
    return ParameterGroups(tuple(name for name in names if name not in gains), gains)


def everything(parameters: Sequence[Parameter]) -> ParameterGroups:
    """Return groups in which everything decays."""
    return ParameterGroups(tuple(parameter.name for parameter in parameters))
