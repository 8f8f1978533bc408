"""One call for every error of the model, training and decoding rooms, with the error that it must raise."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cai_reference.arithmetic import STRICT
from cai_reference.autograd import Parameter, Tape
from cai_reference.decoding import greedy_token
from cai_reference.errors import CaiReferenceError
from cai_reference.models import NeuralNgram, NeuralNgramConfiguration
from cai_reference.models import errors as model
from cai_reference.models.neural_ngram import PARAMETER_NAMES
from cai_reference.text import Epoch, Window, Windowing
from cai_reference.training import (
    AdamW,
    AdamWConfiguration,
    GradientNormalization,
    GradientScale,
    ParameterGroups,
    TrainingRun,
    evaluate,
)
from cai_reference.training import errors as training
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
    (model.EmptyVocabulary(), lambda: NeuralNgramConfiguration(0, 1, 1, 1)),
    (model.ZeroContext(), lambda: NeuralNgramConfiguration(1, 0, 1, 1)),
    (model.ZeroEmbeddingWidth(), lambda: NeuralNgramConfiguration(1, 1, 0, 1)),
    (model.ZeroHiddenWidth(), lambda: NeuralNgramConfiguration(1, 1, 1, 0)),
    (model.EmptyBatch(), lambda: FOUR.loss(TAPE, [])),
    (model.ContextTokenCountMismatch(2, 3), lambda: FOUR.forward(TAPE, [0, 1, 2], 1)),
    (model.BatchContextLengthMismatch(2, 1), lambda: FOUR.loss(TAPE, [Window((1,), (2,))])),
    (model.ParameterCountMismatch(5, 0), lambda: NeuralNgram(FOUR.configuration, [])),
    (model.ParameterNameMismatch(0, PARAMETER_NAMES[0], "odd"), lambda: registry((0, weight("odd")))),
    (
        model.ParameterShapeMismatch(PARAMETER_NAMES[3], (1, 1), (1,)),
        lambda: registry((3, weight(PARAMETER_NAMES[3]))),
    ),
    (model.MissingTargetRow(0), lambda: FOUR.loss(TAPE, [Window((1, 2), ())])),
    (model.TargetIdOutOfBounds(0, 9, 4), lambda: FOUR.loss(TAPE, [Window((1, 2), (9,))])),
    (model.MaskedTokenOutOfBounds(8, 2), lambda: greedy_token(np.zeros(2), (8,))),
    (model.NoUnmaskedToken(), lambda: greedy_token(np.zeros(2), (0, 1))),
    (model.NonFiniteLogit(1, math.inf), lambda: greedy_token(np.array([0.0, math.inf]))),
]

OPTIMISERS: list[Case] = [
    (training.InvalidLearningRate(-3.0), lambda: AdamWConfiguration(-3.0)),
    (training.InvalidBeta1(1.5), lambda: AdamWConfiguration(0.1, beta1=1.5)),
    (training.InvalidBeta2(math.nan), lambda: AdamWConfiguration(0.1, beta2=math.nan)),
    (training.InvalidEpsilon(0.0), lambda: AdamWConfiguration(0.1, epsilon=0.0)),
    (training.InvalidWeightDecay(-0.5), lambda: AdamWConfiguration(0.1, weight_decay=-0.5)),
    (training.InvalidDecayProduct(0.25, 8.0, 2.0), lambda: AdamWConfiguration(0.25, weight_decay=8.0)),
    (training.InvalidGradientScale(-1.5), lambda: adamw().step([weight("w")], GradientScale(-1.5))),
    (
        training.InvalidGradientNormalization(2.5, 0.0),
        lambda: adamw().step([weight("w")], GradientNormalization(2.5, 0.0)),
    ),
    (training.EmptyParameterGroups(), lambda: ParameterGroups(())),
    (training.EmptyGroupedParameterName("no-decay"), lambda: ParameterGroups((), ("",))),
    (training.DuplicateGroupedParameter("decay", "w"), lambda: ParameterGroups(("w", "w"))),
    (training.ParameterInMultipleGroups("w"), lambda: ParameterGroups(("w",), ("w",))),
    (training.EmptyParameterSet(), lambda: adamw().step([])),
    (training.DuplicateParameterName("w", 0, 1), lambda: adamw().step([weight("w"), weight("w")])),
    (training.ParameterSetChanged(("w",), ("v",)), lambda: adamw().step([weight("v")])),
    (training.ParameterShapeChanged("w", (1,), (2,)), two_steps_with_other_shapes),
    (training.MissingGradient("w"), lambda: adamw().step_with([weight("w")], {})),
    (training.GradientShapeMismatch("w", (1,), (3,)), lambda: adamw().step_with([weight("w")], {"w": np.zeros(3)})),
    (
        training.NonFiniteArithmetic("w", 0, "squared gradient", math.inf),
        lambda: adamw().step([weight("w", 1e200)]),
    ),
]

RUNS: list[Case] = [
    (training.NoTrainingBatches(), lambda: next(NOTHING_TO_DO.run(FOUR, adamw(), STRICT))),
    (training.NoEvaluationRows("validation"), lambda: evaluate(FOUR, EMPTY, (), STRICT)),
]

CASES: list[Case] = [*MODELS, *OPTIMISERS, *RUNS]
