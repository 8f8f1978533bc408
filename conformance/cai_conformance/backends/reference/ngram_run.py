"""The n-gram suite from a corpus to everything that its trace states."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np

from cai_conformance.errors import FixtureError
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.bits import sha256_of
from cai_reference.autograd import Tape
from cai_reference.decoding.greedy import Continuation, continue_greedily, greedy_token
from cai_reference.errors import AutogradError, CaiReferenceError
from cai_reference.models.neural_ngram import PARAMETER_NAMES, NeuralNgram, NeuralNgramConfiguration
from cai_reference.splitmix import SplitMix64
from cai_reference.text.batches import Batch, EncodedDocument, Epoch, Windowing, sequential_plan, shuffled_plan
from cai_reference.text.bpe import train
from cai_reference.text.corpus import Document, parse_corpus, parse_manifest, partition
from cai_reference.text.tokenizer import BOS, BpeTokenizer
from cai_reference.training.adamw import AdamW, AdamWConfiguration, ParameterGroups
from cai_reference.training.errors import AdamWError
from cai_reference.training.trainer import TrainingRun

CONVENTIONS: Final = (
    ("rope", "none"),
    ("rope_base", "none"),
    ("window", "fixed context, oldest token first"),
    ("argmax", "lowest id, BOS masked"),
    ("softmax_scale", "none"),
    ("swiglu_gate", "first projection"),
    ("norm", "none"),
    ("norm_eps", "none"),
    ("tie", "untied"),
    ("adamw", "decoupled decay of the weight before the update, epsilon outside the root, running beta products"),
    ("loss", "mean over rows of the last shifted target"),
    ("padding", "none"),
)


Result = TypeVar("Result")


@dataclass(frozen=True)
class NgramSizes:
    """What the published experiment fixes."""

    merges: int = 8
    context: int = 2
    embedding: int = 4
    hidden: int = 8
    batch: int = 64
    evaluation_batch: int = 512
    init_seed: int = 23
    shuffle_seed: int = 23
    steps: int = 15
    reported_steps: tuple[int, ...] = (0, 8, 15)
    prompt: str = "At"
    new_tokens: int = 12
    optimizer: AdamWConfiguration = field(default=AdamWConfiguration(learning_rate=0.01, weight_decay=0.01))


SIZES: Final = NgramSizes()


@dataclass(frozen=True)
class Data:
    """The encoded split: tokenizer, epochs, plans, prompt. Test documents are counted and never encoded."""

    tokenizer: BpeTokenizer
    train: Epoch
    validation: Epoch
    plan: tuple[Batch, ...]
    train_evaluation: tuple[Batch, ...]
    validation_evaluation: tuple[Batch, ...]
    prompt_ids: tuple[int, ...]
    test_documents: int

    @property
    def train_contexts(self) -> int:
        """How many training windows there are."""
        return sum(map(len, self.train_evaluation))

    @property
    def validation_contexts(self) -> int:
        """How many validation windows there are."""
        return sum(map(len, self.validation_evaluation))


@dataclass(frozen=True)
class StageProbe:
    """The forward pass on the prompt before the first update, one row."""

    embeddings: Array
    concatenated: Array
    hidden: Array
    logits: Array
    argmax: int


@dataclass(frozen=True)
class NgramStep:
    """What is kept of one step: digests, and the losses where they were computed."""

    step: int
    parameters: str
    moments: str
    batch_loss: float | None
    train: float | None
    validation: float | None


@dataclass(frozen=True)
class RunOutcome:
    """Everything that one run computes; two runs are equal where all bits are."""

    configuration: NeuralNgramConfiguration
    probe: StageProbe
    steps: tuple[NgramStep, ...]
    gradient_l1: tuple[float, ...]
    continuation: Continuation
    final_parameters: tuple[Array, ...]
    parameters_preserved: bool
    gradients_cleared: bool

    def reported(self) -> list[tuple[int, float, float]]:
        """Return step, training loss and validation loss at each reported step."""
        return [
            (record.step, record.train, record.validation)
            for record in self.steps
            if record.train is not None and record.validation is not None
        ]

    def fingerprint(self) -> tuple[object, ...]:
        """Return what a replay must reproduce, as values that compare bit by bit."""
        numbers = [
            np.array(self.gradient_l1),
            np.array(self.continuation.margins),
            self.probe.logits,
            self.probe.hidden,
        ]
        numbers += [np.array(list(losses)) for losses in self.reported()]
        numbers += [np.array([record.batch_loss]) for record in self.steps if record.batch_loss is not None]
        digests = tuple((record.parameters, record.moments) for record in self.steps)
        return sha256_of(numbers), digests, self.continuation.ids, self.continuation.stop


@dataclass(frozen=True)
class Experiment:
    """One experiment with its replay."""

    arithmetic: Arithmetic
    data: Data
    outcome: RunOutcome
    replays: bool

    @property
    def test_text_unused(self) -> bool:
        """Whether neither epoch holds a document of the test partition."""
        documents = self.data.train.documents + self.data.validation.documents
        return all(document.partition != "test" for document in documents)

    @property
    def gradients_positive(self) -> bool:
        """Whether all five L1 norms of the first gradients are finite and positive."""
        return all(math.isfinite(norm) and norm > 0.0 for norm in self.outcome.gradient_l1)

    @property
    def improvement(self) -> float:
        """Validation loss before training minus after it, in nats."""
        (_, _, before), *_, (_, _, after) = self.outcome.reported()
        return before - after


def run_experiment(corpus: bytes, splits: bytes, arithmetic: Arithmetic) -> Experiment:
    """Prepare the data once, train twice, compare.

    Raises:
        FixtureError: a stage failed; `stage` names it, the reference's error is the cause.
    """
    data = prepare(corpus, splits)
    outcome = train_once(data, arithmetic)
    again = train_once(prepare(corpus, splits), arithmetic)
    return Experiment(arithmetic, data, outcome, outcome.fingerprint() == again.fingerprint())


def prepare(corpus_bytes: bytes, splits_bytes: bytes) -> Data:
    """Read, split, learn merges on the training documents only, and cut windows.

    Raises:
        FixtureError: stage Corpus, Training, Tokenizer, Batch or Invariant.
    """
    corpus = _stage("Corpus", lambda: parse_corpus(corpus_bytes))
    manifest = _stage("Corpus", lambda: parse_manifest(splits_bytes))
    split = _stage("Corpus", lambda: partition(manifest, corpus))
    merges = _stage("Training", lambda: train([_utf8(document) for document in split.train], SIZES.merges))
    _invariant(len(merges) == SIZES.merges, f"{SIZES.merges} merges were requested, {len(merges)} could be learned")
    tokenizer = _stage("Tokenizer", lambda: BpeTokenizer([merge.pair for merge in merges]))
    prompt_ids = tuple(tokenizer.encode(SIZES.prompt.encode("utf-8")))
    _invariant(
        len(prompt_ids) == SIZES.context,
        f"the prompt {SIZES.prompt!r} has {len(prompt_ids)} ids under these merges, the context takes {SIZES.context}",
    )
    train_epoch = _stage("Batch", lambda: _epoch("train", split.train, tokenizer))
    validation_epoch = _stage("Batch", lambda: _epoch("validation", split.validation, tokenizer))
    return Data(
        tokenizer,
        train_epoch,
        validation_epoch,
        shuffled_plan(train_epoch, SIZES.batch, SplitMix64(SIZES.shuffle_seed)),
        sequential_plan(train_epoch, SIZES.evaluation_batch),
        sequential_plan(validation_epoch, SIZES.evaluation_batch),
        prompt_ids,
        len(split.test),
    )


def train_once(data: Data, arithmetic: Arithmetic) -> RunOutcome:
    """Initialise, probe, train, continue the prompt.

    Raises:
        FixtureError: stage Model, Optimizer, Autodiff or Invariant.
    """
    configuration = _stage(
        "Model",
        lambda: NeuralNgramConfiguration(data.tokenizer.vocabulary_size, SIZES.context, SIZES.embedding, SIZES.hidden),
    )
    model = _stage("Model", lambda: NeuralNgram.initialize(configuration, SplitMix64(SIZES.init_seed)))
    nodes = tuple(map(id, model.parameters))
    probe = _stage("Model", lambda: probe_model(model, data.prompt_ids, arithmetic))
    optimizer = AdamW(SIZES.optimizer, ParameterGroups(decay=PARAMETER_NAMES))
    run = TrainingRun(
        data.train,
        data.validation,
        data.plan,
        data.train_evaluation,
        data.validation_evaluation,
        SIZES.steps,
        frozenset(SIZES.reported_steps),
    )
    steps: list[NgramStep] = []
    gradient_l1: tuple[float, ...] = ()
    for step in _stage("Model", lambda: list(run.run(model, optimizer, arithmetic))):
        if step.step == 1:
            gradient_l1 = tuple(float(arithmetic.sum(np.abs(gradient))) for gradient in step.gradients)
        evaluation = step.evaluation
        steps.append(
            NgramStep(
                step.step,
                sha256_of(step.parameters),
                sha256_of(step.moments),
                step.batch_loss,
                None if evaluation is None else evaluation.train,
                None if evaluation is None else evaluation.validation,
            )
        )
    continuation = _stage(
        "Model", lambda: continue_greedily(model, data.prompt_ids, SIZES.new_tokens, arithmetic, masked={BOS})
    )
    return RunOutcome(
        configuration,
        probe,
        tuple(steps),
        gradient_l1,
        continuation,
        tuple(parameter.value for parameter in model.parameters),
        parameters_preserved=nodes == tuple(map(id, model.parameters)),
        gradients_cleared=all(not parameter.gradient.any() for parameter in model.parameters),
    )


def probe_model(model: NeuralNgram, context: tuple[int, ...], arithmetic: Arithmetic) -> StageProbe:
    """Run the model on one context and keep every stage."""
    stages = model.forward(Tape(arithmetic, recording=False), context, batch=1)
    return StageProbe(
        stages.embeddings.value,
        stages.concatenated.value,
        stages.hidden.value,
        stages.logits.value,
        greedy_token(stages.logits.value[0]),
    )


def _utf8(document: Document) -> bytes:
    return document.text.encode("utf-8")


def _epoch(label: str, documents: tuple[Document, ...], tokenizer: BpeTokenizer) -> Epoch:
    encoded = tuple(
        EncodedDocument(document.identifier, label, tuple(tokenizer.encode_document(document.text)))
        for document in documents
    )
    return Epoch(label, encoded, Windowing(SIZES.context))


def _stage(stage: str, compute: Callable[[], Result]) -> Result:
    try:
        return compute()
    except AdamWError as error:
        raise FixtureError("Optimizer", str(error)) from error
    except AutogradError as error:
        raise FixtureError("Autodiff", str(error)) from error
    except CaiReferenceError as error:
        raise FixtureError(stage, str(error)) from error


def _invariant(holds: bool, text: str) -> None:
    if not holds:
        raise FixtureError("Invariant", text)
