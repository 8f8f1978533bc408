"""The slow decoder oracle against numbers worked by hand and against the outputs of the CAI library's sample nets.

The samples lie beside the checkout; without them only the hand-worked part runs.
"""

import json
import math
from functools import cache
from typing import TypedDict, cast

import pytest

from support_decoder_description import (
    Attention,
    Block,
    Decoder,
    Dense,
    Draft,
    Latent,
    Matrix,
    Model,
    Norm,
    Stack,
    StateSpace,
    Vector,
)
from support_decoder_elementary import LIBM, strict_elementary
from support_decoder_layers import (
    attend,
    dense,
    dynamic_tanh,
    embed,
    group_count,
    interleave,
    latent_attention,
    project,
    rotate,
    softmax,
    state_space,
    swiglu,
    token_shift,
    visible_keys,
)
from support_decoder_oracle import (
    decoder_logits,
    first_maximum,
    greedy,
    logits,
    mean_head_loss,
    mean_loss,
    row_loss,
    run_block,
)
from support_nn_file import KINDS, SAMPLES, Layer, describe, describe_decoder, load_nn, needs_samples, parse_layers

STRUCTURES = SAMPLES / "structures"
needs_structures = pytest.mark.skipif(
    not STRUCTURES.is_dir(), reason="the structure lines of the CAI library do not lie beside this checkout"
)


class Forward(TypedDict):
    """One input of a sample and its softmax rows."""

    input: list[int]
    output: Matrix


class Decode(TypedDict):
    """One prompt of a sample, its continuation and the rows of the streaming session."""

    prompt: list[int]
    greedy_full: list[int]
    greedy_session: list[int]
    session_rows: Matrix


class Sample(TypedDict):
    """The part of a sample that the oracle is compared with."""

    forward: list[Forward]
    decode: list[Decode]


@cache
def sample(kind: str) -> tuple[Model, Sample]:
    """Read one sample net and what the library computed with it."""
    recorded = cast(Sample, json.loads((SAMPLES / f"{kind}.json").read_text("utf-8")))
    return describe(load_nn(SAMPLES / f"{kind}.nn"), kind), recorded


def probabilities(model: Model, ids: list[int]) -> Matrix:
    """Return the softmax rows as the library lays them out: the heads of one position side by side."""
    heads = logits(model, ids, LIBM)
    return [[p for head in heads for p in softmax(head[position], LIBM)] for position in range(len(ids))]


def identity(width: int) -> Dense:
    """Return a projection that changes nothing."""
    return {"weight": [[float(i == j) for j in range(width)] for i in range(width)], "bias": [0.0] * width}


def constant(inputs: int, values: Vector) -> Dense:
    """Return a projection that ignores its input."""
    return {"weight": [[0.0] * len(values) for _ in range(inputs)], "bias": values}


def norm(width: int) -> Norm:
    """Return the norm tanh(x)."""
    return {"gamma": [1.0] * width, "beta": [0.0] * width, "alpha": 1.0}


def small_block(window: int | None = None) -> Block:
    """Return an attention block of width 2 whose query, key and value are the normed input itself."""
    mixer: Attention = {
        "kind": "attention",
        "heads": 1,
        "base": 10000.0,
        "window": window,
        "qkv": {"weight": [[1.0, 0.0] * 3, [0.0, 1.0] * 3], "bias": [0.0] * 6},
        "output": identity(2),
    }
    up: Dense = {"weight": [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]], "bias": [0.0] * 4}
    return {
        "wiring": "sequential",
        "norm1": norm(2),
        "mixer": mixer,
        "norm2": norm(2),
        "ffn": {"up": up, "down": identity(2)},
    }


def small_decoder(window: int | None = None) -> Decoder:
    """Return a one-block decoder of width 2 over five ids."""
    table = [[9.0, 9.0], [0.5, -1.0], [1.5, 0.25], [-0.75, 2.0], [0.125, 0.375]]
    output: Dense = {"weight": [[0.0, 1.0, -1.0, 0.5, 2.0], [0.5, 0.0, 1.0, -2.0, 1.0]], "bias": [0.0] * 5}
    return {"embedding": table, "blocks": [small_block(window)], "head": {"hidden": identity(2), "outputs": [output]}}


# Hand-worked numbers.


def test_id_zero_is_the_zero_vector_whatever_its_row_holds() -> None:
    """Row 0 of the table is never read."""
    table = [[9.0, 9.0], [1.0, 2.0]]
    assert [0.0, 0.0] == embed(table, 0)
    assert [1.0, 2.0] == embed(table, 1)


def test_bias_comes_after_the_whole_ascending_sum() -> None:
    """1e16 + 1 loses the one, so the place of every term shows."""
    assert [0.0] == dense([1.0, 1.0, 1.0], {"weight": [[1e16], [1.0], [-1e16]], "bias": [0.0]})
    assert [1.0] == dense([1.0, 1.0], {"weight": [[1e16], [-1e16]], "bias": [1.0]})


def test_weight_is_stored_inputs_by_outputs() -> None:
    """Row k of the matrix belongs to input k."""
    layer: Dense = {"weight": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "bias": [0.5, 0.0, 0.0]}
    assert [41.5, 52.0, 63.0] == dense([1.0, 10.0], layer)


@pytest.mark.parametrize(
    ("step", "expected"),
    [(1, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), (2, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]), (3, [0.0, 2.0, 4.0, 1.0, 3.0, 5.0])],
)
def test_interleave_transposes_the_groups(step: int, expected: Vector) -> None:
    """Six channels in groups of `step` are dealt out one from each group in turn."""
    assert expected == interleave([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], step)


def test_grouped_stack_that_widens_only_shuffles() -> None:
    """Two inputs in two groups give four outputs, and the middle two change places."""
    first: Dense = {"weight": [[1.0, 2.0, 3.0, 4.0]], "bias": [0.0, 0.0, 0.0, 0.5]}
    plain: Stack = {"groups": 2, "first": first, "second": None, "interleave": False}
    assert [10.0, 20.0, 300.0, 400.5] == project([10.0, 100.0], plain)
    assert [10.0, 300.0, 20.0, 400.5] == project([10.0, 100.0], {**plain, "interleave": True})


def test_second_convolution_reads_the_shuffled_and_adds_the_unshuffled() -> None:
    """With A the input itself, B sums each pair of shuffled neighbours; the result is B + A."""
    first: Dense = {"weight": [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]], "bias": [0.0] * 4}
    second: Dense = {"weight": [[1.0] * 4, [1.0] * 4], "bias": [0.0] * 4}
    row = [1.0, 2.0, 30.0, 40.0]
    assert [32.0, 33.0, 72.0, 82.0] == project(row, {"groups": 2, "first": first, "second": second, "interleave": True})


def test_group_counts_are_those_of_the_published_builders() -> None:
    """Widths of phase 7 with 16 inputs a group at least, and widths that leave one group."""
    assert [8, 8, 32, 8] == [group_count(*widths, 16) for widths in ((128, 128), (128, 1024), (512, 128), (128, 3000))]
    assert [1, 1] == [group_count(7, 5, 1), group_count(8, 8, 9)]


def test_norm_multiplies_before_and_adds_after_the_tanh() -> None:
    """Gamma 2, beta 1, alpha 0.5 at 0 and at 4."""
    values: Norm = {"gamma": [2.0, 2.0], "beta": [1.0, 1.0], "alpha": 0.5}
    assert [1.0, 2.0 * math.tanh(2.0) + 1.0] == dynamic_tanh([0.0, 4.0], values, LIBM)


def test_gate_is_the_second_half() -> None:
    """A zero gate closes whatever the first half holds, and a zero first half gives zero."""
    assert [0.0, 0.0] == swiglu([3.0, 0.0, 0.0, 5.0], LIBM)
    assert pytest.approx([2.0 / (1.0 + math.exp(-1.0)), -2.0 / (1.0 + math.e)]) == swiglu([2.0, 2.0, 1.0, -1.0], LIBM)


def test_position_zero_is_not_rotated() -> None:
    """The angle is 0 for every pair."""
    assert [1.0, -2.0, 3.0, 4.0] == rotate([1.0, -2.0, 3.0, 4.0], 0, 10000.0, LIBM)


def test_adjacent_pairs_turn_counter_clockwise() -> None:
    """Width 4 and base 100: the pairs turn by p and p/10."""
    expected = [math.cos(3.0), math.sin(3.0), -math.sin(0.3), math.cos(0.3)]
    assert pytest.approx(expected, abs=1e-15) == rotate([1.0, 0.0, 0.0, 1.0], 3, 100.0, LIBM)


def test_window_counts_the_current_token() -> None:
    """A window of W shows W keys with the own one; None shows all."""
    assert [[0], [0, 1], [1, 2], [2, 3]] == [visible_keys(position, 2) for position in range(4)]
    assert [[0], [1]] == [visible_keys(position, 1) for position in range(2)]
    assert [[0], [0, 1], [0, 1, 2]] == [visible_keys(position, None) for position in range(3)]


def test_equal_scores_average_the_visible_values() -> None:
    """Zero queries see means: of the last two values in a window of 2, of all without one."""
    zeros, values = [[0.0, 0.0]] * 4, [[1.0], [2.0], [3.0], [6.0]]
    assert [[1.0], [1.5], [2.5], [4.5]] == attend(zeros, zeros, values, 2, LIBM)
    assert [[1.0], [1.5], [pytest.approx(2.0)], [3.0]] == attend(zeros, zeros, values, None, LIBM)


def test_attention_scale_is_the_root_of_the_head_width() -> None:
    """Four ones against keys 0 and 1 score 0 and 4/2, so the second key has the logistic of 2."""
    mixed = attend([[1.0] * 4] * 2, [[0.0] * 4, [1.0] * 4], [[0.0], [1.0]], None, LIBM)
    assert [[0.0], [pytest.approx(1.0 / (1.0 + math.exp(-2.0)))]] == mixed


def test_latent_scale_counts_the_rope_channels() -> None:
    """One content and two rope channels: the scores 0 and 3 are divided by the root of three."""
    mixer: Latent = {
        "kind": "latent",
        "heads": 1,
        "base": 10000.0,
        "query": constant(1, [1.0]),
        "latent": identity(1),
        "key": identity(1),
        "value": identity(1),
        "rope_query": constant(1, [0.0, 0.0]),
        "rope_key": constant(1, [1.0, 1.0]),
        "output": identity(1),
    }
    expected = 3.0 / (1.0 + math.exp(-3.0 / math.sqrt(3.0)))
    assert [[0.0], [pytest.approx(expected)]] == latent_attention([[0.0], [3.0]], mixer, 0, LIBM)
    narrow: Latent = {**mixer, "rope_query": None, "rope_key": None}
    assert [[0.0], [pytest.approx(3.0 / (1.0 + math.exp(-3.0)))]] == latent_attention([[0.0], [3.0]], narrow, 0, LIBM)


def test_latent_heads_share_one_rotated_key() -> None:
    """With opposite rope queries, two heads weigh the two positions the other way round."""
    mixer: Latent = {
        "kind": "latent",
        "heads": 2,
        "base": 10000.0,
        "query": constant(1, [0.0, 0.0]),
        "latent": identity(1),
        "key": constant(1, [0.0, 0.0]),
        "value": {"weight": [[1.0, 1.0]], "bias": [0.0, 0.0]},
        "rope_query": constant(1, [1.0, 0.0, -1.0, 0.0]),
        "rope_key": constant(1, [1.0, 0.0]),
        "output": identity(2),
    }
    own, other = latent_attention([[0.0], [1.0]], mixer, 5, LIBM)[1]
    # Same position: score 1, one apart: cos 1; both over the root of three.
    margin = (1.0 - math.cos(1.0)) / math.sqrt(3.0)
    assert pytest.approx([1.0 / (1.0 + math.exp(-margin)), 1.0 / (1.0 + math.exp(margin))]) == [own, other]


def test_state_space_runs_three_steps() -> None:
    """A = 1/2, b = 2, c = 3, e = 1 on 1, 0, -1: states 2, 1, -1.5."""
    mixer: StateSpace = {
        "kind": "ssm",
        "input": identity(1),
        "a_raw": [0.0],
        "b": [2.0],
        "c": [3.0],
        "e": [1.0],
        "output": identity(1),
    }
    assert [[7.0], [3.0], [-5.5]] == state_space([[1.0], [0.0], [-1.0]], mixer, LIBM)


def test_token_shift_mixes_with_the_position_before() -> None:
    """A quarter of the current and three quarters of the previous token, which is zero at first."""
    assert [[1.0], [5.0]] == token_shift([[4.0], [8.0]], [0.25])


def test_draft_applies_relu_between_its_projections() -> None:
    """Hidden values 1 and -1 leave only the first, and the previous token counts by half."""
    hidden: Dense = {"weight": [[1.0, -1.0]], "bias": [0.0, 0.0]}
    draft: Draft = {
        "embedding": [[7.0], [2.0], [4.0]],
        "mix": [0.5],
        "hidden": hidden,
        "output": {"weight": [[1.0, 10.0], [100.0, 100.0]], "bias": [0.25, 0.0]},
    }
    assert [[[1.25, 10.0], [3.25, 30.0], [2.25, 20.0]]] == logits(draft, [1, 2, 0], LIBM)


def test_parallel_block_feeds_both_branches_from_one_norm() -> None:
    """The feed-forward branch of a parallel block sees tanh(x), of a sequential one tanh(x + A)."""
    block = small_block()
    block["mixer"] = {**cast(Attention, block["mixer"]), "output": constant(2, [3.0, 4.0])}
    rows = [[0.5, 0.0]]

    def branch(x: float) -> float:
        return x * (x / (1.0 + math.exp(-x)))

    alone = [3.0 + 0.5 + branch(math.tanh(3.5)), 4.0 + branch(math.tanh(4.0))]
    assert [pytest.approx(alone)] == run_block(rows, block, 0, LIBM)
    both = [3.0 + 0.5 + branch(math.tanh(0.5)), 4.0]
    assert [pytest.approx(both)] == run_block(rows, {**block, "wiring": "parallel"}, 0, LIBM)


def test_parallel_sum_runs_from_left_to_right() -> None:
    """(1 + 1e16) - 1e16 is 0, the other two orders give 1."""
    block = small_block()
    block["wiring"] = "parallel"
    block["mixer"] = {**cast(Attention, block["mixer"]), "output": constant(2, [1e16, 0.0])}
    block["ffn"] = {**block["ffn"], "down": constant(2, [-1e16, 0.0])}
    assert [[0.0, 1.0]] == run_block([[1.0, 1.0]], block, 0, LIBM)


def test_later_tokens_leave_earlier_logits_alone() -> None:
    """Every prefix has the logits of the whole sequence, bit for bit."""
    model, ids = small_decoder(2), [1, 3, 0, 2, 4]
    (whole,) = decoder_logits(model, ids, LIBM)
    assert [whole[:n] for n in range(1, 6)] == [decoder_logits(model, ids[:n], LIBM)[0] for n in range(1, 6)]


def test_window_hides_old_tokens_from_one_block() -> None:
    """In a window of 2 the last row ignores the first of three tokens; without a window it does not."""
    for window, same in ((2, True), (None, False)):
        last = [decoder_logits(small_decoder(window), [first, 2, 3], LIBM)[0][-1] for first in (1, 4)]
        assert same == (last[0] == last[1])


def test_only_relative_positions_count() -> None:
    """Another start position changes logits by rounding alone."""
    model, ids = small_decoder(), [1, 3, 2, 4]
    (near,), (far,) = decoder_logits(model, ids, LIBM), decoder_logits(model, ids, LIBM, start=40)
    assert [pytest.approx(row, abs=1e-12) for row in near] == far
    assert near != far


def test_arithmetics_agree_up_to_rounding() -> None:
    """strict/1 and the C library give the same logits within a few units in the last place."""
    model, ids = small_decoder(), [1, 3, 2, 4]
    (strict,), (library,) = decoder_logits(model, ids, strict_elementary()), decoder_logits(model, ids, LIBM)
    assert [pytest.approx(row, rel=1e-13, abs=1e-14) for row in library] == strict


def test_lowest_id_wins_a_tie() -> None:
    """Equal logits choose the first, and decoding stops where told."""
    assert 1 == first_maximum([1.0, 3.0, 3.0])
    model = small_decoder()
    model["head"]["outputs"] = [constant(2, [0.0, 2.0, 2.0, 1.0, 0.0])]
    assert [3, 1, 1, 1] == greedy(model, [3], 4, LIBM)
    assert [3, 1] == greedy(model, [3], 4, LIBM, eos=1)


def test_losses_skip_the_first_maximum_once() -> None:
    """Four equal logits cost log 4; means are taken over targets and then over heads."""
    flat = [0.5, 0.5, 0.5, 0.5]
    assert math.log1p(3.0) == row_loss(flat, 2, LIBM)
    sure = [0.0, 0.0, -800.0, -800.0]
    assert [math.log1p(1.0), 800.0 + math.log1p(1.0)] == [row_loss(sure, target, LIBM) for target in (1, 3)]
    mean = (math.log1p(3.0) + math.log1p(1.0)) / 2.0
    assert mean == mean_loss([(flat, 2), (sure, 1)], LIBM)
    assert (mean + math.log1p(3.0)) / 2.0 == mean_head_loss([[(flat, 2), (sure, 1)], [(flat, 0)]], LIBM)


# The sample nets.


@needs_samples
@pytest.mark.parametrize("kind", KINDS)
def test_softmax_rows_match_the_library(kind: str) -> None:
    """Every row of the three recorded inputs agrees within single precision."""
    model, recorded = sample(kind)
    assert 3 == len(recorded["forward"])
    for case in recorded["forward"]:
        rows = probabilities(model, case["input"])
        assert [pytest.approx(row, rel=0.0, abs=2e-6) for row in case["output"]] == rows


@needs_samples
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_ids_match_the_library(kind: str) -> None:
    """The three prompts are continued to six ids exactly as by full re-encoding."""
    model, recorded = sample(kind)
    expected = [case["greedy_full"] for case in recorded["decode"]]
    assert expected == [greedy(model, case["prompt"], 6, LIBM) for case in recorded["decode"]]


@needs_samples
@pytest.mark.parametrize("kind", KINDS)
def test_session_rows_match_the_library(kind: str) -> None:
    """Streaming gives the rows of the whole sequence, except that a streamed draft forgets its previous token."""
    model, recorded = sample(kind)
    for case in recorded["decode"]:
        ids = case["greedy_session"][:-1]
        forgetful = [row for token in ids for row in probabilities(model, [token])]
        rows = forgetful if kind == "draft" else probabilities(model, ids)
        assert [pytest.approx(row, rel=0.0, abs=2e-6) for row in case["session_rows"]] == rows


def hollow(structure: str) -> list[Layer]:
    """Read a structure line as a net whose every neuron has a single weight 0."""
    counts = {"TNNetEmbedding": 1, "TNNetDyT": 3, "TNNetDiagonalSSM": 4}
    layers = parse_layers(structure, [[] for _ in structure.split("#")])
    for layer in layers:
        count = layer.integers[0] if "PointwiseConv" in layer.name else counts.get(layer.name, 0)
        layer.neurons.extend((0.0, [0.0]) for _ in range(count))
    return layers


@needs_structures
@pytest.mark.parametrize(
    ("phase", "wiring", "mixers"),
    [
        (1, "sequential", [("attention", None), ("attention", None)]),
        (2, "sequential", [("attention", None), ("attention", None)]),
        (3, "sequential", [("ssm", None), ("ssm", None)]),
        (4, "sequential", [("latent", None), ("latent", None)]),
        (6, "sequential", [("ssm", None), ("latent", None), ("ssm", None)]),
        (7, "sequential", [("ssm", None), ("latent", None), ("ssm", None)]),
        (8, "sequential", [("attention", 12), ("attention", None)]),
        (9, "parallel", [("attention", None), ("attention", None)]),
    ],
)
def test_published_structures_are_read_as_the_phases(
    phase: int, wiring: str, mixers: list[tuple[str, int | None]]
) -> None:
    """The loader finds wiring, mixers, windows and heads in the structure lines of the full-size nets."""
    line = (STRUCTURES / f"phase{phase}.structure.txt").read_text("ascii").strip()
    model = describe_decoder(hollow(line))
    assert mixers == [(block["mixer"]["kind"], block["mixer"].get("window")) for block in model["blocks"]]
    assert {wiring} == {block["wiring"] for block in model["blocks"]}
    assert {8} >= {block["mixer"].get("heads", 8) for block in model["blocks"]}
    assert (3 if phase == 2 else 1) == len(model["head"]["outputs"])
