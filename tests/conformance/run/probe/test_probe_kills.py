"""Each check of self-consistency fails about seeded faults, and not about those that it cannot see."""

from __future__ import annotations

from typing import Final

import pytest

from cai_conformance.suites.probe import SELF_CHECKS
from cai_conformance.verdicts import Outcome
from support_engines import HEADS, NATIVE, SUITE
from support_probes import outcomes_with

ORDINARY: Final = (
    ("rope.shift", SUITE, "attention.keys-unrotated"),
    ("kv.steps", SUITE, "rope.restart"),
    ("kv.cuts", SUITE, "cache.mask-top-left"),
    ("kv.rollback", SUITE, "cache.stale-row-after-rollback"),
    ("kv.rollback", SUITE, "cache.position-plus-one-after-rollback"),
    ("kv.rollback", SUITE, "cache.trim-after-wrap"),
    ("kv.reuse", SUITE, "cache.kept-between-sequences"),
    ("kv.edge", SUITE, "cache.window-ignored"),
    ("kv.window", SUITE, "window.plus-one"),
    ("kv.window", SUITE, "window.minus-one"),
    ("ssm.split", NATIVE, "ssm.chunk-from-zero"),
    ("ssm.boundary", NATIVE, "ssm.one-step-a-call"),
    ("spec.twin", SUITE, "cache.chunk-unmasked"),
    ("spec.rows", SUITE, "cache.stale-row-after-rollback"),
    ("eval.batch", SUITE, "loss.pads-counted"),
    ("grad.accum", SUITE, "loss.mean-of-means"),
    ("grad.fd", SUITE, "gradient.tied-once"),
)
MORE: Final = (
    ("rope.shift", SUITE, "rope.angles-in-half-precision"),
    ("rope.shift", SUITE, "rope.start-forgotten"),
    ("kv.steps", SUITE, "cache.keys-rotated-again"),
    ("kv.steps", SUITE, "cache.window-ignored"),
    ("kv.cuts", SUITE, "cache.chunk-unmasked"),
    ("kv.cuts", SUITE, "cache.values-one-behind"),
    ("kv.rollback", SUITE, "cache.rollback-ignored"),
    ("kv.rollback", NATIVE, "cache.rollback-ignored"),
    ("kv.reuse", NATIVE, "ssm.state-kept"),
    ("kv.window", SUITE, "window.none"),
    ("kv.window", SUITE, "cache.window-ignored"),
    ("ssm.split", NATIVE, "ssm.one-step-a-call"),
    ("ssm.boundary", NATIVE, "ssm.chunk-from-zero"),
    ("ssm.snap", NATIVE, "ssm.chunk-from-zero"),
    ("spec.rows", SUITE, "cache.chunk-unmasked"),
    ("spec.twin", HEADS, "cache.mask-top-left"),
    ("eval.batch", SUITE, "loss.pads-scored"),
    ("eval.batch", SUITE, "loss.mean-of-means"),
    ("eval.batch", SUITE, "loss.sum"),
    ("grad.accum", SUITE, "loss.pads-counted"),
    ("grad.accum", SUITE, "gradient.last-sequence"),
    ("grad.fd", SUITE, "gradient.norm-without-mean"),
    ("grad.fd", SUITE, "gradient.last-occurrence"),
    ("grad.fd", SUITE, "gradient.last-sequence"),
    ("ckpt.roundtrip", SUITE, "checkpoint.head-untied"),
    ("ckpt.roundtrip", NATIVE, "checkpoint.written-late"),
    ("ckpt.resume", NATIVE, "checkpoint.step-not-saved"),
    ("ckpt.resume", SUITE, "checkpoint.settings-not-saved"),
    ("ckpt.strict", NATIVE, "checkpoint.half-applied"),
)
UNSEEN: Final = ("rope.half-split", "rope.base-10000", "norm.eps-outside", "swiglu.gelu-for-silu", "attention.unscaled")
"""Faults that are the same in every call: only right numbers show them."""


class TestFaults:
    """A check that cannot fail is worth nothing."""

    @pytest.mark.parametrize(
        ("name", "suite", "slug"),
        [*ORDINARY, *(pytest.param(*each, marks=pytest.mark.exhaustive) for each in MORE)],
        ids=lambda each: str(each),
    )
    def test_a_seeded_fault_fails_the_check_that_is_there_for_it(self, name: str, suite: str, slug: str) -> None:
        """While the reference as it is passes."""
        assert Outcome.FAIL in outcomes_with(slug, name, suite).values()

    @pytest.mark.parametrize(
        "slug", ["rope.half-split", *(pytest.param(s, marks=pytest.mark.exhaustive) for s in UNSEEN[1:])]
    )
    def test_what_every_call_does_alike_stays_unseen(self, slug: str) -> None:
        """Comparing an engine with itself is half of the matter."""
        for name in ("rope.shift", "kv.steps", "kv.cuts"):
            assert {Outcome.PASS} == set(outcomes_with(slug, name).values()), name

    @pytest.mark.exhaustive
    def test_a_window_that_is_wrong_in_both_paths_alike_shows_in_its_reach_alone(self) -> None:
        """For the two paths agree."""
        assert {Outcome.FAIL} == set(outcomes_with("window.plus-one", "kv.window").values())
        assert {Outcome.PASS} == set(outcomes_with("window.plus-one", "kv.steps").values())

    def test_every_check_is_tried(self) -> None:
        """Those without a seeded fault have an engine of their own in the tests beside this one."""
        own = {"kv.batch", "kv.poison", "kv.fail", "ssm.snap", "mtp.self", "eval.pure", "loss.shift"}
        tried = {name for name, _, _ in (*ORDINARY, *MORE)} | own
        assert {check.name for check in SELF_CHECKS} == tried
