"""Sampled generation: stop rules, budgets, and paths that must not matter."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from cai_reference.arithmetic.instances import STRICT
from cai_reference.decoding.errors import DecodingError, SamplingError
from cai_reference.decoding.generation import DecoderStop, Limits, ReencodingPath, StreamingPath, generate
from cai_reference.decoding.sampled_generation import sample_generation
from cai_reference.decoding.sampling import SamplingSettings
from cai_reference.decoding.session import Session
from cai_reference.errors import ModelError
from cai_reference.models.decoder import Decoder
from cai_reference.splitmix import INCREMENT, SplitMix64
from support_decoder_models import small
from support_refusals import raises, refuses
from support_sampling import EXACT, Given, TablePath, chain_law, law_of

WARM = SamplingSettings(temperature=3.0, top_k=9, top_p=0.95, min_p=0.01)
NO_EOS = Limits(eos=None, new_tokens=9, context=24)

# From 0 to 1 to 2 to 3, half of the time; else anything.
ROWS = ((-3.0, 0.0, -2.0, -3.0), (-2.0, -2.0, -1.0, -2.0), (-3.0, -2.0, -3.0, 0.0), (0.0, 0.0, 0.0, 0.0))


@cache
def model_of(name: str) -> Decoder:
    """Return the small model of this name, made once."""
    return small(name)


class TestPaths:
    """In strict arithmetic cached and re-encoded generation are one and the same."""

    @pytest.mark.parametrize(
        ("name", "chunk"),
        [
            ("local", 1),
            ("hybrid", 3),
            pytest.param("attention", 3, marks=pytest.mark.exhaustive),
            pytest.param("grouped", 1, marks=pytest.mark.exhaustive),
            pytest.param("grouped", 3, marks=pytest.mark.exhaustive),
        ],
    )
    def test_tokens_draws_intervals_and_state_agree(self, name: str, chunk: int) -> None:
        """Over windows, recurrences, latents and groups; the rows have the same bits."""
        model, prompt = model_of(name), [3, 7, 2, 5, 1]
        encoded = sample_generation(ReencodingPath(model, STRICT), prompt, NO_EOS, WARM, SplitMix64(36), STRICT)
        session = StreamingPath(Session(model, STRICT), chunk)
        cached = sample_generation(session, prompt, NO_EOS, WARM, SplitMix64(36), STRICT)
        assert encoded.choices == cached.choices
        assert (encoded.ids, encoded.stop, encoded.state) == (cached.ids, cached.stop, cached.state)
        assert [row.tobytes() for row in encoded.rows] == [row.tobytes() for row in cached.rows]
        assert len(set(cached.ids)) > 3
        assert (9, 9 + -(-4 // chunk)) == (encoded.forwards, cached.forwards)

    def test_temperature_zero_is_greedy_generation(self) -> None:
        """The same tokens, by the first of several heads, and no draw."""
        model, generator = model_of("futures"), SplitMix64(36)
        greedy = generate(ReencodingPath(model, STRICT), [3, 7], NO_EOS)
        cold = sample_generation(
            ReencodingPath(model, STRICT), [3, 7], NO_EOS, SamplingSettings(0.0), generator, STRICT
        )
        assert (greedy.ids, greedy.stop, greedy.forwards) == (cold.ids, cold.stop, cold.forwards)
        assert 36 == generator.state == cold.state


class TestStops:
    """EOS, budget, context, in this order."""

    def test_eos_is_appended(self) -> None:
        """It ends, even where the budget and the context would end as well."""
        for budget, context in ((9, 9), (2, 9), (2, 3), (9, 3)):
            generation = sample_generation(
                TablePath(ROWS), [0], Limits(3, budget, context), SamplingSettings(), Given(0.5, 0.99), EXACT
            )
            assert ((1, 3), DecoderStop.EOS, 2) == (generation.ids, generation.stop, generation.state)

    def test_the_budget_comes_before_the_context(self) -> None:
        """Both end after two tokens; without the budget it is the context."""
        ends = [
            sample_generation(
                TablePath(ROWS), [0], Limits(3, budget, 3), SamplingSettings(), Given(0.5, 0.4, 0.1), EXACT
            )
            for budget in (2, 5)
        ]
        assert [DecoderStop.LIMIT, DecoderStop.CONTEXT] == [end.stop for end in ends]
        assert ends[0].ids == ends[1].ids == (1, 2)

    def test_the_course_counts_positions(self) -> None:
        """Two positions and a prompt of one token give two tokens: a context of three."""
        generation = sample_generation(
            TablePath(ROWS), [0], Limits(None, 99, 2 + 1), SamplingSettings(), SplitMix64(36), EXACT
        )
        assert (2, DecoderStop.CONTEXT, 2) == (len(generation.ids), generation.stop, generation.forwards)

    def test_a_budget_of_zero_calls_and_draws_nothing(self) -> None:
        """Not even the prompt is read."""
        path, generator = TablePath(ROWS), SplitMix64(36)
        generation = sample_generation(path, [0, 1, 2], Limits(3, 0, 9), SamplingSettings(), generator, EXACT)
        assert ((), (), DecoderStop.LIMIT, 0, 36) == (
            generation.ids,
            generation.rows,
            generation.stop,
            generation.forwards,
            generation.state,
        )
        assert (0, 0, 36) == (path.forwards, path.fed, generator.state)

    @pytest.mark.parametrize(
        ("error", "prompt"),
        [(DecodingError("empty-prompt"), []), (DecodingError("prompt-too-long", length=3, context=3), [0, 1, 2])],
        ids=["empty", "long"],
    )
    def test_a_prompt_is_looked_at_first(self, error: DecodingError | DecodingError, prompt: list[int]) -> None:
        """Before any call and any draw."""
        path, generator = TablePath(ROWS), SplitMix64(36)
        with raises(error):
            sample_generation(path, prompt, Limits(3, 2, 3), SamplingSettings(), generator, EXACT)
        assert (0, 36) == (path.forwards, generator.state)


class TestDraws:
    """One a token."""

    def test_the_state_counts_the_tokens(self) -> None:
        """Seven tokens move it seven times, and a second generation goes on from there."""
        generator = SplitMix64(5)
        limits = Limits(None, 7, 50)
        first = sample_generation(TablePath(ROWS), [0], limits, SamplingSettings(), generator, EXACT)
        assert (5 + 7 * INCREMENT) % 2**64 == first.state
        second = sample_generation(TablePath(ROWS), [0], limits, SamplingSettings(), generator, EXACT)
        assert (5 + 14 * INCREMENT) % 2**64 == second.state
        fresh = SplitMix64(5)
        units = [fresh.unit() for _ in range(14)]
        assert units == [choice.unit for choice in (*first.choices, *second.choices)]

    def test_a_failed_choice_leaves_the_state_of_the_token_before(self) -> None:
        """The second row holds no number, so that one draw was made; a top-k beyond the vocabulary makes none."""
        generator = Given(0.5, 0.5)
        rows = (ROWS[0], (0.0, np.nan, 0.0, 0.0))
        with refuses(ModelError, "non-finite-logit"):
            sample_generation(TablePath(rows), [0], Limits(3, 5, 9), SamplingSettings(), generator, EXACT)
        assert generator.state == 1
        with raises(SamplingError("invalid-top-k", top_k=5, vocabulary=4)):
            sample_generation(TablePath(ROWS), [0], Limits(3, 5, 9), SamplingSettings(top_k=5), generator, EXACT)
        assert generator.state == 1

    @pytest.mark.parametrize("eos", [None, 3])
    def test_sequences_have_the_law_of_the_chain(self, eos: int | None) -> None:
        """Two tokens, EOS or not: products of the table's probabilities, exactly."""
        limits = Limits(eos, 2, 9)
        rows = ((-3.0, 0.0, -1.0, -3.0), (-1.0, -1.0, -5000.0, -5000.0), (-2.0, 0.0, -1.0, -2.0), ROWS[3])
        law = law_of(
            lambda generator: sample_generation(TablePath(rows), [2], limits, SamplingSettings(), generator, EXACT).ids
        )
        expected = chain_law(rows, 2, 2, eos)
        assert set(expected) == set(law)
        assert all(abs(law[ids] - expected[ids]) < 2**-52 for ids in law)
