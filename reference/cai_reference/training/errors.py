"""Errors of the training room: AdamW, the loops, selection by validation loss, final evaluation, the state of a run.

Sources: course, chapters 6, 21 to 23 and 33 to 35 (the error variants and what their texts carry); those of a run's
state but for the optimiser's are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cai_reference.errors import CaiReferenceError

Shape = tuple[int, ...]


TRAINING_TEMPLATES: Final[Mapping[str, str]] = {
    # The learning rate is not finite and positive.
    "invalid-learning-rate": "the learning rate must be finite and positive, found {value}",
    # The decay of the first moment is not in [0, 1).
    "invalid-beta1": "beta1 must be in [0, 1), found {value}",
    # The decay of the second moment is not in [0, 1).
    "invalid-beta2": "beta2 must be in [0, 1), found {value}",
    # Epsilon is not finite and positive.
    "invalid-epsilon": "epsilon must be finite and positive, found {value}",
    # The weight decay is not finite and at least 0.
    "invalid-weight-decay": "the weight decay must be finite and not negative, found {value}",
    # Learning rate times weight decay would flip or lose the weights.
    "invalid-decay-product": (
        "learning rate {learning_rate} times weight decay {weight_decay} is {product}, which is not in (0, 1)"
    ),
    # A factor for all gradients is not finite and positive.
    "invalid-gradient-scale": "the gradient scale must be finite and positive, found {value}",
    # A divisor or multiplier for all gradients is not finite and positive.
    "invalid-gradient-normalization": (
        "gradient divisor {divisor} and multiplier {multiplier} must be finite and positive"
    ),
    # Both groups are empty.
    "empty-parameter-groups": "the parameter groups hold no names",
    # A group holds an empty name.
    "empty-grouped-parameter-name": "the {group} group holds an empty name",
    # A group holds a name twice.
    "duplicate-grouped-parameter": "the {group} group holds {name!r} twice",
    # A name stands in both groups.
    "parameter-in-multiple-groups": "parameter {name!r} stands in both groups",
    # A step was asked for without parameters.
    "empty-parameter-set": "there are no parameters to update",
    # Two parameters of a step share a name.
    "duplicate-parameter-name": "parameter {name!r} stands at positions {first} and {repeated}",
    # A step was asked for with other names than the groups, or than the first step. Names are sorted.
    "parameter-set-changed": "expected parameters {expected}, found {actual}",
    # A parameter has another shape than its moments.
    "parameter-shape-changed": "parameter {name!r}: expected shape {expected}, found {actual}",
    # A parameter was given without a gradient.
    "missing-gradient": "parameter {name!r} has no gradient",
    # A gradient has another shape than its parameter.
    "gradient-shape-mismatch": "parameter {name!r} has shape {parameter}, its gradient {gradient}",
    # A stage of the update left the range of binary64; stages are looked at in the order of the formulas.
    "non-finite-arithmetic": "parameter {name!r}, flat index {index}: the {stage} is {value}",
    # The largest norm is not finite and positive.
    "invalid-maximum-norm": "the largest norm of all gradients must be finite and positive, found {value}",
    # A stored gradient is not finite.
    "non-finite-stored-gradient": "parameter {name!r}: the gradient at flat index {index} is {value}",
    # The largest norm, divided by the root of the scaled squares, is 0 in binary64.
    "unrepresentable-gradient-clip": "gradients cannot be clipped to a norm of {maximum}: divided by {root} it is 0",
    # A schedule of stages has none.
    "empty-schedule": "the learning-rate schedule has no stages",
    # A rate is not finite and positive.
    "invalid-scheduled-rate": "the learning rate of step {step} must be finite and positive, found {value}",
    # A rate cannot fall to a floor of 0, or rise to one.
    "invalid-schedule-floor": (
        "a schedule that peaks at {peak} cannot end at {value}: the floor must be positive and not above the peak"
    ),
    # A part of a schedule has too few steps.
    "invalid-schedule-length": "{what} has {steps} steps, but needs at least {least}",
    # The first step is 1.
    "step-before-first": "there is no step {step}: the steps of a schedule count from 1",
    # The schedule has ended.
    "step-behind-schedule": "there is no rate for step {step}: the schedule ends with step {last}",
    # The plan holds no batches.
    "no-training-batches": "there are no training batches: every document is too short for a window",
    # An evaluation was asked for over nothing.
    "no-evaluation-rows": "the {partition} partition has no windows to evaluate",
    # A run starts from an optimiser that has made no step.
    "optimizer-not-fresh": "the optimiser has made {step} steps; a run starts with a fresh one",
    # Losses are wanted at no step.
    "no-checkpoint-steps": "there are no checkpoint steps; the first one is 0 and the last one the number of updates",
    # The first losses are those before any update.
    "first-checkpoint-not-zero": "the first checkpoint is step {actual}, not 0",
    # A checkpoint lies behind the last update.
    "checkpoint-beyond-updates": "checkpoint {step} lies behind the last update, {last}",
    # Checkpoint steps repeat or go back.
    "checkpoint-steps-not-increasing": "checkpoint {following} follows checkpoint {previous}; they must increase",
    # The last losses are those after the last update.
    "last-checkpoint-not-final": "the last checkpoint is step {actual}, not the last update, {expected}",
    # An epoch of another partition than its role allows.
    "wrong-partition": "the {role} epoch must be of the partition {expected}, not {actual}",
    # An epoch without windows, or a plan without batches.
    "no-windows": "the {role} epoch has no windows",
    # Windows of another length than those that are trained on.
    "window-length-differs": "the {role} epoch has windows of {actual} tokens, the update epoch of {expected}",
    # Windows that the model has no positions for.
    "window-exceeds-context": "the {role} epoch has windows of {tokens} tokens, the model holds {context}",
    # An id beyond the vocabulary; `index` is its place in its document.
    "window-token-out-of-range": (
        "the {role} epoch, document {document!r}: token {token} at index {index} is not in a vocabulary of {size}"
    ),
    # A mean loss left the range of binary64.
    "non-finite-evaluation": "the mean loss over the partition {partition} is {value}",
    # A bigram has at least one id.
    "no-bigram-vocabulary": "a bigram needs a vocabulary, found {vocabulary}",
    # The smoothing is not finite and positive.
    "invalid-smoothing": "the smoothing must be finite and positive, found {value}",
    # An id is beyond the vocabulary.
    "bigram-token-out-of-range": "token {token} is not in a vocabulary of {vocabulary}",
    # A name that says where something comes from is blank.
    "blank-provenance": "the provenance names no {field}",
    # Windows have at least one token.
    "no-provenance-context": "the provenance has windows of {context} tokens",
    # The final evaluation reads the test partition alone.
    "not-the-test-partition": "the final evaluation is of the partition test, not {actual}",
    # There is nothing to evaluate.
    "no-test-windows": "the test partition has no windows",
    # The windows are not of the length that the provenance says.
    "windows-of-another-length": "the provenance has windows of {expected} tokens, the test partition of {actual}",
    # A model that was not selected by validation loss.
    "selected-elsewhere": "the decoder was selected on the partition {actual}, not on validation",
    # The loss that selected is no loss.
    "invalid-selection-loss": "the loss that selected the decoder is {value}",
    # A baseline that was not counted on the training partition.
    "baseline-fitted-elsewhere": "the baseline was counted on the partition {actual}, not on train",
    # A baseline that has counted nothing.
    "baseline-without-documents": "the baseline has counted no documents",
    # The test partition has been read once.
    "already-evaluated": "the test partition has been evaluated already",
    # A model comes from other data than the test partition.
    "provenance-mismatch": "the {model} has another {field} than the test partition: {actual}, not {expected}",
    # The model is no longer what was selected.
    "selected-state-changed": "the decoder differs from the state that was selected at step {step}",
    # The model has other positions than the windows.
    "decoder-context-differs": "the provenance has windows of {expected} tokens, the decoder holds {actual}",
    # Decoder and baseline know different numbers of ids.
    "baseline-vocabulary-mismatch": "the decoder has {decoder} ids, the baseline {baseline}",
    # A test token is beyond the vocabulary; `position` counts over the batch, row by row.
    "evaluated-token-out-of-range": (
        "test batch {batch}: {side} {position} is token {token}, not in a vocabulary of {vocabulary}"
    ),
    # A mean loss or its perplexity left the range of binary64.
    "non-finite-test-score": "the {model} has the mean loss {mean} and the perplexity {perplexity}",
    # A running product of β is 1 before the first step, and in [0, 1) after it.
    "invalid-beta-power": "the power of {name} after {step} steps is {value}",
    # There are moments exactly from the first step on.
    "moment-presence": "after {step} steps there are moments of {entries} parameters",
    # The moments are not those of the model's parameters. Names are sorted.
    "moment-names": "expected moments of {expected}, found those of {actual}",
    # A moment has another shape than its parameter.
    "moment-shape": "parameter {name!r} has shape {parameter}, its {kind} moment {moment}",
    # A moment is not finite.
    "non-finite-moment": "parameter {name!r}: the {kind} moment at flat index {index} is {value}",
    # A mean of squares is negative.
    "negative-second-moment": "parameter {name!r}: the second moment at flat index {index} is {value}",
    # The groups do not name the model's parameters. Names are sorted.
    "group-names": "expected groups of {expected}, found groups of {actual}",
    # The state is of a run that was set up otherwise.
    "state-differs": "the {part} of the state is {found}, that of the run {expected}",
    # A run and its optimiser make their steps together.
    "state-steps": "the state is after step {step}, but its optimiser has made {optimizer} steps",
    # The sizes of the configuration ask for more weights than there are.
    "state-too-small": "a model of this configuration has at least {least} weights, the state {found}",
    # The state has other parameters than its configuration. Names are in registry order.
    "state-values": "expected the parameters {expected}, found {found}",
    # A value has another shape than its parameter.
    "state-shape": "parameter {name!r} has shape {expected}, its value in the state {found}",
    # A value is not finite.
    "state-value-not-finite": "parameter {name!r}: the value at flat index {index} is {value}",
    # A place in the data that does not exist.
    "order-out-of-range": "epoch {epoch} has no batch {batch}: epochs count from 0, and have batches 0 to {last}",
    # There is nothing to train on.
    "no-examples": "there are no examples to train on",
}


class TrainingError(CaiReferenceError):
    """A model cannot be trained."""

    templates = TRAINING_TEMPLATES


class AdamWError(TrainingError):
    """An optimiser is misconfigured, or a step cannot be taken. A failed step changes nothing."""


class CandidateError(TrainingError):
    """A run with validation-only selection is refused."""
