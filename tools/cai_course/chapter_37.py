"""Chapter 37: one attention layer, fed a token at a time, beside the whole prefix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from cai_course.caches import CachedStep, CourseLayerCache, PositionedAttention
from cai_course.errors import CourseError, Refusal
from cai_course.records import CourseRecord, Separator, bracketed, fixed, record, trace_bytes, unsigned_list
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.autograd import Parameter, Tape
from cai_reference.decoding.errors import SessionError
from cai_reference.errors import CaiReferenceError
from cai_reference.layers.attention import GroupedQueryAttention
from cai_reference.layers.matrices import BiasFree
from cai_reference.layers.rope import Frequencies, Rope, RopeLayout
from cai_reference.splitmix import SplitMix64

WIDTH: Final = 4
HEADS: Final = 2
CAPACITY: Final = 4
POSITIONS: Final = 5
ROPE: Final = Rope(100.0, RopeLayout.ADJACENT, Frequencies.NEAREST)
TOLERANCE: Final = 1e-12
SEED: Final = 37
"""Of the layers of other sizes, which the cache refuses."""

COSINES: Final = (0.5403023058681398, -0.4161468365471424)
SINES: Final = (0.8414709848078965, 0.9092974268256817)
"""Of 1 and 2, as the doubles that the course writes down: its rotation takes them back to 1 and 0."""

INPUT: Final = np.array([[1.0, 0.0, 1.0, 0.0], [COSINES[0], -SINES[0], 0.0, 1.0], [COSINES[1], -SINES[1], 1.0, 1.0]])
SWAP: Final = np.eye(WIDTH)[[2, 3, 0, 1]]
"""The output matrix: the two heads change places."""


@dataclass(frozen=True, eq=False)
class LessonStep:
    """One token: the cache's answer, and the last row of the whole prefix."""

    cached: CachedStep
    full: Array
    full_rows: int
    before: int
    after: int

    @property
    def difference(self) -> float:
        """The largest absolute difference of both."""
        return float(np.abs(self.cached.output - self.full).max())

    def bits(self) -> tuple[object, ...]:
        """Return everything as bits, to compare with a replay."""
        step = self.cached
        arrays = (step.output, step.keys, step.values, step.weights, self.full)
        return (*(array.tobytes() for array in arrays), self.full_rows, self.before, self.after)


def trace(arithmetic: Arithmetic) -> bytes:
    """Return the trace."""
    return trace_bytes(Separator.BAR, _records(arithmetic))


def course_layer() -> PositionedAttention:
    """Return the layer: queries, keys and values are the input, the output matrix swaps the heads."""
    matrices = {"query": np.eye(WIDTH), "key": np.eye(WIDTH), "value": np.eye(WIDTH), "output": SWAP}
    query, key, value, output = (
        BiasFree(Parameter(f"attention.{name}.weight", matrix)) for name, matrix in matrices.items()
    )
    return PositionedAttention(GroupedQueryAttention(query, key, value, output, HEADS, HEADS, ROPE, None), POSITIONS)


def _records(arithmetic: Arithmetic) -> Iterator[CourseRecord]:
    layer = course_layer()
    cache = CourseLayerCache(layer, CAPACITY, arithmetic)
    steps = _steps(layer, cache, arithmetic)
    width = layer.mixer.head_width
    yield record("INCREMENTAL_ATTENTION_TRACE_V1")
    yield record(
        "CONFIG",
        batch=1,
        tokens=len(INPUT),
        model_width=layer.width,
        heads=layer.mixer.heads,
        head_width=width,
        capacity=CAPACITY,
        rope_base=fixed(layer.mixer.rope.base, 6),
        tolerance=fixed(TOLERANCE, 12),
    )
    for position, step in enumerate(steps):
        yield from _step(position, step)
    full, incremental = sum(step.full_rows for step in steps), len(steps)
    reused = full - incremental
    yield record(
        "WORK",
        full_rows_per_projection=full,
        incremental_rows_per_projection=incremental,
        reused_rows_per_kv_projection=reused,
        avoided_rows_across_kv=2 * reused,
    )
    yield _reset(layer, cache, steps, arithmetic)
    yield _errors(layer, arithmetic)
    yield record(
        "HISTORY",
        newest_query_key_rows=bracketed(step.cached.weights.shape[1] for step in steps),
        complete_prefix_rows_per_projection=full,
        incremental_rows_per_projection=incremental,
        reused_key_rows=reused,
        reused_value_rows=reused,
    )
    yield record("END", next="cached-generation")


def _steps(layer: PositionedAttention, cache: CourseLayerCache, arithmetic: Arithmetic) -> list[LessonStep]:
    """Feed all tokens; the reference for each is the layer over the whole prefix."""
    steps = []
    for position in range(len(INPUT)):
        before = cache.length
        cached = cache.step(layer, INPUT[position : position + 1])
        tape = Tape(arithmetic, recording=False)
        prefix = tape.constant(INPUT[None, : position + 1])
        full = layer.mixer(tape, prefix).value[0, -1]
        steps.append(LessonStep(cached, full, prefix.shape[1], before, cache.length))
    return steps


def _step(position: int, step: LessonStep) -> Iterator[CourseRecord]:
    cached = step.cached
    yield record(
        "STEP",
        position=position,
        cache_before=step.before,
        cache_after=step.after,
        input=unsigned_list(INPUT[position].tolist(), 6),
        cache_shape=bracketed((1, *cached.keys.shape)),
    )
    for head in range(cached.keys.shape[0]):
        keys, values = cached.keys[head], cached.values[head]
        yield record(
            "HEAD",
            position=position,
            head=head,
            appended_key=unsigned_list(keys[-1].tolist(), 9),
            appended_value=unsigned_list(values[-1].tolist(), 9),
            keys=unsigned_list(keys.ravel().tolist(), 9),
            values=unsigned_list(values.ravel().tolist(), 9),
            weights=unsigned_list(cached.weights[head].tolist(), 12),
        )
    yield record(
        "MATCH",
        position=position,
        incremental=unsigned_list(cached.output.tolist(), 9),
        full=unsigned_list(step.full.tolist(), 9),
        max_abs_diff=fixed(step.difference, 12),
    )


def _reset(
    layer: PositionedAttention, cache: CourseLayerCache, steps: Sequence[LessonStep], arithmetic: Arithmetic
) -> CourseRecord:
    before = cache.length
    stores = [store.storage for store in (cache.state.keys, cache.state.values)]
    bits = [storage.tobytes() for storage in stores]
    cache.reset()
    after = [store.storage for store in (cache.state.keys, cache.state.values)]
    reused = all(one is other for one, other in zip(stores, after, strict=True))
    unchanged = bits == [storage.tobytes() for storage in after]
    length = cache.length
    replay = _steps(layer, cache, arithmetic)
    return record(
        "RESET",
        before=before,
        after=length,
        allocation_reused=reused,
        storage_unchanged=unchanged,
        replay_identical=[step.bits() for step in steps] == [step.bits() for step in replay],
    )


def _errors(layer: PositionedAttention, arithmetic: Arithmetic) -> CourseRecord:
    """Return what a cache refuses; each refusal counts only where the cache is as it was before."""
    generator = SplitMix64(SEED)
    wider = _drawn("wider", 2 * WIDTH, HEADS, generator)
    one_head = _drawn("one_head", WIDTH, 1, generator)
    one, two = INPUT[:1], INPUT[:2]
    kept: list[bool] = []

    def refused(
        made_for: PositionedAttention,
        given: PositionedAttention,
        rows: Array,
        refusal: Refusal | None,
        capacity: int = CAPACITY,
        filled: int = 0,
    ) -> bool:
        cache = CourseLayerCache(made_for, capacity, arithmetic)
        for _ in range(filled):
            cache.step(made_for, one)
        before = cache.remembered()
        try:
            cache.step(given, rows)
        except CourseError as error:
            if error.code != "cache-refused":
                raise
            right = error.fields["refusal"] == refusal
        except CaiReferenceError as error:
            right = refusal is None and (isinstance(error, SessionError) and error.code == "non-finite-score")
        else:
            right = False
        kept.append(before == cache.remembered())
        return right and kept[-1]

    other_rope = replace(layer, mixer=replace(layer.mixer, rope=replace(ROPE, base=2.0 * ROPE.base)))
    return record(
        "ERRORS",
        two_tokens=refused(layer, layer, two, Refusal.TOKENS, capacity=2),
        full_cache=refused(layer, layer, one, Refusal.FULL, capacity=1, filled=1),
        model_mismatch=refused(wider, layer, one, Refusal.WIDTH),
        head_mismatch=refused(one_head, layer, one, Refusal.HEADS),
        layer_mismatch=refused(course_layer(), layer, one, Refusal.WEIGHTS),
        rope_mismatch=refused(layer, other_rope, one, Refusal.ROPE),
        rope_positions_mismatch=refused(layer, replace(layer, positions=POSITIONS + 1), one, Refusal.POSITIONS),
        nonfinite_projection=refused(layer, layer, np.full((1, WIDTH), np.finfo(np.float64).max), None),
        unchanged=all(kept),
    )


def _drawn(name: str, width: int, heads: int, generator: SplitMix64) -> PositionedAttention:
    mixer = GroupedQueryAttention.initialize(name, width, heads, heads, width // heads, ROPE, None, generator)
    return PositionedAttention(mixer, POSITIONS)
