"""Faults of an optimiser step: clipping, moments, correction, epsilon, decay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import COURSE, DENSE, NGRAM, exact, given
from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter
from cai_reference.training.adamw import AdamW, GradientScale, GradientTransform, Moments

TRAINING: Final = frozenset({Place.TRAINING})


@dataclass(frozen=True)
class Formula:
    """AdamW with its usual mistakes as switches; all off is the reference's formula.

    Attributes:
        decay_after: the decay reads the weight after the update.
        coupled: the decay is added to the gradient, so that the moments see it.
        decays_all: biases, gains and vectors decay, too.
        decays_none: nothing decays.
        corrected: moments are divided by 1 − βᵗ.
        epsilon_inside: ε stands inside the root.
        epsilon_scaled: ε is added to the root of the second moment before it is corrected.
        exchanged_betas: each moment uses the other one's β.
    """

    decay_after: bool = False
    coupled: bool = False
    decays_all: bool = False
    decays_none: bool = False
    corrected: bool = True
    epsilon_inside: bool = False
    epsilon_scaled: bool = False
    exchanged_betas: bool = False

    def updated(
        self, optimizer: AdamW, parameter: Parameter, g: Array, powers: tuple[float, float]
    ) -> tuple[Array, Moments]:
        """Return the new weights and moments of one parameter."""
        settings, w = optimizer.configuration, parameter.value
        beta1, beta2 = settings.beta1, settings.beta2
        if self.exchanged_betas:
            beta1, beta2, powers = beta2, beta1, (powers[1], powers[0])
        decays = (parameter.name in optimizer.groups.decay or self.decays_all) and not self.decays_none
        decay, rate = (settings.weight_decay if decays else 0.0), settings.learning_rate
        before = optimizer.moments(parameter)
        if self.coupled:
            g, decay = g + decay * w, 0.0
        m = beta1 * before.first + (1.0 - beta1) * g
        v = beta2 * before.second + (1.0 - beta2) * (g * g)
        corrections = (1.0 - powers[0], 1.0 - powers[1]) if self.corrected else (1.0, 1.0)
        update = rate * ((m / corrections[0]) / self._divisor(v, corrections[1], settings.epsilon))
        shrinkage = (rate * decay) * ((w - update) if self.decay_after else w)
        return (w - update) - shrinkage, Moments(m, v)

    def _divisor(self, v: Array, correction: float, epsilon: float) -> Array:
        if self.epsilon_inside:
            inside: Array = np.sqrt(v / correction + epsilon)
            return inside
        if self.epsilon_scaled:
            scaled: Array = (np.sqrt(v) + epsilon) / np.sqrt(correction)
            return scaled
        outside: Array = np.sqrt(v / correction) + epsilon
        return outside


def _formula(planting: Planting, formula: Formula) -> None:
    def wrong(optimizer: AdamW, parameter: Parameter, g: Array, powers: tuple[float, float]) -> tuple[Array, Moments]:
        return formula.updated(optimizer, parameter, g, powers)

    planting.method(AdamW, "_updated", wrong)


Scale = Callable[[float, float, float], float]
"""Returns the factor of one tensor's gradient from its norm, the norm of all, and the limit."""


def _clip(planting: Planting, scale: Scale) -> None:
    """Scale the gradients of a step that is clipped otherwise; what is not clipped stays as it is."""
    step_with = AdamW.step_with

    def wrong(
        optimizer: AdamW,
        parameters: Sequence[Parameter],
        gradients: Mapping[str, Array],
        transform: GradientTransform | None = None,
    ) -> None:
        if transform is None:
            step_with(optimizer, parameters, gradients)
            return
        norms = {name: _norm([value]) for name, value in gradients.items()}
        total = _norm(list(gradients.values()))
        limit = total * float(transform(np.ones(1))[0])
        scaled = {name: value * scale(norms[name], total, limit) for name, value in gradients.items()}
        step_with(optimizer, parameters, scaled)

    planting.method(AdamW, "step_with", wrong)


def _norm(gradients: Sequence[Array]) -> float:
    """Return the root of the sum of squares, which neither overflows nor underflows on the way."""
    largest = max((float(np.max(np.abs(value), initial=0.0)) for value in gradients), default=0.0)
    if largest == 0.0:
        return 0.0
    return largest * float(np.sqrt(sum(float(np.sum((value / largest) ** 2)) for value in gradients)))


def _per_tensor(norm: float, total: float, limit: float) -> float:
    return min(1.0, limit / norm) if norm > 0.0 else 1.0


def _not_at_all(norm: float, total: float, limit: float) -> float:
    return 1.0


def _with_epsilon(norm: float, total: float, limit: float) -> float:
    return min(1.0, limit / (total + 1e-6))


def _by_squares(planting: Planting) -> None:
    """Clip by the sum of squares, whose root was forgotten. What lies within the limit is left alone."""
    step_with = AdamW.step_with

    def wrong(
        optimizer: AdamW,
        parameters: Sequence[Parameter],
        gradients: Mapping[str, Array],
        transform: GradientTransform | None = None,
    ) -> None:
        if transform is None:
            step_with(optimizer, parameters, gradients)
            return
        squares = float(sum(float(np.sum(value * value)) for value in gradients.values()))
        limit = float(np.sqrt(squares)) * float(transform(np.ones(1))[0])
        step_with(optimizer, parameters, gradients, GradientScale(min(1.0, limit / squares)))

    planting.method(AdamW, "step_with", wrong)


OPTIMIZING: Final = (
    Fault(
        "adamw.decay-after-update",
        "decay of the weight after the update",
        "The decay shrinks what the update has left, where it should shrink the weight before it.",
        "keras-team/keras#19990",
        TRAINING,
        partial(_formula, formula=Formula(decay_after=True)),
        "decay",
        vehicles=(*given(DENSE), *exact(NGRAM)),
        expected=(
            "opt.given",
            "opt.step",
        ),
    ),
    Fault(
        "adamw.coupled-decay",
        "decay added to the gradient",
        "Adam with L2 instead of AdamW: the decay goes through both moments.",
        "nntrainer/nntrainer#3565; huggingface/pytorch-image-models#2750",
        TRAINING,
        partial(_formula, formula=Formula(coupled=True)),
        "decay",
        kinds=("O03",),
        vehicles=(*given(DENSE), *exact(NGRAM)),
        expected=(
            "opt.given",
            "opt.step",
        ),
    ),
    Fault(
        "adamw.decays-everything",
        "vectors decay, too",
        "Biases, gains and the vectors of recurrences shrink with the matrices.",
        "CyberZHG/keras-bert#60; Lightning-AI/lit-llama#254",
        TRAINING,
        partial(_formula, formula=Formula(decays_all=True)),
        "decay",
        vehicles=given(DENSE),
        expected=("opt.given",),
    ),
    Fault(
        "adamw.no-decay",
        "nothing decays",
        "The weight decay is read and not used.",
        "",
        TRAINING,
        partial(_formula, formula=Formula(decays_none=True)),
        "decay",
        vehicles=(*given(DENSE), *exact(NGRAM)),
        expected=(
            "opt.given",
            "opt.step",
        ),
    ),
    Fault(
        "adamw.no-bias-correction",
        "moments not corrected",
        "The first steps are taken with moments that begin at 0.",
        "oxiglade/mlx-rs#301",
        TRAINING,
        partial(_formula, formula=Formula(corrected=False)),
        "bias correction",
        kinds=("O01",),
        vehicles=(*given(DENSE), *exact(NGRAM)),
        expected=(
            "opt.given",
            "opt.step",
        ),
    ),
    Fault(
        "adamw.eps-inside-root",
        "epsilon inside the root",
        "The update is divided by √(v̂ + ε). A tiny epsilon hides it, but for weights whose gradient is tiny.",
        "karpathy/nanochat#304; tensorflow/tensorflow#9047",
        TRAINING,
        partial(_formula, formula=Formula(epsilon_inside=True)),
        "place of epsilon",
        kinds=("O02",),
        vehicles=(*given(DENSE), *exact(NGRAM)),
        expected=(
            "opt.given",
            "opt.step",
        ),
    ),
    Fault(
        "adamw.eps-before-correction",
        "epsilon added before the correction",
        "ε is added to √v, and the sum is corrected.",
        "tensorflow/tensorflow#9047",
        TRAINING,
        partial(_formula, formula=Formula(epsilon_scaled=True)),
        "place of epsilon",
        vehicles=(*given(DENSE), *exact(NGRAM)),
        expected=(
            "opt.given",
            "opt.step",
        ),
    ),
    Fault(
        "adamw.betas-exchanged",
        "β₁ and β₂ exchanged",
        "The first moment forgets slowly and the second one fast.",
        "",
        TRAINING,
        partial(_formula, formula=Formula(exchanged_betas=True)),
        "betas",
        vehicles=(*given(DENSE), *exact(NGRAM)),
        expected=(
            "opt.given",
            "opt.step",
        ),
    ),
    Fault(
        "clip.per-tensor",
        "each tensor clipped by its own norm",
        "Every gradient is brought down to the limit by itself. One tensor, or steps below the limit, hide it.",
        "paiml/entrenar#311",
        TRAINING,
        partial(_clip, scale=_per_tensor),
        "clip",
        kinds=("L06",),
        vehicles=given(DENSE),
        expected=("opt.given",),
    ),
    Fault(
        "clip.none",
        "gradients not clipped",
        "The limit is read and not used.",
        "",
        TRAINING,
        partial(_clip, scale=_not_at_all),
        "clip",
        vehicles=given(DENSE),
        expected=("opt.given",),
    ),
    Fault(
        "clip.epsilon",
        "a small number added to the norm",
        "Gradients are scaled by limit / (norm + 1e-6), as some libraries do.",
        "",
        TRAINING,
        partial(_clip, scale=_with_epsilon),
        "clip",
        vehicles=(*given(DENSE), *exact(COURSE)),
        expected=("opt.given", "opt.step"),
    ),
    Fault(
        "clip.squared-norm",
        "clipped by the square of the norm",
        "The root is forgotten, so that a step beyond the limit is scaled down too far.",
        "huggingface/transformers#614",
        TRAINING,
        _by_squares,
        "clip",
        kinds=("L06",),
        vehicles=given(DENSE),
        expected=("opt.given",),
    ),
)
"""What is wrong with a step once its gradients are right."""
