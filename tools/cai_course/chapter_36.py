"""Chapter 36: temperature and top-k, and sampling from the model that chapter 35 wrote down."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import numpy as np

from cai_course import small_decoder as small
from cai_course.checkpoint import read_course_checkpoint
from cai_course.records import CourseRecord, Separator, bracketed, fixed, fixed_list, record, trace_bytes, word
from cai_course.small_decoder import GENERATED, STOPS, CoursePrefixPath, sampled
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.decoding.sampling import Distribution, SamplingSettings, course_distribution, course_sample, sample
from cai_reference.errors import CaiReferenceError
from cai_reference.splitmix import SplitMix64

LOGITS: Final = np.array([0.0, 1.0, 1.0, 2.0])
TEMPERATURES: Final = (0.5, 1.0, 2.0)
TIED: Final = (1, 2)
"""The two ids of equal logits, of which the border of top-k keeps one."""

BORDER: Final = 2
TOP_K: Final = 3
SEED: Final = 36
DRAWS: Final = 8
UNDERFLOWING: Final = np.array([2.0, 2.0, 1.0])
SMALLEST_TEMPERATURE: Final = sys.float_info.min
PROMPT: Final = (0,)


def trace(arithmetic: Arithmetic) -> bytes:
    """Return the trace."""
    return trace_bytes(Separator.BAR, _records(arithmetic))


def _records(arithmetic: Arithmetic) -> Iterator[CourseRecord]:
    yield record("TEMPERATURE_TOP_K_TRACE_V2")
    yield record("INPUT", logits=fixed_list(LOGITS.tolist(), 6), vocabulary=len(LOGITS))
    for temperature in TEMPERATURES:
        distribution = course_distribution(LOGITS, temperature, len(LOGITS), arithmetic)
        yield record("TEMPERATURE", tau=fixed(temperature, 6), top_k=len(LOGITS), sum=fixed(distribution.total, 12))
        for fields in _tokens(distribution):
            yield record("TOKEN", scenario=f"tau-{fixed(temperature, 1)}", **fields)
    yield from _border(arithmetic)
    yield from _support(arithmetic)
    yield from _draws(arithmetic)
    yield from _loaded(arithmetic)
    yield _errors(arithmetic)
    yield _history(arithmetic)
    yield record("END", next="incremental-attention")


def _tokens(distribution: Distribution) -> Iterator[dict[str, str | int]]:
    """Yield the fields of each id; ranks count from 1 over all ids, kept or not."""
    ranked = sorted(range(len(LOGITS)), key=lambda token: (-LOGITS[token], token))
    for token, probability in enumerate(distribution.probabilities.tolist()):
        yield {
            "id": token,
            "logit": fixed(float(LOGITS[token]), 6),
            "rank": ranked.index(token) + 1,
            "retained": token in distribution.kept,
            "probability": fixed(probability, 12),
            "percent": fixed(probability * 100.0, 6),
        }


def _border(arithmetic: Arithmetic) -> Iterator[CourseRecord]:
    distribution = course_distribution(LOGITS, 1.0, BORDER, arithmetic)
    (keep,) = (token for token in TIED if token in distribution.kept)
    (remove,) = (token for token in TIED if token not in distribution.kept)
    yield record(
        "TOPK",
        tau=fixed(1.0, 6),
        top_k=BORDER,
        retained=bracketed(distribution.kept),
        sum=fixed(distribution.total, 12),
        tie_keep=keep,
        tie_remove=remove,
    )
    for fields in _tokens(distribution):
        yield record("TOPK_TOKEN", **fields)


def _support(arithmetic: Arithmetic) -> Iterator[CourseRecord]:
    distribution = course_distribution(UNDERFLOWING, SMALLEST_TEMPERATURE, len(UNDERFLOWING), arithmetic)
    yield record(
        "SUPPORT",
        tau=repr(SMALLEST_TEMPERATURE),
        top_k=len(UNDERFLOWING),
        retained=bracketed(distribution.kept),
        positive_support=bracketed(distribution.support()),
        probabilities=fixed_list(distribution.probabilities.tolist(), 12),
    )


def _draws(arithmetic: Arithmetic) -> Iterator[CourseRecord]:
    distribution = course_distribution(LOGITS, 1.0, TOP_K, arithmetic)
    yield record(
        "DRAW_POLICY",
        tau=fixed(1.0, 6),
        top_k=TOP_K,
        seed=SEED,
        retained=bracketed(distribution.kept),
        sum=fixed(distribution.total, 12),
        vocabulary=len(LOGITS),
    )
    generator = SplitMix64(SEED)
    for index in range(DRAWS):
        choice = course_sample(LOGITS, 1.0, TOP_K, arithmetic, generator)
        yield record(
            "DRAW",
            index=index,
            unit=_drawn(choice.unit),
            interval_start=fixed(choice.interval.start, 12),
            interval_end=fixed(choice.interval.end, 12),
            token=choice.token,
        )
    token, moved, drawn = _greedy(arithmetic)
    yield record(
        "GREEDY",
        token=token,
        draw=_drawn(drawn),
        rng_advanced=moved,
        top_k_one_token=course_sample(LOGITS, 1.0, 1, arithmetic, SplitMix64(SEED)).token,
    )


def _drawn(unit: float | None) -> str:
    return "none" if unit is None else fixed(unit, 12)


def _greedy(arithmetic: Arithmetic) -> tuple[int, bool, float | None]:
    """Return the token of the largest logit, whether choosing it moved the generator, and the number drawn."""
    generator = SplitMix64(SEED)
    choice = sample(LOGITS, SamplingSettings(temperature=0.0), arithmetic, generator)
    return choice.token, generator.state != SEED, choice.unit


def _loaded(arithmetic: Arithmetic) -> Iterator[CourseRecord]:
    data = small.checkpoint_bytes(arithmetic)
    checkpoint = read_course_checkpoint(data)
    model, sizes = checkpoint.model(), checkpoint.configuration
    path = CoursePrefixPath(model, arithmetic)
    found = sampled(path, sizes, PROMPT, None, checkpoint.sampling(), arithmetic)
    again = sampled(CoursePrefixPath(model, arithmetic), sizes, PROMPT, None, checkpoint.sampling(), arithmetic)
    yield record(
        "LOADED",
        bytes=len(data),
        rng_state=word(checkpoint.generator),
        vocabulary=sizes.vocabulary,
        context=sizes.context,
        eos="none",
        max_new_tokens=GENERATED,
        prompt=bracketed(PROMPT),
        generated=bracketed(found.ids),
        prefixes=bracketed(path.prefixes),
        stop=STOPS[found.stop],
        calls=found.forwards,
        replay=(found.choices, found.stop, found.state) == (again.choices, again.stop, again.state),
    )
    ending = found.ids[0]
    ended = sampled(CoursePrefixPath(model, arithmetic), sizes, PROMPT, ending, checkpoint.sampling(), arithmetic)
    yield record(
        "EOS",
        vocabulary=sizes.vocabulary,
        context=sizes.context,
        eos=ending,
        max_new_tokens=GENERATED,
        generated=bracketed(ended.ids),
        stop=STOPS[ended.stop],
        calls=ended.forwards,
    )


def _errors(arithmetic: Arithmetic) -> CourseRecord:
    generator = SplitMix64(SEED)

    def refused(expected: str, logits: Array, temperature: float, top_k: int) -> bool:
        try:
            course_sample(logits, temperature, top_k, arithmetic, generator)
        except CaiReferenceError as error:
            return error.code == expected
        return False

    return record(
        "ERRORS",
        temperature_zero=refused("invalid-temperature", LOGITS, 0.0, 2),
        top_k_zero=refused("invalid-top-k", LOGITS, 1.0, 0),
        nonfinite_logit=refused("non-finite-logit", np.array([0.0, np.nan]), 1.0, 1),
        rng_unchanged=generator.state == SEED,
    )


def _history(arithmetic: Arithmetic) -> CourseRecord:
    """Return what greedy choice and top-k leave of the whole distribution."""
    token, moved, _ = _greedy(arithmetic)
    whole = course_distribution(LOGITS, 1.0, len(LOGITS), arithmetic).probabilities
    kept = course_distribution(LOGITS, 1.0, TOP_K, arithmetic).kept
    removed = [token for token in range(len(LOGITS)) if token not in kept]
    return record(
        "HISTORY",
        greedy_token=token,
        greedy_rng_advanced=moved,
        top_k=TOP_K,
        retained=bracketed(kept),
        retained_full_mass=fixed(float(arithmetic.sum(whole[sorted(kept)])), 12),
        removed_full_mass=fixed(float(arithmetic.sum(whole[removed])), 12),
    )
