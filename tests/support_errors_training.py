"""One call for every error of the model, training and decoding rooms, with the error that it must raise."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cai_reference.arithmetic.instances import STRICT
from cai_reference.autograd import Parameter, Tape
from cai_reference.decoding.greedy import greedy_token
from cai_reference.errors import CaiReferenceError, ModelError
from cai_reference.models.neural_ngram import PARAMETER_NAMES, NeuralNgram, NeuralNgramConfiguration, NgramError
from cai_reference.text.batches import Epoch, Window, Windowing
from cai_reference.training.adamw import (
    AdamW,
    AdamWConfiguration,
    GradientNormalization,
    GradientScale,
    ParameterGroups,
)
from cai_reference.training.errors import AdamWError, TrainingError
from cai_reference.training.trainer import TrainingRun, evaluate
from support_models import four_word_model

Case = tuple[CaiReferenceError, Callable[[], object]]

TAPE = Tape(STRICT)
FOUR = four_word_model()
EMPTY = Epoch("validation", (), Windowing(2))
NOTHING_TO_DO = TrainingRun(EMPTY, EMPTY, (), (), (), 1, frozenset())


def weight(name: str, gradient: float = 0.0, length: int = 1) -> Parameter:
    """Return a parameter with a stored gradient."""
    parameter = Parameter(name, np.ones(length))
    parameter.gradient = np.full(length, gradient)
    return parameter


def adamw() -> AdamW:
    """Return an optimiser of one parameter, `w`."""
    return AdamW(AdamWConfiguration(0.01), ParameterGroups(("w",)))


def two_steps_with_other_shapes() -> None:
    """Make a step, then another with a parameter of the same name and another shape."""
    optimizer = adamw()
    optimizer.step([weight("w")])
    optimizer.step([weight("w", length=2)])


def registry(*changes: tuple[int, Parameter]) -> NeuralNgram:
    """Make a model from the small one's parameters with some replaced."""
    parameters = list(FOUR.parameters)
    for index, parameter in changes:
        parameters[index] = parameter
    return NeuralNgram(FOUR.configuration, parameters)


MODELS: list[Case] = [
    (NgramError("empty-vocabulary"), lambda: NeuralNgramConfiguration(0, 1, 1, 1)),
    (NgramError("zero-context"), lambda: NeuralNgramConfiguration(1, 0, 1, 1)),
    (NgramError("zero-embedding-width"), lambda: NeuralNgramConfiguration(1, 1, 0, 1)),
    (NgramError("zero-hidden-width"), lambda: NeuralNgramConfiguration(1, 1, 1, 0)),
    (NgramError("empty-batch"), lambda: FOUR.loss(TAPE, [])),
    (NgramError("context-token-count-mismatch", expected=2, actual=3), lambda: FOUR.forward(TAPE, [0, 1, 2], 1)),
    (NgramError("batch-context-length-mismatch", expected=2, actual=1), lambda: FOUR.loss(TAPE, [Window((1,), (2,))])),
    (NgramError("parameter-count-mismatch", expected=5, actual=0), lambda: NeuralNgram(FOUR.configuration, [])),
    (
        NgramError("parameter-name-mismatch", index=0, expected=PARAMETER_NAMES[0], actual="odd"),
        lambda: registry((0, weight("odd"))),
    ),
    (
        NgramError("parameter-shape-mismatch", name=PARAMETER_NAMES[3], expected=(1, 1), actual=(1,)),
        lambda: registry((3, weight(PARAMETER_NAMES[3]))),
    ),
    (NgramError("missing-target-row", row=0), lambda: FOUR.loss(TAPE, [Window((1, 2), ())])),
    (
        NgramError("target-id-out-of-bounds", row=0, token_id=9, vocabulary_size=4),
        lambda: FOUR.loss(TAPE, [Window((1, 2), (9,))]),
    ),
    (ModelError("masked-token-out-of-bounds", token_id=8, vocabulary_size=2), lambda: greedy_token(np.zeros(2), (8,))),
    (ModelError("no-unmasked-token"), lambda: greedy_token(np.zeros(2), (0, 1))),
    (ModelError("non-finite-logit", token_id=1, value=math.inf), lambda: greedy_token(np.array([0.0, math.inf]))),
]

OPTIMISERS: list[Case] = [
    (AdamWError("invalid-learning-rate", value=-3.0), lambda: AdamWConfiguration(-3.0)),
    (AdamWError("invalid-beta1", value=1.5), lambda: AdamWConfiguration(0.1, beta1=1.5)),
    (AdamWError("invalid-beta2", value=math.nan), lambda: AdamWConfiguration(0.1, beta2=math.nan)),
    (AdamWError("invalid-epsilon", value=0.0), lambda: AdamWConfiguration(0.1, epsilon=0.0)),
    (AdamWError("invalid-weight-decay", value=-0.5), lambda: AdamWConfiguration(0.1, weight_decay=-0.5)),
    (
        AdamWError("invalid-decay-product", learning_rate=0.25, weight_decay=8.0, product=2.0),
        lambda: AdamWConfiguration(0.25, weight_decay=8.0),
    ),
    (AdamWError("invalid-gradient-scale", value=-1.5), lambda: adamw().step([weight("w")], GradientScale(-1.5))),
    (
        AdamWError("invalid-gradient-normalization", divisor=2.5, multiplier=0.0),
        lambda: adamw().step([weight("w")], GradientNormalization(2.5, 0.0)),
    ),
    (AdamWError("empty-parameter-groups"), lambda: ParameterGroups(())),
    (AdamWError("empty-grouped-parameter-name", group="no-decay"), lambda: ParameterGroups((), ("",))),
    (AdamWError("duplicate-grouped-parameter", group="decay", name="w"), lambda: ParameterGroups(("w", "w"))),
    (AdamWError("parameter-in-multiple-groups", name="w"), lambda: ParameterGroups(("w",), ("w",))),
    (AdamWError("empty-parameter-set"), lambda: adamw().step([])),
    (
        AdamWError("duplicate-parameter-name", name="w", first=0, repeated=1),
        lambda: adamw().step([weight("w"), weight("w")]),
    ),
    (AdamWError("parameter-set-changed", expected=("w",), actual=("v",)), lambda: adamw().step([weight("v")])),
    (AdamWError("parameter-shape-changed", name="w", expected=(1,), actual=(2,)), two_steps_with_other_shapes),
    (AdamWError("missing-gradient", name="w"), lambda: adamw().step_with([weight("w")], {})),
    (
        AdamWError("gradient-shape-mismatch", name="w", parameter=(1,), gradient=(3,)),
        lambda: adamw().step_with([weight("w")], {"w": np.zeros(3)}),
    ),
    (
        AdamWError("non-finite-arithmetic", name="w", index=0, stage="squared gradient", value=math.inf),
        lambda: adamw().step([weight("w", 1e200)]),
    ),
]

RUNS: list[Case] = [
    (TrainingError("no-training-batches"), lambda: next(NOTHING_TO_DO.run(FOUR, adamw(), STRICT))),
    (TrainingError("no-evaluation-rows", partition="validation"), lambda: evaluate(FOUR, EMPTY, (), STRICT)),
]

CASES: list[Case] = [*MODELS, *OPTIMISERS, *RUNS]
