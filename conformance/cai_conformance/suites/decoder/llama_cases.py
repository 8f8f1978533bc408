"""The vector cases that the Llama suites ask besides those of every decode suite.

Which rows a change of a token moves, and continuations that are drawn. The answers are positions, tokens and the state
of a generator, so that they mean the same in every arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator

from cai_conformance.backends.decoder.llama_plan import LlamaPhase
from cai_conformance.suites.decoder.sampling_inputs import settings
from cai_conformance.vectors import Json, VectorCase

FLIPPED = 5
"""A place in the middle, with the window behind it and before it."""

FLIPS = {
    "full": "a query sees a later token, or does not see its own",
    "cached": "a token is lost between two calls, or is seen before it was fed",
}
DRAWS = {
    "full": "ids are walked in another order, a draw is taken or left out, or its bits become another double",
    "cached": "a draw is taken for the prompt, or the cached path samples from another law",
    "speculative": "a guess is weighed by another law than its own, a draw is used twice, or a rejected row stays",
}


def llama_cases(phase: LlamaPhase, ids: list[Json]) -> tuple[VectorCase, ...]:
    """Return the cases about a sequence that is longer than the window reaches through all layers."""
    return (*_flips(ids), *(_reaches(ids) if phase.windowed else ()), *_draws(ids))


def _flips(ids: list[Json]) -> Iterator[VectorCase]:
    for arm, sees in FLIPS.items():
        yield VectorCase(arm, "causal.flip", "decoder.moved", _moved(ids, FLIPPED, arm), sees)


def _reaches(ids: list[Json]) -> Iterator[VectorCase]:
    for arm in FLIPS:
        sees = "a window is one token too long or too short, or one path ignores it"
        yield VectorCase(arm, "kv.reach", "decoder.moved", _moved(ids, 0, arm), sees)


def _moved(ids: list[Json], place: int, arm: str) -> dict[str, Json]:
    return {"ids": ids, "place": place, "other": 300 if ids[place] != 300 else 301, "arm": arm}


def _draws(ids: list[Json]) -> Iterator[VectorCase]:
    for arm, sees in DRAWS.items():
        given: dict[str, Json] = {"prompt": ids, "new_tokens": 16, "arm": arm, "seed": 36}
        given |= settings(1.25, 40, 0.95, 0.01)
        if arm == "speculative":
            given["draft"] = settings(0.75, 12)
        yield VectorCase(arm, "smp.seed", "decoder.sample", given, sees)
