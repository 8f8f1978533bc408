"""Changes that no check of `course.ngram` sees: proved to change nothing, or never reached by what the suite runs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from cai_conformance.backends.ngram import experiment
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Parameter, Tape, Variable, multiply, silu
from cai_reference.autograd.probability import NormalizedRows
from cai_reference.decoding import Continuation, continue_greedily, greedy_token
from cai_reference.decoding.greedy import Stop
from cai_reference.layers import linear
from cai_reference.models import NeuralNgram
from cai_reference.training import AdamW, TrainingRun
from cai_reference.training.adamw import GradientScale, GradientTransform, Moments
from cai_reference.training.trainer import TrainingStep
from support_mutants import Unseen, replaced, together
from support_mutants_model import add_at, pulling, scattering

EXPERIMENT = experiment.__name__


# Changes that change nothing.


def _up_first(tape: Tape, x: Variable, gate: Variable, up: Variable, down: Variable) -> Variable:
    upward = linear(tape, x, up)
    return linear(tape, multiply(tape, upward, silu(tape, linear(tape, x, gate))), down)


def _probabilities(self: NormalizedRows) -> Array:
    return self.exponentials / (1.0 + self.tail)


def _gradient(probabilities: Array, count: int, targets: Sequence[int]) -> Array:
    probabilities[np.arange(count), list(targets)] -= 1.0
    return probabilities * (1.0 / count)


def _sigmoid_above_zero(arithmetic: Arithmetic, x: Array) -> Array:
    small = arithmetic.exp(-np.abs(x))
    return np.where(x > 0.0, 1.0, small) / (1.0 + small)


def _second_moment_first(
    self: AdamW, parameter: Parameter, g: Array, powers: tuple[float, float]
) -> tuple[Array, Moments]:
    s, moments, w = self.configuration, self.moments(parameter), parameter.value
    root = np.sqrt((v := s.beta2 * moments.second + (1.0 - s.beta2) * (g * g)) / (1.0 - powers[1]))
    m = s.beta1 * moments.first + (1.0 - s.beta1) * g
    update = s.learning_rate * (m / (1.0 - powers[0]) / (root + s.epsilon))
    decay = s.weight_decay if parameter.name in self.groups.decay else 0.0
    return (w - update) - (s.learning_rate * decay) * w, Moments(m, v)


EQUIVALENT: Final = (
    Unseen(
        "same.add-at",
        "repeated ids are scattered by `np.add.at`",
        "it adds one contribution after the other, in the order given",
        scattering(add_at),
    ),
    Unseen(
        "same.gate-before-up",
        "the gate's contribution to the input's gradient is added before the up projection's",
        "a sum of two terms is commutative in binary64",
        replaced(("cai_reference.models.neural_ngram", "swiglu", _up_first)),
    ),
    Unseen(
        "same.zeros-as-they-are",
        "probabilities and logit gradients keep the sign of a zero",
        "exp is never negative, 1 − 1 is +0.0 and 1/B is positive: no zero there has a sign",
        together(
            replaced(("cai_reference.autograd.probability", "NormalizedRows.probabilities", _probabilities)),
            pulling(_gradient),
        ),
    ),
    Unseen(
        "same.branch-above-zero",
        "the sigmoid's branch is taken at t > 0 instead of t ≥ 0",
        "at ±0 both branches are 1 / 2",
        replaced(("cai_reference.autograd.elementwise", "sigmoid", _sigmoid_above_zero)),
    ),
    Unseen(
        "same.second-moment-first",
        "the second moment is updated before the first",
        "neither is read by the other",
        replaced(("cai_reference.training.adamw", "AdamW._updated", _second_moment_first)),
    ),
)


# Changes that nothing reaches.

_right_run, _right_step = TrainingRun.run, AdamW.step


def _reshuffled(
    self: TrainingRun, model: NeuralNgram, optimizer: AdamW, arithmetic: Arithmetic
) -> Iterator[TrainingStep]:
    return _right_run(replace(self, plan=[*self.plan, *reversed(self.plan)]), model, optimizer, arithmetic)


def global_norm(parameters: Sequence[Parameter]) -> float:
    """Return the Euclidean norm of all gradients together."""
    return float(np.sqrt(sum(float(np.sum(np.square(parameter.gradient))) for parameter in parameters)))


def _clipped_step(self: AdamW, parameters: Sequence[Parameter], _: GradientTransform | None = None) -> None:
    _right_step(self, parameters, GradientScale(min(1.0, 1.0 / global_norm(parameters))))


def _without_mask(
    model: NeuralNgram, prompt: Sequence[int], limit: int, arithmetic: Arithmetic, masked: Collection[int] = ()
) -> Continuation:
    del masked
    return continue_greedily(model, prompt, limit, arithmetic)


def _always_limit(
    model: NeuralNgram, prompt: Sequence[int], limit: int, arithmetic: Arithmetic, masked: Collection[int] = ()
) -> Continuation:
    return replace(continue_greedily(model, prompt, limit, arithmetic, masked), stop=Stop.LIMIT)


def _masked_argmax(logits: Array, masked: Collection[int] = ()) -> int:
    return greedy_token(logits, {0, *masked})


UNREACHED: Final = (
    Unseen(
        "unreached.second-epoch",
        "the second epoch has another order of batches",
        "fifteen steps end in the first epoch",
        replaced(("cai_reference.training.trainer", "TrainingRun.run", _reshuffled)),
    ),
    Unseen(
        "unreached.clipping",
        "the training loop clips gradients to a norm of 1",
        "no gradient of the run is that long, and the optimiser's cases do not pass through the loop",
        replaced(("cai_reference.training.adamw", "AdamW.step", _clipped_step)),
    ),
    Unseen(
        "unreached.mask-not-passed",
        "the experiment masks nothing, although its decoder can",
        "BOS is never the maximum in the run; the cases state their masks",
        replaced((EXPERIMENT, "continue_greedily", _without_mask)),
    ),
    Unseen(
        "unreached.probe-masked",
        "the argmax of STAGE leaves out BOS",
        "BOS is not the maximum there",
        replaced((EXPERIMENT, "greedy_token", _masked_argmax)),
    ),
    Unseen(
        "unreached.stop-label",
        "a continuation that EOS ends is labelled `limit`",
        "no continuation of the run meets EOS; the cases ask for ids only",
        replaced((EXPERIMENT, "continue_greedily", _always_limit)),
    ),
)
