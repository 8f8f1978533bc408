"""The vector cases of the decode suites: every answer found a second way, on the shipped weights read by hand.

The slow oracle runs a whole sequence through plain Python loops. It is causal, so one pass over a prompt with its
answer is a greedy generation: every token has to be the lowest id that holds the maximum of the row before it.
"""

from __future__ import annotations

import struct
from collections import Counter
from functools import cache

import pytest

from cai_conformance.suites import find_suite
from cai_conformance.vectors import read_vectors
from support_decode_given import MIXERS, described, read_tensors
from support_decode_traces import driven
from support_decoder_description import Matrix
from support_decoder_elementary import strict_elementary
from support_decoder_oracle import decoder_logits, first_maximum
from support_golden_cases import cases_of, shipped
from support_vector_oracle import read_safetensors

SUITES = tuple(MIXERS)
FAR_START = 3000

SAMPLE = ("cai.multi-token", "cai.local-global", "cai.hybrid")
"""Later heads, a window, latent attention with states; the oracle is slow, so others run with `--exhaustive` only."""


@cache
def heads_of(suite: str, ids: tuple[int, ...], start: int, *, tied: bool = False) -> list[Matrix]:
    """Return the oracle's logits, [head][position][id]."""
    model = described(read_tensors(shipped(suite, "weights.safetensors")), MIXERS[suite], tied=tied)
    return decoder_logits(model, ids, strict_elementary(), start)


def bits(row: list[float]) -> list[str]:
    """Spell doubles as the file does."""
    return [struct.pack(">d", value).hex() for value in row]


def marks_of(suite: str) -> tuple[pytest.MarkDecorator, ...]:
    """Mark what is about a suite as exhaustive, unless the suite is one of the sample."""
    return () if suite in SAMPLE else (pytest.mark.exhaustive,)


def named(*checks: str) -> pytest.MarkDecorator:
    """Return one test for each case of these checks."""
    return pytest.mark.parametrize(
        ("suite", "name"),
        [
            pytest.param(suite, name, marks=marks_of(suite))
            for suite in SUITES
            for name, case in cases_of(suite).items()
            if case["check"] in checks
        ],
    )


@named("fwd.oracle")
def test_the_oracle_gives_the_logits_of_a_forward_pass(suite: str, name: str) -> None:
    """Every double of the row, bit for bit; in the multi-token suite of the last head, too."""
    case = cases_of(suite)[name]
    given = case["input"]
    heads = heads_of(suite, tuple(given["ids"]), given["start"])
    assert case["expected"]["values"] == bits(heads[given["head"]][given["row"]])


@named("kv.split")
def test_the_oracle_gives_the_logits_of_a_session(suite: str, name: str) -> None:
    """The oracle knows no sessions: however the ids were cut, the last row is that of the whole sequence."""
    case = cases_of(suite)[name]
    given = case["input"]
    assert 0 < given["first_chunk"] < len(given["ids"])
    heads = heads_of(suite, tuple(given["ids"]), given["start"])
    assert case["expected"]["values"] == bits(heads[given["head"]][-1])


@named("gen.given", "smp.tie")
def test_the_oracle_generates_the_same_tokens(suite: str, name: str) -> None:
    """Each token is the lowest id with the largest logit behind all tokens before it, whatever the arm."""
    case = cases_of(suite)[name]
    prompt, ids = case["input"]["prompt"], case["expected"]["ids"]
    assert case["input"]["new_tokens"] == len(ids)
    tied = case["check"] == "smp.tie"
    rows = heads_of(suite, (*prompt, *ids[:-1]), 0, tied=tied)[0][len(prompt) - 1 :]
    assert ids == [first_maximum(row) for row in rows]


@pytest.mark.parametrize("suite", [pytest.param(suite, marks=marks_of(suite)) for suite in SUITES])
def test_every_choice_of_the_ties_is_a_tie(suite: str) -> None:
    """Exactly two ids hold the maximum before each token; on the weights as shipped exactly one."""
    for check, maxima in (("smp.tie", 2), ("gen.given", 1)):
        case = cases_of(suite)[f"{check}.full"]
        prompt, ids = case["input"]["prompt"], case["expected"]["ids"]
        rows = heads_of(suite, (*prompt, *ids[:-1]), 0, tied=check == "smp.tie")[0][len(prompt) - 1 :]
        assert [maxima] * len(ids) == [row.count(max(row)) for row in rows]


@pytest.mark.parametrize("suite", SUITES)
def test_the_arms_that_are_asked_for(suite: str) -> None:
    """Four everywhere; two more where a layer is latent, one more where the model has later heads."""
    arms = ["full", "cached", "scripted", "self-draft"]
    arms += ["latent", "absorbed"] if "l" in MIXERS[suite] else []
    arms += ["mtp-cached"] if suite == "cai.multi-token" else []
    asked = list(cases_of(suite).values())
    for check, tied in (("gen.given", False), ("smp.tie", True)):
        inputs = [case["input"] for case in asked if case["check"] == check]
        assert [(arm, tied) for arm in arms] == [(given["arm"], given["tied"]) for given in inputs]


@pytest.mark.parametrize("suite", SUITES)
def test_the_sequence_is_longer_than_the_window_and_starts_far_away_too(suite: str) -> None:
    """It opens with the one zero id, repeats ids, and holds no EOS; two cases start at position 3000."""
    cases = cases_of(suite)
    ids = cases["fwd.oracle.last"]["input"]["ids"]
    assert (0, 16, 15) == (ids[0], len(ids), cases["fwd.oracle.last"]["input"]["row"])
    assert all(1 < token < 320 for token in ids[1:])
    assert len(set(ids)) < len(ids)
    far = [name for name, case in cases.items() if case["input"].get("start") == FAR_START]
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
def test_the_cases_are_announced_by_their_checks(suite: str) -> None:
    """A check lists exactly the cases that name it; one that drives an engine has cases of its own."""
    checks = [check for check in find_suite(suite).checks if check.of_edges and check.name not in driven(suite)]
    announced = {check.name: list(check.cases) for check in checks if check.cases}
    named_by: dict[str, list[str]] = {}
    for case in cases_of(suite).values():
        named_by.setdefault(case["check"], []).append(case["case"])
    assert named_by == announced


@pytest.mark.parametrize("suite", SUITES)
def test_the_given_weights_fit_every_precision(suite: str) -> None:
    """Each is a float32 whose lower half is empty, which is bfloat16, and which packed as float16 loses nothing."""
    patterns = [
        pattern for _, found in read_safetensors(shipped(suite, "weights.safetensors")).values() for pattern in found
    ]
    assert len(patterns) > 18000
    assert [] == [pattern for pattern in patterns if pattern & 0xFFFF]
    values = struct.unpack(f"<{len(patterns)}f", struct.pack(f"<{len(patterns)}I", *patterns))
    assert values == struct.unpack(f"<{len(values)}e", struct.pack(f"<{len(values)}e", *values))
