"""Generation by PyTorch's engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cai_conformance.engine import GenerationOrder, Refused
from support_foreign_engines import DECODERS, case, drawn, fed_afresh, feed, write_folder

if TYPE_CHECKING:
    from cai_conformance.backends.torch.engine import TorchEngine

Folder = Callable[[str], Path]


class TestGeneration:
    """Greedy, by two arms."""

    @pytest.mark.parametrize("arm", ["full", "cached"])
    @pytest.mark.parametrize("suite", DECODERS)
    def test_the_tokens_are_those_of_the_vector_case(
        self, engine: TorchEngine, folder: Folder, suite: str, arm: str
    ) -> None:
        """In double precision."""
        given = case(suite, f"gen.given.{arm}")
        engine.load(folder(suite))
        order = GenerationOrder(tuple(given["input"]["prompt"]), given["input"]["new_tokens"], arm)
        assert tuple(given["expected"]["ids"]) == engine.generate(order).ids

    @pytest.mark.parametrize("arm", ["full", "cached"])
    @pytest.mark.parametrize("suite", ["llama.gqa-window", pytest.param("llama.dense", marks=pytest.mark.exhaustive)])
    def test_of_equal_maxima_the_lowest_id_is_taken(
        self, engine: TorchEngine, tmp_path: Path, suite: str, arm: str
    ) -> None:
        """Every choice is a tie of two ids, which the list of likeliest ids shows in order."""
        given = case(suite, f"smp.tie.{arm}")
        engine.load(write_folder(tmp_path / "paired", suite, paired=True))
        order = GenerationOrder(tuple(given["input"]["prompt"]), given["input"]["new_tokens"], arm, top=2)
        found = engine.generate(order)
        assert tuple(given["expected"]["ids"]) == found.ids
        for chosen, ((first, most), (second, next_most)) in zip(found.ids, found.top, strict=True):
            assert (chosen, chosen + 1, most) == (first, second, next_most)

    def test_all_likeliest_ids_are_a_distribution(self, engine: TorchEngine, folder: Folder) -> None:
        """In descending order, the chosen one first."""
        engine.load(folder("llama.dense"))
        found = engine.generate(GenerationOrder(drawn(12, 3), 2, top=320))
        for chosen, top in zip(found.ids, found.top, strict=True):
            values = [value for _, value in top]
            assert sorted(values, reverse=True) == values
            assert (chosen, set(range(320))) == (top[0][0], {token for token, _ in top})
            assert abs(math.fsum(math.exp(value) for value in values) - 1.0) < 1e-12

    def test_it_ends_on_stop_budget_or_context(self, engine: TorchEngine, folder: Folder) -> None:
        """The stop id belongs to what is generated."""
        engine.load(folder("cai.multi-token"))
        prompt = tuple(case("cai.multi-token", "gen.given.full")["input"]["prompt"])
        free = engine.generate(GenerationOrder(prompt, 16)).ids
        stop = next(token for token in free[2:] if token != free[0])
        ended = free[: free.index(stop) + 1]
        assert ended == engine.generate(GenerationOrder(prompt, 16, stop=stop)).ids
        assert () == engine.generate(GenerationOrder(prompt, 0)).ids
        assert 48 - len(prompt) == len(engine.generate(GenerationOrder(prompt, 100)).ids)

    def test_the_slots_are_left_alone(self, engine: TorchEngine, folder: Folder) -> None:
        """It has one of its own."""
        engine.load(folder("cai.multi-token"))
        prompt = drawn(9, 2)
        expected = [fed_afresh(engine, prompt, slot=slot).tobytes() for slot in (0, 15)]
        engine.generate(GenerationOrder(drawn(16, 5), 8))
        for slot in (0, 15):
            engine.drop(slot, 1)
            feed(engine, prompt[1:], 1, slot)
        assert expected == [fed_afresh(engine, prompt, slot=slot).tobytes() for slot in (0, 15)]

    def test_what_cannot_be_generated_is_refused(self, engine: TorchEngine, folder: Folder) -> None:
        """In words."""
        engine.load(folder("cai.multi-token"))
        orders = {
            "it has no arm scripted": GenerationOrder((0,), 1, "scripted"),
            "the prompt is empty": GenerationOrder((), 1),
            "a prompt of 48 tokens leaves no room in a context of 48": GenerationOrder((0,) * 48, 1),
            "-1 is none of the ids": GenerationOrder((-1,), 1),
            "the 321 likeliest of 320 ids are wanted": GenerationOrder((0,), 1, top=321),
        }
        for text, order in orders.items():
            with pytest.raises(Refused, match=text):
                engine.generate(order)
