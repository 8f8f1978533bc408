"""Faults of the rest of a forward pass: embedding, gates, wiring, groups, head, recurrence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Final

import numpy as np

from cai_conformance.faults.fault import FORWARD, Family, Place
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import DENSE, NGRAM, Sight, exact, given
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable, operations
from cai_reference.autograd.features import channels, permute_channels, tanh
from cai_reference.autograd.operations import add, matmul, multiply, scale, silu, swap_axes
from cai_reference.decoding.session import Session
from cai_reference.layers import Observe, ignore, projection
from cai_reference.layers.feed_forward import GatedFeedForward
from cai_reference.layers.matrices import embedding
from cai_reference.layers.projection import GroupedLinear
from cai_reference.layers.slab_feed_forward import FeedForward
from cai_reference.layers.swiglu import swiglu
from cai_reference.models.neural_ngram import NeuralNgram
from cai_reference.models.stack import Block, Norm, TokenLayer, VocabularyHead


def _with_two_norms(block: Block[Norm, TokenLayer]) -> Block[Norm, TokenLayer]:
    return block if block.norm2 is not None else replace(block, norm2=block.norm1)


def _sigmoid_everywhere(arithmetic: Arithmetic, x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + arithmetic.exp(-x))


def _sigmoid_above_zero(arithmetic: Arithmetic, x: Array) -> Array:
    small = arithmetic.exp(-np.abs(x))
    return np.where(x > 0.0, 1.0, small) / (1.0 + small)


_block = Family(FORWARD, given(DENSE))


@_block(
    "swiglu.halves-exchanged",
    "gate and gated exchanged",
    "fwd.oracle",
    knob="gate",
    sight=Sight(("fwd.oracle[hidden]", "grad.golden[up]"), "two matrices that differ", "both"),
    workloads=(*given(DENSE, "cai.kv-cache"), *exact(NGRAM)),
)
def _halves_exchanged(patch: Patch) -> None:
    """SiLU is applied to the half that should be multiplied, or to `up` instead of `gate`."""
    # Gate with what should be gated, in layers of every kind.
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

    patch.replace((FeedForward, "__call__"), wrong)
    patch.replace((GatedFeedForward, "__call__"), wrong_gated)
    patch.arguments(swiglu, gate=lambda call: call.up, up=lambda call: call.gate)


@_block(
    "swiglu.gelu-for-silu",
    "GELU in the place of SiLU",
    "fwd.oracle",
    seen_in="huggingface/transformers#29402; kyutai-labs/pocket-tts#278",
    knob="activation",
    kinds="F03",
)
def _gelu(patch: Patch) -> None:
    """The gate goes through the tanh form of GELU."""

    # Put the tanh form of GELU in the place of SiLU.
    def wrong(tape: Tape, x: Variable) -> Variable:
        cube = multiply(tape, multiply(tape, x, x), x)
        inner = scale(tape, add(tape, x, scale(tape, cube, 0.044715)), math.sqrt(2.0 / math.pi))
        return multiply(tape, scale(tape, x, 0.5), add(tape, tanh(tape, inner), tape.constant(np.ones(1))))

    patch.replace(operations.silu, wrong)


@_block(
    "block.sequential-for-parallel",
    "parallel block run in sequence",
    "fwd.oracle",
    seen_in="NVIDIA/TransformerEngine#625; allenai/OLMo#222",
    knob="wiring",
    kinds="F05",
    workloads=given("cai.parallel-block"),
)
def _in_sequence(patch: Patch) -> None:
    """The feed-forward layer reads what attention has added, where both should read one norm of the input."""
    # Run a parallel block one layer behind the other, with its only norm twice.
    patch.arguments((Block, "__call__"), self=lambda call: _with_two_norms(call.self))
    patch.arguments((Session, "_through"), block=lambda call: _with_two_norms(call.block))


@_block(
    "block.parallel-for-sequential",
    "sequential block run in parallel",
    "fwd.oracle",
    seen_in="TransformerLensOrg/TransformerLens#1649",
    knob="wiring",
)
def _side_by_side(patch: Patch) -> None:
    """The feed-forward layer reads the first norm, where it should read a norm of what attention has added."""
    # Run a sequential block as a parallel one: both layers read the first norm.
    patch.arguments((Block, "__call__"), self=lambda call: replace(call.self, norm2=None))
    patch.arguments((Session, "_through"), block=lambda call: replace(call.block, norm2=None))


@_block(
    "projection.groups-strided",
    "groups of channels taken with a stride",
    "fwd.oracle",
    seen_in="pytorch/pytorch#19912",
    knob="groups",
    kinds="F07",
    workloads=given("cai.grouped-hybrid"),
)
def _groups_strided(patch: Patch) -> None:
    """Group g takes every G-th channel, where it should take a run of neighbours."""

    def strided(call: SimpleNamespace) -> Variable:
        groups, inputs, _ = call.self.weight.shape
        order = [place * groups + group for group in range(groups) for place in range(inputs)]
        return permute_channels(call.tape, call.x, order)

    patch.arguments((GroupedLinear, "__call__"), x=strided)


@_block(
    "projection.groups-apart",
    "grouped outputs not interleaved",
    "fwd.oracle",
    knob="interleaving",
    workloads=given("cai.grouped-hybrid"),
)
def _groups_apart(patch: Patch) -> None:
    """The second grouped map reads its own group only, so that groups never talk."""

    def wrong(width: int, step: int) -> list[int]:
        return list(range(width))

    patch.replace(projection.interleaving, wrong)


@_block(
    "projection.square-transposed",
    "square matrices transposed",
    "fwd.oracle",
    seen_in="nntile/nntile#370",
    knob="transpose",
    kinds="F04",
)
def _square_transposed(patch: Patch) -> None:
    """A matrix with as many inputs as outputs is used as it lies in a file of the other convention."""
    # Use square matrices as they lie in a file of the other convention.
    right = matmul

    def wrong(tape: Tape, left: Variable, matrix: Variable) -> Variable:
        rank = len(matrix.shape)
        square = rank < 4 and matrix.value.size == matrix.shape[-1] * matrix.shape[-1]
        return right(tape, left, swap_axes(tape, matrix, rank - 2, rank - 1) if square else matrix)

    patch.replace(right, wrong)


@_block("embedding.scaled", "embeddings multiplied by √width", "fwd.oracle", knob="embedding scale")
def _embedding_scaled(patch: Patch) -> None:
    """As some families of models do."""
    right = embedding

    def wrong(
        tape: Tape, table: Variable, ids: Sequence[int], shape: tuple[int, ...], zero_id: int | None = None
    ) -> Variable:
        return scale(tape, right(tape, table, ids, shape, zero_id), math.sqrt(table.shape[1]))

    patch.replace(right, wrong)


@_block(
    "embedding.padding-embedded",
    "id 0 has an embedding",
    "fwd.oracle",
    knob="padding",
    workloads=given("cai.local-global"),
)
def _padding_embedded(patch: Patch) -> None:
    """The row of id 0 is used, where id 0 embeds to zero."""
    right = embedding

    def wrong(
        tape: Tape, table: Variable, ids: Sequence[int], shape: tuple[int, ...], zero_id: int | None = None
    ) -> Variable:
        return right(tape, table, ids, shape, None)

    patch.replace(right, wrong)


@_block("head.no-final-norm", "no norm before the head", "fwd.oracle", knob="final norm")
def _no_final_norm(patch: Patch) -> None:
    """The rows of the last block are multiplied with the output matrix as they are."""

    def wrong(head: VocabularyHead, tape: Tape, x: Variable, observe: Observe = ignore) -> list[Variable]:
        observe("final_norm", x)
        logits = head.output(tape, x)
        observe("logits.0", logits)
        return [logits]

    patch.replace((VocabularyHead, "__call__"), wrong)


@_block.seen(
    "sigmoid.one-branch",
    "the sigmoid is 1 / (1 + exp(−t)) on both sides of 0",
    "fwd.oracle[sigmoid]",
    "gates between −42 and 44",
    places=frozenset({Place.BATCH}),
    workloads=exact(NGRAM),
)
def _one_branch(patch: Patch) -> None:
    patch.replace(operations.sigmoid, _sigmoid_everywhere)


@_block.seen(
    "sigmoid.tanh",
    "the sigmoid is (1 + tanh(t/2)) / 2",
    "fwd.oracle[sigmoid]",
    "gates between −42 and 44",
    places=frozenset({Place.BATCH}),
    workloads=exact(NGRAM),
)
def _tanh(patch: Patch) -> None:
    patch.replace(operations.sigmoid, lambda arithmetic, x: 0.5 * (1.0 + arithmetic.tanh(0.5 * x)))


@_block.seen(
    "context.newest-first",
    "the newest token comes first",
    "fwd.oracle[hidden]",
    "contexts of two different tokens",
    printed="both",
    places=frozenset({Place.BATCH}),
    workloads=exact(NGRAM),
)
def _newest_first(patch: Patch) -> None:
    patch.arguments(
        (NeuralNgram, "forward"),
        context_ids=lambda call: np.reshape(call.context_ids, (call.batch, -1))[:, ::-1].ravel().tolist(),
    )


@_block.unseen(
    "same.branch-above-zero",
    "the sigmoid's branch is taken at t > 0 instead of t ≥ 0",
    equivalent="at ±0 both branches are 1 / 2",
    places=frozenset({Place.BATCH}),
)
def _branch_above_zero(patch: Patch) -> None:
    patch.replace(operations.sigmoid, _sigmoid_above_zero)


BLOCK: Final = tuple(_block)
