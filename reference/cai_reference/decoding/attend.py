"""One query against cached keys and values: the streaming path's own attention.

It shares the formula with the batch path (`cai_reference.layers.attention`) and no code: scores (q·k) · scale in
position order, the maximum's first occurrence skipped in the normaliser, the mixture summed in position order.
"""

from __future__ import annotations

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import first_non_finite
from cai_reference.decoding.errors import SessionError


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
        SessionError (non-finite-score): as `weights_of`.
    """
    heads, groups, tokens = query.shape[0], keys.shape[0], keys.shape[1]
    # queries by the group of keys that they read
    gathered = query.reshape(groups, heads // groups, -1)
    # scaled after the whole sum, as the batch path does
    scores = arithmetic.matmul(gathered, np.swapaxes(keys, 1, 2)).reshape(heads, tokens) * scale
    weights = weights_of(arithmetic, scores).reshape(groups, heads // groups, tokens)
    return arithmetic.matmul(weights, values).reshape(heads, -1)


def weights_of(arithmetic: Arithmetic, scores: Array) -> Array:
    """Return softmax weights [heads, tokens] of scores [heads, tokens].

    Raises:
        SessionError (non-finite-score): a score left the range of binary64; −∞ would pass for a key that is not
            visible.
    """
    index = first_non_finite(scores)
    if index is not None:
        head, key = divmod(index, scores.shape[1])
        raise SessionError("non-finite-score", head=head, key=key, value=float(scores[head, key]))
    heads = np.arange(scores.shape[0])
    # the first of equal maxima is skipped in the sum, as in the batch path
    best = np.argmax(scores, axis=1)
    raised = arithmetic.exp(scores - scores[heads, best][:, None])
    rest = raised.copy()
    # its exponential is 1, added last
    rest[heads, best] = 0.0
    weights: Array = raised / (1.0 + arithmetic.sum(rest, axis=1)[:, None])
    return weights
