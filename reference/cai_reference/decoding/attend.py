"""One query against cached keys and values: the streaming path's own attention.

It shares the formula with the batch path (`cai_reference.layers.attention`) and no code: scores (q·k) · scale in
position order, the maximum's first occurrence skipped in the normaliser, the mixture summed in position order.
"""

from __future__ import annotations

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd.graph import first_non_finite
from cai_reference.decoding.errors import NonFiniteScore


def attend_one(arithmetic: Arithmetic, query: Array, keys: Array, values: Array, scale: float) -> Array:
    """Return the mixture of one new token.

    Args:
        arithmetic: how sums are formed.
        query: shape [heads, w].
        keys: shape [heads, tokens, w], oldest first, the new token last.
        values: shape [heads, tokens, v].
        scale: multiplies every score.

    Returns:
        Shape [heads, v].

    Raises:
        NonFiniteScore: as `weights_of`.
    """
    scores = arithmetic.matmul(query[:, None, :], np.swapaxes(keys, 1, 2))[:, 0, :] * scale
    return arithmetic.matmul(weights_of(arithmetic, scores)[:, None, :], values)[:, 0, :]


def weights_of(arithmetic: Arithmetic, scores: Array) -> Array:
    """Return softmax weights [heads, tokens] of scores [heads, tokens].

    Raises:
        NonFiniteScore: a score left the range of binary64; −∞ would pass for a key that is not visible.
    """
    index = first_non_finite(scores)
    if index is not None:
        head, key = divmod(index, scores.shape[1])
        raise NonFiniteScore(head, key, float(scores[head, key]))
    heads = np.arange(scores.shape[0])
    best = np.argmax(scores, axis=1)
    raised = arithmetic.exp(scores - scores[heads, best][:, None])
    rest = raised.copy()
    rest[heads, best] = 0.0
    weights: Array = raised / (1.0 + arithmetic.sum(rest, axis=1)[:, None])
    return weights
