"""Where a net keeps its predictions: how many future tokens it has heads for, and where the logits of each head are.

A net of one head ends in a softmax. A net of several ends in the concatenation of their softmaxes, head 0 first; head 0
predicts the next token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.legacy.training.language_model import language_model
from cai_reference.nets.graph.net import Net
from cai_reference.nets.structure import LayerSpec

SOFTMAX: Final = "TNNetPointwiseSoftMax"
CONCATENATION: Final = "TNNetDeepConcat"


@dataclass(frozen=True)
class Prediction:
    """What a head says about one token.

    Attributes:
        scores: [vocabulary], of which the first largest is chosen.
        logits: [vocabulary], the scores before the softmax, or the scores themselves where a net has none.
    """

    scores: Array
    logits: Array

    @property
    def choice(self) -> int:
        """The id of the largest score, of several the lowest."""
        return int(np.argmax(self.scores))

    @property
    def margin(self) -> float:
        """How far the logit of the choice is above the largest other one; below 0 if rounding alone made it so."""
        others = np.delete(self.logits, self.choice)
        return float(self.logits[self.choice] - np.max(others)) if others.size else float("inf")


@dataclass(frozen=True)
class Heads:
    """The heads of a net.

    Attributes:
        vocabulary: how many ids there are.
        count: how many heads.
        logits: for each head the layer whose output its softmax reads; None where there is no such layer.
    """

    vocabulary: int
    count: int
    logits: tuple[int | None, ...]

    @classmethod
    def of(cls, net: Net) -> Heads:
        """Find the heads of a net.

        Raises:
            NotALanguageModel: its output is not a row of probabilities a token.
        """
        vocabulary, count = language_model(net)
        return cls(vocabulary, count, _logit_layers(net.specs, count))

    def predictions(self, outputs: Sequence[Array], row: int) -> tuple[Prediction, ...]:
        """Return what each head predicts in a row, from the outputs [tokens, depth] of all layers."""
        return tuple(self.prediction(outputs, row, head) for head in range(self.count))

    def prediction(self, outputs: Sequence[Array], row: int, head: int = 0) -> Prediction:
        """Return what one head predicts in a row, from the outputs [tokens, depth] of all layers."""
        scores = outputs[-1][row, head * self.vocabulary : (head + 1) * self.vocabulary]
        layer = self.logits[head]
        return Prediction(scores, scores if layer is None else outputs[layer][row])


def _logit_layers(specs: Sequence[LayerSpec], count: int) -> tuple[int | None, ...]:
    last = specs[-1]
    if last.kind == SOFTMAX and count == 1:
        return (last.previous,)
    if last.kind == CONCATENATION and [specs[index].kind for index in last.listed] == [SOFTMAX] * count:
        return tuple(specs[index].previous for index in last.listed)
    return (None,) * count
