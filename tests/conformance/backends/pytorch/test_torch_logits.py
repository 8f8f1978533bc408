"""PyTorch's logits and stages against the goldens and the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from cai_conformance.backends.engine.stages import record_stages
from cai_conformance.engine import Piece
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST
from support_foreign_engines import DECODERS, case, distance, distances, drawn, given, observed

if TYPE_CHECKING:
    from cai_conformance.backends.torch.engine import TorchEngine

Folder = Callable[[str], Path]

CLOSE = 1e-10
"""For logits and stages of order 10; measured are 2e-14 and less."""
SINGLE = 2e-5
"""Measured are 4e-6 and less."""
HALF = 0.25
"""Of logits of order 10, which bfloat16 holds in steps of 1/16; measured are 0.05 and less."""


def shown_by_the_reference(suite: str, ids: tuple[int, ...]) -> Mapping[str, Array]:
    """Return every stage of the batch path."""
    return {stage.name: stage.value for stage in record_stages(given(suite).model, ids, FAST)}


class TestLogits:
    """In double precision they are the goldens', but for rounding."""

    @pytest.mark.parametrize("suite", DECODERS)
    def test_the_vector_cases_are_met(self, engine: TorchEngine, folder: Folder, suite: str) -> None:
        """Whole sequences, split ones, late starts, later heads."""
        engine.load(folder(suite))
        found = dict(distances(engine, suite))
        assert len(found) >= 5
        assert {} == {name: far for name, far in found.items() if not far <= CLOSE}

    @pytest.mark.parametrize("suite", ["llama.gqa-window", pytest.param("cai.hybrid", marks=pytest.mark.exhaustive)])
    def test_coarser_formats_are_off_by_their_rounding(self, engine: TorchEngine, folder: Folder, suite: str) -> None:
        """And by no less, so that a format that is asked for is one that is computed in."""
        far: dict[str, float] = {}
        for precision in ("float64", "float32", "bfloat16"):
            engine.load(folder(suite), precision)
            assert precision == engine.description.arithmetic == engine.description.precision.weights
            far[precision] = max(dict(distances(engine, suite)).values())
        assert far["float64"] <= CLOSE < far["float32"] <= SINGLE < 1e-3 < far["bfloat16"] <= HALF

    def test_two_runs_are_equal_in_every_bit(self, engine: TorchEngine, folder: Folder) -> None:
        """Nothing depends on chance."""
        engine.load(folder("llama.dense"))
        rows = []
        for _ in range(2):
            engine.clear(0)
            rows.append(observed(engine, drawn(30, 4)).logits.tobytes())
        assert rows[0] == rows[1]


class TestStages:
    """What is shown on the way is what the reference computes on the way."""

    @pytest.mark.parametrize("suite", DECODERS)
    def test_every_stage_is_the_references(self, engine: TorchEngine, folder: Folder, suite: str) -> None:
        """By the same names, in the same order, of the same shapes."""
        ids = tuple(case(suite, "fwd.oracle.last")["input"]["ids"])
        engine.load(folder(suite))
        found, expected = observed(engine, ids).stages, shown_by_the_reference(suite, ids)
        assert list(expected) == list(found)
        far = {name: distance(found[name], value) for name, value in expected.items()}
        assert {} == {name: value for name, value in far.items() if not value <= CLOSE}

    @pytest.mark.parametrize("suite", ["llama.gqa-window", "cai.grouped-hybrid"])
    def test_a_later_call_shows_its_own_tokens(self, engine: TorchEngine, folder: Folder, suite: str) -> None:
        """Tokens are the last axis but one; of weights, both axes are those of the call."""
        ids = drawn(14, 5)
        engine.load(folder(suite))
        observed(engine, ids[:9])
        found, whole = observed(engine, ids[9:], position=9).stages, shown_by_the_reference(suite, ids)
        for name, value in whole.items():
            own = value[..., 9:, 9:] if name.endswith(".weights") else value[..., 9:, :]
            assert distance(found[name], own) <= CLOSE, name

    def test_the_padding_of_a_batch_is_not_shown(self, engine: TorchEngine, folder: Folder) -> None:
        """A short piece beside a long one shows what it shows alone."""
        engine.load(folder("cai.grouped-hybrid"))
        short = drawn(5, 6)
        alone = observed(engine, short).stages
        pieces = [Piece(1, 0, short, (4,)), Piece(2, 0, drawn(12, 7), (11,))]
        beside = engine.evaluate(pieces, observe=True)[0].stages
        assert {name: value.shape for name, value in alone.items()} == {
            name: value.shape for name, value in beside.items()
        }
        assert max(distance(beside[name], value) for name, value in alone.items()) <= CLOSE

    def test_nothing_is_shown_unless_asked_for(self, engine: TorchEngine, folder: Folder) -> None:
        """Logits alone."""
        engine.load(folder("llama.dense"))
        (found,) = engine.evaluate([Piece(0, 0, (0, 5, 9), (0, 2))])
        assert ({}, (1, 2, 320)) == (found.stages, found.logits.shape)
        assert found.logits.dtype == np.float64
