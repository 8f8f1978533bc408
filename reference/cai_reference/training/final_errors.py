"""Errors of the final evaluation and its baseline.

Source: course, chapters 6 and 34 (the variants and what their texts carry).
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_reference.training.errors import TrainingError


class BigramError(TrainingError):
    """A bigram cannot be counted or asked."""


@dataclass(eq=False)
class NoBigramVocabulary(BigramError):
    """A bigram has at least one id."""

    template = "a bigram needs a vocabulary, found {vocabulary}"
    vocabulary: int


@dataclass(eq=False)
class InvalidSmoothing(BigramError):
    """The smoothing is not finite and positive."""

    template = "the smoothing must be finite and positive, found {value}"
    value: float


@dataclass(eq=False)
class BigramTokenOutOfRange(BigramError):
    """An id is beyond the vocabulary."""

    template = "token {token} is not in a vocabulary of {vocabulary}"
    token: int
    vocabulary: int


class FinalEvaluationError(TrainingError):
    """The test partition is not evaluated."""


@dataclass(eq=False)
class BlankProvenance(FinalEvaluationError):
    """A name that says where something comes from is blank."""

    template = "the provenance names no {field}"
    field: str


@dataclass(eq=False)
class NoProvenanceContext(FinalEvaluationError):
    """Windows have at least one token."""

    template = "the provenance has windows of {context} tokens"
    context: int


@dataclass(eq=False)
class NotTheTestPartition(FinalEvaluationError):
    """The final evaluation reads the test partition alone."""

    template = "the final evaluation is of the partition test, not {actual}"
    actual: str


@dataclass(eq=False)
class NoTestWindows(FinalEvaluationError):
    """There is nothing to evaluate."""

    template = "the test partition has no windows"


@dataclass(eq=False)
class WindowsOfAnotherLength(FinalEvaluationError):
    """The windows are not of the length that the provenance says."""

    template = "the provenance has windows of {expected} tokens, the test partition of {actual}"
    expected: int
    actual: int


@dataclass(eq=False)
class SelectedElsewhere(FinalEvaluationError):
    """A model that was not selected by validation loss."""

    template = "the decoder was selected on the partition {actual}, not on validation"
    actual: str


@dataclass(eq=False)
class InvalidSelectionLoss(FinalEvaluationError):
    """The loss that selected is no loss."""

    template = "the loss that selected the decoder is {value}"
    value: float


@dataclass(eq=False)
class BaselineFittedElsewhere(FinalEvaluationError):
    """A baseline that was not counted on the training partition."""

    template = "the baseline was counted on the partition {actual}, not on train"
    actual: str


@dataclass(eq=False)
class BaselineWithoutDocuments(FinalEvaluationError):
    """A baseline that has counted nothing."""

    template = "the baseline has counted no documents"


@dataclass(eq=False)
class AlreadyEvaluated(FinalEvaluationError):
    """The test partition has been read once."""

    template = "the test partition has been evaluated already"


@dataclass(eq=False)
class ProvenanceMismatch(FinalEvaluationError):
    """A model comes from other data than the test partition."""

    template = "the {model} has another {field} than the test partition: {actual}, not {expected}"
    model: str
    field: str
    expected: str
    actual: str


@dataclass(eq=False)
class SelectedStateChanged(FinalEvaluationError):
    """The model is no longer what was selected."""

    template = "the decoder differs from the state that was selected at step {step}"
    step: int


@dataclass(eq=False)
class DecoderContextDiffers(FinalEvaluationError):
    """The model has other positions than the windows."""

    template = "the provenance has windows of {expected} tokens, the decoder holds {actual}"
    expected: int
    actual: int


@dataclass(eq=False)
class BaselineVocabularyMismatch(FinalEvaluationError):
    """Decoder and baseline know different numbers of ids."""

    template = "the decoder has {decoder} ids, the baseline {baseline}"
    decoder: int
    baseline: int


@dataclass(eq=False)
class EvaluatedTokenOutOfRange(FinalEvaluationError):
    """A test token is beyond the vocabulary; `position` counts over the batch, row by row."""

    template = "test batch {batch}: {side} {position} is token {token}, not in a vocabulary of {vocabulary}"
    side: str
    batch: int
    position: int
    token: int
    vocabulary: int


@dataclass(eq=False)
class NonFiniteTestScore(FinalEvaluationError):
    """A mean loss or its perplexity left the range of binary64."""

    template = "the {model} has the mean loss {mean} and the perplexity {perplexity}"
    model: str
    mean: float
    perplexity: float
