"""Reverse-mode differentiation over float64 arrays, in whichever arithmetic the tape carries.

Every operation is a function of a tape and its operands, and says its own gradient beside its value.
"""

from cai_reference.autograd.backward import backward
from cai_reference.autograd.elementwise import add, broadcast_to, logistic, multiply, relu, scale, sigmoid, silu, tanh
from cai_reference.autograd.graph import Parameter, Tape, Variable, from_flat
from cai_reference.autograd.probability import causal_softmax, log_softmax, mean_nll, mean_nll_of, softmax
from cai_reference.autograd.products import matmul
from cai_reference.autograd.reductions import maximum_over, mean_of, mean_over, sum_over
from cai_reference.autograd.scan import diagonal_scan
from cai_reference.autograd.shapes import (
    channels,
    concatenate,
    gather,
    permute_channels,
    previous,
    reshape,
    rows,
    swap_axes,
)

__all__ = [
    "Parameter",
    "Tape",
    "Variable",
    "add",
    "backward",
    "broadcast_to",
    "causal_softmax",
    "channels",
    "concatenate",
    "diagonal_scan",
    "from_flat",
    "gather",
    "log_softmax",
    "logistic",
    "matmul",
    "maximum_over",
    "mean_nll",
    "mean_nll_of",
    "mean_of",
    "mean_over",
    "multiply",
    "permute_channels",
    "previous",
    "relu",
    "reshape",
    "rows",
    "scale",
    "sigmoid",
    "silu",
    "softmax",
    "sum_over",
    "swap_axes",
    "tanh",
]
