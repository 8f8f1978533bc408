"""Two trained models of the course, to the last bit: in libm/1 they come out as published.

The first is written down as the course's checkpoint, in which every parameter and every moment stands as a double, and
its FNV-1a checksum is compared: RMSNorm, rotation, attention, SwiGLU, the tied head, all gradients, clipping and AdamW,
over eight steps (course, chapters 33 and 35). The second is the capstone, whose perplexity changes in its ninth decimal
with any change of rounding (chapter 39).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import replace

import pytest

from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import LIBM, STRICT
from cai_reference.arithmetic.selftest import c_library_selftest
from cai_reference.autograd import Parameter, Tape
from cai_reference.autograd.backward import backward
from cai_reference.layers.rms_norm import InverseForm
from cai_reference.layers.rope import Frequencies, RopeLayout
from cai_reference.models.llama import Llama, LlamaConfiguration
from cai_reference.models.registry import decayed_names
from cai_reference.splitmix import SplitMix64
from cai_reference.text.batches import Batch, EncodedDocument, Epoch, Windowing, sequential_plan, shuffled_plan
from cai_reference.text.bpe import train
from cai_reference.text.corpus import fnv1a64, parse_corpus, parse_manifest, partition
from cai_reference.text.story_batches import StoryBatch
from cai_reference.text.tokenizer import BpeTokenizer
from cai_reference.training.adamw import AdamW, AdamWConfiguration, GradientScale, ParameterGroups
from support_course import CORPUS, SPLITS, needs_corpus

needs_c_library = pytest.mark.skipif(
    not c_library_selftest().agrees_on(("exp", "log", "log1p", "sin", "cos")),
    reason="this C library rounds otherwise than the one behind the published digits",
)

MODEL = LlamaConfiguration(
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
CAPSTONE = replace(MODEL, vocabulary=266, context=4, heads=1)

Record = tuple[int, str, int, tuple[int, ...], bytes]
"""Role, name, kind of number, shape and bytes."""

RATES = [rate for rate in (0.04, 0.025, 0.015, 0.008) for _ in range(2)]
GENERATOR_STATE = 0x9E3779B97F4A7C38
CHECKPOINT = 0x2B8B6097EAED6A91
LOGITS = 0x6029064FE7CD162D
PERPLEXITY = 47.755180204808397


def windows(epoch: Epoch, batch: Batch) -> StoryBatch:
    """Return windows as stories whose every token but the first is a target."""
    chosen = [epoch.window(slot) for slot in batch]
    return StoryBatch(tuple((*window.inputs, window.targets[-1]) for window in chosen), epoch.windowing.context)


def clipping(parameters: Sequence[Parameter], limit: float) -> GradientScale | None:
    """Return the factor that brings the norm of all gradients down to the limit; the norm is max · √Σ (g / max)²."""
    largest, squares = 0.0, 1.0
    for parameter in parameters:
        for gradient in parameter.gradient.ravel().tolist():
            size = abs(gradient)
            if size > largest:
                share = largest / size
                squares, largest = 1.0 + squares * share * share, size
            elif size > 0.0:
                share = size / largest
                squares += share * share
    root = math.sqrt(squares)
    return GradientScale((limit / largest) / root) if largest > limit / root else None


def trained(
    model: Llama,
    epoch: Epoch,
    plan: Sequence[Batch],
    rates: Sequence[float],
    clip: float,
    optimizer: AdamW,
    arithmetic: Arithmetic,
) -> None:
    """Train in place, a batch and a rate a step."""
    for rate, batch in zip(rates, plan, strict=False):
        backward(model.loss(Tape(arithmetic), windows(epoch, batch)))
        optimizer.configuration = replace(optimizer.configuration, learning_rate=rate)
        optimizer.step(model.parameters, clipping(model.parameters, clip))
        for parameter in model.parameters:
            parameter.zero_gradient()


def small_run(arithmetic: Arithmetic) -> tuple[Llama, AdamW, ParameterGroups]:
    """Train the model of chapter 33: ids 0 to 4 in circles, windows of two, two a batch, eight steps."""
    documents = tuple(
        EncodedDocument(name, "train", tuple((first + k) % 5 for k in range(12)))
        for name, first in (("train-a", 0), ("train-b", 2))
    )
    epoch = Epoch("train", documents, Windowing(2))
    model = Llama.initialize(MODEL, SplitMix64(33))
    matrices = decayed_names(model.parameters)
    gains = tuple(parameter.name for parameter in model.parameters if parameter.name not in matrices)
    groups = ParameterGroups(matrices, gains)
    optimizer = AdamW(AdamWConfiguration(RATES[0], weight_decay=0.01), groups)
    trained(model, epoch, shuffled_plan(epoch, 2, SplitMix64(33)), RATES, 0.35, optimizer, arithmetic)
    return model, optimizer, groups


def text(name: str) -> bytes:
    """Return a text behind its length."""
    return struct.pack("<I", len(name)) + name.encode()


def checkpoint(model: Llama, optimizer: AdamW, groups: ParameterGroups) -> bytes:
    """Return the course's checkpoint of chapter 35: five literal tokens, parameters, moments by name."""
    sizes, state = model.configuration, optimizer.state
    records: list[Record] = [(1, str(token), 1, (1,), str(token).encode()) for token in range(5)]
    records += [(3, p.name, 3, p.shape, p.value.astype("<f8").tobytes()) for p in model.parameters]
    for name in sorted(state.moments):
        for role, moment in ((4, state.moments[name].first), (5, state.moments[name].second)):
            records.append((role, name, 3, moment.shape, moment.astype("<f8").tobytes()))
    fixed = struct.pack("<HHQQBQ", 1, 1, state.step, GENERATOR_STATE, 1, 5)
    fixed += struct.pack("<6Q", sizes.vocabulary, sizes.width, sizes.heads, sizes.feed_forward, sizes.layers, 2)
    fixed += struct.pack("<7d", sizes.rope_base, sizes.epsilon, RATES[0], 0.9, 0.999, 1e-8, 0.01) + b"\x01"
    for group in (groups.decay, groups.no_decay):
        fixed += struct.pack("<I", len(group)) + b"".join(map(text, sorted(group)))
    fixed += struct.pack("<Qdd", state.step, state.beta1_power, state.beta2_power)
    fixed += struct.pack("<3I", len(model.parameters), len(state.moments), len(records))
    described = [struct.pack("<B", role) + text(name) for role, name, *_ in records]
    described = [
        front + struct.pack(f"<BI{len(shape)}Q", kind, len(shape), *shape)
        for front, (_, _, kind, shape, _) in zip(described, records, strict=True)
    ]
    header = 38 + len(fixed) + sum(len(front) + 16 for front in described)
    offset, table = header, b""
    for front, (*_, data) in zip(described, records, strict=True):
        table += front + struct.pack("<QQ", offset, len(data))
        offset += len(data)
    opening = b"LLMCP35\0" + struct.pack("<HIQQ", 1, 0x01020304, header, offset - header)
    return opening + bytes(8) + fixed + table + b"".join(data for *_, data in records)


@needs_c_library
def test_the_trained_model_has_the_published_bits() -> None:
    """144 parameters, twice as many moments, and the logits after tokens 0 and 1."""
    model, optimizer, groups = small_run(LIBM)
    data = checkpoint(model, optimizer, groups)
    assert 6330 == len(data)
    assert f"{CHECKPOINT:016x}" == f"{fnv1a64(data):016x}"
    (head,) = model.forward(Tape(LIBM, recording=False), [0, 1], 1)
    assert f"{LOGITS:016x}" == f"{fnv1a64(head.value.astype('<f8').tobytes()):016x}"


def test_strict_trains_to_the_same_numbers() -> None:
    """Within 1e-12 of the run with the C library, which has other last bits."""
    strict, libm = (small_run(arithmetic)[0] for arithmetic in (STRICT, LIBM))
    for one, other in zip(strict.parameters, libm.parameters, strict=True):
        assert abs(one.value - other.value).max() < 1e-12


@pytest.mark.exhaustive
@needs_corpus
@needs_c_library
def test_the_capstone_has_the_published_perplexity() -> None:
    """All seventeen digits, over 436 windows of the test documents; through exp and log the ninth decimal differs."""
    split = partition(parse_manifest(SPLITS.read_bytes()), parse_corpus(CORPUS.read_bytes()))
    merges = train([document.text.encode() for document in split.train], 8)
    tokenizer = BpeTokenizer([merge.pair for merge in merges])
    epochs = [
        Epoch(
            name,
            tuple(EncodedDocument(d.identifier, name, tuple(tokenizer.encode_document(d.text))) for d in documents),
            Windowing(4),
        )
        for name, documents in (("train", split.train), ("test", split.test))
    ]
    assert [1820, 436] == [len(epoch.slots()) for epoch in epochs]
    assert PERPLEXITY == perplexity(CAPSTONE, *epochs)


def perplexity(sizes: LlamaConfiguration, epoch: Epoch, test: Epoch) -> float:
    """Train 32 steps of 16 windows, and return the perplexity of all targets of the test windows."""
    model = Llama.initialize(sizes, SplitMix64(39))
    names = tuple(parameter.name for parameter in model.parameters)
    optimizer = AdamW(AdamWConfiguration(0.04), ParameterGroups(names))
    trained(model, epoch, shuffled_plan(epoch, 16, SplitMix64(39)), [0.04] * 32, 1.0, optimizer, LIBM)
    total, targets = 0.0, 0
    for batch in sequential_plan(test, 128):
        stories = windows(test, batch)
        total += float(model.loss(Tape(LIBM, recording=False), stories).value) * float(stories.target_count)
        targets += stories.target_count
    return math.exp(total / float(targets))
