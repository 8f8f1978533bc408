"""Mistakes planted into the PyTorch engine, made small: its rounding is measured, and is not what is left."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from cai_conformance.backends.registry import resolve
from cai_conformance.checks.tolerance.policy import parse_policy
from cai_conformance.run.shrink.failures import look, smallest
from cai_conformance.run.shrink.models import SmallModel
from cai_conformance.run.shrink.replay import remaining
from cai_conformance.run.shrink.trial import driver_of, trials_on
from support_cli import invoke
from support_foreign_engines import NO_TORCH
from support_shrinking import given_model
from support_torch_faults import planted_in_torch

pytestmark = pytest.mark.exhaustive


@pytest.fixture(autouse=True)
def _torch() -> None:
    pytest.importorskip("torch", reason=NO_TORCH)


class TestTorch:
    """The same smallest cases as of the reference with the same mistakes."""

    @pytest.mark.parametrize(
        ("slug", "check", "left"),
        [
            ("rope.adjacent", "fwd.oracle", "1 layer, 1 head of 4 channels, vocabulary 2, prompt 0 1"),
            ("window.plus-one", "fwd.oracle", "1 layer, 1 head of 2 channels, vocabulary 2, window 1, prompt 0 1"),
            ("adamw.coupled-decay", "opt.given", "1 layer, 1 head of 2 channels, vocabulary 2, 1 step"),
        ],
    )
    def test_a_planted_mistake_is_made_small(self, slug: str, check: str, left: str) -> None:
        """In float64, within the floor that was measured on each model."""
        with planted_in_torch(slug) as suite:
            given = given_model(suite)
            with trials_on(driver_of(resolve("torch")), given, parse_policy("auto")) as trials:
                seen = look(trials, SmallModel.of(given), suite, lambda identifier: check in identifier)
                assert seen.found is not None
                found = smallest(seen.found, suite, trials)
        assert found.last_judged.fails
        assert left == remaining(found.last)

    def test_single_precision_is_shrunk_to_what_it_can_tell(self, tmp_path: Path) -> None:
        """What is left is seen beyond its rounding; it is replayed, and without the mistake it passes."""
        with planted_in_torch("norm.eps-1e-5") as suite:
            arguments = ("-b", "torch:float32", "-k", "fwd.oracle", "-o", tmp_path / "case")
            found = json.loads(invoke("shrink", suite, *arguments).out)
            command = shlex.split(found["command"])[1:]
            assert 1 == invoke(*command).code
        assert 0 == invoke(*command).code
        assert ("1", "0") == (found["last"]["layers"], found["last"]["prompt"])
