"""The vector cases that need no model, of samplers, speculation by chance and the optimiser: answered a second way."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import pytest

from cai_conformance.goldens import locate
from cai_conformance.suites import SUITES
from support_decoder_elementary import LIBM, strict_elementary
from support_llama_suites_sampling import OPERATIONS, Found, second_answer

SUITE = "course.decoder"
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in json.loads((locate() / SUITE / "vectors.json").read_bytes())["cases"]
    if case["operation"] in OPERATIONS
}
DECIDED = 1e-6
EXACT_BORDERS = {
    # Quarters, halves and ties, which every precision has exactly.
    "smp.support.top-p-exact",
    "smp.support.min-p-exact",
    "smp.tie.top-p-border",
    "smp.edge.border",
    "spec.law.border",
    # A draw of 0 against a probability of 0.
    "spec.law.excluded",
}
"""Cases that are about a border, and lie on it."""


def spelled(found: Found) -> dict[str, list[int] | list[str]]:
    """Spell an answer as the file does."""
    if found.ids is not None:
        return {"ids": found.ids}
    assert found.values is not None
    return {"values": [struct.pack(">d", value).hex() for value in found.values]}


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_found_a_second_way(name: str) -> None:
    """Every id and every bit."""
    case = CASES[name]
    assert case["expected"] == spelled(second_answer(case["operation"], case["input"], strict_elementary().exp))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "ids" in case["expected"]])
def test_ids_hang_on_no_rounding(name: str) -> None:
    """Another exponential gives the same ids, and nothing that decides is close to a border but where it lies on it."""
    case = CASES[name]
    found = second_answer(case["operation"], case["input"], LIBM.exp)
    assert case["expected"] == spelled(found)
    if name in EXACT_BORDERS:
        assert found.distance < DECIDED
    else:
        assert found.distance > DECIDED


def test_one_suite_asks_them() -> None:
    """What needs no model is asked once."""
    asking = [suite.identifier for suite in SUITES if any(case.operation in OPERATIONS for case in suite.cases())]
    assert [SUITE] == asking


def test_every_kind_of_mistake_has_a_case() -> None:
    """Kept sets, ties, ends, laws, draws, speculation, updates."""
    counts: dict[str, int] = {}
    for case in CASES.values():
        counts[case["check"]] = counts.get(case["check"], 0) + 1
    expected = {
        "smp.law": 9,
        "smp.support": 11,
        "smp.edge": 6,
        "smp.tie": 5,
        "smp.seed": 2,
        "spec.law": 10,
        "opt.step": 4,
    }
    assert expected == counts


class TestWhatTheCasesSee:
    """Wrong samplers, written here, give other answers than the cases expect."""

    @pytest.mark.parametrize(
        ("name", "wrong"),
        [
            ("smp.support.top-p-crossing", [1, 3]),
            ("smp.support.top-p-exact", [0, 1, 2, 3]),
            ("smp.support.top-k-then-top-p", [1, 3, 2]),
            ("smp.support.temperature-first", [1, 3]),
            ("smp.support.min-p-after-temperature", [1, 3, 2]),
            ("smp.support.top-p-then-min-p", [1]),
            ("smp.support.min-p", []),
            ("smp.tie.top-k-border", [1, 3, 0, 2, 4]),
            ("smp.tie.greedy", [3]),
            ("smp.edge.first", [0]),
            ("smp.edge.border", [0, 1, 2]),
            ("spec.law.border", [1, 1, 0]),
        ],
    )
    def test_a_wrong_rule_gives_another_answer(self, name: str, wrong: list[int]) -> None:
        """The answers of mistakes that were seen in public, worked by hand."""
        assert wrong != CASES[name]["expected"]["ids"]

    def test_resampling_from_the_target_is_seen(self) -> None:
        """A rejected place that is drawn from the target itself gives 3120, 3280, … instead of the target's law."""
        given = CASES["spec.law.output"]["input"]
        target, law = (
            [struct.unpack(">d", bytes.fromhex(text))[0] for text in given[key]] for key in ("target", "law")
        )
        accepted = [min(p, q) for p, q in zip(target, law, strict=True)]
        rejected = 1.0 - math.fsum(accepted)
        wrong = [round((kept + rejected * p) * 8000) for kept, p in zip(accepted, target, strict=True)]
        assert sum(wrong) == sum(CASES["spec.law.output"]["expected"]["ids"]) == 8000
        assert min(abs(one - other) for one, other in zip(wrong, [3200, 2800, 1600, 400], strict=True)) >= 200
