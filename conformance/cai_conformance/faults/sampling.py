"""Faults of samplers: what is kept, in which order, and which token a number chooses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from cai_conformance.faults.fault import Fault, Place
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import COURSE, exact
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.decoding.sampling import choice, distribution
from cai_reference.decoding.sampling.choice import Choice, Interval, Units
from cai_reference.decoding.sampling.distribution import Distribution
from cai_reference.decoding.sampling.settings import SamplingSettings

SAMPLER: Final = frozenset({Place.SAMPLER})
OfLogits = Callable[[Array, SamplingSettings, Arithmetic], Distribution]
Changed = Callable[[OfLogits, Array, SamplingSettings, Arithmetic], Distribution]


def _of_logits(planting: Planting, changed: Changed) -> None:
    right = distribution.distribution_of

    def wrong(logits: Array, settings: SamplingSettings, arithmetic: Arithmetic) -> Distribution:
        return changed(right, logits, settings, arithmetic)

    planting.function(right, wrong)


def _ties_kept(right: OfLogits, logits: Array, settings: SamplingSettings, arithmetic: Arithmetic) -> Distribution:
    if settings.top_k is None or settings.greedy:
        return right(logits, settings, arithmetic)
    border = np.sort(logits)[-settings.top_k]
    return right(logits, replace(settings, top_k=int(np.count_nonzero(logits >= border))), arithmetic)


def _certain(vocabulary: int, token: int) -> Distribution:
    probabilities = np.zeros(vocabulary)
    probabilities[token] = 1.0
    return Distribution((token,), probabilities, 1.0, False)


def _divided_by_zero(
    right: OfLogits, logits: Array, settings: SamplingSettings, arithmetic: Arithmetic
) -> Distribution:
    """Behave like a walk over probabilities that are all NaN: no comparison holds, and the last id is left."""
    if not settings.greedy:
        return right(logits, settings, arithmetic)
    distribution.check_logits(logits)
    return _certain(len(logits), len(logits) - 1)


def _nan_is_zero(right: OfLogits, logits: Array, settings: SamplingSettings, arithmetic: Arithmetic) -> Distribution:
    if bool(np.isnan(logits).any()):
        return _certain(len(logits), 0)
    return right(logits, settings, arithmetic)


def _mass_before_temperature(
    right: OfLogits, logits: Array, settings: SamplingSettings, arithmetic: Arithmetic
) -> Distribution:
    if settings.greedy:
        return right(logits, settings, arithmetic)
    kept = right(logits, replace(settings, temperature=1.0, min_p=0.0), arithmetic).kept
    # What top-p has dropped must not be drawn any more.
    return right(logits, replace(settings, top_k=len(kept), top_p=1.0), arithmetic)


def _mass_before_count(
    right: OfLogits, logits: Array, settings: SamplingSettings, arithmetic: Arithmetic
) -> Distribution:
    if settings.greedy or settings.top_k is None:
        return right(logits, settings, arithmetic)
    kept = right(logits, replace(settings, top_k=None, min_p=0.0), arithmetic).kept
    return right(logits, replace(settings, top_k=min(settings.top_k, len(kept)), top_p=1.0), arithmetic)


def _least_probability(planting: Planting) -> None:
    """Hold probabilities against min-p, and not the ratio to the largest one."""
    right = distribution.filtered

    def wrong(
        vocabulary: int, ranked: npt.NDArray[np.int64], weights: Array, top_p: float, min_p: float
    ) -> Distribution:
        kept = weights[: distribution.nucleus(weights, top_p)]
        return right(vocabulary, ranked, weights, top_p, min(1.0, min_p * float(np.add.reduce(kept))))

    planting.function(right, wrong)


def _chosen(planting: Planting, choose: Callable[[Array, float], Interval]) -> None:
    planting.function(choice.choose, choose)


def _excluded_at_zero(probabilities: Array, unit: float) -> Interval:
    """Walk all ids, and take the first whose end is not below the number."""
    end = 0.0
    for token, probability in enumerate(probabilities.tolist()):
        start, end = end, end + probability
        if unit <= end:
            return Interval(token, start, end)
    return Interval(len(probabilities) - 1, end, 1.0)


def _none_at_the_end(probabilities: Array, unit: float) -> Interval:
    """Round the number to single precision, where the largest one is 1; what no interval holds chooses id 0."""
    right, rounded = Interval(0, 0.0, 1.0), float(np.float32(unit))
    return next((each for each in choice.intervals(probabilities) if rounded < each.end), right)


def _by_rank(planting: Planting) -> None:
    """Walk ids from the likeliest on."""

    def wrong(probabilities: Array, unit: float) -> Interval:
        interval, end = Interval(0, 0.0, 0.0), 0.0
        for token in np.argsort(-probabilities, kind="stable").tolist():
            if probabilities[token] > 0.0:
                start, end = end, end + float(probabilities[token])
                interval = Interval(token, start, end)
                if unit < end:
                    break
        return interval

    planting.function(choice.choose, wrong)


def _draw_for_nothing(planting: Planting) -> None:
    right = choice.draw

    def wrong(law: Distribution, generator: Units) -> Choice:
        if law.greedy:
            generator.unit()
        return right(law, generator)

    planting.function(right, wrong)


def _no_draw_for_one(planting: Planting) -> None:
    right = choice.draw

    def wrong(law: Distribution, generator: Units) -> Choice:
        return right(replace(law, greedy=law.greedy or len(law.kept) == 1), generator)

    planting.function(right, wrong)


def _fault(
    slug: str,
    title: str,
    story: str,
    precedent: str,
    plant: Callable[[Planting], None],
    expected: tuple[str, ...],
    kinds: tuple[str, ...] = (),
) -> Fault:
    return Fault(f"sampler.{slug}", title, story, precedent, SAMPLER, plant, "", kinds, exact(COURSE), expected)


SAMPLING: Final = (
    _fault(
        "top-k-keeps-ties",
        "top-k keeps all ties at its border",
        "What is as large as the last one that is kept stays, too. Logits without ties hide it.",
        "vllm-project/vllm#50979; vllm-project/tpu-inference#3580",
        partial(_of_logits, changed=_ties_kept),
        ("smp.tie",),
        ("K03",),
    ),
    _fault(
        "zero-temperature-divides",
        "a temperature of 0 divides",
        "Probabilities become NaN, no comparison with them holds, and some id is taken.",
        "google-deepmind/gemma#562; ohdearquant/lattice#295",
        partial(_of_logits, changed=_divided_by_zero),
        ("smp.edge",),
        ("K05",),
    ),
    _fault(
        "nan-is-zero",
        "logits that are NaN give id 0",
        "A sum that is NaN is compared, and the first id wins; nobody is told.",
        "OpenRLHF/OpenRLHF#1165; jundot/omlx#2255",
        partial(_of_logits, changed=_nan_is_zero),
        ("smp.edge",),
        ("K07",),
    ),
    _fault(
        "excluded-at-zero",
        "a draw of 0 takes an id of probability 0",
        "The comparison is not strict. Draws that are never 0 hide it, which is nearly all of them.",
        "pytorch/pytorch#48841; huggingface/transformers#23088",
        partial(_chosen, choose=_excluded_at_zero),
        ("smp.edge",),
        ("K08",),
    ),
    _fault(
        "none-at-the-end",
        "the largest draw takes no id",
        "In single precision it is 1, which lies in no interval, and falls through to id 0.",
        "NVIDIA/Megatron-Energon#260",
        partial(_chosen, choose=_none_at_the_end),
        ("smp.edge",),
        ("K08",),
    ),
    _fault(
        "walked-by-rank",
        "ids are walked from the likeliest on",
        "The law is the same, and the same draw gives another token.",
        "",
        _by_rank,
        ("smp.seed",),
    ),
    _fault(
        "min-p-of-mass",
        "min-p taken for a probability",
        "It is a part of the largest probability. Laws with one likely id hide it.",
        "",
        _least_probability,
        ("smp.support",),
    ),
    _fault(
        "top-p-before-temperature",
        "top-p acts before the temperature",
        "Some engines run the temperature last; temperature 1 hides it.",
        "",
        partial(_of_logits, changed=_mass_before_temperature),
        ("smp.support",),
    ),
    _fault(
        "top-p-before-top-k",
        "top-p acts before top-k",
        "It is a part of all mass, where it should be one of what top-k keeps.",
        "",
        partial(_of_logits, changed=_mass_before_count),
        ("smp.support",),
    ),
    _fault(
        "draw-for-nothing",
        "a draw is taken at temperature 0",
        "Tokens are right, and the generator is one draw ahead.",
        "",
        _draw_for_nothing,
        ("smp.edge",),
    ),
    _fault(
        "no-draw-for-one",
        "no draw where one id is left",
        "Tokens are right, and the generator is one draw behind.",
        "",
        _no_draw_for_one,
        ("smp.seed",),
    ),
)
"""What is wrong between logits and a token."""
