"""The linear layer: y = x W + b.

W has shape [inputs, outputs]; x has shape [..., inputs]. Every output is the whole ascending sum over the inputs, to
which the bias, where there is one, is added last (course, chapter 19).
"""

from __future__ import annotations

from cai_reference.autograd import Tape, Variable, add, matmul
from cai_reference.layers.errors import (
    BiasRank,
    BiasWidthMismatch,
    InputRank,
    InputWidthMismatch,
    WeightRank,
    ZeroInputWidth,
    ZeroOutputWidth,
)


def linear(tape: Tape, x: Variable, weight: Variable, bias: Variable | None = None) -> Variable:
    """Return x W + b.

    Args:
        tape: what records.
        x: shape [..., inputs], at least 2 axes.
        weight: shape [inputs, outputs].
        bias: shape [outputs], or None.

    Returns:
        Shape [..., outputs].

    Raises:
        WeightRank, ZeroInputWidth, ZeroOutputWidth: the weight is not a matrix.
        BiasRank, BiasWidthMismatch: the bias does not fit it.
        InputRank, InputWidthMismatch: the input does not fit it.
    """
    if len(weight.shape) != 2:
        raise WeightRank(len(weight.shape))
    inputs, outputs = weight.shape
    if inputs == 0:
        raise ZeroInputWidth
    if outputs == 0:
        raise ZeroOutputWidth
    if bias is not None:
        if len(bias.shape) != 1:
            raise BiasRank(len(bias.shape))
        if bias.shape[0] != outputs:
            raise BiasWidthMismatch(outputs, bias.shape[0])
    if len(x.shape) < 2:
        raise InputRank(len(x.shape))
    if x.shape[-1] != inputs:
        raise InputWidthMismatch(inputs, x.shape[-1])
    product = matmul(tape, x, weight)
    return product if bias is None else add(tape, product, bias)
