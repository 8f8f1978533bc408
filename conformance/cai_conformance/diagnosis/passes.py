"""The reference's forward pass with its stages, alone or fed with what a backend showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Tape, Variable
from cai_reference.errors import CaiReferenceError
from cai_reference.models.stack import DecoderStack


def reference_pass(
    model: DecoderStack,
    ids: Sequence[int],
    start: int,
    arithmetic: Arithmetic,
    shown: Mapping[str, Array] | None = None,
) -> dict[str, Array]:
    """Run one sequence and return every stage, in order, without the batch axis.

    Args:
        model: with the given weights.
        ids: the sequence.
        start: the position of its first token.
        arithmetic: in which the reference computes.
        shown: what stands in the place of a stage once that stage was computed, by name and of its shape. So each
            stage is computed from what was shown of the earlier ones, and a mistake does not spread. What is not
            finite is not put in place.

    Returns:
        The stages as computed; those behind a number that left the range of binary64 are missing.
    """
    kept: dict[str, Array] = {}
    forced = shown or {}

    def observe(name: str, value: Variable) -> None:
        kept[name] = value.value[0]
        found = forced.get(name)
        if found is not None and found.shape == value.value.shape[1:] and np.isfinite(found).all():
            replacement = np.array(found, dtype=np.float64)[None]
            replacement.flags.writeable = False
            value.value = replacement

    try:
        model.forward(Tape(arithmetic, recording=False), list(ids), 1, start, observe)
    except CaiReferenceError:
        # What was shown may lead anywhere; the stages up to there are what is asked for.
        if shown is None:
            raise
    return kept


def without_batch_axis(name: str, found: Array, expected: Mapping[str, Array]) -> Array:
    """Return a stage without the axis of length 1 that a backend may have left in front."""
    array = np.asarray(found, dtype=np.float64)
    shape = expected[name].shape
    return array[0] if array.shape == (1, *shape) else array
