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
        keys: shape [groups, tokens, w], oldest first, the new token last; head h reads group h div (heads / groups).
        values: shape [groups, tokens, v].
        scale: multiplies every score.

    Returns:
        Shape [heads, v].

    Raises:
        NonFiniteScore: as `weights_of`.
    """
    heads, groups, tokens = query.shape[0], keys.shape[0], keys.shape[1]
    gathered = query.reshape(groups, heads // groups, -1)
    scores = arithmetic.matmul(gathered, np.swapaxes(keys, 1, 2)).reshape(heads, tokens) * scale
    weights = weights_of(arithmetic, scores).reshape(groups, heads // groups, tokens)
    return arithmetic.matmul(weights, values).reshape(heads, -1)


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
