"""Evaluation: the mean loss over all windows of an epoch, without a graph.

Each batch's mean counts with its true number of rows: Σ meanᵢ·rowsᵢ / Σ rowsᵢ, ascending. The mean of batch means would
overweight the last, narrower batch (course, chapter 23).
"""

from __future__ import annotations

from collections.abc import Sequence

from cai_reference.arithmetic import Arithmetic
from cai_reference.autograd import Tape
from cai_reference.models import NeuralNgram
from cai_reference.text import Batch, Epoch
from cai_reference.training.errors import NoEvaluationRows


def evaluate(model: NeuralNgram, epoch: Epoch, plan: Sequence[Batch], arithmetic: Arithmetic) -> float:
    """Return the mean negative log-likelihood, in nats, over the windows of `plan`. The model is not changed.

    Raises:
        NoEvaluationRows: the plan is empty.
    """
    tape = Tape(arithmetic, recording=False)
    total, rows = 0.0, 0
    for batch in plan:
        mean = float(model.loss(tape, [epoch.window(slot) for slot in batch]).value)
        total += mean * float(len(batch))
        rows += len(batch)
    if rows == 0:
        raise NoEvaluationRows(epoch.partition)
    return total / float(rows)
