"""Diagnosis: a difference explained well enough to be mended.

| question | answered by |
|---|---|
| at which stage of a full pass does it begin? | `stage_findings` |
| at which stage does a cache go wrong? | `session_findings` |
| which known mistake gives these rows? | `fitting_conventions` |
| which part of a training step is wrong, and by which mistake? | `training_findings` |
| by what was the loss divided? | `loss_normalizer` |
| which mistake gives the losses of a whole run? | `run_findings` |
| does a token that differs matter? | `token_findings` |

All are functions of values: arrays, ids and the reference's model. Nothing here asks a backend.
"""

from __future__ import annotations

from cai_conformance.diagnosis.conventions import Fit, fitting_conventions
from cai_conformance.diagnosis.diagnosis import (
    Diagnosis,
    diagnosis_of_run,
    diagnosis_of_stages,
    diagnosis_of_tokens,
    diagnosis_of_training,
)
from cai_conformance.diagnosis.distances import Disagreement, measured
from cai_conformance.diagnosis.evidence import BatchRows, Begin, Cut, Evidence, Feed, SessionRows
from cai_conformance.diagnosis.normalizers import Normalizer, loss_normalizer, token_losses
from cai_conformance.diagnosis.sessions import session_findings
from cai_conformance.diagnosis.stages import Origin, StageFinding, StageFindings, stage_findings
from cai_conformance.diagnosis.steps import ShownStep, Start, StepRows
from cai_conformance.diagnosis.tokens import TokenFinding, TokenWord, token_findings
from cai_conformance.diagnosis.traces import Losses, Run, RunFinding, run_findings
from cai_conformance.diagnosis.training import Part, TrainingFinding, training_findings

__all__ = [
    "BatchRows",
    "Begin",
    "Cut",
    "Diagnosis",
    "Disagreement",
    "Evidence",
    "Feed",
    "Fit",
    "Losses",
    "Normalizer",
    "Origin",
    "Part",
    "Run",
    "RunFinding",
    "SessionRows",
    "ShownStep",
    "StageFinding",
    "StageFindings",
    "Start",
    "StepRows",
    "TokenFinding",
    "TokenWord",
    "TrainingFinding",
    "diagnosis_of_run",
    "diagnosis_of_stages",
    "diagnosis_of_tokens",
    "diagnosis_of_training",
    "fitting_conventions",
    "loss_normalizer",
    "measured",
    "run_findings",
    "session_findings",
    "stage_findings",
    "token_findings",
    "token_losses",
    "training_findings",
]
