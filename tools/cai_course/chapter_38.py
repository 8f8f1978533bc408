"""Chapter 38: a cache for the whole model, beside whole prefixes; and cached generation from the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from cai_course import small_decoder as small
from cai_course.caches import CachedPath, CacheWork, CompletePrefix, DecoderCache, complete_prefix, complete_scores
from cai_course.checkpoint import read_course_checkpoint
from cai_course.checkpoint.content import LiteralTokens, course_configuration
from cai_course.errors import CourseError, Refusal
from cai_course.records import CourseRecord, Separator, bracketed, fixed, record, trace_bytes, unsigned_list, word
from cai_course.small_decoder import STOPS, CoursePrefixPath, decisions, sampled
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.layers.rms_norm import RmsNorm
from cai_reference.models.llama import Llama
from cai_reference.models.stack import VocabularyHead
from cai_reference.splitmix import SplitMix64
from cai_reference.training.model_kinds import copy_of

MODEL: Final = course_configuration(
    vocabulary=5, width=4, heads=2, feed_forward=4, layers=2, positions=4, rope_base=10000.0, epsilon=1e-6
)
SEED: Final = 38
PROMPT: Final = (0, 1)
TOKEN: Final = 2
FULL: Final = (0, 1, 2, 3)
"""As many tokens as there are positions."""

LOADED_PROMPT: Final = (0,)
TOLERANCE: Final = 2e-12


def trace(arithmetic: Arithmetic) -> bytes:
    """Return the trace."""
    return trace_bytes(Separator.BAR, _records(arithmetic))


def _records(arithmetic: Arithmetic) -> Iterator[CourseRecord]:
    model = Llama.initialize(MODEL, SplitMix64(SEED))
    cache = DecoderCache(model, arithmetic)
    yield record("CACHED_GENERATION_TRACE_V1")
    yield record(
        "CONFIG",
        layers=MODEL.layers,
        heads=MODEL.heads,
        model_width=MODEL.width,
        head_width=MODEL.features,
        capacity=cache.session.capacity,
        tolerance=fixed(TOLERANCE, 12),
    )
    first = cache.prefill(model, PROMPT)
    after_prompt = cache.work.scores
    prompt_length = cache.length
    yield record(
        "PREFILL",
        prompt=bracketed(PROMPT),
        cache_before=0,
        cache_after=cache.length,
        positions=bracketed(range(cache.length)),
        layer_lengths=bracketed(cache.layer_lengths),
        cache_shape=bracketed(cache.shape),
    )
    whole_prompt = complete_prefix(model, PROMPT, arithmetic)
    yield from _layers("prefill", cache)
    yield _match("prefill", first, after_prompt, whole_prompt)
    second = cache.decode(model, TOKEN)
    yield record(
        "DECODE",
        token=TOKEN,
        position=cache.length - 1,
        cache_before=prompt_length,
        cache_after=cache.length,
        layer_lengths=bracketed(cache.layer_lengths),
        cache_shape=bracketed(cache.shape),
    )
    whole = complete_prefix(model, (*PROMPT, TOKEN), arithmetic)
    yield from _layers("decode", cache)
    yield _match("decode", second, cache.work.scores - after_prompt, whole)
    work, complete = cache.work, whole_prompt.scores + whole.scores
    lanes = MODEL.layers * MODEL.heads
    lengths, prefixes = range(1, cache.length + 1), range(prompt_length, cache.length + 1)
    yield record(
        "WORK",
        prefill_tokens=work.prefill_tokens,
        decode_tokens=work.decode_tokens,
        layer_caches=len(cache.session.layers),
        cache_appends=work.appends,
        qkv_rows=work.projected_rows,
        cached_scores=work.scores,
        complete_prefix_scores=complete,
        formula_cached=f"{lanes}*({'+'.join(map(str, lengths))})",
        formula_complete=f"{lanes}*({'+'.join(f'{length}^2' for length in prefixes)})",
    )
    yield from _loaded(arithmetic)
    yield _reset(model, cache, second)
    yield _errors(model, arithmetic)
    yield record(
        "HISTORY",
        lanes=lanes,
        cached_lengths=bracketed(lengths),
        cached_scores=lanes * sum(lengths),
        complete_prefix_lengths=bracketed(prefixes),
        complete_prefix_scores=complete_scores(MODEL, prefixes),
        avoided_scores=complete_scores(MODEL, prefixes) - lanes * sum(lengths),
    )
    yield record("END", next="end-to-end-llm")


def _layers(phase: str, cache: DecoderCache) -> Iterator[CourseRecord]:
    storages = cache.storages()
    apart = not any(
        np.shares_memory(one, other) for place, one in enumerate(storages) for other in storages[place + 1 :]
    )
    for layer, length in enumerate(cache.layer_lengths):
        yield record(
            "LAYER",
            phase=phase,
            layer=layer,
            cache_len=length,
            shape=bracketed(cache.shape),
            storage="distinct" if apart else "shared",
        )


def _match(phase: str, cached: Array, scores: int, whole: CompletePrefix) -> CourseRecord:
    return record(
        "MATCH",
        phase=phase,
        cached=unsigned_list(cached.tolist(), 9),
        complete_prefix=unsigned_list(whole.logits.tolist(), 9),
        cached_scores=scores,
        complete_prefix_scores=whole.scores,
        max_abs_diff=fixed(float(np.abs(cached - whole.logits).max()), 12),
    )


def _loaded(arithmetic: Arithmetic) -> Iterator[CourseRecord]:
    """Generate from the checkpoint of chapter 35 with the cache and without."""
    data = small.checkpoint_bytes(arithmetic)
    checkpoint = read_course_checkpoint(data)
    model, sizes, tokens = checkpoint.model(), checkpoint.configuration, checkpoint.tokenizer
    if not isinstance(tokens, LiteralTokens):
        raise TypeError(type(tokens).__name__)
    cached, whole = CachedPath(model, arithmetic), CoursePrefixPath(model, arithmetic)
    found = sampled(cached, sizes, LOADED_PROMPT, None, checkpoint.sampling(), arithmetic)
    other = sampled(whole, sizes, LOADED_PROMPT, None, checkpoint.sampling(), arithmetic)
    yield record(
        "LOADED",
        checkpoint_bytes=len(data),
        context_capacity=cached.cache.session.capacity,
        rng_state=word(checkpoint.generator),
        prompt=bracketed(LOADED_PROMPT),
        generated=bracketed(found.ids),
        text=b"".join(tokens.pieces[token] for token in found.ids).decode(),
        prefixes=bracketed(cached.prefixes),
        stop=STOPS[found.stop],
        final_cache=cached.cache.length,
        prefill_tokens=cached.cache.work.prefill_tokens,
        decode_tokens=cached.cache.work.decode_tokens,
        cached_scores=cached.cache.work.scores,
        complete_prefix_scores=complete_scores(sizes, whole.prefixes),
        tokens_match=decisions(found) == decisions(other) and cached.prefixes == whole.prefixes,
        rng_match=found.state == other.state,
    )
    ending = found.ids[0]
    cached, whole = CachedPath(model, arithmetic), CoursePrefixPath(model, arithmetic)
    found = sampled(cached, sizes, LOADED_PROMPT, ending, checkpoint.sampling(), arithmetic)
    other = sampled(whole, sizes, LOADED_PROMPT, ending, checkpoint.sampling(), arithmetic)
    yield record(
        "EOS",
        token=ending,
        generated=bracketed(found.ids),
        stop=STOPS[found.stop],
        final_cache=cached.cache.length,
        decode_tokens=cached.cache.work.decode_tokens,
        tokens_match=decisions(found) == decisions(other),
        rng_match=found.state == other.state,
    )


def _reset(model: Llama, cache: DecoderCache, expected: Array) -> CourseRecord:
    before = cache.length
    storages = cache.storages()
    bits = [storage.tobytes() for storage in storages]
    cache.reset()
    length, after = cache.length, cache.storages()
    reused = all(one is other for one, other in zip(storages, after, strict=True))
    unchanged = bits == [storage.tobytes() for storage in after]
    zeroed = cache.work == CacheWork()
    cache.prefill(model, PROMPT)
    replay = cache.decode(model, TOKEN)
    return record(
        "RESET",
        before=before,
        after=length,
        allocation_reused=reused,
        storage_unchanged=unchanged,
        work_zeroed=zeroed,
        replay_identical=replay.tobytes() == expected.tobytes(),
    )


def _errors(model: Llama, arithmetic: Arithmetic) -> CourseRecord:
    """Return what a cache refuses; each refusal counts only where the cache is as it was before."""
    rebuilt, changed = copy_of(model), _with_epsilon(model, 2.0 * MODEL.epsilon)
    kept: list[bool] = []

    def refused(refusal: Refusal, filled: Sequence[int], call: Callable[[DecoderCache], object]) -> bool:
        cache = DecoderCache(model, arithmetic)
        if filled:
            cache.prefill(model, filled)
        before = cache.remembered()
        try:
            call(cache)
        except CourseError as error:
            if error.code != "cache-refused":
                raise
            right = error.fields["refusal"] == refusal
        else:
            right = False
        kept.append(before == cache.remembered())
        return right and kept[-1]

    return record(
        "ERRORS",
        decode_before_prefill=refused(Refusal.EMPTY, (), lambda cache: cache.decode(model, 0)),
        prefill_nonempty=refused(Refusal.FILLED, PROMPT, lambda cache: cache.prefill(model, (0,))),
        overflow=refused(Refusal.FULL, FULL, lambda cache: cache.decode(model, 4)),
        rebuilt_model=refused(Refusal.MODEL, PROMPT, lambda cache: cache.decode(rebuilt, TOKEN)),
        changed_config=refused(Refusal.CONFIGURATION, PROMPT, lambda cache: cache.decode(changed, TOKEN)),
        unchanged=all(kept),
    )


def _with_epsilon(model: Llama, epsilon: float) -> Llama:
    """Return a model of the same parameters, the very objects, whose norms have another epsilon."""
    blocks = [
        replace(
            block,
            norm1=replace(block.norm1, epsilon=epsilon),
            norm2=None if block.norm2 is None else replace(block.norm2, epsilon=epsilon),
        )
        for block in model.blocks
    ]
    norm = model.head.norm
    if not isinstance(norm, RmsNorm):
        raise TypeError(type(norm).__name__)
    head = VocabularyHead(replace(norm, epsilon=epsilon), model.head.output)
    return Llama(replace(model.configuration, epsilon=epsilon), model.table, blocks, head)
