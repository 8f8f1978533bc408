"""The published chapter-23 run: sixteen states bit for bit, every loss, the first gradients, the continuation.

These need the course's corpus, and for the bits a C library that rounds as the one behind the published digits.
"""

from __future__ import annotations

from functools import cache

import pytest

from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.bits import sha256_of
from cai_reference.arithmetic.instances import FAST, LIBM, STRICT
from cai_reference.decoding.greedy import Continuation, Stop, continue_greedily
from cai_reference.models.neural_ngram import NeuralNgram
from cai_reference.splitmix import SplitMix64
from cai_reference.text.batches import EncodedDocument, Epoch, Windowing, sequential_plan, shuffled_plan
from cai_reference.text.bpe import train
from cai_reference.text.corpus import Document, parse_corpus, parse_manifest, partition
from cai_reference.text.tokenizer import BOS, BpeTokenizer
from cai_reference.training.adamw import AdamW, AdamWConfiguration, ParameterGroups
from cai_reference.training.trainer import TrainingRun, TrainingStep
from support_course import (
    BATCH_LOSSES,
    CORPUS,
    FIRST_GRADIENT_L1,
    PARAMETER_DIGESTS,
    SPLITS,
    TRAIN_LOSSES,
    VALIDATION_LOSSES,
    needs_c_library,
    needs_corpus,
)
from support_models import COURSE_SIZES

STEPS = 15
PROMPT = (67, 118)


@cache
def published_run(arithmetic: Arithmetic, evaluate_at: frozenset[int]) -> tuple[list[TrainingStep], Continuation]:
    """Learn merges, train fifteen steps, and continue `At`, all from the corpus file."""
    parts = partition(parse_manifest(SPLITS.read_bytes()), parse_corpus(CORPUS.read_bytes()))
    merges = train([document.text.encode() for document in parts.train], 8)
    tokenizer = BpeTokenizer([merge.pair for merge in merges])

    def epoch(label: str, documents: tuple[Document, ...]) -> Epoch:
        encoded = (
            EncodedDocument(document.identifier, label, tuple(tokenizer.encode_document(document.text)))
            for document in documents
        )
        return Epoch(label, tuple(encoded), Windowing(2))

    training, validation = epoch("train", parts.train), epoch("validation", parts.validation)
    run = TrainingRun(
        training,
        validation,
        plan=shuffled_plan(training, 64, SplitMix64(23)),
        train_evaluation=sequential_plan(training, 512),
        validation_evaluation=sequential_plan(validation, 512),
        steps=STEPS,
        evaluate_at=evaluate_at,
    )
    model = NeuralNgram.initialize(COURSE_SIZES, SplitMix64(23))
    names = tuple(parameter.name for parameter in model.parameters)
    optimizer = AdamW(AdamWConfiguration(0.01, weight_decay=0.01), ParameterGroups(names))
    steps = list(run.run(model, optimizer, arithmetic))
    return steps, continue_greedily(model, PROMPT, 12, arithmetic, masked=(BOS,))


def losses(steps: list[TrainingStep]) -> tuple[list[float | None], list[float], list[float]]:
    """Return batch losses from step 1 on, and the evaluated training and validation losses."""
    evaluations = [step.evaluation for step in steps if step.evaluation is not None]
    return (
        [step.batch_loss for step in steps[1:]],
        [evaluation.train for evaluation in evaluations],
        [evaluation.validation for evaluation in evaluations],
    )


def gradient_norms(steps: list[TrainingStep]) -> list[float]:
    """Return Σ|g| of the first step, ascending, for each parameter."""
    return [float(LIBM.sum(abs(gradient))) for gradient in steps[1].gradients]


@pytest.mark.exhaustive
@needs_corpus
@needs_c_library
def test_every_published_digit_is_reproduced() -> None:
    """Sixteen parameter digests, fifteen batch losses, sixteen evaluations of both partitions, five gradient norms."""
    steps, continuation = published_run(LIBM, frozenset(range(STEPS + 1)))
    digests = [f"sha256:{digest}" for digest in PARAMETER_DIGESTS]
    assert digests == [sha256_of(step.parameters) for step in steps]
    assert (list(BATCH_LOSSES), list(TRAIN_LOSSES), list(VALIDATION_LOSSES)) == losses(steps)
    assert list(FIRST_GRADIENT_L1) == gradient_norms(steps)
    assert ((259, *[211] * 11), Stop.LIMIT) == (continuation.ids, continuation.stop)
    assert 9.78e-4 == pytest.approx(min(continuation.margins), rel=1e-3)


@needs_corpus
@pytest.mark.parametrize("arithmetic", [STRICT, LIBM, FAST], ids=lambda arithmetic: arithmetic.identifier)
def test_every_arithmetic_agrees_up_to_rounding(arithmetic: Arithmetic) -> None:
    """Losses, gradients and the continuation, at the three steps that the course reports."""
    reported = (0, 8, 15)
    steps, continuation = published_run(arithmetic, frozenset(reported))
    batch, training, validation = losses(steps)
    assert pytest.approx(BATCH_LOSSES, abs=1e-12) == batch
    assert pytest.approx([TRAIN_LOSSES[step] for step in reported], abs=1e-12) == training
    assert pytest.approx([VALIDATION_LOSSES[step] for step in reported], abs=1e-12) == validation
    assert pytest.approx(FIRST_GRADIENT_L1, abs=1e-14) == gradient_norms(steps)
    assert ((259, *[211] * 11), Stop.LIMIT) == (continuation.ids, continuation.stop)
