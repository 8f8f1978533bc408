"""Training: AdamW, evaluation, gradient averages, and the loop that ties them together."""

from cai_reference.training.adamw import (
    AdamW,
    AdamWConfiguration,
    AdamWState,
    GradientNormalization,
    GradientScale,
    Moments,
    ParameterGroups,
)
from cai_reference.training.evaluation import evaluate
from cai_reference.training.gradient_average import AverageGradient, GradientAverage
from cai_reference.training.trainer import Evaluation, TrainingRun, TrainingStep

__all__ = [
    "AdamW",
    "AdamWConfiguration",
    "AdamWState",
    "AverageGradient",
    "Evaluation",
    "GradientAverage",
    "GradientNormalization",
    "GradientScale",
    "Moments",
    "ParameterGroups",
    "TrainingRun",
    "TrainingStep",
    "evaluate",
]
