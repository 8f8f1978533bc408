"""The vector cases that need no model, of samplers, speculation by chance and the optimiser: answered a second way."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import pytest

import support_llama_suites_sampling
from cai_conformance.fixtures.goldens.store import locate
from cai_conformance.suites import SUITES
from support_decoder_description import Vector
from support_decoder_elementary import LIBM, strict_elementary
from support_llama_suites_sampling import OPERATIONS, Found, Sampler, compensated, second_answer

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


class CrossingDropped(Sampler):
    """Top-p without the id that crosses the mass."""

    def _nucleus(self, ranked: list[int], weights: Mapping[int, float]) -> list[int]:
        whole = super()._nucleus(ranked, weights)
        reached = compensated([weights[token] for token in whole])
        exact = reached == self.top_p * compensated([weights[token] for token in ranked])
        return whole if exact or len(whole) == len(ranked) else whole[:-1]


class OneMoreAtTheBorder(Sampler):
    """Top-p goes on where the mass is met exactly."""

    def _nucleus(self, ranked: list[int], weights: Mapping[int, float]) -> list[int]:
        threshold = self.top_p * compensated([weights[token] for token in ranked])
        masses = [compensated([weights[token] for token in ranked[: count + 1]]) for count in range(len(ranked))]
        return ranked[: 1 + next((place for place, mass in enumerate(masses) if mass > threshold), len(ranked) - 1)]


class ColdNucleus(Sampler):
    """Top-p and min-p act on the law before the temperature."""

    def law(self, logits: Vector) -> tuple[list[int], Vector]:
        """Return kept ids by rank, and a law over all ids."""
        kept, _ = Sampler(1.0, self.top_k, self.top_p, self.min_p, self.exp).law(logits)
        return kept, Sampler(self.temperature, None, 1.0, 0.0, self.exp).law([logits[token] for token in kept])[1]


class MinPFirst(Sampler):
    """Min-p acts before top-p."""

    def _nucleus(self, ranked: list[int], weights: Mapping[int, float]) -> list[int]:
        return super()._nucleus(self._likely(ranked, weights), weights)


class MinPAbsolute(Sampler):
    """Min-p is held against probabilities, not against a part of the largest one."""

    def _likely(self, ranked: list[int], weights: Mapping[int, float]) -> list[int]:
        total = compensated([weights[token] for token in ranked])
        return [token for token in ranked if weights[token] / total >= self.min_p] or ranked[:1]


class TopPOfEverything(Sampler):
    """Top-p is a part of the mass that top-k was given."""

    def law(self, logits: Vector) -> tuple[list[int], Vector]:
        """Return kept ids by rank, and a law over all ids."""
        inside, _ = Sampler(self.temperature, None, self.top_p, 0.0, self.exp).law(logits)
        both = inside if self.top_k is None else inside[: self.top_k]
        return both, [1.0 / len(both) if token in both else 0.0 for token in range(len(logits))]


class AllTies(Sampler):
    """Top-k keeps every tie at its border."""

    def law(self, logits: Vector) -> tuple[list[int], Vector]:
        """Return kept ids by rank, and a law over all ids."""
        ranked = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
        border = logits[ranked[(self.top_k or len(ranked)) - 1]]
        kept = [token for token in ranked if logits[token] >= border]
        return kept, [1.0 / len(kept) if token in kept else 0.0 for token in range(len(logits))]


class LastTie(Sampler):
    """Of equal logits the last one comes first."""

    def law(self, logits: Vector) -> tuple[list[int], Vector]:
        """Return kept ids by rank, and a law over all ids."""
        kept, law = super().law(logits[::-1])
        return [len(logits) - 1 - token for token in kept], law[::-1]


class ClosedIntervals(Sampler):
    """A draw at the end of an interval belongs to it, and ids of probability 0 have an interval, too."""

    def choose(self, law: Vector, unit: float) -> int:
        """Return the first id whose end is not below the unit."""
        end = 0.0
        for token, probability in enumerate(law):
            end += probability
            if unit <= end:
                return token
        return len(law) - 1


class TestWhatTheCasesSee:
    """Wrong samplers, written here, answer otherwise than the cases expect."""

    @pytest.mark.parametrize(
        ("name", "mutant", "wrong"),
        [
            ("smp.support.top-p-crossing", CrossingDropped, [1, 3]),
            ("smp.support.top-p-tiny", CrossingDropped, []),
            ("smp.support.top-p-exact", OneMoreAtTheBorder, [0, 1, 2, 3]),
            ("smp.tie.top-p-border", OneMoreAtTheBorder, [0, 1, 2]),
            ("smp.support.temperature-first", ColdNucleus, [1, 3]),
            ("smp.support.min-p-after-temperature", ColdNucleus, [1, 3, 2]),
            ("smp.support.top-p-then-min-p", MinPFirst, [1]),
            ("smp.support.min-p", MinPAbsolute, [1]),
            ("smp.support.top-k-then-top-p", TopPOfEverything, [1, 3, 2]),
            ("smp.tie.top-k-border", AllTies, [1, 3, 0, 2, 4]),
            ("smp.tie.greedy", LastTie, [3]),
            ("smp.tie.zeros", LastTie, [2]),
            ("smp.tie.top-k-all-tied", LastTie, [4, 3]),
            ("smp.edge.first", ClosedIntervals, [0]),
            ("smp.edge.border", ClosedIntervals, [0, 1, 2]),
        ],
    )
    def test_a_wrong_sampler_gives_another_answer(
        self, name: str, mutant: type[Sampler], wrong: list[int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The answer of each mistake is the one worked out here, and not the expected one."""
        monkeypatch.setattr(support_llama_suites_sampling, "Sampler", mutant)
        case = CASES[name]
        found = second_answer(case["operation"], case["input"], strict_elementary().exp).ids
        assert wrong == found
        assert wrong != case["expected"]["ids"]

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
