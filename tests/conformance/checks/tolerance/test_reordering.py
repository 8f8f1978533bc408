"""Models with their channels in another order: equal functions, whose sums are taken in another order."""

from __future__ import annotations

import numpy as np
import pytest

from cai_conformance.checks.tolerance.reordering import can_reorder, reordered
from cai_conformance.fixtures.decoder_phases import DECODE_PHASES
from cai_conformance.fixtures.given_weights import read_given
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST
from cai_reference.autograd import Tape
from cai_reference.models.stack import DecoderStack
from support_engines import HEADS, NATIVE, SUITE
from support_foreign_engines import drawn, given

TWO = pytest.mark.parametrize("suite", [SUITE, HEADS])
MOVABLE = [
    pytest.param(phase.suite, marks=[] if phase.suite in (SUITE, HEADS) else [pytest.mark.exhaustive])
    for phase in DECODE_PHASES
    if phase.suite != NATIVE
]
"""Every suite but the one whose channels belong to groups."""


def logits_of(model: DecoderStack) -> Array:
    """Return the logits of all heads for fifteen drawn ids, from a late position."""
    heads = model.forward(Tape(FAST, recording=False), drawn(15, 5), 1, 100)
    return np.stack([head.value[0] for head in heads])


@pytest.mark.parametrize("suite", MOVABLE)
def test_the_logits_are_the_same_numbers(suite: str) -> None:
    """But for rounding, and not in every bit: otherwise nothing would have been reordered."""
    model = given(suite)
    changed = read_given(model.phase, model.sizes, model.files(reordered(model.tensors, 3))[layout(suite)])
    before, after = logits_of(model.model), logits_of(changed)
    assert 0.0 < float(np.max(np.abs(before - after))) < 1e-11 * float(np.max(np.abs(before)))


def layout(suite: str) -> str:
    """Return the name of the file with a suite's weights."""
    return given(suite).phase.weights_layout.file


@TWO
def test_going_back_gives_every_bit(suite: str) -> None:
    """By the same seed, whatever was drawn."""
    tensors = given(suite).tensors
    for seed in (0, 1, 77):
        there = reordered(tensors, seed)
        back = reordered(there, seed, back=True)
        assert list(tensors) == list(back)
        assert all(tensors[name].tobytes() == value.tobytes() for name, value in back.items())
        assert all(
            tensors[name].tobytes() == value.tobytes()
            for name, value in reordered(reordered(tensors, seed, back=True), seed).items()
        )


@TWO
def test_values_change_places_and_nothing_else(suite: str) -> None:
    """Shapes stay; another seed is another order."""
    tensors = given(suite).tensors
    one, other = reordered(tensors, 1), reordered(tensors, 2)
    for name, value in tensors.items():
        assert value.shape == one[name].shape
        assert np.array_equal(np.sort(value, axis=None), np.sort(one[name], axis=None))
    moved = [name for name, value in tensors.items() if not np.array_equal(value, one[name])]
    assert len(moved) > len(tensors) // 2
    assert any(not np.array_equal(one[name], other[name]) for name in tensors)


def test_ids_heads_and_positions_stay() -> None:
    """A row of the table is a row of the table, and the columns of a head are those of that head."""
    tensors = given(SUITE).tensors
    changed = reordered(tensors, 1)
    row, query = "token_embedding.weight", "blocks.0.attention.query.weight"
    assert np.array_equal(np.sort(tensors[row], axis=1), np.sort(changed[row], axis=1))
    assert np.array_equal(np.sort(tensors[query], axis=0), np.sort(changed[query], axis=0))


def test_grouped_projections_are_left_alone() -> None:
    """Their channels belong to their groups."""
    assert not can_reorder(given(NATIVE).tensors)
    assert can_reorder(given(SUITE).tensors)
