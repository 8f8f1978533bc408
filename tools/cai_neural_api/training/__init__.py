"""How the CAI NEURAL API trains: its pairs, its reported loss, its Adam, its loop, each with its known defects."""

from cai_neural_api.training.adam import AdamSettings, LegacyAdam
from cai_neural_api.training.fit import Ending, FitProgress, FitResult, FitSchedule, LegacyFit
from cai_neural_api.training.pairs import BatchReport
from cai_neural_api.training.trainer import LegacyTrainer

__all__ = [
    "AdamSettings",
    "BatchReport",
    "Ending",
    "FitProgress",
    "FitResult",
    "FitSchedule",
    "LegacyAdam",
    "LegacyFit",
    "LegacyTrainer",
]
