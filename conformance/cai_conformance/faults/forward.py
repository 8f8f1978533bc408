"""Faults of the rest of a forward pass: embedding, gates, wiring, groups, head, recurrence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from cai_conformance.faults.fault import FORWARD, Fault
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import DENSE, given
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import (
    Tape,
    Variable,
    add,
    channels,
    elementwise,
    matmul,
    multiply,
    permute_channels,
    scale,
    sigmoid,
    silu,
    swap_axes,
    tanh,
)
from cai_reference.decoding import layer_states
from cai_reference.decoding.layer_states import LayerState
from cai_reference.decoding.session import Session
from cai_reference.layers import diagonal_ssm, embedding, projection
from cai_reference.layers.feed_forward import FeedForward
from cai_reference.layers.gated_feed_forward import GatedFeedForward
from cai_reference.layers.observation import Observe, ignore
from cai_reference.layers.projection import GroupedLinear
from cai_reference.models.block import Block, Norm, TokenLayer
from cai_reference.models.head import VocabularyHead


def _halves_exchanged(planting: Planting) -> None:
    """Gate with what should be gated, in both kinds of layers."""
    gated = GatedFeedForward.__call__

    def wrong(layer: FeedForward, tape: Tape, x: Variable, observe: Observe = ignore) -> Variable:
        slab = layer.up(tape, x)
        inner = slab.shape[-1] // 2
        gate = silu(tape, channels(tape, slab, 0, inner))
        product = multiply(tape, channels(tape, slab, inner, 2 * inner), gate)
        observe("gated", product)
        return layer.down(tape, product)

    def wrong_gated(layer: GatedFeedForward, tape: Tape, x: Variable, observe: Observe = ignore) -> Variable:
        return gated(replace(layer, gate=layer.up, up=layer.gate), tape, x, observe)

    planting.method(FeedForward, "__call__", wrong)
    planting.method(GatedFeedForward, "__call__", wrong_gated)


def _gelu(planting: Planting) -> None:
    """Put the tanh form of GELU in the place of SiLU."""

    def wrong(tape: Tape, x: Variable) -> Variable:
        cube = multiply(tape, multiply(tape, x, x), x)
        inner = scale(tape, add(tape, x, scale(tape, cube, 0.044715)), math.sqrt(2.0 / math.pi))
        return multiply(tape, scale(tape, x, 0.5), add(tape, tanh(tape, inner), tape.constant(np.ones(1))))

    planting.function(elementwise.silu, wrong)


def _in_sequence(planting: Planting) -> None:
    """Run a parallel block one layer behind the other, with its only norm twice."""
    right, streaming = Block.__call__, Session._through

    def wrong(
        block: Block[Norm, TokenLayer], tape: Tape, x: Variable, start: int, observe: Observe = ignore
    ) -> Variable:
        return right(_with_two_norms(block), tape, x, start, observe)

    def wrong_through(
        session: Session, block: Block[Norm, TokenLayer], state: LayerState, x: Array, position: int
    ) -> tuple[Array, LayerState]:
        return streaming(session, _with_two_norms(block), state, x, position)

    planting.method(Block, "__call__", wrong)
    planting.method(Session, "_through", wrong_through)


def _with_two_norms(block: Block[Norm, TokenLayer]) -> Block[Norm, TokenLayer]:
    return block if block.norm2 is not None else replace(block, norm2=block.norm1)


def _side_by_side(planting: Planting) -> None:
    """Run a sequential block as a parallel one: both layers read the first norm."""
    right, streaming = Block.__call__, Session._through

    def wrong(
        block: Block[Norm, TokenLayer], tape: Tape, x: Variable, start: int, observe: Observe = ignore
    ) -> Variable:
        return right(replace(block, norm2=None), tape, x, start, observe)

    def wrong_through(
        session: Session, block: Block[Norm, TokenLayer], state: LayerState, x: Array, position: int
    ) -> tuple[Array, LayerState]:
        return streaming(session, replace(block, norm2=None), state, x, position)

    planting.method(Block, "__call__", wrong)
    planting.method(Session, "_through", wrong_through)


def _groups_strided(planting: Planting) -> None:
    """Let group g take every G-th input from g on, where it should take a run of neighbours."""
    right = GroupedLinear.__call__

    def wrong(layer: GroupedLinear, tape: Tape, x: Variable) -> Variable:
        groups, inputs, _ = layer.weight.shape
        order = [place * groups + group for group in range(groups) for place in range(inputs)]
        return right(layer, tape, permute_channels(tape, x, order))

    planting.method(GroupedLinear, "__call__", wrong)


def _groups_apart(planting: Planting) -> None:
    def wrong(width: int, step: int) -> list[int]:
        return list(range(width))

    planting.function(projection.interleaving, wrong)


def _embedding_scaled(planting: Planting) -> None:
    right = embedding

    def wrong(
        tape: Tape, table: Variable, ids: Sequence[int], shape: tuple[int, ...], zero_id: int | None = None
    ) -> Variable:
        return scale(tape, right(tape, table, ids, shape, zero_id), math.sqrt(table.shape[1]))

    planting.function(right, wrong)


def _padding_embedded(planting: Planting) -> None:
    right = embedding

    def wrong(
        tape: Tape, table: Variable, ids: Sequence[int], shape: tuple[int, ...], zero_id: int | None = None
    ) -> Variable:
        return right(tape, table, ids, shape, None)

    planting.function(right, wrong)


def _no_final_norm(planting: Planting) -> None:
    def wrong(head: VocabularyHead, tape: Tape, x: Variable, observe: Observe = ignore) -> list[Variable]:
        observe("final_norm", x)
        logits = head.output(tape, x)
        observe("logits.0", logits)
        return [logits]

    planting.method(VocabularyHead, "__call__", wrong)


def _square_transposed(planting: Planting) -> None:
    """Use square matrices as they lie in a file of the other convention."""
    right = matmul

    def wrong(tape: Tape, left: Variable, matrix: Variable) -> Variable:
        rank = len(matrix.shape)
        square = rank < 4 and matrix.value.size == matrix.shape[-1] * matrix.shape[-1]
        return right(tape, left, swap_axes(tape, matrix, rank - 2, rank - 1) if square else matrix)

    planting.function(right, wrong)


def _euler(planting: Planting) -> None:
    """Take 1 + ln σ(a), the first two terms of the exponential, for the decay σ(a)."""

    def of(arithmetic: Arithmetic, x: Array) -> Array:
        return 1.0 + arithmetic.log(sigmoid(arithmetic, x))

    def wrong(tape: Tape, x: Variable) -> Variable:
        def pullback(adjoint: Array) -> tuple[Array]:
            return (adjoint * (1.0 - sigmoid(tape.arithmetic, x.value)),)

        return tape.record("euler", of(tape.arithmetic, x.value), (x,), pullback)

    planting.name(diagonal_ssm, "logistic", wrong)
    planting.name(layer_states, "sigmoid", of)


FEEDING: Final = (
    Fault(
        "swiglu.halves-exchanged",
        "gate and gated exchanged",
        "SiLU is applied to the half that should be multiplied, or to `up` instead of `gate`.",
        "",
        FORWARD,
        _halves_exchanged,
        "gate",
        vehicles=given(DENSE, "cai.kv-cache"),
        expected=("fwd.oracle",),
    ),
    Fault(
        "swiglu.gelu-for-silu",
        "GELU in the place of SiLU",
        "The gate goes through the tanh form of GELU.",
        "huggingface/transformers#29402; kyutai-labs/pocket-tts#278",
        FORWARD,
        _gelu,
        "activation",
        kinds=("F03",),
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
)

WIRING: Final = (
    Fault(
        "block.sequential-for-parallel",
        "parallel block run in sequence",
        "The feed-forward layer reads what attention has added, where both should read one norm of the input.",
        "NVIDIA/TransformerEngine#625; allenai/OLMo#222",
        FORWARD,
        _in_sequence,
        "wiring",
        kinds=("F05",),
        vehicles=given("cai.parallel-block"),
        expected=("fwd.oracle",),
    ),
    Fault(
        "block.parallel-for-sequential",
        "sequential block run in parallel",
        "The feed-forward layer reads the first norm, where it should read a norm of what attention has added.",
        "TransformerLensOrg/TransformerLens#1649",
        FORWARD,
        _side_by_side,
        "wiring",
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
    Fault(
        "projection.groups-strided",
        "groups of channels taken with a stride",
        "Group g takes every G-th channel, where it should take a run of neighbours.",
        "pytorch/pytorch#19912",
        FORWARD,
        _groups_strided,
        "groups",
        kinds=("F07",),
        vehicles=given("cai.grouped-hybrid"),
        expected=("fwd.oracle",),
    ),
    Fault(
        "projection.groups-apart",
        "grouped outputs not interleaved",
        "The second grouped map reads its own group only, so that groups never talk.",
        "",
        FORWARD,
        _groups_apart,
        "interleaving",
        vehicles=given("cai.grouped-hybrid"),
        expected=("fwd.oracle",),
    ),
    Fault(
        "projection.square-transposed",
        "square matrices transposed",
        "A matrix with as many inputs as outputs is used as it lies in a file of the other convention.",
        "nntile/nntile#370",
        FORWARD,
        _square_transposed,
        "transpose",
        kinds=("F04",),
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
    Fault(
        "embedding.scaled",
        "embeddings multiplied by √width",
        "As some families of models do.",
        "",
        FORWARD,
        _embedding_scaled,
        "embedding scale",
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
    Fault(
        "embedding.padding-embedded",
        "id 0 has an embedding",
        "The row of id 0 is used, where id 0 embeds to zero.",
        "",
        FORWARD,
        _padding_embedded,
        "padding",
        vehicles=given("cai.local-global"),
        expected=("fwd.oracle",),
    ),
    Fault(
        "head.no-final-norm",
        "no norm before the head",
        "The rows of the last block are multiplied with the output matrix as they are.",
        "",
        FORWARD,
        _no_final_norm,
        "final norm",
        vehicles=given(DENSE),
        expected=("fwd.oracle",),
    ),
    Fault(
        "ssm.euler",
        "Euler's step for the decay",
        "The decay is 1 − Δ instead of exp(−Δ).",
        "state-spaces/mamba#114; johnma2006/mamba-minimal#2",
        FORWARD,
        _euler,
        "recurrence",
        kinds=("S06",),
        vehicles=given("cai.diagonal-ssm"),
        expected=("fwd.oracle",),
    ),
)
