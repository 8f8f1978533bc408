"""Token embedding: E[id].

A table E of shape [vocabulary, width]; ids of any shape become vectors of shape [*ids, width]. The gradient of a row is
the sum of the adjoints at every position that used it, in row-major order (course, chapter 18).
"""

from __future__ import annotations

from collections.abc import Sequence

from cai_reference.autograd import Tape, Variable, gather
from cai_reference.layers.errors import (
    EmptyEmbeddingVocabulary,
    TableRank,
    TokenCountMismatch,
    TokenIdOutOfBounds,
    TokenShape,
    ZeroTableWidth,
)


def embedding(
    tape: Tape, table: Variable, ids: Sequence[int], shape: tuple[int, ...], zero_id: int | None = None
) -> Variable:
    """Look `ids`, given flat and laid out as `shape`, up in a table.

    Args:
        tape: what records.
        table: shape [vocabulary, width].
        ids: as many as `shape` holds.
        shape: the layout of the ids, such as [batch, context].
        zero_id: an id whose embedding is the zero vector and whose row is never trained; None where there is none.

    Returns:
        Shape [*shape, width].

    Raises:
        TableRank, EmptyEmbeddingVocabulary, ZeroTableWidth: the table is not one.
        TokenShape, TokenCountMismatch, TokenIdOutOfBounds: the ids do not fit.
    """
    if len(table.shape) != 2:
        raise TableRank(len(table.shape))
    vocabulary, width = table.shape
    if vocabulary == 0:
        raise EmptyEmbeddingVocabulary
    if width == 0:
        raise ZeroTableWidth
    count = 1
    for length in shape:
        if length < 0:
            raise TokenShape(shape)
        count *= length
    if count != len(ids):
        raise TokenCountMismatch(count, len(ids))
    for position, token in enumerate(ids):
        if not 0 <= token < vocabulary:
            raise TokenIdOutOfBounds(position, token, vocabulary)
    return gather(tape, table, ids, shape, zero_id)
