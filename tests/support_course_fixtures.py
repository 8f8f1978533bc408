"""The decoders of the course's chapters 33 to 39: their data, their runs, and what is published about them.

The figures are those of the course's own traces. The capstone needs the bilingual corpus, which is not part of this
repository.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

import pytest

from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import named
from cai_reference.arithmetic.selftest import c_library_selftest
from cai_reference.layers.rms_norm import InverseForm
from cai_reference.layers.rope import Frequencies, RopeLayout
from cai_reference.models.llama import Llama, LlamaConfiguration
from cai_reference.splitmix import SplitMix64
from cai_reference.text.batches import EncodedDocument, Epoch, Windowing, sequential_plan, shuffled_plan
from cai_reference.text.bpe import train
from cai_reference.text.corpus import parse_corpus, parse_manifest, partition
from cai_reference.text.tokenizer import BpeTokenizer
from cai_reference.training.adamw import AdamW, AdamWConfiguration, all_but_gains, everything
from cai_reference.training.decoder_training import PlannedEpoch
from cai_reference.training.schedules import SteppedRate
from cai_reference.training.selection import SelectedRun, SelectionPlan
from support_course import CORPUS, SPLITS

needs_published_functions = pytest.mark.skipif(
    not c_library_selftest().agrees_on(("exp", "log", "log1p", "sin", "cos")),
    reason="this C library rounds otherwise than the one behind the published digits",
)

MODEL: Final = LlamaConfiguration(
    vocabulary=5,
    context=2,
    width=4,
    heads=2,
    feed_forward=4,
    layers=1,
    tied=True,
    rope_layout=RopeLayout.ADJACENT,
    rope_frequencies=Frequencies.NEAREST,
    epsilon=1e-6,
    norm=InverseForm.EXPONENTIAL,
)
CAPSTONE: Final = replace(MODEL, vocabulary=266, context=4, heads=1)

RATES: Final = SteppedRate(((0.04, 2), (0.025, 2), (0.015, 2), (0.008, 2)))
MAXIMUM_NORM: Final = 0.35

UPDATES: Final = (
    # batch, rate, loss before the update, norm before clipping
    ("train-b@2,train-b@8", 0.04, 2.453998, 4.051362),
    ("train-a@0,train-b@9", 0.04, 1.636732, 3.113352),
    ("train-a@7,train-b@0", 0.025, 1.809688, 1.861960),
    ("train-a@1,train-b@7", 0.025, 1.116494, 1.535791),
    ("train-a@2,train-a@6", 0.015, 1.169224, 1.697376),
    ("train-a@3,train-a@4", 0.015, 1.771533, 1.706953),
    ("train-b@4,train-a@5", 0.008, 1.019272, 1.168497),
    ("train-a@8,train-a@9", 0.008, 1.698170, 1.490535),
)
CHECKPOINTS: Final = (
    # step, training loss, validation loss
    (0, 2.095016, 1.918167),
    (2, 1.562026, 1.696310),
    (4, 1.453259, 1.687788),
    (6, 1.369832, 1.642599),
    (8, 1.322897, 1.595297),
)
CAPSTONE_CHECKPOINTS: Final = ((0, 5.621745486, 5.628342353), (32, 3.855502695, 3.889531885))


def circle(first: int, length: int) -> tuple[int, ...]:
    """Return ids 0 to 4 in a circle."""
    return tuple((first + place) % 5 for place in range(length))


DOCUMENTS: Final = {
    "train": {"train-a": circle(0, 12), "train-b": circle(2, 12)},
    "validation": {"validation-a": circle(0, 9), "validation-b": (0,) * 9},
    "test": {"test-a": (4, 3, 2, 1, 0, 4, 3, 2, 1), "test-b": (3, 2, 1, 0, 4, 3, 2)},
}


@cache
def epoch(label: str) -> Epoch:
    """Return the windows of two tokens of one partition of chapters 33 and 34."""
    documents = tuple(EncodedDocument(name, label, tokens) for name, tokens in DOCUMENTS[label].items())
    return Epoch(label, documents, Windowing(2))


def sequential(given: Epoch, size: int) -> PlannedEpoch:
    """Return an epoch in its own order."""
    return PlannedEpoch(given, sequential_plan(given, size))


def shuffled(given: Epoch, size: int, seed: int) -> PlannedEpoch:
    """Return an epoch in a drawn order."""
    return PlannedEpoch(given, shuffled_plan(given, size, SplitMix64(seed)))


@cache
def plan() -> SelectionPlan:
    """Return what chapter 33 trains on what."""
    return SelectionPlan(
        shuffled(epoch("train"), 2, 33),
        sequential(epoch("train"), 5),
        sequential(epoch("validation"), 4),
        RATES,
        (0, 2, 4, 6, 8),
        MAXIMUM_NORM,
    )


def fresh() -> tuple[Llama, AdamW]:
    """Return the model of chapter 33 before any step, with its optimiser."""
    model = Llama.initialize(MODEL, SplitMix64(33))
    return model, AdamW(AdamWConfiguration(0.04, weight_decay=0.01), all_but_gains(model.parameters))


@cache
def small_run(identifier: str) -> SelectedRun[Llama]:
    """Return the run of chapter 33 in an arithmetic."""
    return plan().run(*fresh(), named(identifier))


@cache
def tokenizer() -> BpeTokenizer:
    """Return the tokenizer of the corpus: eight merges of the training documents."""
    split = partition(parse_manifest(SPLITS.read_bytes()), parse_corpus(CORPUS.read_bytes()))
    return BpeTokenizer([merge.pair for merge in train([document.text.encode() for document in split.train], 8)])


@cache
def corpus_epoch(label: str) -> Epoch:
    """Return the windows of four tokens of one partition of the corpus."""
    split = partition(parse_manifest(SPLITS.read_bytes()), parse_corpus(CORPUS.read_bytes()))
    documents = {"train": split.train, "validation": split.validation, "test": split.test}[label]
    return Epoch(
        label,
        tuple(EncodedDocument(d.identifier, label, tuple(tokenizer().encode_document(d.text))) for d in documents),
        Windowing(4),
    )


def capstone_plan() -> SelectionPlan:
    """Return what chapter 39 trains on what."""
    return SelectionPlan(
        shuffled(corpus_epoch("train"), 16, 39),
        sequential(corpus_epoch("train"), 128),
        sequential(corpus_epoch("validation"), 128),
        SteppedRate(((0.04, 32),)),
        (0, 32),
        1.0,
    )


@cache
def capstone_run(identifier: str) -> SelectedRun[Llama]:
    """Return the run of chapter 39 in an arithmetic: some seconds."""
    arithmetic: Arithmetic = named(identifier)
    model = Llama.initialize(CAPSTONE, SplitMix64(39))
    return capstone_plan().run(model, AdamW(AdamWConfiguration(0.04), everything(model.parameters)), arithmetic)
