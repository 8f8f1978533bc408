"""The sample nets of the CAI library on this project's layers: rows, greedy ids, streaming, gradients.

The library computes in single precision; its rows are met within 1e-5 and its gradients within 5e-5 of a tensor's
largest element. The samples lie beside the checkout and are no part of this repository.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TypedDict, cast

import numpy as np
import pytest

import support_decoder_description as plain
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd.backward import backward
from cai_reference.autograd.features import concatenate, relu, softmax
from cai_reference.decoding.errors import SessionError
from cai_reference.decoding.greedy import greedy_token
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.layers import ignore
from cai_reference.models.decoder import Decoder
from cai_reference.models.token_shift_draft import TokenShiftDraft
from support_decoder_conversion import Model, described, gradient_of, model_of
from support_nn_file import KINDS, SAMPLES, describe, load_nn, needs_samples, parse_layers
from support_refusals import raises

CONTEXT = 6
DECODERS = [kind for kind in KINDS if kind != "draft"]
ARITHMETICS = [pytest.param(arithmetic, id=arithmetic.identifier) for arithmetic in (FAST, STRICT)]
SILENT = Tape(STRICT, recording=False)


class Forward(TypedDict):
    """One input and its softmax rows, the heads side by side."""

    input: list[int]
    output: list[list[float]]


class Decode(TypedDict):
    """One prompt, its greedy continuation to six ids, and the rows of a streaming session fed with the first five."""

    prompt: list[int]
    greedy_full: list[int]
    greedy_session: list[int]
    session_rows: list[list[float]]


class Sizes(TypedDict):
    """The part of a sample's configuration that its layers do not tell."""

    min_channels_per_group: int


class Sample(TypedDict):
    """What the library computed."""

    config: Sizes
    forward: list[Forward]
    decode: list[Decode]


class Step(TypedDict):
    """One step of a recorded session: the token fed, its position, the softmax row behind it."""

    token: int
    pos: int
    cache_len: int
    row: list[float]


def recorded(name: str) -> object:
    """Read a JSON file of the samples."""
    return json.loads((SAMPLES / name).read_text("utf-8"))


@cache
def sample(kind: str) -> tuple[Model, Sample]:
    """Return a sample net as a model of this project, and what the library computed with it."""
    answers = cast(Sample, recorded(f"{kind}.json"))
    groups = answers["config"]["min_channels_per_group"] or None
    return model_of(describe(load_nn(SAMPLES / f"{kind}.nn"), kind), CONTEXT, groups), answers


def decoder(kind: str) -> tuple[Decoder, Sample]:
    """Return a sample net that is a decoder."""
    model, answers = sample(kind)
    assert isinstance(model, Decoder)
    return model, answers


def probabilities(arithmetic: Arithmetic, logits: list[Array]) -> Array:
    """Return softmax rows [tokens, heads · vocabulary]."""
    tape = Tape(arithmetic, recording=False)
    rows = [softmax(tape, tape.constant(head), head.ndim - 1).value for head in logits]
    return np.concatenate([head.reshape(-1, head.shape[-1]) for head in rows], axis=1)


def worst(expected: Sequence[object] | Array, actual: Array) -> float:
    """Return the largest difference."""
    wanted = np.asarray(expected, dtype=np.float64)
    assert wanted.shape == actual.shape
    return float(np.max(np.abs(wanted - actual)))


@needs_samples
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@pytest.mark.parametrize("kind", KINDS)
def test_softmax_rows_are_those_of_the_library(kind: str, arithmetic: Arithmetic) -> None:
    """All three recorded inputs, every position, every head."""
    model, answers = sample(kind)
    assert 3 == len(answers["forward"])
    for case in answers["forward"]:
        logits = model.forward(Tape(arithmetic, recording=False), case["input"], 1)
        assert worst(case["output"], probabilities(arithmetic, [head.value for head in logits])) < 1e-5


@needs_samples
@pytest.mark.parametrize("kind", KINDS)
def test_encoding_again_continues_with_the_ids_of_the_library(kind: str) -> None:
    """Each prompt is continued to six ids by the batch path."""
    model, answers = sample(kind)
    for case in answers["decode"]:
        ids = list(case["prompt"])
        while len(ids) < CONTEXT:
            ids.append(greedy_token(model.forward(SILENT, ids, 1)[0].value[0, -1]))
        assert case["greedy_full"] == ids


@needs_samples
@pytest.mark.parametrize("kind", DECODERS)
def test_streaming_gives_rows_and_ids_of_the_library(kind: str) -> None:
    """Each prompt goes in token by token; every row on the way was recorded."""
    model, answers = decoder(kind)
    for case in answers["decode"]:
        session = Session(model, STRICT)
        ids, rows = list(case["prompt"]), []
        for place in range(CONTEXT - 1):
            logits = session.feed(ids[place : place + 1])
            rows.append(probabilities(STRICT, logits)[0])
            if place + 1 == len(ids):
                ids.append(greedy_token(logits[0][0]))
        assert case["greedy_session"] == ids
        assert worst(case["session_rows"], np.array(rows)) < 1e-5


@needs_samples
@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_cutting_back_and_restoring_are_those_of_the_library(arithmetic: Arithmetic) -> None:
    """Tokens 3 to 8, cut back to two, and a snapshot after three: the recorded rows and lengths."""
    steps = cast(dict[str, list[Step]], recorded("session_edge.json"))
    session = Session(decoder("phase1")[0], arithmetic)

    def replay(name: str) -> None:
        for step in steps[name]:
            assert step["pos"] == session.length
            row = probabilities(arithmetic, session.feed([step["token"]]))[0]
            assert step["cache_len"] == session.length
            assert worst(step["row"], row) < 1e-5

    replay("plain")
    session.reset()
    replay("pre_truncate")
    session.truncate(2)
    replay("after_truncate_to_2")
    session.reset()
    replay("pre_snapshot")
    snapshot = session.snapshot()
    replay("after_snapshot_first")
    session.restore(snapshot)
    replay("after_restore")


@needs_samples
def test_a_full_cache_refuses_where_the_library_goes_on() -> None:
    """The library prints a line and computes with what attention gave before; here nothing is fed."""
    steps = cast(dict[str, list[Step]], recorded("session_edge.json"))["overflow_maxcache2"]
    session = Session(decoder("phase1")[0], STRICT, SessionOptions(capacity=2))
    for step in steps[:2]:
        assert worst(step["row"], probabilities(STRICT, session.feed([step["token"]]))[0]) < 1e-5
    for step in steps[2:]:
        assert 2 == step["cache_len"]
        with raises(SessionError("capacity-exceeded", length=2, count=1, capacity=2)):
            session.feed([step["token"]])
    assert 2 == session.length


# Gradients. The library sums them over examples and rows and takes p − y as the adjoint of the last layer. It trains
# rows without a target to predict token 0 (several heads: to predict nothing, y = 0), and gives the adjoint of a padded
# position to the token that it last saw at that position.


def wanted(model: Model, story: list[int]) -> Array:
    """Return y [tokens, heads · vocabulary] of a story."""
    heads = len(model.outputs) if isinstance(model, Decoder) else 1
    result = np.zeros((CONTEXT, heads, len(model.table.value)))
    for row in range(CONTEXT):
        for head in range(heads):
            target = row + 1 + head
            if target < len(story):
                result[row, head, story[target]] = 1.0
            elif heads == 1:
                result[row, head, 0] = 1.0
    return result.reshape(CONTEXT, -1)


def sweep(model: Model, embedded: Variable, story: list[int]) -> None:
    """Send p − y back: into the logits of a single head, into the softmax of several."""
    tape = Tape(FAST)
    if isinstance(model, TokenShiftDraft):
        logits = [model.output(tape, relu(tape, model.hidden(tape, model.shift(tape, embedded))))]
    else:
        x = embedded
        for block in model.blocks:
            x = block(tape, x, 0, ignore)
        hidden = model.hidden(tape, x)
        logits = [output(tape, hidden) for output in model.outputs]
    adjoint = (probabilities(FAST, [head.value for head in logits]) - wanted(model, story))[None]
    if len(logits) == 1:
        backward(logits[0], adjoint)
    else:
        backward(concatenate(tape, [softmax(tape, head, 2) for head in logits]), adjoint)


def summed_gradients(model: Model, stories: list[list[int]]) -> None:
    """Store in the parameters what the library would."""
    last_seen = [0] * CONTEXT
    table = np.zeros(model.table.shape)
    for story in stories:
        ids = story[:CONTEXT] + [0] * max(0, CONTEXT - len(story))
        last_seen = [token or seen for token, seen in zip(ids, last_seen, strict=True)]
        embedded = Parameter("embedded", np.where(np.array(ids)[:, None] == 0, 0.0, model.table.value[ids])[None])
        sweep(model, embedded, story)
        for token, piece in zip(last_seen, embedded.gradient[0], strict=True):
            table[token] += piece if token else 0.0
    model.table.gradient = table


def library_gradient(kind: str) -> plain.Model:
    """Return the recorded gradient, described like a net."""
    layers = cast(dict[str, dict[str, list[tuple[float, list[float]]]]], recorded(f"{kind}.grad.json"))["layers"]
    structure = (SAMPLES / f"{kind}.nn").read_text("ascii").splitlines()[0]
    return describe(parse_layers(structure, [layers.get(str(n), []) for n in range(structure.count("#") + 1)]), kind)


def tensors(node: object, path: str = "") -> Iterator[tuple[str, Array]]:
    """Yield every list of numbers of a description."""
    if isinstance(node, dict):
        for name, below in node.items():
            yield from tensors(below, f"{path}.{name}")
    elif isinstance(node, list) and node and isinstance(node[0], dict):
        for number, below in enumerate(node):
            yield from tensors(below, f"{path}.{number}")
    elif isinstance(node, list):
        yield path, np.array(node)


@needs_samples
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_library(kind: str) -> None:
    """Every tensor, by the library's rules for padding; of the content key bias, which is 0, it has only noise."""
    _, answers = sample(kind)
    groups = answers["config"]["min_channels_per_group"] or None
    model = model_of(describe(load_nn(SAMPLES / f"{kind}.nn"), kind), CONTEXT, groups)
    stories = cast(dict[str, list[list[int]]], recorded(f"{kind}.train.json"))["stories"][:2]
    assert [9, 3] == [len(story) for story in stories]
    summed_gradients(model, stories)
    ours = dict(tensors(described(model, gradient_of)))
    theirs = dict(tensors(library_gradient(kind)))
    assert set(theirs) == set(ours)
    for path, expected in theirs.items():
        if path.endswith(".mixer.key.bias"):
            assert np.max(np.abs(ours[path])) < 1e-12
        else:
            assert worst(expected, ours[path]) <= 5e-5 * float(np.max(np.abs(expected))), path
