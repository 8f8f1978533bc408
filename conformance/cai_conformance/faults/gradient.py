"""Faults of gradients whose loss is right: which part is lost, and what is left from the step before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from cai_conformance.faults.fault import TRAINING, Family
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import COURSE, DENSE, NGRAM, WINDOWED, Sight, exact, given, run
from cai_reference.arithmetic import Array
from cai_reference.autograd import Parameter, Tape, Variable, operations
from cai_reference.autograd.backward import backward
from cai_reference.autograd.operations import multiply, sigmoid, silu, swap_axes
from cai_reference.autograd.probability import NormalizedRows, mean_nll, normalize_rows
from cai_reference.layers import attention, matrices, rms_norm
from cai_reference.layers.matrices import BiasFree, TiedOutput
from cai_reference.layers.projection import linear
from cai_reference.layers.rms_norm import InverseForm
from cai_reference.layers.swiglu import swiglu
from cai_reference.training.adamw import AdamW, GradientTransform


def _gain(patch: Patch, times: int) -> None:
    """Let the gradient toward a row pass the gain a wrong number of times."""
    right = rms_norm.rms_norm

    def wrong(tape: Tape, x: Variable, gain: Variable, epsilon: float, form: InverseForm) -> Variable:
        normalized = right(tape, x, tape.constant(np.ones(gain.shape)), epsilon, form)

        def pullback(adjoint: Array) -> tuple[Array, Array]:
            toward = adjoint
            for _ in range(times):
                toward = toward * gain.value
            axes = tuple(range(adjoint.ndim - 1))
            return toward, tape.arithmetic.sum(adjoint * normalized.value, axis=axes)

        return tape.record("gain", normalized.value * gain.value, (normalized, gain), pullback)

    patch.replace(right, wrong)


Indices = npt.NDArray[np.intp]

ROWS: Final = "five windows with repeated ids, bit for bit"


def _of_logits(patch: Patch, gradient: Callable[[Array, int, Sequence[int]], Array]) -> None:
    """Replace the gradient of the logits, given probabilities, the number of rows, and targets."""

    def wrong(right: Callable[..., Variable], tape: Tape, logits: Variable, targets: Sequence[int]) -> Variable:
        value = right(Tape(tape.arithmetic, recording=False), logits, targets).value
        rows = normalize_rows(tape.arithmetic, logits.value)

        def pullback(_: Array) -> tuple[Array]:
            return (gradient(rows.probabilities(), len(targets), targets),)

        return tape.record("mean nll", value, (logits,), pullback)

    patch.around(mean_nll, wrong)


def _divided(probabilities: Array, count: int, targets: Sequence[int]) -> Array:
    probabilities[np.arange(count), list(targets)] -= 1.0
    return probabilities / count


def _scaled_first(probabilities: Array, count: int, targets: Sequence[int]) -> Array:
    scaled = probabilities * (1.0 / count)
    scaled[np.arange(count), list(targets)] -= 1.0 / count
    return scaled


def _scaled_last(right: Callable[[Variable, Array], None], output: Variable, seed: Array | None = None) -> None:
    """Run the sweep with every row at full weight, and divide the sums afterwards."""
    nodes, pending = dict[int, Variable](), [output]
    while pending:
        node = pending.pop()
        if id(node) not in nodes:
            nodes[id(node)] = node
            pending.extend(node.parents)
    rows = float(output.parents[0].shape[0])
    right(output, np.full(output.shape, rows))
    for node in nodes.values():
        if isinstance(node, Parameter):
            node.gradient = node.gradient / rows


def _silu_as(patch: Patch, derivative: Callable[[Array, Array], Array]) -> None:
    def wrong(tape: Tape, x: Variable) -> Variable:
        gate = sigmoid(tape.arithmetic, x.value)
        return tape.record("silu", x.value * gate, (x,), lambda adjoint: (adjoint * derivative(x.value, gate),))

    patch.replace(operations.silu, wrong)


def _scattered(patch: Patch, scatter: Callable[[Array, Indices, Array], None]) -> None:
    """Replace how contributions [count, width] reach the rows of a gradient."""

    def wrong(
        right: Callable[..., Variable],
        tape: Tape,
        table: Variable,
        indices: Sequence[int],
        shape: tuple[int, ...],
        *rest: int | None,
    ) -> Variable:
        value = right(Tape(tape.arithmetic, recording=False), table, indices, shape, *rest).value

        def pullback(adjoint: Array) -> tuple[Array]:
            gradient = np.zeros(table.shape)
            scatter(gradient, np.asarray(indices).reshape(shape), adjoint.reshape(*shape, table.shape[1]))
            return (gradient,)

        return tape.record("gather", value, (table,), pullback)

    patch.around(operations.gather, wrong)


def _in_order(gradient: Array, places: Indices, pieces: Array) -> None:
    for place, piece in zip(places.ravel(), pieces.reshape(-1, gradient.shape[1]), strict=True):
        gradient[place] += piece


def _at_once(gradient: Array, places: Indices, pieces: Array) -> None:
    np.add.at(gradient, places.ravel(), pieces.reshape(-1, gradient.shape[1]))


def _up_first(tape: Tape, x: Variable, gate: Variable, up: Variable, down: Variable) -> Variable:
    upward = linear(tape, x, up)
    return linear(tape, multiply(tape, upward, silu(tape, linear(tape, x, gate))), down)


_gradient = Family(TRAINING, exact(NGRAM))


@_gradient(
    "gradient.tied-once",
    "a tied table learns in one role only",
    "grad.given grad.fd",
    seen_in="paiml/entrenar#314; NVIDIA/TransformerEngine#3437",
    kinds="L03",
    workloads=given(WINDOWED),
)
def _tied_once(patch: Patch) -> None:
    """The gradient of the output does not reach the embedding table."""

    def wrong(output: TiedOutput, tape: Tape, x: Variable) -> Variable:
        table = swap_axes(tape, Variable(output.table.value, "detach"), 0, 1)
        return matrices._product(tape, x, table)

    patch.replace((TiedOutput, "__call__"), wrong)


@_gradient(
    "gradient.norm-without-mean",
    "the norm's backward takes its root for a constant",
    "grad.given grad.fd",
    seen_in="Dao-AILab/quack#53; karpathy/llm.c#763",
    kinds="L05",
    workloads=given(DENSE),
)
def _norm_without_mean(patch: Patch) -> None:
    """The term through the mean square is missing."""
    # Take the inverse of the root for a constant.
    right = rms_norm.rms_norm

    def wrong(tape: Tape, x: Variable, gain: Variable, epsilon: float, form: InverseForm) -> Variable:
        value = right(Tape(tape.arithmetic, recording=False), x, gain, epsilon, form).value
        ones = tape.constant(np.ones(gain.shape))
        normalized = right(Tape(tape.arithmetic, recording=False), x, ones, epsilon, form).value
        inverse = np.where(x.value == 0.0, 0.0, normalized / np.where(x.value == 0.0, 1.0, x.value))

        def pullback(adjoint: Array) -> tuple[Array, Array]:
            toward_gain = tape.arithmetic.sum(adjoint * normalized, axis=tuple(range(x.value.ndim - 1)))
            return (adjoint * gain.value) * inverse, toward_gain

        return tape.record("rms norm", value, (x, gain), pullback)

    patch.replace(right, wrong)


@_gradient(
    "gradient.last-occurrence",
    "repeated ids overwrite each other",
    "grad.given grad.golden grad.fd",
    sight=Sight(("grad.golden[embedding]",), "five windows with repeated ids, bit for bit", "both"),
    workloads=(*given(DENSE), *exact(NGRAM)),
)
def _last_occurrence(patch: Patch) -> None:
    """The row of an id gets the gradient of its last occurrence. Batches without repeated ids hide it."""
    # Let a repeated id overwrite the gradient of its row, where its occurrences should add up.
    right = operations.gather

    def wrong(
        tape: Tape, table: Variable, indices: Sequence[int], shape: tuple[int, ...], zero_index: int | None = None
    ) -> Variable:
        def pullback(adjoint: Array) -> tuple[Array]:
            gradient = np.zeros(table.shape)
            for index, piece in zip(indices, adjoint.reshape(-1, table.shape[1]), strict=True):
                if index != zero_index:
                    gradient[index] = piece
            return (gradient,)

        value = right(Tape(tape.arithmetic, recording=False), table, indices, shape, zero_index).value
        return tape.record("gather", value, (table,), pullback)

    patch.replace(right, wrong)


@_gradient(
    "gradient.last-sequence",
    "matrices learn from the last sequence of a batch",
    "grad.given grad.fd grad.accum",
    workloads=given(DENSE),
)
def _half_batch(patch: Patch) -> None:
    """Gradients of earlier sequences are overwritten, where they should add up. Batches of one hide it."""
    # Let every matrix without a bias learn from the last sequence of a batch alone.
    right = BiasFree.__call__

    def wrong(layer: BiasFree, tape: Tape, x: Variable) -> Variable:
        product = right(layer, Tape(tape.arithmetic, recording=False), x)

        def pullback(adjoint: Array) -> tuple[Array, Array]:
            weight, product_of = layer.weight.value, tape.arithmetic.matmul
            toward_weight = product_of(np.swapaxes(x.value[-1], -1, -2), adjoint[-1])
            return product_of(adjoint, weight.T), toward_weight

        return tape.record("matmul", product.value, (x, layer.weight), pullback)

    patch.replace((BiasFree, "__call__"), wrong)


@_gradient(
    "gradient.gain-never",
    "the norm's backward leaves out the gain",
    "grad.given grad.fd",
    seen_in="NVIDIA/Megatron-LM#6859",
    kinds="L05",
    workloads=given(DENSE, COURSE),
)
def _gain_never(patch: Patch) -> None:
    """Rows get the gradient of a norm without one. A fresh model, whose gains are 1, hides it."""
    _gain(patch, times=0)


@_gradient(
    "gradient.gain-twice",
    "the norm's backward takes the gain twice",
    "grad.given grad.fd",
    seen_in="ooples/AiDotNet#695",
    kinds="L05",
    workloads=given(DENSE),
)
def _gain_twice(patch: Patch) -> None:
    """Rows get a gradient that has passed the gain two times. A fresh model hides it."""
    _gain(patch, times=2)


@_gradient(
    "gradient.one-of-group",
    "shared keys learn from one of their queries",
    "grad.given grad.fd",
    workloads=given("llama.gqa-window"),
)
def _one_of_group(patch: Patch) -> None:
    """The gradient is that of the first query head, where those of all that share should add up."""
    # Let keys that several query heads share learn from the first of them alone.
    right = attention.repeat_heads

    def wrong(tape: Tape, x: Variable, times: int) -> Variable:
        value = right(Tape(tape.arithmetic, recording=False), x, times).value

        def pullback(adjoint: Array) -> tuple[Array]:
            return (adjoint[:, ::times],)

        return tape.record("repeat heads", value, (x,), pullback)

    patch.replace(right, wrong)


@_gradient(
    "gradient.never-zeroed",
    "gradients of earlier steps stay",
    "opt.given grad.given eval.pure run.golden trace.recount",
    sight=Sight(("run.golden", "trace.recount"), "PROOF, and other losses", "both"),
    workloads=(*given(DENSE), *run(NGRAM)),
)
def _never_zeroed(patch: Patch) -> None:
    """They add up from step to step. The first step hides it."""

    def wrong(parameter: Parameter) -> None:
        """Leave the gradient as it is."""

    patch.replace((Parameter, "zero_gradient"), wrong)


@_gradient(
    "training.nothing-learned",
    "updates are computed and not taken",
    "opt.given run.learning",
    workloads=(*given(DENSE), *run("cai.kv-cache", NGRAM)),
)
def _nothing_learned(patch: Patch) -> None:
    """Moments go on, and weights stay as they were."""
    right = AdamW.step_with

    def wrong(
        optimizer: AdamW,
        parameters: Sequence[Parameter],
        gradients: dict[str, Array],
        transform: GradientTransform | None = None,
    ) -> None:
        values = [parameter.value for parameter in parameters]
        right(optimizer, parameters, gradients, transform)
        for parameter, value in zip(parameters, values, strict=True):
            parameter.assign(value)

    patch.replace((AdamW, "step_with"), wrong)


@_gradient.seen(
    "gradient.divided",
    "the gradient of the logits is divided by the number of rows",
    "grad.golden[down]",
    "1/5 is not a double",
)
def _divided_gradient(patch: Patch) -> None:
    _of_logits(patch, gradient=_divided)


@_gradient.seen(
    "gradient.scaled-first",
    "probabilities are scaled before 1/B is subtracted at the target",
    "grad.golden[down]",
    ROWS,
)
def _scaled_first_gradient(patch: Patch) -> None:
    _of_logits(patch, gradient=_scaled_first)


@_gradient.seen(
    "gradient.scaled-last",
    "gradients of all rows are added, then divided by the number of rows",
    "grad.golden[many-rows]",
    "19 windows, bit for bit",
)
def _scaled_last_gradient(patch: Patch) -> None:
    patch.around(backward, _scaled_last)


@_gradient.seen("gradient.silu-product", "SiLU's derivative is s + t · s · (1 − s)", "grad.golden[gate]", ROWS)
def _silu_product(patch: Patch) -> None:
    _silu_as(patch, derivative=lambda t, s: s + t * s * (1.0 - s))


@_gradient.seen(
    "gradient.silu-output", "SiLU's derivative is a + s · (1 − a) with a = t · s", "grad.golden[gate]", ROWS
)
def _silu_output(patch: Patch) -> None:
    _silu_as(patch, derivative=lambda t, s: t * s + s * (1.0 - t * s))


@_gradient.seen(
    "gradient.scatter-backwards",
    "contributions of a repeated id are added from the last",
    "grad.golden[many-repeats]",
    "19 windows over six ids, bit for bit",
)
def _scatter_backwards(patch: Patch) -> None:
    _scattered(patch, scatter=lambda sums, at, parts: _in_order(sums, at[::-1, ::-1], parts[::-1, ::-1]))


@_gradient.seen(
    "gradient.scatter-by-position",
    "all first context tokens are added before all second ones",
    "grad.golden[embedding]",
    ROWS,
)
def _scatter_by_position(patch: Patch) -> None:
    _scattered(patch, scatter=lambda sums, at, parts: _in_order(sums, at.T, np.swapaxes(parts, 0, 1)))


@_gradient.unseen(
    "same.add-at",
    "repeated ids are scattered by `np.add.at`",
    equivalent="it adds one contribution after the other, in the order given",
)
def _add_at(patch: Patch) -> None:
    _scattered(patch, scatter=_at_once)


@_gradient.unseen(
    "same.gate-before-up",
    "the gate's contribution to the input's gradient is added before the up projection's",
    equivalent="a sum of two terms is commutative in binary64",
)
def _gate_before_up(patch: Patch) -> None:
    patch.replace(swiglu, _up_first)


@_gradient.unseen(
    "same.zeros-as-they-are",
    "probabilities and logit gradients keep the sign of a zero",
    equivalent="exp is never negative, 1 − 1 is +0.0 and 1/B is positive: no zero there has a sign",
)
def _signs_kept(patch: Patch) -> None:
    def toward_logits(probabilities: Array, count: int, targets: Sequence[int]) -> Array:
        probabilities[np.arange(count), list(targets)] -= 1.0
        return probabilities * (1.0 / count)

    patch.replace((NormalizedRows, "probabilities"), lambda rows: rows.exponentials / (1.0 + rows.tail))
    _of_logits(patch, toward_logits)


GRADIENT: Final = tuple(_gradient)
"""What is wrong with gradients and updates, and a loss that overflows."""
