"""Faults behind the logits: which token is chosen, when generation stops, and what a sampler keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Final

import numpy as np

from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import COURSE, DENSE, NGRAM, exact, given, run
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.decoding import generation, greedy
from cai_reference.decoding.generation import DecoderStop, Limits
from cai_reference.decoding.sampling import distribution

LOOP: Final = frozenset({Place.LOOP})
SAMPLER: Final = frozenset({Place.SAMPLER})


def _last_maximum(planting: Planting) -> None:
    right = greedy.greedy_token

    def wrong(logits: Array, masked: Collection[int] = ()) -> int:
        best = float(logits[right(logits, masked)])
        return max(token for token, value in enumerate(logits.tolist()) if value == best and token not in masked)

    planting.function(right, wrong)


def _eos_ignored(planting: Planting) -> None:
    right = generation.stop_after

    def wrong(token: int, new_tokens: int, length: int, limits: Limits) -> DecoderStop | None:
        return right(token, new_tokens, length, Limits(None, limits.new_tokens, limits.context))

    planting.function(right, wrong)


def _budget_exceeded(planting: Planting) -> None:
    """Count late in the plain loop; speculation, which cuts its blocks to what is left, stays right."""
    right = generation.stop_after

    def wrong(token: int, new_tokens: int, length: int, limits: Limits) -> DecoderStop | None:
        return right(token, new_tokens - 1, length, limits)

    planting.name(generation, "stop_after", wrong)


def _nucleus(planting: Planting, changed: Callable[[Array, float, int], int]) -> None:
    right = distribution.nucleus

    def wrong(weights: Array, top_p: float) -> int:
        return changed(weights, top_p, right(weights, top_p))

    planting.function(right, wrong)


def _without_crossing(weights: Array, top_p: float, count: int) -> int:
    return max(1, count - 1) if top_p < 1.0 else count


def _one_more_when_met(weights: Array, top_p: float, count: int) -> int:
    met = float(np.sum(weights[:count])) == top_p * float(np.sum(weights))
    return min(count + 1, len(weights)) if met else count


def _temperature_multiplies(planting: Planting) -> None:
    right = distribution.weights_of

    def wrong(ranked: Array, temperature: float, arithmetic: Arithmetic) -> Array:
        return right(ranked, 1.0 / temperature, arithmetic)

    planting.function(right, wrong)


CHOOSING: Final = (
    Fault(
        "argmax.last-maximum",
        "of equal maxima the last one",
        "The comparison takes what is as large as the best so far. Logits without exact ties hide it.",
        "llama.cpp#15484; pytorch#41781",
        LOOP,
        _last_maximum,
        kinds=("K06",),
        vehicles=(*given(DENSE), *exact(NGRAM)),
        expected=("smp.tie",),
    ),
    Fault(
        "stop.eos-ignored",
        "generation runs on behind EOS",
        "EOS is committed and nobody looks.",
        "huggingface/transformers#47912; LostRuins/koboldcpp#1276",
        LOOP,
        _eos_ignored,
        kinds=("P06",),
        vehicles=run(DENSE),
        expected=("spec.eos",),
    ),
    Fault(
        "stop.budget-plus-one",
        "one token more than asked for",
        "The budget is compared before the token is counted.",
        "sgl-project/sglang#31599",
        LOOP,
        _budget_exceeded,
        kinds=("P07",),
        vehicles=(*given(DENSE), *run(DENSE)),
        expected=("gen.given", "spec.eq"),
    ),
    Fault(
        "sampler.top-p-without-crossing",
        "top-p drops the token that crosses the mass",
        "What is kept has less mass than asked for; where a boundary is met exactly, one token too few stays, too.",
        "llama.cpp#1953; fishaudio/fish-speech#1171",
        SAMPLER,
        partial(_nucleus, changed=_without_crossing),
        kinds=("K01",),
        vehicles=exact(COURSE),
        expected=("smp.support",),
    ),
    Fault(
        "sampler.top-p-one-more",
        "top-p keeps one token more where the mass is met",
        "The comparison is strict; probabilities that never meet the mass exactly hide it.",
        "huggingface/transformers#18976",
        SAMPLER,
        partial(_nucleus, changed=_one_more_when_met),
        kinds=("K02",),
        vehicles=exact(COURSE),
        expected=("smp.support",),
    ),
    Fault(
        "sampler.temperature-multiplies",
        "logits multiplied by the temperature",
        "A high temperature makes sharp what it should flatten; temperature 1 hides it.",
        "",
        SAMPLER,
        _temperature_multiplies,
        vehicles=exact(COURSE),
        expected=("smp.law",),
    ),
)
"""What is wrong with choosing."""
