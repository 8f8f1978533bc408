"""The final evaluation: the selected decoder and a bigram on the test windows, once (course, chapters 34 and 39).

The gate opens once. What does not fit by its metadata is refused before, and leaves it closed; from the moment that
test tokens are read it is spent, also if something then fails. Whoever holds the test documents could make a second
gate; this one only keeps a program from looking twice by mistake.

Both models are scored on the same slots in the same order. Losses are natural logarithms; the perplexity is exp of the
mean over all slots, never a mean of perplexities.

The baseline is a bigram (course, chapter 6): the next token from the current one alone: p(b | a) = (c(a, b) + α) / (Σ
c(a, ·) + α·V), with c counted over adjacent tokens of whole documents, BOS and EOS included. α > 0, so that nothing is
impossible.

Windows of T tokens at stride 1 overlap: a transition in the middle of a document is a target in T windows. A mean over
window slots therefore weighs transitions unevenly; the multiplicities say how much.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from cai_reference.arithmetic import Arithmetic
from cai_reference.models.decoder import Decoder
from cai_reference.models.llama import Llama
from cai_reference.text.corpus import fnv1a64
from cai_reference.training.decoder_training import PlannedEpoch
from cai_reference.training.errors import TrainingError
from cai_reference.training.model_kinds import ParameterSnapshot
from cai_reference.training.selection import evaluate_windows


class Bigram:
    """Counts, and what they say of the next token.

    Raises:
        TrainingError (no-bigram-vocabulary, invalid-smoothing): the vocabulary is empty, or α not finite and positive.
        TrainingError (bigram-token-out-of-range): a document has an id beyond the vocabulary.
    """

    def __init__(self, documents: Sequence[Sequence[int]], vocabulary: int, smoothing: float = 1.0) -> None:
        if vocabulary < 1:
            raise TrainingError("no-bigram-vocabulary", vocabulary=vocabulary)
        if not (math.isfinite(smoothing) and smoothing > 0.0):
            raise TrainingError("invalid-smoothing", value=smoothing)
        self.vocabulary = vocabulary
        self.smoothing = smoothing
        self.documents = len(documents)
        self._counts: Counter[tuple[int, int]] = Counter()
        self._totals: Counter[int] = Counter()
        for document in documents:
            for token in document:
                self._check(token)
            self._counts.update(itertools.pairwise(document))
            # the last token of a document is followed by nothing
            self._totals.update(document[:-1])

    @property
    def transitions(self) -> int:
        """How many pairs of adjacent tokens were counted."""
        return self._counts.total()

    def count(self, current: int, following: int) -> int:
        """Return how often one token followed the other."""
        return self._counts[current, following]

    def probability(self, current: int, following: int) -> float:
        """Return p(following | current).

        Raises:
            TrainingError (bigram-token-out-of-range): an id is beyond the vocabulary.
        """
        self._check(current)
        self._check(following)
        total = float(self._totals[current]) + self.smoothing * float(self.vocabulary)
        return (float(self._counts[current, following]) + self.smoothing) / total

    def _check(self, token: int) -> None:
        if not 0 <= token < self.vocabulary:
            raise TrainingError("bigram-token-out-of-range", token=token, vocabulary=self.vocabulary)


@dataclass(frozen=True)
class WindowEvidence:
    """What was read.

    Attributes:
        documents: in order of appearance.
        pairs: input and target of every slot, in the order of the plan.
        fingerprint: `fnv1a64:` and sixteen hex digits over, for each window in the order of the plan, the document's
            id, a byte 0xff, its start (8 bytes), and input and target of each slot (4 bytes each, little-endian).
        multiplicities: at place m − 1, how many transitions of documents appear in m slots.
    """

    documents: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    fingerprint: str
    multiplicities: tuple[int, ...]

    @property
    def slots(self) -> int:
        """How many targets the windows have."""
        return len(self.pairs)

    @property
    def transitions(self) -> int:
        """How many transitions of documents these are."""
        return sum(self.multiplicities)


def inspect_windows(planned: PlannedEpoch, vocabulary: int) -> WindowEvidence:
    """Read every window once.

    Raises:
        TrainingError (evaluated-token-out-of-range): at the first id beyond the vocabulary, the input of a slot before
            its target.
    """
    epoch = planned.epoch
    documents: dict[str, None] = {}
    pairs: list[tuple[int, int]] = []
    seen: Counter[tuple[str, int]] = Counter()
    hashed: list[bytes] = []
    for number, batch in enumerate(planned.plan):
        position = 0
        for slot in batch:
            name, window = epoch.documents[slot.document].identifier, epoch.window(slot)
            documents[name] = None
            hashed.append(name.encode() + b"\xff" + struct.pack("<Q", slot.start))
            for offset, pair in enumerate(zip(window.inputs, window.targets, strict=True)):
                for side, token in zip(("input", "target"), pair, strict=True):
                    if not 0 <= token < vocabulary:
                        raise TrainingError(
                            "evaluated-token-out-of-range",
                            side=side,
                            batch=number,
                            position=position,
                            token=token,
                            vocabulary=vocabulary,
                        )
                pairs.append(pair)
                hashed.append(struct.pack("<II", *pair))
                seen[name, slot.start + offset + 1] += 1
                position += 1
    counted = Counter(seen.values())
    multiplicities = tuple(counted[times] for times in range(1, max(counted, default=0) + 1))
    fingerprint = f"fnv1a64:{fnv1a64(b''.join(hashed)):016x}"
    return WindowEvidence(tuple(documents), tuple(pairs), fingerprint, multiplicities)


DECODER: Final = "selected decoder"
BASELINE: Final = "bigram"


@dataclass(frozen=True)
class Provenance:
    """Where something comes from, as its owner says: names or fingerprints, and the length of windows.

    Raises:
        TrainingError (blank-provenance, no-provenance-context): a name is blank, or the length below 1.
    """

    corpus: str
    split: str
    tokenizer: str
    context: int

    def __post_init__(self) -> None:
        for field in ("corpus", "split", "tokenizer"):
            if not getattr(self, field).strip():
                raise TrainingError("blank-provenance", field=field)
        if self.context < 1:
            raise TrainingError("no-provenance-context", context=self.context)


@dataclass(frozen=True)
class SelectedDecoder:
    """A decoder with the state that was selected, and how.

    Raises:
        TrainingError (selected-elsewhere, invalid-selection-loss): it was not selected by a validation loss.
    """

    model: Llama | Decoder
    selected: ParameterSnapshot
    validation_loss: float
    partition: str
    provenance: Provenance

    def __post_init__(self) -> None:
        if self.partition != "validation":
            raise TrainingError("selected-elsewhere", actual=self.partition)
        if not (math.isfinite(self.validation_loss) and self.validation_loss >= 0.0):
            raise TrainingError("invalid-selection-loss", value=self.validation_loss)


@dataclass(frozen=True)
class Baseline:
    """A bigram, and what it was counted on.

    Raises:
        TrainingError (baseline-fitted-elsewhere, baseline-without-documents): it was not counted on training documents.
    """

    model: Bigram
    partition: str
    provenance: Provenance

    def __post_init__(self) -> None:
        if self.partition != "train":
            raise TrainingError("baseline-fitted-elsewhere", actual=self.partition)
        if self.model.documents == 0:
            raise TrainingError("baseline-without-documents")


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
        TrainingError (not-the-test-partition, no-test-windows, windows-of-another-length): these are no test windows of
            that provenance.
    """

    def __init__(self, test: PlannedEpoch, provenance: Provenance) -> None:
        if test.epoch.partition != "test":
            raise TrainingError("not-the-test-partition", actual=test.epoch.partition)
        if not any(test.plan):
            raise TrainingError("no-test-windows")
        if test.epoch.windowing.context != provenance.context:
            raise TrainingError(
                "windows-of-another-length", expected=provenance.context, actual=test.epoch.windowing.context
            )
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
            TrainingError (already-evaluated): the gate is spent.
            TrainingError (provenance-mismatch, selected-state-changed, decoder-context-differs,
                baseline-vocabulary-mismatch): looked at in
                this order, the gate still closed.
            `evaluated-token-out-of-range`, `non-finite-test-score`, AutogradError, LayerError: the gate is spent.
        """
        if self._access_count:
            raise TrainingError("already-evaluated")
        self._compare(DECODER, decoder.provenance)
        self._compare(BASELINE, baseline.provenance)
        sizes = decoder.model.configuration
        if not decoder.selected.matches(decoder.model.parameters):
            raise TrainingError("selected-state-changed", step=decoder.selected.step)
        if sizes.context != self._provenance.context:
            raise TrainingError("decoder-context-differs", expected=self._provenance.context, actual=sizes.context)
        if sizes.vocabulary != baseline.model.vocabulary:
            raise TrainingError(
                "baseline-vocabulary-mismatch", decoder=sizes.vocabulary, baseline=baseline.model.vocabulary
            )
        # before the first token is read: a failure behind it spends the gate too
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
                raise TrainingError(
                    "provenance-mismatch", model=model, field=field.name, expected=str(expected), actual=str(actual)
                )


def score_bigram(model: Bigram, pairs: Sequence[tuple[int, int]], arithmetic: Arithmetic) -> Score:
    """Return the loss Σ −ln p, ascending, of every following token.

    A certain token adds +0.0, and one of probability 0 makes the sum infinite; smoothing leaves no such token, but a
    smoothing far below the counts can round to one.

    Raises:
        TrainingError (bigram-token-out-of-range): an id is beyond the vocabulary.
        TrainingError (non-finite-test-score): the sum, or its perplexity, is infinite.
    """
    total = 0.0
    for current, following in pairs:
        probability = model.probability(current, following)
        if probability == 0.0:
            total = math.inf
        # −ln 1 would be −0.0
        elif probability != 1.0:
            total += -float(arithmetic.log(probability))
    return _score(BASELINE, total, total / float(len(pairs)), arithmetic)


def _score(model: str, total: float, mean: float, arithmetic: Arithmetic) -> Score:
    # of the mean over all slots; a mean of perplexities would be no less
    perplexity = float(arithmetic.exp(mean))
    if not all(math.isfinite(value) for value in (total, mean, perplexity)):
        raise TrainingError("non-finite-test-score", model=model, mean=mean, perplexity=perplexity)
    return Score(total, mean, perplexity)
