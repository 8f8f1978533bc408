"""The input of a net, and the embedding of its ids.

y[t] = E[id] for id > 0; id 0 embeds to the zero vector unless the layer encodes zero. An id is a number rounded to the
nearest integer, ties to even. Row 0 of a table that does not encode zero is never read, but stored and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.nets.graph.errors import NetTokenOutOfRange
from cai_reference.nets.graph.layers.layer import GradientRules, InputGradient, Learned, Saved


@dataclass(frozen=True)
class Input:
    """TNNetInput: the ids as they are, [batch, tokens, 1]."""

    learned: None = None

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Return the ids."""
        return inputs[0], ()

    def backward(
        self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules
    ) -> tuple[tuple[InputGradient, ...], Learned | None]:
        """Nothing lies before the input."""
        return (), None


@dataclass(frozen=True)
class Embedding:
    """TNNetEmbedding: weights, the table [vocabulary, width]."""

    learned: Learned
    encodes_zero: bool = False

    def forward(self, arithmetic: Arithmetic, inputs: Sequence[Array]) -> tuple[Array, Saved]:
        """Look up [batch, tokens, 1] in the table.

        Raises:
            NetTokenOutOfRange: an id has no row. The library prints a line and takes id 0.
        """
        (x,) = inputs
        ids = self._ids(x)
        rows = self.learned.weights[0][np.maximum(ids, 0)]
        return np.where(self._read(ids)[..., None], rows, 0.0), (x,)

    def backward(
        self, arithmetic: Arithmetic, saved: Saved, gradient: Array, rules: GradientRules
    ) -> tuple[tuple[InputGradient, ...], Learned | None]:
        """Each place adds its gradient to its id's row, in the order of batch and tokens."""
        (x,) = saved
        rows = self._ids(x) if rules.rows is None else rules.rows
        read = self._read(rows)
        table = np.zeros(self.learned.weights[0].shape)
        np.add.at(table, rows[read], gradient[read])
        return (np.zeros(x.shape),), Learned((table,), np.zeros(1))

    def _read(self, ids: NDArray[np.intp]) -> NDArray[np.bool_]:
        return ids >= 0 if self.encodes_zero else ids > 0

    def _ids(self, x: Array) -> NDArray[np.intp]:
        vocabulary = self.learned.weights[0].shape[0]
        ids = np.rint(x[..., 0])
        wrong = ~(ids < vocabulary)
        if np.any(wrong):
            example, position = np.argwhere(wrong)[0]
            raise NetTokenOutOfRange(int(position), float(x[example, position, 0]), vocabulary)
        # All ids below 0 are alike, and far ones have no integer.
        return np.maximum(ids, -1.0).astype(np.intp)
