"""Faults of an optimiser step: clipping, moments, correction, epsilon, decay, and what is rounded on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cai_conformance.faults.fault import TRAINING, Family
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import COURSE, DENSE, NGRAM, Sight, exact, given, run
from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter
from cai_reference.training.adamw import (
    AdamW,
    AdamWConfiguration,
    GradientScale,
    GradientTransform,
    Moments,
    ParameterGroups,
)


@dataclass(frozen=True)
class Read:
    """What an update reads: rate, betas, ε, the decay of the parameter, the step, and 1 − βᵗ of both moments."""

    configuration: AdamWConfiguration
    rate: float
    beta1: float
    beta2: float
    epsilon: float
    decay: float
    step: int
    c1: float
    c2: float


def _formula(
    patch: Patch,
    *,
    read: Callable[[Read], Read] = lambda s: s,
    gradient: Callable[[Array, Array, Read], Array] = lambda g, w, s: g,
    first: Callable[[Array, Array, Read], Array] = lambda m, g, s: s.beta1 * m + (1.0 - s.beta1) * g,
    second: Callable[[Array, Array, Read], Array] = lambda v, g, s: s.beta2 * v + (1.0 - s.beta2) * (g * g),
    direction: Callable[[Array, Array, Read], Array] = lambda m, v, s: (m / s.c1) / (np.sqrt(v / s.c2) + s.epsilon),
    update: Callable[[Array, Array, Read], Array] = lambda w, d, s: (w - s.rate * d) - (s.rate * s.decay) * w,
) -> None:
    """Put AdamW with some expressions changed in the place of the reference's.

    Args:
        patch: the change.
        read: changes what the others read.
        gradient: of the gradient and the weights: what the moments see.
        first: of the first moment before and the gradient: the one after.
        second: of the second moment before and the gradient: the one after.
        direction: of both moments.
        update: of the weights and the direction: the weights after the step.
    """

    def updated(optimizer: AdamW, parameter: Parameter, g: Array, powers: tuple[float, float]) -> tuple[Array, Moments]:
        own, before, w = optimizer.configuration, optimizer.moments(parameter), parameter.value
        decay = own.weight_decay if parameter.name in optimizer.groups.decay else 0.0
        step, corrections = optimizer.state.step + 1, (1.0 - powers[0], 1.0 - powers[1])
        s = read(Read(own, own.learning_rate, own.beta1, own.beta2, own.epsilon, decay, step, *corrections))
        g = gradient(g, w, s)
        m, v = first(before.first, g, s), second(before.second, g, s)
        return update(w, direction(m, v, s), s), Moments(m, v)

    patch.replace((AdamW, "_updated"), updated)


def _single(values: Array) -> Array:
    return values.astype(np.float32).astype(np.float64)


Scale = Callable[[float, float, float], float]
"""Returns the factor of one tensor's gradient from its norm, the norm of all, and the limit."""


def _clip(patch: Patch, scale: Scale) -> None:
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

    patch.replace((AdamW, "step_with"), wrong)


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


def _clipped_inside(
    right: Callable[..., None],
    optimizer: AdamW,
    parameters: Sequence[Parameter],
    gradients: Mapping[str, Array],
    transform: GradientTransform | None = None,
) -> None:
    """Scale all gradients down to a norm of 1, as many training loops do."""
    factor = min(1.0, 1.0 / (_norm(list(gradients.values())) + 1e-6))
    right(optimizer, parameters, {name: gradient * factor for name, gradient in gradients.items()}, transform)


def _step_per_parameter(
    optimizer: AdamW,
    parameters: Sequence[Parameter],
    gradients: Mapping[str, Array],
    transform: GradientTransform | None = None,
) -> None:
    """Count a step, and move both powers on, for each parameter instead of once."""
    own, before = optimizer.configuration, optimizer.state
    powers, moments, values = (before.beta1_power, before.beta2_power), {}, []
    for parameter in parameters:
        powers = powers[0] * own.beta1, powers[1] * own.beta2
        value, moments[parameter.name] = optimizer._updated(parameter, gradients[parameter.name], powers)
        values.append(value)
    for parameter, value in zip(parameters, values, strict=True):
        parameter.assign(value)
    optimizer.state = replace(
        before, step=before.step + 1, beta1_power=powers[0], beta2_power=powers[1], moments=moments
    )


def _embedding_kept(groups: ParameterGroups) -> ParameterGroups:
    """Return groups in which no embedding decays."""
    kept = tuple(name for name in groups.decay if "embedding" in name)
    return ParameterGroups(tuple(name for name in groups.decay if name not in kept), (*groups.no_decay, *kept))


def _second_first(optimizer: AdamW, parameter: Parameter, g: Array, powers: tuple[float, float]) -> object:
    """Update the second moment before the first."""
    own, moments, w = optimizer.configuration, optimizer.moments(parameter), parameter.value
    root = np.sqrt((v := own.beta2 * moments.second + (1.0 - own.beta2) * (g * g)) / (1.0 - powers[1]))
    m = own.beta1 * moments.first + (1.0 - own.beta1) * g
    update = own.learning_rate * (m / (1.0 - powers[0]) / (root + own.epsilon))
    decay = own.weight_decay if parameter.name in optimizer.groups.decay else 0.0
    return (w - update) - (own.learning_rate * decay) * w, Moments(m, v)


def _clipped_outside(right: Callable[..., None], optimizer: AdamW, parameters: Sequence[Parameter]) -> None:
    norm = _norm([parameter.gradient for parameter in parameters])
    right(optimizer, parameters, GradientScale(min(1.0, 1.0 / norm)))


FIFTEEN: Final = "fifteen steps, bit for bit"

LARGE_DECAY: Final = "a decay of 0.7 at rate 0.3"

LOWER_HALF: Final = "the lower half of each double"


_optimizer = Family(TRAINING, exact(NGRAM))


@_optimizer(
    "adamw.decay-after-update",
    "decay of the weight after the update",
    "opt.given opt.step",
    seen_in="keras-team/keras#19990",
    knob="decay",
    sight=Sight(("opt.step[decay]",), "a decay of 0.7 at rate 0.3", "both"),
    workloads=(*given(DENSE), *exact(NGRAM)),
)
def _decay_after_update(patch: Patch) -> None:
    """The decay shrinks what the update has left, where it should shrink the weight before it."""
    _formula(patch, update=lambda w, d, s: (w - s.rate * d) - (s.rate * s.decay) * (w - s.rate * d))


@_optimizer(
    "adamw.coupled-decay",
    "decay added to the gradient",
    "opt.given opt.step",
    seen_in="nntrainer/nntrainer#3565; huggingface/pytorch-image-models#2750",
    knob="decay",
    kinds="O03",
    sight=Sight(("opt.step[decay]",), "a decay of 0.7 at rate 0.3", "both"),
    workloads=(*given(DENSE), *exact(NGRAM)),
)
def _coupled_decay(patch: Patch) -> None:
    """Adam with L2 instead of AdamW: the decay goes through both moments."""
    _formula(patch, gradient=lambda g, w, s: g + s.decay * w, update=lambda w, d, s: w - s.rate * d)


@_optimizer(
    "adamw.decays-everything",
    "vectors decay, too",
    "opt.given",
    seen_in="CyberZHG/keras-bert#60; Lightning-AI/lit-llama#254",
    knob="decay",
    workloads=given(DENSE),
)
def _decays_everything(patch: Patch) -> None:
    """Biases, gains and the vectors of recurrences shrink with the matrices."""
    _formula(patch, read=lambda s: replace(s, decay=s.configuration.weight_decay))


@_optimizer(
    "adamw.no-decay",
    "nothing decays",
    "opt.given opt.step",
    knob="decay",
    sight=Sight(("opt.step[decay]",), "a decay of 0.7 at rate 0.3", "both"),
    workloads=(*given(DENSE), *exact(NGRAM)),
)
def _no_decay(patch: Patch) -> None:
    """The weight decay is read and not used."""
    _formula(patch, read=lambda s: replace(s, decay=0.0))


@_optimizer(
    "adamw.no-bias-correction",
    "moments not corrected",
    "opt.given opt.step",
    seen_in="oxiglade/mlx-rs#301",
    knob="bias correction",
    kinds="O01",
    sight=Sight(("opt.step[powers]",), "fifteen steps, bit for bit", "both"),
    workloads=(*given(DENSE), *exact(NGRAM)),
)
def _no_bias_correction(patch: Patch) -> None:
    """The first steps are taken with moments that begin at 0."""
    _formula(patch, read=lambda s: replace(s, c1=1.0, c2=1.0))


@_optimizer(
    "adamw.eps-inside-root",
    "epsilon inside the root",
    "opt.given opt.step",
    seen_in="karpathy/nanochat#304; tensorflow/tensorflow#9047",
    knob="place of epsilon",
    kinds="O02",
    sight=Sight(("opt.step[epsilon]",), "an epsilon as large as the gradients", "both"),
    workloads=(*given(DENSE), *exact(NGRAM)),
)
def _eps_inside_root(patch: Patch) -> None:
    """The update is divided by √(v̂ + ε). A tiny epsilon hides it, but for weights whose gradient is tiny."""
    _formula(patch, direction=lambda m, v, s: (m / s.c1) / np.sqrt(v / s.c2 + s.epsilon))


@_optimizer(
    "adamw.eps-before-correction",
    "epsilon added before the correction",
    "opt.given opt.step",
    seen_in="tensorflow/tensorflow#9047",
    knob="place of epsilon",
    sight=Sight(("opt.step[epsilon]",), "an epsilon as large as the gradients", "both"),
    workloads=(*given(DENSE), *exact(NGRAM)),
)
def _eps_before_correction(patch: Patch) -> None:
    """ε is added to √v, and the sum is corrected."""
    _formula(patch, direction=lambda m, v, s: (m / s.c1) / ((np.sqrt(v) + s.epsilon) / np.sqrt(s.c2)))


@_optimizer(
    "adamw.betas-exchanged",
    "β₁ and β₂ exchanged",
    "opt.given opt.step",
    knob="betas",
    workloads=(*given(DENSE), *exact(NGRAM)),
)
def _betas_exchanged(patch: Patch) -> None:
    """The first moment forgets slowly and the second one fast."""
    _formula(patch, read=lambda s: replace(s, beta1=s.beta2, beta2=s.beta1, c1=s.c2, c2=s.c1))


@_optimizer(
    "clip.per-tensor",
    "each tensor clipped by its own norm",
    "opt.given",
    seen_in="paiml/entrenar#311",
    knob="clip",
    kinds="L06",
    workloads=given(DENSE),
)
def _per_tensor_clip(patch: Patch) -> None:
    """Every gradient is brought down to the limit by itself. One tensor, or steps below the limit, hide it."""
    _clip(patch, scale=_per_tensor)


@_optimizer("clip.none", "gradients not clipped", "opt.given", knob="clip", workloads=given(DENSE))
def _none(patch: Patch) -> None:
    """The limit is read and not used."""
    _clip(patch, scale=_not_at_all)


@_optimizer(
    "clip.epsilon",
    "a small number added to the norm",
    "opt.given opt.step",
    knob="clip",
    workloads=(*given(DENSE), *exact(COURSE)),
)
def _epsilon(patch: Patch) -> None:
    """Gradients are scaled by limit / (norm + 1e-6), as some libraries do."""
    _clip(patch, scale=_with_epsilon)


@_optimizer(
    "clip.squared-norm",
    "clipped by the square of the norm",
    "opt.given",
    seen_in="huggingface/transformers#614",
    knob="clip",
    kinds="L06",
    workloads=given(DENSE),
)
def _by_squares(patch: Patch) -> None:
    """The root is forgotten, so that a step beyond the limit is scaled down too far."""
    # Clip by the sum of squares, whose root was forgotten. What lies within the limit is left alone.
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

    patch.replace((AdamW, "step_with"), wrong)


@_optimizer.seen("adamw.pow", "bias corrections use pow instead of running products", "opt.step[powers]", FIFTEEN)
def _pow(patch: Patch) -> None:
    _formula(patch, read=lambda s: replace(s, c1=1.0 - s.beta1**s.step, c2=1.0 - s.beta2**s.step))


@_optimizer.seen("adamw.lerp", "the first moment is m + (1 − β₁) · (g − m)", "opt.step[powers]", FIFTEEN)
def _lerp(patch: Patch) -> None:
    _formula(patch, first=lambda m, g, s: m + (1.0 - s.beta1) * (g - m))


@_optimizer.seen(
    "adamw.decimal-complement", "1 − β is the nearest double to 0.1 and 0.001", "opt.step[powers]", FIFTEEN
)
def _decimal_complement(patch: Patch) -> None:
    _formula(
        patch,
        first=lambda m, g, s: s.beta1 * m + round(1.0 - s.beta1, 12) * g,
        second=lambda v, g, s: s.beta2 * v + round(1.0 - s.beta2, 12) * (g * g),
    )


@_optimizer.seen("adamw.square-last", "the second moment adds ((1 − β₂) · g) · g", "opt.step[powers]", FIFTEEN)
def _square_last(patch: Patch) -> None:
    _formula(patch, second=lambda v, g, s: s.beta2 * v + ((1.0 - s.beta2) * g) * g)


@_optimizer.seen(
    "adamw.shrink-first", "the weight is multiplied with 1 − ηλ, then updated", "opt.step[decay]", LARGE_DECAY
)
def _shrink_first(patch: Patch) -> None:
    _formula(patch, update=lambda w, d, s: w * (1.0 - s.rate * s.decay) - s.rate * d)


@_optimizer.seen("adamw.one-step", "the update is η · (direction + λw)", "opt.step[decay]", LARGE_DECAY)
def _one_step(patch: Patch) -> None:
    _formula(patch, update=lambda w, d, s: w - s.rate * (d + s.decay * w))


@_optimizer.seen(
    "adamw.decay-subtracted-first", "the decay is subtracted before the update", "opt.step[decay]", LARGE_DECAY
)
def _decay_subtracted_first(patch: Patch) -> None:
    _formula(patch, update=lambda w, d, s: (w - (s.rate * s.decay) * w) - s.rate * d)


@_optimizer.seen(
    "adamw.added-before-subtracting", "update and decay are added, then subtracted", "opt.step[decay]", LARGE_DECAY
)
def _added_before_subtracting(patch: Patch) -> None:
    _formula(patch, update=lambda w, d, s: w - (s.rate * d + (s.rate * s.decay) * w))


@_optimizer.seen("adamw.rate-last", "the decay is η · (λ · w)", "opt.step[decay]", LARGE_DECAY)
def _rate_last(patch: Patch) -> None:
    _formula(patch, update=lambda w, d, s: (w - s.rate * d) - s.rate * (s.decay * w))


@_optimizer.seen(
    "adamw.epsilon-pytorch",
    "the denominator is √v / √c₂ + ε, the step size η / c₁",
    "opt.step[epsilon] opt.step[powers]",
    "three steps, bit for bit",
)
def _epsilon_pytorch(patch: Patch) -> None:
    _formula(
        patch,
        direction=lambda m, v, s: m / (np.sqrt(v) / np.sqrt(s.c2) + s.epsilon),
        update=lambda w, d, s: (w - s.rate / s.c1 * d) - (s.rate * s.decay) * w,
    )


@_optimizer.seen(
    "adamw.epsilon-fixed",
    "epsilon is 10⁻⁷ whatever is set",
    "opt.step[epsilon]",
    "an epsilon as large as the gradients",
    printed="both",
)
def _epsilon_fixed(patch: Patch) -> None:
    patch.setting(AdamWConfiguration, "epsilon", 1e-7)


@_optimizer.seen(
    "adamw.betas-fixed",
    "β₁ and β₂ are 0.9 and 0.999 whatever is set",
    "opt.step[settings]",
    "five settings, none of which is usual",
)
def _betas_fixed(patch: Patch) -> None:
    patch.setting(AdamWConfiguration, "beta1", 0.9)
    patch.setting(AdamWConfiguration, "beta2", 0.999)


@_optimizer.seen("adamw.single-moments", "moments are float32", "opt.step[powers]", LOWER_HALF)
def _single_moments(patch: Patch) -> None:
    _formula(
        patch,
        first=lambda m, g, s: _single(s.beta1 * m + (1.0 - s.beta1) * g),
        second=lambda v, g, s: _single(s.beta2 * v + (1.0 - s.beta2) * (g * g)),
    )


@_optimizer.seen("training.single-weights", "weights are float32 after every step", "opt.step[powers]", LOWER_HALF)
def _single_weights(patch: Patch) -> None:
    patch.arguments((Parameter, "assign"), value=lambda call: _single(call.value))


@_optimizer.seen(
    "training.clipped",
    "gradients are clipped to a norm of 1 inside the optimiser",
    "opt.step[powers]",
    "gradients longer than 1",
)
def _clipped(patch: Patch) -> None:
    patch.around((AdamW, "step_with"), _clipped_inside)


@_optimizer.seen(
    "training.step-per-parameter",
    "bias corrections move on with every parameter, not with every step",
    "run.golden",
    "five parameters a step",
    printed="both",
    workloads=run(NGRAM),
)
def _step_per_parameter_training(patch: Patch) -> None:
    patch.replace((AdamW, "step_with"), _step_per_parameter)


@_optimizer.seen(
    "training.embedding-kept",
    "the embedding does not decay",
    "run.golden",
    "losses of the last step",
    printed="both",
    workloads=run(NGRAM),
)
def _embedding_kept_training(patch: Patch) -> None:
    patch.arguments((AdamW, "__init__"), groups=lambda call: _embedding_kept(call.groups))


@_optimizer.unseen(
    "same.second-moment-first",
    "the second moment is updated before the first",
    equivalent="neither is read by the other",
)
def _second_moment_first(patch: Patch) -> None:
    patch.replace((AdamW, "_updated"), _second_first)


@_optimizer.unseen(
    "unreached.clipping",
    "the training loop clips gradients to a norm of 1",
    not_asked="no gradient of the run is that long, and the optimiser's cases do not pass through the loop",
)
def _clipping(patch: Patch) -> None:
    patch.around((AdamW, "step"), _clipped_outside)


OPTIMIZER: Final = tuple(_optimizer)
"""What is wrong with a step once its gradients are right."""
