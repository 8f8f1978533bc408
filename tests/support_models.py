"""The models that several tests use: the sizes of the course, and a model small enough to work out by hand."""

from __future__ import annotations

from typing import Final

import numpy as np

from cai_reference.autograd import Parameter
from cai_reference.models.neural_ngram import PARAMETER_NAMES, NeuralNgram, NeuralNgramConfiguration

COURSE_SIZES: Final = NeuralNgramConfiguration(vocabulary=266, context=2, embedding=4, hidden=8)


def model_of(sizes: NeuralNgramConfiguration, *matrices: list[list[float]]) -> NeuralNgram:
    """Return a model with given weights, in registry order."""
    parameters = [Parameter(name, np.array(matrix)) for name, matrix in zip(PARAMETER_NAMES, matrices, strict=True)]
    return NeuralNgram(sizes, parameters)


def four_word_model(output: tuple[float, float, float, float] = (1.0, 2.0, -1.0, 0.0)) -> NeuralNgram:
    """Return the four-word model of the course: gate reads the older token, up the newer one."""
    return model_of(
        NeuralNgramConfiguration(4, 2, 1, 1),
        [[0.1], [0.2], [0.3], [0.4]],
        [[1.0], [0.0]],
        [[0.0], [1.0]],
        [[2.0]],
        [list(output)],
    )
