"""Wrong implementations of Llama models: for each the vector case that must fail, and some that cannot see it.

Each fault patches the reference from outside and runs the cases on the shipped weights. None of them can be seen in the
suites of the bake-off, whose models have heads with keys of their own, the usual base, and another norm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from cai_conformance.backends.decoder import edges, llama_plan
from cai_conformance.backends.decoder.plan import phase_of, sizes_for
from cai_conformance.backends.decoder.setting import DecoderSetting
from cai_conformance.goldens import locate
from cai_conformance.vectors import VectorCase, read_vectors
from cai_reference.arithmetic import STRICT, Arithmetic, Array
from cai_reference.autograd import Tape, Variable
from cai_reference.decoding import attend, layer_states
from cai_reference.decoding.row_store import RowStore
from cai_reference.layers import grouped_query_attention, rms_norm, rope
from cai_reference.layers.rms_norm import InverseForm
from cai_reference.layers.rope import RopeLayout
from cai_reference.models.llama_configuration import LlamaConfiguration

DENSE, WINDOW, COURSE = "llama.dense", "llama.gqa-window", "course.decoder"
Patch = Callable[[pytest.MonkeyPatch], None]
LAST, FAR = "fwd.oracle.last", "fwd.oracle.far"
SESSIONS = ("kv.split.one", "kv.split.half", "kv.split.far")


@dataclass(frozen=True)
class Fault:
    """A wrong implementation: of which suite, how it is made, which cases must fail, and which cannot see it."""

    suite: str
    patch: Patch
    seen_by: tuple[str, ...]
    unseen_by: tuple[str, ...] = ()


@cache
def cases_of(suite: str) -> dict[str, VectorCase]:
    """Return the accepted cases."""
    return {case.identifier: case for case in read_vectors((locate() / suite / "vectors.json").read_bytes()).cases}


def failing(suite: str, names: tuple[str, ...]) -> list[str]:
    """Answer some cases anew, and return those whose answer is another one."""
    phase = phase_of(suite)
    weights = (locate() / suite / phase.weights_layout.file).read_bytes()
    # Models of a patched configuration must not be kept for others.
    setting = DecoderSetting(phase, replace(sizes_for(phase, "golden", 0), story_seed=next(SEEDS)), STRICT, weights)
    cases = cases_of(suite)
    return [name for name in names if spelled(edges.answer(cases[name], setting)) != spelled(cases[name].expected)]


def spelled(answer: Any) -> Any:
    """Return an answer with its bits."""
    return answer.to_json()


SEEDS = iter(range(10**6, 2 * 10**6))


def configured(**changes: object) -> Patch:
    """Make models whose configuration was read wrongly."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = llama_plan.LlamaPhase.configuration

        def wrong(phase: llama_plan.LlamaPhase, sizes: Any, vocabulary: int) -> LlamaConfiguration:
            return replace(right(phase, sizes, vocabulary), **changes)  # type: ignore[arg-type]

        monkeypatch.setattr(llama_plan.LlamaPhase, "configuration", wrong)

    return patch


def tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give query head h the keys h mod G, in both paths."""

    def repeat_heads(tape: Tape, x: Variable, times: int) -> Variable:
        return tape.constant(np.tile(x.value, (1, times, 1, 1)))

    def attend_one(arithmetic: Arithmetic, query: Array, keys: Array, values: Array, scale: float) -> Array:
        times = query.shape[0] // keys.shape[0]
        return right(arithmetic, query, np.tile(keys, (times, 1, 1)), np.tile(values, (times, 1, 1)), scale)

    right = attend.attend_one
    monkeypatch.setattr(grouped_query_attention, "repeat_heads", repeat_heads)
    monkeypatch.setattr(layer_states, "attend_one", attend_one)


def epsilon_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add epsilon to the root."""

    def inverse_root(_arithmetic: Arithmetic, shifted: Array, _form: InverseForm) -> Array:
        inverse: Array = 1.0 / (np.sqrt(shifted - 0.001) + 0.001)
        return inverse

    monkeypatch.setattr(rms_norm, "_inverse_root", inverse_root)


def gain_plus_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Multiply by one more than the gain, as some models do."""
    right = rms_norm.rms_norm

    def wrong(tape: Tape, x: Variable, gain: Variable, epsilon: float, form: InverseForm) -> Variable:
        return right(tape, x, tape.constant(gain.value + 1.0), epsilon, form)

    monkeypatch.setattr(rms_norm, "rms_norm", wrong)


def half_precision_angles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep frequencies in single precision, as engines do, and angles in half precision."""
    right = rope.rotation

    def wrong(arithmetic: Arithmetic, start: int, positions: int, width: int, base: float, form: Any) -> rope.Rotation:
        thetas = rope._exponential(arithmetic, width, base)
        angles = np.arange(start, start + positions, dtype=np.float64)[:, None] * thetas
        narrow = angles.astype(np.float16).astype(np.float64)
        return rope.Rotation(arithmetic.cos(narrow), arithmetic.sin(narrow))

    monkeypatch.setattr(rope, "rotation", wrong)
    monkeypatch.setattr(layer_states, "rotation", wrong)
    assert right is not wrong


def restarting_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count positions from 0 in every call."""
    right = layer_states.turn_heads
    monkeypatch.setattr(
        layer_states, "turn_heads", lambda tape, rows, heads, _position, turning: right(tape, rows, heads, 0, turning)
    )


def queries_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn queries and not keys, in the batch path; of the heads only the first call is for queries."""
    right = grouped_query_attention.GroupedQueryAttention._turned
    calls = iter(range(10**9))

    def wrong(mixer: Any, tape: Tape, x: Variable, start: int) -> Variable:
        return right(mixer, tape, x, start) if next(calls) % 2 == 0 else x

    monkeypatch.setattr(grouped_query_attention.GroupedQueryAttention, "_turned", wrong)


def unwindowed_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the cached path see every row."""
    right = RowStore.empty
    monkeypatch.setattr(RowStore, "empty", lambda width, capacity, _window, slack: right(width, capacity, None, slack))


FAULTS = {
    "rope.adjacent": Fault(
        DENSE, configured(rope_layout=RopeLayout.ADJACENT), (LAST, FAR, *SESSIONS), ("causal.flip.full",)
    ),
    "rope.half-split": Fault(COURSE, configured(rope_layout=RopeLayout.HALF_SPLIT), (LAST, FAR, *SESSIONS)),
    "rope.default-base": Fault(DENSE, configured(rope_base=10000.0), (LAST, FAR, *SESSIONS), ("causal.flip.full",)),
    "rope.half-precision": Fault(WINDOW, half_precision_angles, (FAR, "kv.split.far")),
    "rope.restarts": Fault(DENSE, restarting_positions, SESSIONS, (LAST, FAR)),
    "rope.queries-only": Fault(DENSE, queries_only, (LAST, FAR), SESSIONS),
    "norm.default-epsilon": Fault(DENSE, configured(epsilon=1e-5), (LAST, FAR, *SESSIONS)),
    "norm.epsilon-outside": Fault(DENSE, epsilon_outside, (LAST, FAR, *SESSIONS)),
    "norm.gain-plus-one": Fault(DENSE, gain_plus_one, (LAST, FAR, *SESSIONS)),
    "norm.inverse-root": Fault(COURSE, configured(norm=InverseForm.INVERSE_ROOT), (LAST, FAR, *SESSIONS)),
    "norm.exponential": Fault(DENSE, configured(norm=InverseForm.EXPONENTIAL), (LAST, FAR, *SESSIONS)),
    "heads.tiled": Fault(WINDOW, tiled, (LAST, FAR, *SESSIONS), ("kv.reach.full", "kv.reach.cached")),
    "window.longer": Fault(WINDOW, configured(window=8), (LAST, "kv.reach.full", "kv.reach.cached")),
    "window.shorter": Fault(WINDOW, configured(window=6), (LAST, "kv.reach.full", "kv.reach.cached")),
    "window.ignored": Fault(WINDOW, configured(window=None), (LAST, "kv.reach.full", "kv.reach.cached")),
    "window.ignored-cached": Fault(
        WINDOW, unwindowed_cache, ("kv.split.half", "kv.reach.cached"), (LAST, "kv.reach.full")
    ),
}


SAMPLE = {"rope.half-precision", "norm.epsilon-outside", "heads.tiled", "window.ignored-cached"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.exhaustive) for name in FAULTS]
)
def test_a_wrong_implementation_fails_the_cases_that_see_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its answers, not by a crash; cases that cannot see it stay right."""
    fault = FAULTS[name]
    rope.rotation.cache_clear()
    fault.patch(monkeypatch)
    assert list(fault.seen_by) == failing(fault.suite, (*fault.seen_by, *fault.unseen_by))


@pytest.mark.parametrize(
    "suite", [WINDOW, *(pytest.param(suite, marks=pytest.mark.exhaustive) for suite in (DENSE, COURSE))]
)
def test_the_unpatched_reference_fails_none(suite: str) -> None:
    """So that what fails above fails because of the patch."""
    names = tuple(
        name for name in (LAST, FAR, *SESSIONS, "causal.flip.full", "kv.reach.full") if name in cases_of(suite)
    )
    assert [] == failing(suite, names)
