"""Reverse-mode differentiation over float64 arrays, in whichever arithmetic the tape carries.

Every operation is a function of a tape and its operands, and says its own gradient beside its value.
"""

from cai_reference.autograd.backward import backward
from cai_reference.autograd.elementwise import add, broadcast_to, multiply, sigmoid, silu
from cai_reference.autograd.graph import Parameter, Tape, Variable, from_flat
from cai_reference.autograd.probability import causal_softmax, log_softmax, mean_nll, mean_nll_of, softmax
from cai_reference.autograd.products import matmul
from cai_reference.autograd.reductions import maximum_over, mean_over, sum_over
from cai_reference.autograd.shapes import gather, reshape, swap_axes

__all__ = [
    "Parameter",
    "Tape",
    "Variable",
    "add",
    "backward",
    "broadcast_to",
    "causal_softmax",
    "from_flat",
    "gather",
    "log_softmax",
    "matmul",
    "maximum_over",
    "mean_nll",
    "mean_nll_of",
    "mean_over",
    "multiply",
    "reshape",
    "sigmoid",
    "silu",
    "softmax",
    "sum_over",
    "swap_axes",
]
