"""Wrong engines: the reference with one mistake in it, judged call by call; the run fails, and names the mistake."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from cai_conformance.backends.engine.backend import EngineBackend
from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.faults import fault_named
from cai_conformance.fixtures.decoder_phases import DECODE_PHASES
from cai_conformance.run.runner import Judging, SuiteRun
from cai_conformance.suites import find_suite
from cai_conformance.verdicts import Explanation, Outcome, Verdict
from support_engines import SUITE, Planted, Tracing, Wrapped, question

pytestmark = pytest.mark.exhaustive

INFERENCE: Final = {"fwd.oracle", "causal.flip", "kv.split", "kv.reach", "kv.batch", "gen.given", "smp.tie"}
TRAINING: Final = {"loss.given", "grad.given", "opt.given"}

JUDGED: Final = {
    "cai.kv-cache": 20,
    "cai.multi-token": 22,
    "cai.diagonal-ssm": 20,
    "cai.latent-attention": 20,
    "cai.speculative": 20,
    "cai.hybrid": 20,
    "cai.grouped-hybrid": 20,
    "cai.local-global": 20,
    "cai.parallel-block": 20,
    "llama.dense": 22,
    "llama.gqa-window": 24,
    "course.decoder": 22,
}
"""How many verdicts about an engine are no skips.

Format and conventions 2, rows 2 + 3, arms that are driven 4, ties by its own arms 2, batches 2, loss and gradients 2,
steps 3; a later head and its arm 2, exchanged tokens 2, and 2 more behind a window.
"""

STAGED: Final = {
    "rope.adjacent": "llama.gqa-window",
    "rope.half-split": "course.decoder",
    "window.plus-one": "llama.gqa-window",
    "window.minus-one": "llama.gqa-window",
    "norm.eps-outside": "llama.gqa-window",
    "attention.groups-strided": "llama.gqa-window",
    "attention.keys-unrotated": "llama.dense",
    "projection.square-transposed": "llama.dense",
    "cache.stale-row-after-rollback": "llama.gqa-window",
    "rope.restart": "llama.gqa-window",
}
"""Mistakes in the forward pass or in sessions, and a suite in which each shows."""

TRAINED: Final = {
    "adamw.decay-after-update": "llama.gqa-window",
    "adamw.coupled-decay": "llama.gqa-window",
    "loss.pads-counted": "llama.gqa-window",
    "clip.per-tensor": "llama.gqa-window",
    "gradient.last-sequence": "llama.gqa-window",
}


def judged(
    backend: EngineBackend | ReferenceBackend | Tracing, suite: str, arithmetic: str = "float64"
) -> tuple[Verdict, ...]:
    """Judge a backend by a suite's given weights, and explain."""
    asked = question(suite, "auto", arithmetic)
    wanted = INFERENCE | TRAINING | {"trace.format", "trace.convention"}
    judging = Judging(
        [SuiteRun(find_suite(suite), asked)],
        backend,
        lambda check: check.partition("::")[2].partition("[")[0] in wanted,
    )
    for _ in judging:
        pass
    return judging.explained()


def failures(verdicts: tuple[Verdict, ...]) -> list[Verdict]:
    """Return the verdicts that failed."""
    return [verdict for verdict in verdicts if verdict.outcome is Outcome.FAIL]


def explanation(verdicts: tuple[Verdict, ...], checks: set[str]) -> Explanation:
    """Return the explanation of the first failure of some checks; no other one of them has any."""
    failed = [verdict for verdict in failures(verdicts) if base(verdict) in checks]
    assert failed
    found, *others = (verdict.explanation for verdict in failed)
    assert found is not None
    assert not any(others)
    return found


def base(verdict: Verdict) -> str:
    """Return the name of a check."""
    return verdict.check.partition("::")[2].partition("[")[0]


@pytest.mark.parametrize("suite", [phase.suite for phase in DECODE_PHASES])
def test_the_reference_in_fast_passes_whatever_an_engine_can_show(suite: str) -> None:
    """On every suite of decoders; how many checks that are is known."""
    verdicts = judged(EngineBackend("mine", Wrapped), suite)
    counts = Counter(verdict.outcome for verdict in verdicts)
    assert {Outcome.PASS, Outcome.NEAR_TIE, Outcome.SKIPPED} >= set(counts)
    assert JUDGED[suite] == counts[Outcome.PASS] + counts[Outcome.NEAR_TIE]
    assert not any(verdict.explanation for verdict in verdicts)


@pytest.mark.parametrize("slug", STAGED)
def test_a_mistake_in_the_forward_pass_is_named(slug: str) -> None:
    """With the stage where it begins, and whether it is new there."""
    verdicts = judged(EngineBackend("mine", lambda: Planted(fault_named(slug))), STAGED[slug])
    found = explanation(verdicts, INFERENCE)
    assert slug == found.conventions[0].partition(" + ")[0]
    assert found.stage
    assert found.origin in ("added", "inherited")
    assert found.expected != found.found
    assert any(slug in line for line in found.lines)
    assert len(found.lines) <= 6


@pytest.mark.parametrize("slug", TRAINED)
def test_a_mistake_in_training_is_named(slug: str) -> None:
    """With the part of the step where it begins."""
    verdicts = judged(EngineBackend("mine", lambda: Planted(fault_named(slug))), TRAINED[slug])
    found = explanation(verdicts, TRAINING)
    assert slug == found.conventions[0]
    assert found.stage
    assert "added" == found.origin
    assert not [verdict for verdict in failures(verdicts) if base(verdict) in INFERENCE]


def test_a_rule_for_ties_is_named() -> None:
    """Of an engine that generates by a loop of its own; its rows are right."""
    verdicts = judged(EngineBackend("mine", lambda: Planted(fault_named("argmax.last-maximum"))), SUITE)
    assert {"smp.tie"} == {base(verdict) for verdict in failures(verdicts)}
    assert "argmax.last-maximum" == explanation(verdicts, INFERENCE).conventions[0]


@pytest.mark.parametrize("arithmetic", ["strict/1", "fast"])
@pytest.mark.parametrize("slug", ["rope.adjacent", "window.plus-one", "argmax.last-maximum"])
def test_a_program_that_only_answers_traces_is_explained_as_well(slug: str, arithmetic: str) -> None:
    """By its answers to single cases; what drives an engine is skipped."""
    verdicts = judged(Tracing(fault_named(slug)), SUITE, arithmetic=arithmetic)
    assert slug == explanation(verdicts, INFERENCE).conventions[0]
    skipped = {base(verdict) for verdict in verdicts if verdict.outcome is Outcome.SKIPPED}
    assert {"kv.batch", "loss.given", "grad.given", "opt.given"} <= skipped
