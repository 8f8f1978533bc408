"""Faults behind the logits: which token is chosen, when generation stops, what a sampler keeps and in which order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from cai_conformance.backends.reference import ngram_run
from cai_conformance.faults.fault import Family, Place
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import COURSE, DENSE, NGRAM, Sight, exact, given, run
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.decoding import generation, greedy, sampling
from cai_reference.decoding.generation import DecoderStop, Limits
from cai_reference.decoding.greedy import Continuation, Stop, continue_greedily
from cai_reference.decoding.sampling import Choice, Distribution, Interval, SamplingSettings, UnitInterval
from cai_reference.models.neural_ngram import NeuralNgram
from cai_reference.text.tokenizer import BOS, EOS


def _without_crossing(right: Callable[[Array, float], int], weights: Array, top_p: float) -> int:
    count = right(weights, top_p)
    return max(1, count - 1) if top_p < 1.0 else count


def _one_more_when_met(right: Callable[[Array, float], int], weights: Array, top_p: float) -> int:
    count = right(weights, top_p)
    met = float(np.sum(weights[:count])) == top_p * float(np.sum(weights))
    return min(count + 1, len(weights)) if met else count


OfLogits = Callable[[Array, SamplingSettings, Arithmetic], Distribution]


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
    sampling.check_logits(logits)
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
    return next((each for each in sampling.intervals(probabilities) if rounded < each.end), right)


def _positive_zero_first(logits: Array, masked: Collection[int] = ()) -> int:
    allowed = [token for token in range(len(logits)) if token not in masked]
    return max(allowed, key=lambda token: (float(logits[token]), float(np.copysign(1.0, logits[token])), -token))


def _masked_as(patch: Patch, number: float) -> None:
    """Overwrite masked logits by a number, which may be the largest nevertheless."""

    def wrong(right: Callable[[Array], int], logits: Array, masked: Collection[int] = ()) -> int:
        return right(np.array([number if token in masked else each for token, each in enumerate(logits.tolist())]))

    patch.around(greedy.greedy_token, wrong)


def _continued(patch: Patch, slide: Callable[[list[int], int], list[int]], with_eos: bool = False) -> None:
    """Continue a prompt with another rule for the context, or with EOS at the end."""

    def wrong(
        model: NeuralNgram, prompt: Sequence[int], limit: int, arithmetic: Arithmetic, masked: Collection[int] = ()
    ) -> Continuation:
        context, ids = list(prompt), list[int]()
        for _ in range(limit):
            token = greedy.greedy_token(model.next_token_logits(arithmetic, context), masked)
            if token != EOS or with_eos:
                ids.append(token)
            if token == EOS:
                return Continuation(tuple(ids), (), Stop.EOS)
            context = slide(context, token)
        return Continuation(tuple(ids), (), Stop.LIMIT)

    patch.replace(continue_greedily, wrong)


_choice = Family(frozenset({Place.LOOP}), exact(NGRAM))


@_choice(
    "argmax.last-maximum",
    "of equal maxima the last one",
    "smp.tie",
    seen_in="llama.cpp#15484; pytorch#41781",
    kinds="K06",
    sight=Sight(("smp.tie[lowest]",), "three equal maxima"),
    workloads=(*given(DENSE), *exact(NGRAM)),
)
def _last_maximum(patch: Patch) -> None:
    """The comparison takes what is as large as the best so far. Logits without exact ties hide it."""
    right = greedy.greedy_token

    def wrong(logits: Array, masked: Collection[int] = ()) -> int:
        best = float(logits[right(logits, masked)])
        return max(token for token, value in enumerate(logits.tolist()) if value == best and token not in masked)

    patch.replace(right, wrong)


@_choice(
    "stop.eos-ignored",
    "generation runs on behind EOS",
    "spec.eos",
    seen_in="huggingface/transformers#47912; LostRuins/koboldcpp#1276",
    kinds="P06",
    workloads=run(DENSE),
)
def _eos_ignored(patch: Patch) -> None:
    """EOS is committed and nobody looks."""
    right = generation.stop_after

    def wrong(token: int, new_tokens: int, length: int, limits: Limits) -> DecoderStop | None:
        return right(token, new_tokens, length, Limits(None, limits.new_tokens, limits.context))

    patch.replace(right, wrong)


@_choice(
    "stop.budget-plus-one",
    "one token more than asked for",
    "gen.given spec.eq",
    seen_in="sgl-project/sglang#31599",
    kinds="P07",
    workloads=(*given(DENSE), *run(DENSE)),
)
def _budget_exceeded(patch: Patch) -> None:
    """The budget is compared before the token is counted."""
    # Count late in the plain loop; speculation, which cuts its blocks to what is left, stays right.
    patch.within(
        generation.generate,
        generation.stop_after,
        lambda right, token, new_tokens, length, limits: right(token, new_tokens - 1, length, limits),
    )


@_choice(
    "sampler.top-p-without-crossing",
    "top-p drops the token that crosses the mass",
    "smp.support",
    seen_in="llama.cpp#1953; fishaudio/fish-speech#1171",
    kinds="K01",
    places=frozenset({Place.SAMPLER}),
    workloads=exact(COURSE),
)
def _top_p_without_crossing(patch: Patch) -> None:
    """What is kept has less mass than asked for; where a boundary is met exactly, one token too few stays, too."""
    patch.around(sampling.nucleus, _without_crossing)


@_choice(
    "sampler.top-p-one-more",
    "top-p keeps one token more where the mass is met",
    "smp.support",
    seen_in="huggingface/transformers#18976",
    kinds="K02",
    places=frozenset({Place.SAMPLER}),
    workloads=exact(COURSE),
)
def _top_p_one_more(patch: Patch) -> None:
    """The comparison is strict; probabilities that never meet the mass exactly hide it."""
    patch.around(sampling.nucleus, _one_more_when_met)


@_choice(
    "sampler.temperature-multiplies",
    "logits multiplied by the temperature",
    "smp.law",
    places=frozenset({Place.SAMPLER}),
    workloads=exact(COURSE),
)
def _temperature_multiplies(patch: Patch) -> None:
    """A high temperature makes sharp what it should flatten; temperature 1 hides it."""
    patch.arguments(sampling.weights_of, temperature=lambda call: 1.0 / call.temperature)


@_choice.seen("greedy.signed-zeros", "+0.0 counts as larger than −0.0", "smp.tie[zeros]", "−0.0 stands before +0.0")
def _signed_zeros(patch: Patch) -> None:
    patch.replace(greedy.greedy_token, _positive_zero_first)


@_choice.seen(
    "greedy.unmasked",
    "BOS is not masked",
    "smp.support[masked] smp.support[sliding] smp.support[window]",
    "BOS has the largest logit",
)
def _unmasked(patch: Patch) -> None:
    patch.arguments(greedy.greedy_token, masked=())


@_choice.seen("greedy.mask-is-zero", "a masked logit becomes 0", "smp.support[low]", "all other logits are negative")
def _mask_is_zero(patch: Patch) -> None:
    _masked_as(patch, number=0.0)


@_choice.seen(
    "greedy.mask-is-finite", "a masked logit becomes −10⁹", "smp.support[low]", "all other logits are lower still"
)
def _mask_is_finite(patch: Patch) -> None:
    _masked_as(patch, number=-1e9)


@_choice.seen("greedy.eos-appended", "EOS is part of the continuation", "smp.support[eos]", "EOS is the first choice")
def _eos_appended(patch: Patch) -> None:
    _continued(patch, slide=lambda context, token: [*context[1:], token], with_eos=True)


@_choice.seen(
    "greedy.still-context",
    "the context does not slide",
    "smp.support[window]",
    "eight choices that depend on both tokens",
    printed="both",
)
def _still_context(patch: Patch) -> None:
    _continued(patch, slide=lambda context, _: context)


@_choice.seen(
    "greedy.newest-replaced",
    "the new token replaces the newest, not the oldest",
    "smp.support[window]",
    "eight choices that depend on both tokens",
    printed="embedded",
)
def _newest_replaced(patch: Patch) -> None:
    _continued(patch, slide=lambda context, token: [*context[:-1], token])


@_choice.seen(
    "greedy.slides-backwards",
    "the new token enters in front",
    "smp.support[window]",
    "eight choices that depend on both tokens",
    printed="both",
)
def _slides_backwards(patch: Patch) -> None:
    _continued(patch, slide=lambda context, token: [token, *context[:-1]])


@_choice.unseen(
    "unreached.mask-not-passed",
    "the experiment masks nothing, although its decoder can",
    not_asked="BOS is never the maximum in the run; the cases state their masks",
)
def _mask_not_passed(patch: Patch) -> None:
    patch.within(ngram_run.train_once, continue_greedily, lambda right, *call, masked: right(*call, masked=()))


@_choice.unseen(
    "unreached.probe-masked", "the argmax of STAGE leaves out BOS", not_asked="BOS is not the maximum there"
)
def _probe_masked(patch: Patch) -> None:
    patch.within(ngram_run.probe_model, greedy.greedy_token, lambda right, logits: right(logits, {BOS}))


@_choice.unseen(
    "unreached.stop-label",
    "a continuation that EOS ends is labelled `limit`",
    not_asked="no continuation of the run meets EOS; the cases ask for ids only",
)
def _stop_label(patch: Patch) -> None:
    patch.around(continue_greedily, lambda right, *call, **named: replace(right(*call, **named), stop=Stop.LIMIT))


_sampling = Family(frozenset({Place.SAMPLER}), exact(COURSE))


@_sampling(
    "sampler.top-k-keeps-ties",
    "top-k keeps all ties at its border",
    "smp.tie",
    seen_in="vllm-project/vllm#50979; vllm-project/tpu-inference#3580",
    kinds="K03",
)
def _top_k_keeps_ties(patch: Patch) -> None:
    """What is as large as the last one that is kept stays, too. Logits without ties hide it."""
    patch.around(sampling.distribution_of, _ties_kept)


@_sampling(
    "sampler.zero-temperature-divides",
    "a temperature of 0 divides",
    "smp.edge",
    seen_in="google-deepmind/gemma#562; ohdearquant/lattice#295",
    kinds="K05",
)
def _zero_temperature_divides(patch: Patch) -> None:
    """Probabilities become NaN, no comparison with them holds, and some id is taken."""
    patch.around(sampling.distribution_of, _divided_by_zero)


@_sampling(
    "sampler.nan-is-zero",
    "logits that are NaN give id 0",
    "smp.edge",
    seen_in="OpenRLHF/OpenRLHF#1165; jundot/omlx#2255",
    kinds="K07",
)
def _nan_is_zero_sampler(patch: Patch) -> None:
    """A sum that is NaN is compared, and the first id wins; nobody is told."""
    patch.around(sampling.distribution_of, _nan_is_zero)


@_sampling(
    "sampler.excluded-at-zero",
    "a draw of 0 takes an id of probability 0",
    "smp.edge",
    seen_in="pytorch/pytorch#48841; huggingface/transformers#23088",
    kinds="K08",
)
def _excluded_at_zero_sampler(patch: Patch) -> None:
    """The comparison is not strict. Draws that are never 0 hide it, which is nearly all of them."""
    patch.replace(sampling.choose, _excluded_at_zero)


@_sampling(
    "sampler.none-at-the-end",
    "the largest draw takes no id",
    "smp.edge",
    seen_in="NVIDIA/Megatron-Energon#260",
    kinds="K08",
)
def _none_at_the_end_sampler(patch: Patch) -> None:
    """In single precision it is 1, which lies in no interval, and falls through to id 0."""
    patch.replace(sampling.choose, _none_at_the_end)


@_sampling("sampler.walked-by-rank", "ids are walked from the likeliest on", "smp.seed")
def _by_rank(patch: Patch) -> None:
    """The law is the same, and the same draw gives another token."""

    # Walk ids from the likeliest on.
    def wrong(probabilities: Array, unit: float) -> Interval:
        interval, end = Interval(0, 0.0, 0.0), 0.0
        for token in np.argsort(-probabilities, kind="stable").tolist():
            if probabilities[token] > 0.0:
                start, end = end, end + float(probabilities[token])
                interval = Interval(token, start, end)
                if unit < end:
                    break
        return interval

    patch.replace(sampling.choose, wrong)


@_sampling("sampler.min-p-of-mass", "min-p taken for a probability", "smp.support")
def _least_probability(patch: Patch) -> None:
    """It is a part of the largest probability. Laws with one likely id hide it."""
    # Hold probabilities against min-p, and not the ratio to the largest one.
    right = sampling.filtered

    def wrong(
        vocabulary: int, ranked: npt.NDArray[np.int64], weights: Array, top_p: float, min_p: float
    ) -> Distribution:
        kept = weights[: sampling.nucleus(weights, top_p)]
        return right(vocabulary, ranked, weights, top_p, min(1.0, min_p * float(np.add.reduce(kept))))

    patch.replace(right, wrong)


@_sampling("sampler.top-p-before-temperature", "top-p acts before the temperature", "smp.support")
def _top_p_before_temperature(patch: Patch) -> None:
    """Some engines run the temperature last; temperature 1 hides it."""
    patch.around(sampling.distribution_of, _mass_before_temperature)


@_sampling("sampler.top-p-before-top-k", "top-p acts before top-k", "smp.support")
def _top_p_before_top_k(patch: Patch) -> None:
    """It is a part of all mass, where it should be one of what top-k keeps."""
    patch.around(sampling.distribution_of, _mass_before_count)


@_sampling("sampler.draw-for-nothing", "a draw is taken at temperature 0", "smp.edge")
def _draw_for_nothing(patch: Patch) -> None:
    """Tokens are right, and the generator is one draw ahead."""
    right = sampling.draw

    def wrong(law: Distribution, generator: UnitInterval) -> Choice:
        if law.greedy:
            generator.unit()
        return right(law, generator)

    patch.replace(right, wrong)


@_sampling("sampler.no-draw-for-one", "no draw where one id is left", "smp.seed")
def _no_draw_for_one(patch: Patch) -> None:
    """Tokens are right, and the generator is one draw behind."""
    right = sampling.draw

    def wrong(law: Distribution, generator: UnitInterval) -> Choice:
        return right(replace(law, greedy=law.greedy or len(law.kept) == 1), generator)

    patch.replace(right, wrong)


CHOICE: Final = tuple(_choice)
"""What is wrong with the choice of a token, and with when to stop."""

SAMPLING: Final = tuple(_sampling)
"""What is wrong between logits and a token."""
