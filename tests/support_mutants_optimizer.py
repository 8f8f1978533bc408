"""Wrong optimisers: AdamW with one expression changed, and training loops with one step changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter
from cai_reference.training import AdamW, ParameterGroups
from cai_reference.training.adamw import GradientTransform, Moments
from support_mutants import Change, Mutant, replaced

EDGES, EXPERIMENT = "cai_conformance.backends.ngram.edges", "cai_conformance.backends.ngram.experiment"


@dataclass(frozen=True)
class Settings:
    """What an update reads: the hyperparameters, the step, and both bias corrections."""

    rate: float
    beta1: float
    beta2: float
    epsilon: float
    decay: float
    step: int
    c1: float
    c2: float


@dataclass(frozen=True)
class Formula:
    """AdamW in five expressions, each of which a mutant may change."""

    settings: Callable[[Settings], Settings] = lambda s: s
    gradient: Callable[[Array, Array, Settings], Array] = lambda g, w, s: g
    first: Callable[[Array, Array, Settings], Array] = lambda m, g, s: s.beta1 * m + (1.0 - s.beta1) * g
    second: Callable[[Array, Array, Settings], Array] = lambda v, g, s: s.beta2 * v + (1.0 - s.beta2) * (g * g)
    direction: Callable[[Array, Array, Settings], Array] = lambda m, v, s: m / s.c1 / (np.sqrt(v / s.c2) + s.epsilon)
    update: Callable[[Array, Array, Settings], Array] = lambda w, direction, s: (
        (w - s.rate * direction) - (s.rate * s.decay) * w
    )

    def change(self) -> Change:
        """Return the change that puts this formula in the place of the reference's."""

        def updated(
            optimizer: AdamW, parameter: Parameter, g: Array, powers: tuple[float, float]
        ) -> tuple[Array, Moments]:
            given = optimizer.configuration
            decay = given.weight_decay if parameter.name in optimizer.groups.decay else 0.0
            step = optimizer.state.step + 1
            rates = given.learning_rate, given.beta1, given.beta2, given.epsilon
            s = self.settings(Settings(*rates, decay, step, 1.0 - powers[0], 1.0 - powers[1]))
            moments, w = optimizer.moments(parameter), parameter.value
            g = self.gradient(g, w, s)
            m, v = self.first(moments.first, g, s), self.second(moments.second, g, s)
            return self.update(w, self.direction(m, v, s), s), Moments(m, v)

        return replaced(("cai_reference.training.adamw", "AdamW._updated", updated))


def _single(values: Array) -> Array:
    return values.astype(np.float32).astype(np.float64)


_right_step, _right_assign = AdamW.step_with, Parameter.assign


def _step_per_parameter(
    self: AdamW,
    parameters: Sequence[Parameter],
    gradients: Mapping[str, Array],
    transform: GradientTransform | None = None,
) -> None:
    """Count a step, and move both powers on, for each parameter instead of once."""
    configuration, before = self.configuration, self.state
    powers, moments, values = (before.beta1_power, before.beta2_power), {}, []
    for parameter in parameters:
        powers = powers[0] * configuration.beta1, powers[1] * configuration.beta2
        value, moments[parameter.name] = self._updated(parameter, gradients[parameter.name], powers)
        values.append(value)
    for parameter, value in zip(parameters, values, strict=True):
        parameter.assign(value)
    self.state = replace(before, step=before.step + 1, beta1_power=powers[0], beta2_power=powers[1], moments=moments)


def _assign_single(self: Parameter, value: Array) -> None:
    _right_assign(self, _single(value))


def clipped(limit: float) -> Change:
    """Return the change that scales all gradients down to a global norm, as many training loops do."""

    def step_with(
        self: AdamW,
        parameters: Sequence[Parameter],
        gradients: Mapping[str, Array],
        transform: GradientTransform | None = None,
    ) -> None:
        norm = np.sqrt(sum(float(np.sum(np.square(gradient))) for gradient in gradients.values()))
        factor = min(1.0, limit / (norm + 1e-6))
        _right_step(self, parameters, {name: gradient * factor for name, gradient in gradients.items()}, transform)

    return replaced(("cai_reference.training.adamw", "AdamW.step_with", step_with))


def _without_embedding(decay: tuple[str, ...], no_decay: tuple[str, ...] = ()) -> ParameterGroups:
    return ParameterGroups(decay[1:], (*no_decay, decay[0]))


def _keep(self: Parameter) -> None:
    pass


def _optimizer(
    name: str, wrong: str, formula: Formula, *checks: str, how: str, printed: Literal["", "both"] = ""
) -> Mutant:
    return Mutant(f"adamw.{name}", wrong, checks, how, formula.change(), printed=printed)


STEPS, DECAY, EPSILON, SETTINGS = "opt.step[powers]", "opt.step[decay]", "opt.step[epsilon]", "opt.step[settings]"
FIFTEEN = "fifteen steps, bit for bit"
LARGE_DECAY, LARGE_EPSILON = "a decay of 0.7 at rate 0.3", "an epsilon as large as the gradients"

OPTIMIZER_MUTANTS: Final = (
    _optimizer(
        "pow",
        "bias corrections use pow instead of running products",
        Formula(settings=lambda s: replace(s, c1=1.0 - s.beta1**s.step, c2=1.0 - s.beta2**s.step)),
        STEPS,
        how=FIFTEEN,
    ),
    _optimizer(
        "uncorrected",
        "there is no bias correction",
        Formula(settings=lambda s: replace(s, c1=1.0, c2=1.0)),
        STEPS,
        how=FIFTEEN,
        printed="both",
    ),
    _optimizer(
        "lerp",
        "the first moment is m + (1 − β₁) · (g − m)",
        Formula(first=lambda m, g, s: m + (1.0 - s.beta1) * (g - m)),
        STEPS,
        how=FIFTEEN,
    ),
    _optimizer(
        "decimal-complement",
        "1 − β is the nearest double to 0.1 and 0.001",
        Formula(
            first=lambda m, g, s: s.beta1 * m + round(1.0 - s.beta1, 12) * g,
            second=lambda v, g, s: s.beta2 * v + round(1.0 - s.beta2, 12) * (g * g),
        ),
        STEPS,
        how=FIFTEEN,
    ),
    _optimizer(
        "square-last",
        "the second moment adds ((1 − β₂) · g) · g",
        Formula(second=lambda v, g, s: s.beta2 * v + ((1.0 - s.beta2) * g) * g),
        STEPS,
        how=FIFTEEN,
    ),
    _optimizer(
        "shrink-first",
        "the weight is multiplied with 1 − ηλ, then updated",
        Formula(update=lambda w, d, s: w * (1.0 - s.rate * s.decay) - s.rate * d),
        DECAY,
        how=LARGE_DECAY,
    ),
    _optimizer(
        "one-step",
        "the update is η · (direction + λw)",
        Formula(update=lambda w, d, s: w - s.rate * (d + s.decay * w)),
        DECAY,
        how=LARGE_DECAY,
    ),
    _optimizer(
        "decay-subtracted-first",
        "the decay is subtracted before the update",
        Formula(update=lambda w, d, s: (w - (s.rate * s.decay) * w) - s.rate * d),
        DECAY,
        how=LARGE_DECAY,
    ),
    _optimizer(
        "added-before-subtracting",
        "update and decay are added, then subtracted",
        Formula(update=lambda w, d, s: w - (s.rate * d + (s.rate * s.decay) * w)),
        DECAY,
        how=LARGE_DECAY,
    ),
    _optimizer(
        "rate-last",
        "the decay is η · (λ · w)",
        Formula(update=lambda w, d, s: (w - s.rate * d) - s.rate * (s.decay * w)),
        DECAY,
        how=LARGE_DECAY,
    ),
    _optimizer(
        "decay-after",
        "the decay takes the weight after the update",
        Formula(update=lambda w, d, s: (w - s.rate * d) - (s.rate * s.decay) * (w - s.rate * d)),
        DECAY,
        how=LARGE_DECAY,
        printed="both",
    ),
    _optimizer(
        "coupled",
        "the decay is added to the gradient",
        Formula(gradient=lambda g, w, s: g + s.decay * w, update=lambda w, d, s: w - s.rate * d),
        DECAY,
        how=LARGE_DECAY,
        printed="both",
    ),
    _optimizer(
        "no-decay",
        "nothing decays",
        Formula(update=lambda w, d, s: w - s.rate * d),
        DECAY,
        how=LARGE_DECAY,
        printed="both",
    ),
    _optimizer(
        "epsilon-pytorch",
        "the denominator is √v / √c₂ + ε, the step size η / c₁",
        Formula(
            direction=lambda m, v, s: m / (np.sqrt(v) / np.sqrt(s.c2) + s.epsilon),
            update=lambda w, d, s: (w - s.rate / s.c1 * d) - (s.rate * s.decay) * w,
        ),
        EPSILON,
        STEPS,
        how="three steps, bit for bit",
    ),
    _optimizer(
        "epsilon-inside",
        "epsilon is added inside the root",
        Formula(direction=lambda m, v, s: m / s.c1 / np.sqrt(v / s.c2 + s.epsilon)),
        EPSILON,
        how=LARGE_EPSILON,
        printed="both",
    ),
    _optimizer(
        "epsilon-uncorrected",
        "epsilon is added to the root of the uncorrected moment",
        Formula(direction=lambda m, v, s: m / s.c1 / ((np.sqrt(v) + s.epsilon) / np.sqrt(s.c2))),
        EPSILON,
        how=LARGE_EPSILON,
        printed="both",
    ),
    _optimizer(
        "epsilon-fixed",
        "epsilon is 10⁻⁷ whatever is set",
        Formula(settings=lambda s: replace(s, epsilon=1e-7)),
        EPSILON,
        how=LARGE_EPSILON,
        printed="both",
    ),
    _optimizer(
        "betas-fixed",
        "β₁ and β₂ are 0.9 and 0.999 whatever is set",
        Formula(settings=lambda s: replace(s, beta1=0.9, beta2=0.999, c1=1.0 - 0.9**s.step, c2=1.0 - 0.999**s.step)),
        SETTINGS,
        how="five settings, none of which is usual",
    ),
    _optimizer(
        "single-moments",
        "moments are float32",
        Formula(
            first=lambda m, g, s: _single(s.beta1 * m + (1.0 - s.beta1) * g),
            second=lambda v, g, s: _single(s.beta2 * v + (1.0 - s.beta2) * (g * g)),
        ),
        STEPS,
        how="the lower half of each double",
    ),
    Mutant(
        "training.single-weights",
        "weights are float32 after every step",
        (STEPS,),
        "the lower half of each double",
        replaced(("cai_reference.autograd", "Parameter.assign", _assign_single)),
    ),
    Mutant(
        "training.clipped",
        "gradients are clipped to a norm of 1 inside the optimiser",
        (STEPS,),
        "gradients longer than 1",
        clipped(1.0),
    ),
    Mutant(
        "training.step-per-parameter",
        "bias corrections move on with every parameter, not with every step",
        ("run.golden",),
        "five parameters a step",
        replaced(("cai_reference.training.adamw", "AdamW.step_with", _step_per_parameter)),
        printed="both",
    ),
    Mutant(
        "training.embedding-kept",
        "the embedding does not decay",
        ("run.golden",),
        "losses of the last step",
        replaced((EXPERIMENT, "ParameterGroups", _without_embedding)),
        printed="both",
    ),
    Mutant(
        "training.gradients-kept",
        "gradients are not zeroed between steps",
        ("run.golden", "trace.recount"),
        "PROOF, and other losses",
        replaced(("cai_reference.autograd", "Parameter.zero_gradient", _keep)),
        printed="both",
    ),
)
