"""Ways to make a case smaller: its model, the calls of its sequence, the rows of its batches, and its ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Final, TypeAlias, TypeVar

from cai_conformance.errors import InputError
from cai_conformance.run.probe.batches import Batches
from cai_conformance.run.probe.calls import Calls, Drop, Feed, Step
from cai_conformance.run.probe.sequences import SequenceCheck
from cai_conformance.run.shrink.models import MODEL_REDUCERS, SmallModel, fewer_ids, of_models, redrawn, smaller
from cai_conformance.run.shrink.search import AnyCheck, Case, Reducer

LEAST_VOCABULARY: Final = 2
LEAST_OF_OWN_QUESTIONS: Final = 8
"""How many ids a check with questions of its own needs: some are named, and some are exchanged for others."""

Item = TypeVar("Item")
CaseReducer: TypeAlias = Callable[[Case], Iterator[Case]]


def reducers_for(check: AnyCheck, *, models: bool) -> tuple[Reducer[Case], ...]:
    """Return the ways in their order.

    Args:
        check: which fails; what is asked has to stay a question of this check.
        models: whether other models than the suite's are tried.
    """
    asked: tuple[CaseReducer, ...] = ()
    if isinstance(check, SequenceCheck):
        fitting = check.fits
        asked = tuple(_of_calls(reducer, fitting) for reducer in CALL_REDUCERS)
    asked += tuple(_of_batches(reducer) for reducer in BATCH_REDUCERS)
    found: tuple[CaseReducer, ...] = ()
    if models:
        found = (_of_models(redrawn), _smaller_vocabulary, *(_of_models(of_models(each)) for each in MODEL_REDUCERS))
    # Shorter questions first, for each later trial is quicker.
    return (*asked, *found, simpler_ids)


def simpler_ids(case: Case) -> Iterator[Case]:
    """Yield the case with all ids 0, then with one id smaller."""
    ids = case.ids
    if any(ids):
        yield case.with_ids((0,) * len(ids))
    for place, token in enumerate(ids):
        for other in smaller(token, 0):
            yield case.with_ids((*ids[:place], other, *ids[place + 1 :]))


def without(items: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
    """Yield what is left without a run of items: half of them, ever shorter runs, single ones."""
    size = len(items) // 2
    while size:
        for first in range(0, len(items), size):
            yield (*items[:first], *items[first + size :])
        size //= 2


def fewer_steps(calls: Calls) -> Iterator[Calls]:
    """Yield the calls without some of them."""
    for steps in without(calls.steps):
        yield from _possible(steps, calls.start)


def merged_feeds(calls: Calls) -> Iterator[Calls]:
    """Yield the calls with two of them, which feed one after the other, as one."""
    steps = calls.steps
    for place, (step, following) in enumerate(pairwise(steps)):
        if isinstance(step, Feed) and isinstance(following, Feed):
            merged = Feed(step.tokens + following.tokens)
            yield from _possible((*steps[:place], merged, *steps[place + 2 :]), calls.start)


def shorter_feeds(calls: Calls) -> Iterator[Calls]:
    """Yield the calls with fewer tokens in one of them; of what is dropped again, a drop by as many less, too."""
    steps = calls.steps
    for place, step in enumerate(steps):
        if not isinstance(step, Feed):
            continue
        for tokens in without(step.tokens):
            if not tokens:
                continue
            changed = (*steps[:place], Feed(tokens), *steps[place + 1 :])
            yield from _possible(changed, calls.start)
            following = steps[place + 1] if place + 1 < len(steps) else None
            left = following.count - (len(step.tokens) - len(tokens)) if isinstance(following, Drop) else 0
            if left > 0:
                yield from _possible((*changed[: place + 1], Drop(left), *steps[place + 2 :]), calls.start)


def smaller_drops(calls: Calls) -> Iterator[Calls]:
    """Yield the calls with fewer tokens dropped in one of them."""
    for place, step in enumerate(calls.steps):
        if isinstance(step, Drop):
            for count in smaller(step.count, 1):
                yield from _possible((*calls.steps[:place], Drop(count), *calls.steps[place + 1 :]), calls.start)


def earlier_start(calls: Calls) -> Iterator[Calls]:
    """Yield the calls from an earlier position."""
    for start in smaller(calls.start, 0):
        yield replace(calls, start=start)


def fewer_batches(batches: Batches) -> Iterator[Batches]:
    """Yield fewer steps of training."""
    for steps in without(batches.steps):
        yield from _trainable(steps)


def fewer_rows(batches: Batches) -> Iterator[Batches]:
    """Yield fewer rows in one batch."""
    for place, rows in enumerate(batches.steps):
        for fewer in without(rows):
            yield from _trainable((*batches.steps[:place], fewer, *batches.steps[place + 1 :]))


def shorter_rows(batches: Batches) -> Iterator[Batches]:
    """Yield fewer ids in one row."""
    for place, rows in enumerate(batches.steps):
        for number, row in enumerate(rows):
            for shorter in without(row):
                changed = (*rows[:number], shorter, *rows[number + 1 :])
                yield from _trainable((*batches.steps[:place], changed, *batches.steps[place + 1 :]))


CALL_REDUCERS: Final = (fewer_steps, merged_feeds, shorter_feeds, smaller_drops, earlier_start)
BATCH_REDUCERS: Final = (fewer_batches, fewer_rows, shorter_rows)


def _of_models(reducer: Callable[[SmallModel], Iterator[SmallModel]]) -> CaseReducer:
    def reduced(case: Case) -> Iterator[Case]:
        for model in reducer(case.model):
            yield replace(case, model=model)

    return reduced


def _smaller_vocabulary(case: Case) -> Iterator[Case]:
    """Yield a smaller vocabulary; ids beyond it wrap around."""
    least = LEAST_OF_OWN_QUESTIONS if case.asked is None else LEAST_VOCABULARY
    for model in of_models(fewer_ids(least))(case.model):
        ids = tuple(token % model.configuration.vocabulary for token in case.ids)
        yield replace(case.with_ids(ids), model=model)


def _of_calls(reducer: Callable[[Calls], Iterator[Calls]], fits: Callable[[Calls], bool]) -> CaseReducer:
    def reduced(case: Case) -> Iterator[Case]:
        if isinstance(case.asked, Calls):
            for calls in reducer(case.asked):
                if fits(calls):
                    yield replace(case, asked=calls)

    return reduced


def _of_batches(reducer: Callable[[Batches], Iterator[Batches]]) -> CaseReducer:
    def reduced(case: Case) -> Iterator[Case]:
        if isinstance(case.asked, Batches):
            for batches in reducer(case.asked):
                yield replace(case, asked=batches)

    return reduced


def _possible(steps: Sequence[Step], start: int) -> Iterator[Calls]:
    with suppress(InputError):
        yield Calls(tuple(steps), start)


def _trainable(steps: Sequence[Sequence[tuple[int, ...]]]) -> Iterator[Batches]:
    with suppress(InputError):
        yield Batches(tuple(map(tuple, steps)))
