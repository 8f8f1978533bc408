"""The vector cases of the decode suites: forward passes and generations on given weights, planted ties among them."""

from __future__ import annotations

from collections.abc import Iterator

from cai_conformance.backends.decoder.llama_plan import LlamaPhase
from cai_conformance.backends.decoder.phases import DecodePhase
from cai_conformance.backends.decoder.sizes import Sizes
from cai_conformance.suites.decoder.course_cases import course_cases
from cai_conformance.suites.decoder.llama_cases import llama_cases
from cai_conformance.suites.decoder.sampler_cases import sampler_cases
from cai_conformance.vectors import Json, VectorCase
from cai_reference.splitmix import SplitMix64, below

FAR_START = 3000
"""A start position at which half-precision angles and wrong bases show."""


def decoder_cases(phase: DecodePhase, sizes: Sizes) -> tuple[VectorCase, ...]:
    """Return the cases of one suite, in the order in which they are answered."""
    prompt = _drawn_ids(sizes)
    more = llama_cases(phase, prompt) if isinstance(phase, LlamaPhase) else ()
    course = (*sampler_cases(), *course_cases()) if phase.selection is not None else ()
    return (*_forward(phase, sizes, prompt), *_sessions(prompt), *_generations(phase, prompt), *more, *course)


def _drawn_ids(sizes: Sizes) -> list[Json]:
    """Return BOS and drawn content ids, some of them repeated, longer than the window."""
    generator = SplitMix64(201)
    drawn = [2 + below(generator, 256 + sizes.merges // 2) for _ in range(sizes.prompt_tokens - 4)]
    return [0, *drawn, *drawn[:3]]


def _forward(phase: DecodePhase, sizes: Sizes, ids: list[Json]) -> Iterator[VectorCase]:
    def case(name: str, start: int, head: int, row: int, sees: str) -> VectorCase:
        given: dict[str, Json] = {"ids": ids, "start": start, "head": head, "row": row}
        return VectorCase(name, "fwd.oracle", "decoder.logits", given, sees)

    yield case("last", 0, 0, len(ids) - 1, "anything in the forward pass, at a position that sees all others")
    yield case("far", FAR_START, 0, 5, "positions that restart at 0, angles in low precision, another rotary base")
    if phase.futures:
        last = sizes.futures - 1
        yield case("head", 0, last, len(ids) - 1, "heads in another order, or sharing one output")


def _sessions(ids: list[Json]) -> Iterator[VectorCase]:
    def case(name: str, start: int, first: int, sees: str) -> VectorCase:
        given: dict[str, Json] = {"ids": ids, "start": start, "head": 0, "first_chunk": first}
        return VectorCase(name, "kv.split", "decoder.session-logits", given, sees)

    yield case("one", 0, 1, "a first call of one token takes another path")
    yield case("half", 0, len(ids) // 2, "a second call starts from zero, or counts positions from 0")
    yield case("far", FAR_START, 2, "the start position is forgotten in a later call")


def _generations(phase: DecodePhase, ids: list[Json]) -> Iterator[VectorCase]:
    arms = ["full", "cached", "scripted", "self-draft"]
    arms += ["latent", "absorbed"] if phase.has_latent else []
    arms += ["mtp-cached"] if phase.futures else []
    for arm in arms:
        given: dict[str, Json] = {"prompt": ids, "new_tokens": 16, "arm": arm, "tied": False}
        yield VectorCase(arm, "gen.given", "decoder.generate", given, f"the arm {arm} generates other tokens")
    for arm in arms:
        tied: dict[str, Json] = {"prompt": ids, "new_tokens": 16, "arm": arm, "tied": True}
        yield VectorCase(arm, "smp.tie", "decoder.generate", tied, "of two exactly equal maxima the higher id is taken")
