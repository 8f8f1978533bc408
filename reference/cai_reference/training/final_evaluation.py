"""The final evaluation: the selected decoder and a bigram on the test windows, once (course, chapters 34 and 39).

The gate opens once. What does not fit by its metadata is refused before, and leaves it closed; from the moment that
test tokens are read it is spent, also if something then fails. Whoever holds the test documents could make a second
gate; this one only keeps a program from looking twice by mistake.

Both models are scored on the same slots in the same order. Losses are natural logarithms; the perplexity is exp of the
mean over all slots, never a mean of perplexities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from cai_reference.arithmetic import Arithmetic
from cai_reference.models.decoder import Decoder
from cai_reference.models.llama import Llama
from cai_reference.training.bigram import Bigram
from cai_reference.training.copies import Snapshot
from cai_reference.training.final_errors import (
    AlreadyEvaluated,
    BaselineFittedElsewhere,
    BaselineVocabularyMismatch,
    BaselineWithoutDocuments,
    BlankProvenance,
    DecoderContextDiffers,
    InvalidSelectionLoss,
    NonFiniteTestScore,
    NoProvenanceContext,
    NoTestWindows,
    NotTheTestPartition,
    ProvenanceMismatch,
    SelectedElsewhere,
    SelectedStateChanged,
    WindowsOfAnotherLength,
)
from cai_reference.training.planned_epoch import PlannedEpoch
from cai_reference.training.selection import evaluate_windows
from cai_reference.training.window_evidence import WindowEvidence, inspect_windows

DECODER: Final = "selected decoder"
BASELINE: Final = "bigram"


@dataclass(frozen=True)
class Provenance:
    """Where something comes from, as its owner says: names or fingerprints, and the length of windows.

    Raises:
        BlankProvenance, NoProvenanceContext: a name is blank, or the length below 1.
    """

    corpus: str
    split: str
    tokenizer: str
    context: int

    def __post_init__(self) -> None:
        for field in ("corpus", "split", "tokenizer"):
            if not getattr(self, field).strip():
                raise BlankProvenance(field)
        if self.context < 1:
            raise NoProvenanceContext(self.context)


@dataclass(frozen=True)
class SelectedDecoder:
    """A decoder with the state that was selected, and how.

    Raises:
        SelectedElsewhere, InvalidSelectionLoss: it was not selected by a validation loss.
    """

    model: Llama | Decoder
    selected: Snapshot
    validation_loss: float
    partition: str
    provenance: Provenance

    def __post_init__(self) -> None:
        if self.partition != "validation":
            raise SelectedElsewhere(self.partition)
        if not (math.isfinite(self.validation_loss) and self.validation_loss >= 0.0):
            raise InvalidSelectionLoss(self.validation_loss)


@dataclass(frozen=True)
class Baseline:
    """A bigram, and what it was counted on.

    Raises:
        BaselineFittedElsewhere, BaselineWithoutDocuments: it was not counted on training documents.
    """

    model: Bigram
    partition: str
    provenance: Provenance

    def __post_init__(self) -> None:
        if self.partition != "train":
            raise BaselineFittedElsewhere(self.partition)
        if self.model.documents == 0:
            raise BaselineWithoutDocuments


@dataclass(frozen=True)
class Score:
    """A model's loss over all slots, in nats, and the perplexity."""

    total: float
    mean: float
    perplexity: float


@dataclass(frozen=True)
class FinalReport:
    """What came out, and over what."""

    selected_step: int
    evidence: WindowEvidence
    windows: int
    batches: int
    decoder: Score
    baseline: Score


class FinalEvaluation:
    """The gate before the test windows.

    Raises:
        NotTheTestPartition, NoTestWindows, WindowsOfAnotherLength: these are no test windows of that provenance.
    """

    def __init__(self, test: PlannedEpoch, provenance: Provenance) -> None:
        if test.epoch.partition != "test":
            raise NotTheTestPartition(test.epoch.partition)
        if not any(test.plan):
            raise NoTestWindows
        if test.epoch.windowing.context != provenance.context:
            raise WindowsOfAnotherLength(provenance.context, test.epoch.windowing.context)
        self._test = test
        self._provenance = provenance
        self._access_count = 0

    @property
    def access_count(self) -> int:
        """How often test tokens have been read: 0 or 1."""
        return self._access_count

    def evaluate(self, decoder: SelectedDecoder, baseline: Baseline, arithmetic: Arithmetic) -> FinalReport:
        """Score both models on the test windows. Nothing of the decoder is changed.

        Raises:
            AlreadyEvaluated: the gate is spent.
            ProvenanceMismatch, SelectedStateChanged, DecoderContextDiffers, BaselineVocabularyMismatch: looked at in
                this order, the gate still closed.
            EvaluatedTokenOutOfRange, NonFiniteTestScore, AutogradError, LayerError: the gate is spent.
        """
        if self._access_count:
            raise AlreadyEvaluated
        self._compare(DECODER, decoder.provenance)
        self._compare(BASELINE, baseline.provenance)
        sizes = decoder.model.configuration
        if not decoder.selected.matches(decoder.model.parameters):
            raise SelectedStateChanged(decoder.selected.step)
        if sizes.context != self._provenance.context:
            raise DecoderContextDiffers(self._provenance.context, sizes.context)
        if sizes.vocabulary != baseline.model.vocabulary:
            raise BaselineVocabularyMismatch(sizes.vocabulary, baseline.model.vocabulary)
        self._access_count = 1
        evidence = inspect_windows(self._test, sizes.vocabulary)
        mean = evaluate_windows(decoder.model, self._test, arithmetic)
        return FinalReport(
            decoder.selected.step,
            evidence,
            sum(len(batch) for batch in self._test.plan),
            len(self._test.plan),
            _score(DECODER, mean * float(evidence.slots), mean, arithmetic),
            score_bigram(baseline.model, evidence.pairs, arithmetic),
        )

    def _compare(self, model: str, provenance: Provenance) -> None:
        for field in fields(Provenance):
            expected, actual = getattr(self._provenance, field.name), getattr(provenance, field.name)
            if expected != actual:
                raise ProvenanceMismatch(model, field.name, str(expected), str(actual))


def score_bigram(model: Bigram, pairs: Sequence[tuple[int, int]], arithmetic: Arithmetic) -> Score:
    """Return the loss Σ −ln p, ascending, of every following token.

    A certain token adds +0.0, and one of probability 0 makes the sum infinite; smoothing leaves no such token, but a
    smoothing far below the counts can round to one.

    Raises:
        BigramTokenOutOfRange: an id is beyond the vocabulary.
        NonFiniteTestScore: the sum, or its perplexity, is infinite.
    """
    total = 0.0
    for current, following in pairs:
        probability = model.probability(current, following)
        if probability == 0.0:
            total = math.inf
        elif probability != 1.0:
            total += -float(arithmetic.log(probability))
    return _score(BASELINE, total, total / float(len(pairs)), arithmetic)


def _score(model: str, total: float, mean: float, arithmetic: Arithmetic) -> Score:
    perplexity = float(arithmetic.exp(mean))
    if not all(math.isfinite(value) for value in (total, mean, perplexity)):
        raise NonFiniteTestScore(model, mean, perplexity)
    return Score(total, mean, perplexity)
