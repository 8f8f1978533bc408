"""Mistakes planted into PyTorch are named by the faults that were seeded into the reference."""

from __future__ import annotations

import pytest

from cai_conformance.backends.engine.backend import EngineBackend
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.questions import Options, question_for
from cai_conformance.run.runner import Judging, SuiteRun
from cai_conformance.suites import find_suite
from cai_conformance.verdicts import Outcome, Verdict
from support_torch_faults import TORCH_FAULTS, planted_in_torch

pytest.importorskip("torch", reason="PyTorch is not installed")


def judged(slug: str) -> tuple[Verdict, ...]:
    """Judge the PyTorch engine with a mistake in it."""
    from cai_conformance.backends.torch.engine import TorchEngine

    with planted_in_torch(slug) as name:
        suite = find_suite(name)
        question = question_for(suite, GoldenStore(locate()), Options("float64", profile="edges"))
        judging = Judging([SuiteRun(suite, question)], EngineBackend("torch", TorchEngine), lambda _: True)
        list(judging)
        return judging.explained()


class TestTorchFingerprints:
    """What the report of a wrong PyTorch engine says."""

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("slug", sorted(TORCH_FAULTS))
    def test_the_first_guess_is_the_planted_mistake(self, slug: str) -> None:
        """The run fails, nothing errors, and the first convention of the first explanation is the mistake."""
        verdicts = judged(slug)
        assert any(verdict.outcome is Outcome.FAIL for verdict in verdicts)
        assert not any(verdict.outcome is Outcome.ERRORED for verdict in verdicts)
        explanation = next(verdict.explanation for verdict in verdicts if verdict.explanation is not None)
        assert slug == explanation.conventions[0], explanation
        assert explanation.stage and explanation.origin == "added"
