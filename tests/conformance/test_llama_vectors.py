"""The vector cases of the Llama suites: every answer found a second way, on the shipped weights read by hand.

The slow oracle runs a whole sequence through plain Python loops. It is causal, so one pass over a prompt with its
answer is a generation: every token has to be what its rule makes of the row before it.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from cai_conformance.suites import find_suite
from cai_conformance.vectors import read_vectors
from support_decode_given import Tensors, read_tensors
from support_decoder_description import Matrix, Vector
from support_decoder_elementary import strict_elementary
from support_decoder_oracle import first_maximum
from support_golden_cases import cases_of, shipped
from support_llama_oracle import logits
from support_llama_suites import SIZES, WEIGHTS, described
from support_llama_suites_sampling import sampled, speculated
from support_vector_oracle import read_safetensors

SUITES = tuple(SIZES)
FAR_START = 3000
BLOCK = 4
ARMS = ("full", "cached", "scripted", "self-draft")
DECIDED = 1e-6
"""No drawn token hangs on a smaller difference, so that any precision gives it."""


@cache
def rows_of(suite: str, ids: tuple[int, ...], start: int = 0, *, tied: bool = False) -> Matrix:
    """Return the oracle's logits, [position][id]."""
    model = described(suite, shipped(suite, WEIGHTS[suite]), tied=tied)
    return logits(model, ids, strict_elementary(), start)


def after_of(suite: str, known: tuple[int, ...]) -> Any:
    """Return the logits behind a sequence; those of a beginning of `known` cost nothing more."""
    rows = rows_of(suite, known)

    def after(ids: Sequence[int]) -> Vector:
        found = tuple(ids)
        return rows[len(found) - 1] if known[: len(found)] == found else rows_of(suite, found)[-1]

    return after


def bits(row: list[float]) -> list[str]:
    """Spell doubles as the file does."""
    return [struct.pack(">d", value).hex() for value in row]


def named(*operations: str) -> list[tuple[str, str]]:
    """Return suite and id of the cases of these operations."""
    return [
        (suite, name) for suite in SUITES for name, case in cases_of(suite).items() if case["operation"] in operations
    ]


def sampled_ones(cases: list[tuple[str, str]], every: int) -> list[Any]:
    """Mark all but every so-manieth case as exhaustive."""
    return [
        pytest.param(*case, marks=pytest.mark.exhaustive if place % every else ()) for place, case in enumerate(cases)
    ]


@pytest.mark.parametrize(("suite", "name"), named("decoder.logits"))
def test_the_oracle_gives_the_logits_of_a_forward_pass(suite: str, name: str) -> None:
    """Every double of the row, bit for bit."""
    case = cases_of(suite)[name]
    given = case["input"]
    assert 0 == given["head"]
    assert case["expected"]["values"] == bits(rows_of(suite, tuple(given["ids"]), given["start"])[given["row"]])


@pytest.mark.parametrize(("suite", "name"), sampled_ones(named("decoder.session-logits"), 2))
def test_the_oracle_gives_the_logits_of_a_session(suite: str, name: str) -> None:
    """The oracle knows no sessions: however the ids were cut, the last row is that of the whole sequence."""
    case = cases_of(suite)[name]
    given = case["input"]
    assert 0 < given["first_chunk"] < len(given["ids"])
    assert case["expected"]["values"] == bits(rows_of(suite, tuple(given["ids"]), given["start"])[-1])


@pytest.mark.parametrize(("suite", "name"), sampled_ones(named("decoder.generate"), 5))
def test_the_oracle_generates_the_same_tokens(suite: str, name: str) -> None:
    """Each token is the lowest id with the largest logit behind all tokens before it, whatever the arm."""
    case = cases_of(suite)[name]
    prompt, ids = case["input"]["prompt"], case["expected"]["ids"]
    assert case["input"]["new_tokens"] == len(ids)
    tied = case["check"] == "smp.tie"
    rows = rows_of(suite, (*prompt, *ids[:-1]), tied=tied)[len(prompt) - 1 :]
    assert ids == [first_maximum(row) for row in rows]
    # Ties are ties of exactly two ids; other choices are none.
    assert [2 if tied else 1] * len(ids) == [row.count(max(row)) for row in rows]


@pytest.mark.parametrize(("suite", "name"), named("decoder.moved"))
def test_the_oracle_moves_the_same_rows(suite: str, name: str) -> None:
    """Those whose bits change with the token, which are those that see it through all layers."""
    case = cases_of(suite)[name]
    given, moved = case["input"], case["expected"]["ids"]
    ids, place = given["ids"], given["place"]
    assert given["other"] != ids[place]
    changed = (*ids[:place], given["other"], *ids[place + 1 :])
    pairs = zip(rows_of(suite, tuple(ids)), rows_of(suite, changed), strict=True)
    assert moved == [position for position, (one, other) in enumerate(pairs) if one != other]
    window = SIZES[suite]["window"]
    reach = len(ids) - 1 if window is None else place + 2 * (window - 1)
    assert moved == list(range(place, min(reach, len(ids) - 1) + 1))
    if case["check"] == "kv.reach":
        assert moved[-1] < len(ids) - 1, "a row that is out of reach must be there to be seen"


@pytest.mark.parametrize(("suite", "name"), sampled_ones(named("decoder.sample"), 3))
def test_the_oracle_draws_the_same_tokens(suite: str, name: str) -> None:
    """Tokens and the generator's state behind them, by whatever arm; no draw is close to a border."""
    case = cases_of(suite)[name]
    given, expected = case["input"], case["expected"]["ids"]
    after = after_of(suite, (*given["prompt"], *expected[:-2]))
    exp = strict_elementary().exp
    if given["arm"] == "speculative":
        found, distance = speculated(given, after, BLOCK, exp)
    else:
        found, distance = sampled(given, after, exp)
    assert expected == found
    assert distance > DECIDED


@pytest.mark.parametrize("suite", SUITES)
def test_the_arms_that_are_asked_for(suite: str) -> None:
    """The same four for tokens and for ties; two paths for what a token moves; three ways to draw."""
    asked = list(cases_of(suite).values())
    for check, tied in (("gen.given", False), ("smp.tie", True)):
        inputs = [case["input"] for case in asked if (case["check"], case["operation"]) == (check, "decoder.generate")]
        assert [(arm, tied) for arm in ARMS] == [(given["arm"], given["tied"]) for given in inputs]
    reached = ["causal.flip", "kv.reach"] if SIZES[suite]["window"] else ["causal.flip"]
    moved = [(case["check"], case["input"]["arm"]) for case in asked if case["operation"] == "decoder.moved"]
    assert [(check, arm) for check in reached for arm in ("full", "cached")] == moved
    drawn = [case["input"]["arm"] for case in asked if case["operation"] == "decoder.sample"]
    assert ["full", "cached", "speculative"] == drawn


@pytest.mark.parametrize("suite", SUITES)
def test_two_cases_start_far_away(suite: str) -> None:
    """One of the batch path, one of the session."""
    far = [name for name, case in cases_of(suite).items() if case["input"].get("start") == FAR_START]
    assert ["fwd.oracle.far", "kv.split.far"] == far


@pytest.mark.parametrize("suite", SUITES)
def test_the_file_holds_the_cases_of_the_suite(suite: str) -> None:
    """Names, inputs and purposes in the file are those that the suite asks, in its order, each once and answered."""
    found, asked = read_vectors(shipped(suite, "vectors.json")).cases, find_suite(suite).cases()
    assert [(case.identifier, case.operation, case.input, case.sees) for case in asked] == [
        (case.identifier, case.operation, case.input, case.sees) for case in found
    ]
    assert all(case.expected is not None for case in found)
    assert [1] * len(found) == list(Counter(case.identifier for case in found).values())


@pytest.mark.parametrize("suite", SUITES)
def test_the_given_weights_fit_every_precision(suite: str) -> None:
    """Each is a float32 whose lower half is empty, which is bfloat16, and which packed as float16 loses nothing."""
    patterns = [pattern for _, found in read_safetensors(shipped(suite, WEIGHTS[suite])).values() for pattern in found]
    assert len(patterns) > 18000
    assert [] == [pattern for pattern in patterns if pattern & 0xFFFF]
    values = struct.unpack(f"<{len(patterns)}f", struct.pack(f"<{len(patterns)}I", *patterns))
    assert values == struct.unpack(f"<{len(values)}e", struct.pack(f"<{len(values)}e", *values))


@pytest.mark.parametrize("suite", SUITES)
def test_no_two_gains_of_a_norm_are_alike(suite: str) -> None:
    """Gains that are all 1 would hide whether they are applied."""
    tensors: Tensors = read_tensors(shipped(suite, WEIGHTS[suite]))
    gains = {name: found.values for name, found in tensors.items() if len(found.shape) == 1}
    assert 5 == len(gains)
    for name, values in gains.items():
        assert len(set(values)) > len(values) // 2, name
        assert max(values) - min(values) > 0.1, name
