"""Wrong models: sigmoid, loss, gradients, evaluation, greedy decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Parameter, Tape, Variable
from cai_reference.autograd import backward as right_backward
from cai_reference.autograd.probability import NormalizedRows, normalize_rows
from cai_reference.layers.swiglu import swiglu as right_swiglu
from cai_reference.models import NeuralNgram
from cai_reference.text import Window
from support_mutants import Change, Mutant, replaced

EDGES, EXPERIMENT = "cai_conformance.backends.ngram.edges", "cai_conformance.backends.ngram.experiment"
ELEMENTWISE, PROBABILITY = "cai_reference.autograd.elementwise", "cai_reference.autograd.probability"
MODEL, GREEDY = "cai_reference.models.neural_ngram", "cai_reference.decoding.greedy"


# Forward pass.


def _sigmoid_everywhere(arithmetic: Arithmetic, x: Array) -> Array:
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + arithmetic.exp(-x))


def _sigmoid_by_tanh(arithmetic: Arithmetic, x: Array) -> Array:
    return 0.5 * (1.0 + arithmetic.tanh(0.5 * x))


def _swapped(tape: Tape, x: Variable, gate: Variable, up: Variable, down: Variable) -> Variable:
    return right_swiglu(tape, x, up, gate, down)


_right_forward, _right_loss = NeuralNgram.forward, NeuralNgram.loss


def _newest_first(self: NeuralNgram, tape: Tape, context_ids: Sequence[int], batch: int) -> object:
    ids = np.asarray(context_ids).reshape(batch, -1)[:, ::-1]
    return _right_forward(self, tape, ids.ravel().tolist(), batch)


# Loss.


def _rows(tail: Callable[[Arithmetic, Array], Array]) -> Change:
    """Replace the tail of a row, given the exponentials of the row."""

    def normalize(arithmetic: Arithmetic, logits: Array, visible: None = None) -> NormalizedRows:
        rows = normalize_rows(arithmetic, logits, visible)
        return NormalizedRows(rows.maximum, rows.exponentials, tail(arithmetic, rows.exponentials))

    return replaced((PROBABILITY, "normalize_rows", normalize))


def _one_less(arithmetic: Arithmetic, exponentials: Array) -> Array:
    return arithmetic.sum(exponentials, axis=-1, keepdims=True) - 1.0


def _without_any_maximum(arithmetic: Arithmetic, exponentials: Array) -> Array:
    return arithmetic.sum(np.where(exponentials == 1.0, 0.0, exponentials), axis=-1, keepdims=True)


def _unshifted(arithmetic: Arithmetic, logits: Array, _: None = None) -> NormalizedRows:
    exponentials = arithmetic.exp(logits)
    tail = arithmetic.sum(exponentials, axis=-1, keepdims=True) - 1.0
    return NormalizedRows(np.zeros_like(tail), exponentials, tail)


def _losing(row_losses: Callable[[Arithmetic, NormalizedRows, Array], Array]) -> Change:
    """Replace the loss of each row, given the row and its target's logit; the gradient stays right."""

    def mean_nll(arithmetic: Arithmetic, logits: Array, targets: Sequence[int]) -> tuple[NormalizedRows, float]:
        rows = normalize_rows(arithmetic, logits)
        with np.errstate(all="ignore"):
            losses = row_losses(arithmetic, rows, logits[np.arange(len(targets)), list(targets)])
            return rows, float(arithmetic.sum(losses) / len(targets))

    return replaced((PROBABILITY, "_mean_nll", mean_nll))


def _plain(arithmetic: Arithmetic, rows: NormalizedRows, chosen: Array) -> Array:
    return (rows.maximum[:, 0] - chosen) + arithmetic.log1p(rows.tail)[:, 0]


def _log_of_the_sum(arithmetic: Arithmetic, rows: NormalizedRows, chosen: Array) -> Array:
    return (rows.maximum[:, 0] + arithmetic.log(arithmetic.sum(rows.exponentials, axis=-1))) - chosen


def _log_of_probability(arithmetic: Arithmetic, rows: NormalizedRows, chosen: Array) -> Array:
    return -arithmetic.log(arithmetic.exp(chosen - rows.maximum[:, 0]) / (1.0 + rows.tail[:, 0]))


# Gradients.


def pulling(gradient: Callable[[Array, int, Sequence[int]], Array]) -> Change:
    """Replace the gradient of the logits, given probabilities, the number of rows, and targets."""

    def mean_nll(tape: Tape, logits: Variable, targets: Sequence[int]) -> Variable:
        rows = normalize_rows(tape.arithmetic, logits.value)
        value = tape.arithmetic.sum(_plain(tape.arithmetic, rows, logits.value[np.arange(len(targets)), list(targets)]))

        def pullback(_: Array) -> tuple[Array]:
            return (gradient(rows.probabilities(), len(targets), targets),)

        return tape.record("mean nll", value / len(targets), (logits,), pullback)

    return replaced((MODEL, "mean_nll", mean_nll))


def _divided(probabilities: Array, count: int, targets: Sequence[int]) -> Array:
    probabilities[np.arange(count), list(targets)] -= 1.0
    return probabilities / count


def _scaled_first(probabilities: Array, count: int, targets: Sequence[int]) -> Array:
    scaled = probabilities * (1.0 / count)
    scaled[np.arange(count), list(targets)] -= 1.0 / count
    return scaled


def _first_target(self: NeuralNgram, tape: Tape, windows: Sequence[Window]) -> Variable:
    return _right_loss(self, tape, [Window(window.inputs, window.targets[:1]) for window in windows])


def _silu_as(derivative: Callable[[Array, Array], Array]) -> Change:
    def silu(tape: Tape, x: Variable) -> Variable:
        from cai_reference.autograd.elementwise import sigmoid

        gate = sigmoid(tape.arithmetic, x.value)
        return tape.record("silu", x.value * gate, (x,), lambda adjoint: (adjoint * derivative(x.value, gate),))

    return replaced(("cai_reference.layers.swiglu", "silu", silu))


Indices = npt.NDArray[np.intp]


def scattering(scatter: Callable[[Array, Indices, Array], None]) -> Change:
    """Replace how contributions [count, width] reach the rows of a gradient."""

    def gather(tape: Tape, table: Variable, indices: Sequence[int], shape: tuple[int, ...], *_: None) -> Variable:
        places, width = np.asarray(indices), table.shape[1]

        def pullback(adjoint: Array) -> tuple[Array]:
            gradient = np.zeros(table.shape)
            scatter(gradient, places.reshape(shape), adjoint.reshape(*shape, width))
            return (gradient,)

        return tape.record("gather", table.value[places].reshape(*shape, width), (table,), pullback)

    return replaced(("cai_reference.layers.embedding", "gather", gather))


def _in_order(gradient: Array, places: Indices, pieces: Array) -> None:
    for place, piece in zip(places.ravel(), pieces.reshape(-1, gradient.shape[1]), strict=True):
        gradient[place] += piece


def _overwriting(gradient: Array, places: Indices, pieces: Array) -> None:
    gradient[places.ravel()] = pieces.reshape(-1, gradient.shape[1])


def _backwards(gradient: Array, places: Indices, pieces: Array) -> None:
    _in_order(gradient, places[::-1, ::-1], pieces[::-1, ::-1])


def _by_position(gradient: Array, places: Indices, pieces: Array) -> None:
    _in_order(gradient, places.T, np.swapaxes(pieces, 0, 1))


def add_at(gradient: Array, places: Indices, pieces: Array) -> None:
    """Scatter as `np.add.at` does."""
    np.add.at(gradient, places.ravel(), pieces.reshape(-1, gradient.shape[1]))


def _mean_of_window_gradients(output: Variable, seed: Array | None = None) -> None:
    """Run the sweep with every row at full weight, and divide the sums afterwards."""
    parameters = [node for node in _nodes(output) if isinstance(node, Parameter)]
    rows = output.parents[0].shape[0]
    right_backward(output, np.full(output.shape, float(rows)))
    for parameter in parameters:
        parameter.gradient = parameter.gradient / float(rows)


def _nodes(output: Variable) -> list[Variable]:
    found: dict[int, Variable] = {}
    pending = [output]
    while pending:
        node = pending.pop()
        if id(node) not in found:
            found[id(node)] = node
            pending.extend(node.parents)
    return list(found.values())


ROWS = "five windows with repeated ids, bit for bit"

MODEL_MUTANTS: Final = (
    Mutant(
        "sigmoid.one-branch",
        "the sigmoid is 1 / (1 + exp(−t)) on both sides of 0",
        ("fwd.oracle[sigmoid]",),
        "gates between −42 and 44",
        replaced((ELEMENTWISE, "sigmoid", _sigmoid_everywhere)),
    ),
    Mutant(
        "sigmoid.tanh",
        "the sigmoid is (1 + tanh(t/2)) / 2",
        ("fwd.oracle[sigmoid]",),
        "gates between −42 and 44",
        replaced((ELEMENTWISE, "sigmoid", _sigmoid_by_tanh)),
    ),
    Mutant(
        "swiglu.swapped",
        "gate and up are exchanged",
        ("fwd.oracle[hidden]", "grad.golden[up]"),
        "two matrices that differ",
        replaced((MODEL, "swiglu", _swapped)),
        printed="both",
    ),
    Mutant(
        "context.newest-first",
        "the newest token comes first",
        ("fwd.oracle[hidden]",),
        "contexts of two different tokens",
        replaced((MODEL, "NeuralNgram.forward", _newest_first)),
        printed="both",
    ),
    Mutant(
        "loss.sum-minus-one",
        "the tail is the sum over all classes, minus 1",
        ("loss.weights[dominated]", "loss.weights[tail]"),
        "a tail of 1e-26 vanishes beside 1",
        _rows(_one_less),
    ),
    Mutant(
        "loss.log-sum",
        "the loss is max + log(Σ exp) − target, no maximum skipped",
        ("loss.weights[dominated]", "loss.weights[tail]"),
        "a tail of 1e-26 vanishes beside 1",
        _losing(_log_of_the_sum),
    ),
    Mutant(
        "loss.all-ties-skipped",
        "every tie of the maximum is skipped",
        ("loss.weights[ties]", "loss.weights[uniform]"),
        "three logits share the maximum",
        _rows(_without_any_maximum),
    ),
    Mutant(
        "loss.unshifted",
        "the maximum is not subtracted",
        ("loss.shift[large]",),
        "exp(10⁴) does not exist",
        replaced((PROBABILITY, "normalize_rows", _unshifted)),
    ),
    Mutant(
        "loss.log-of-probability",
        "the loss is −log of the target's probability",
        ("loss.weights[dominated]",),
        "a probability that rounds to 1",
        _losing(_log_of_probability),
    ),
    Mutant(
        "loss.overflows",
        "a mean whose sum overflows is infinite",
        ("loss.shift[gap]", "loss.shift[total]"),
        "finite logits near the end of the range",
        _losing(_plain),
    ),
    Mutant(
        "loss.first-target",
        "the first shifted target is scored, not the last",
        ("grad.golden[output]",),
        "two targets a window that differ",
        replaced((MODEL, "NeuralNgram.loss", _first_target)),
        printed="both",
    ),
    Mutant(
        "gradient.divided",
        "the gradient of the logits is divided by the number of rows",
        ("grad.golden[down]",),
        "1/5 is not a double",
        pulling(_divided),
    ),
    Mutant(
        "gradient.scaled-first",
        "probabilities are scaled before 1/B is subtracted at the target",
        ("grad.golden[down]",),
        ROWS,
        pulling(_scaled_first),
    ),
    Mutant(
        "gradient.scaled-last",
        "gradients of all rows are added, then divided by the number of rows",
        ("grad.golden[many-rows]",),
        "19 windows, bit for bit",
        replaced(
            (EDGES, "backward", _mean_of_window_gradients),
            ("cai_reference.training.trainer", "backward", _mean_of_window_gradients),
        ),
    ),
    Mutant(
        "gradient.silu-product",
        "SiLU's derivative is s + t · s · (1 − s)",
        ("grad.golden[gate]",),
        ROWS,
        _silu_as(lambda t, s: s + t * s * (1.0 - s)),
    ),
    Mutant(
        "gradient.silu-output",
        "SiLU's derivative is a + s · (1 − a) with a = t · s",
        ("grad.golden[gate]",),
        ROWS,
        _silu_as(lambda t, s: t * s + s * (1.0 - t * s)),
    ),
    Mutant(
        "gradient.scatter-overwrites",
        "of a repeated id only the last contribution stays",
        ("grad.golden[embedding]",),
        ROWS,
        scattering(_overwriting),
        printed="both",
    ),
    Mutant(
        "gradient.scatter-backwards",
        "contributions of a repeated id are added from the last",
        ("grad.golden[many-repeats]",),
        "19 windows over six ids, bit for bit",
        scattering(_backwards),
    ),
    Mutant(
        "gradient.scatter-by-position",
        "all first context tokens are added before all second ones",
        ("grad.golden[embedding]",),
        ROWS,
        scattering(_by_position),
    ),
)
