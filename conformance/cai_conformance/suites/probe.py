"""The checks that drive a backend call by call. None needs a golden; those on a suite's model rest on given weights.

Those of self-consistency compare an engine with itself, so that any model will do: a suite asks them about the model
that it gives, and `cai-conform probe` about a model folder of anybody's.
"""

from __future__ import annotations

from typing import Final

from cai_conformance.checks import (
    checkpoint,
    disturbance,
    gradients,
    kv_cache,
    optimizer,
    recurrence,
    rollback,
    rotary,
    speculation,
    window,
)
from cai_conformance.checks.check import Check
from cai_conformance.fixtures.phases import DecodePhase
from cai_conformance.verdicts import Level

SELF_CHECKS: Final = (
    kv_cache.judge_neighbours,
    rotary.judge_shift,
    kv_cache.judge_steps,
    kv_cache.judge_cuts,
    rollback.judge_rollback,
    kv_cache.judge_reuse,
    kv_cache.judge_edges,
    window.judge_window,
    disturbance.judge_poison,
    disturbance.judge_failure,
    recurrence.judge_split,
    recurrence.judge_boundary,
    recurrence.judge_state_copy,
    speculation.judge_twin,
    speculation.judge_committed_rows,
    speculation.judge_equal_heads,
    gradients.judge_pure,
    gradients.judge_evaluated_batch,
    gradients.judge_accumulation,
    gradients.judge_differences,
    gradients.judge_loss_shift,
    checkpoint.judge_roundtrip,
    checkpoint.judge_resume,
    checkpoint.judge_strict,
)
"""In the order of judging."""


def engine_checks(phase: DecodePhase) -> tuple[Check, ...]:
    """Return the checks of one suite that drive a backend, in the order of judging."""
    own = [each for each in SELF_CHECKS if each.belongs_to(phase)]
    return (
        *(each.check() for each in own if each.level is not Level.T3),
        optimizer.judge_loss,
        optimizer.judge_gradients,
        optimizer.judge_steps,
        *(each.check() for each in own if each.level is Level.T3),
    )
