"""The library's two ways to continue a text: what it answered, what each ends with, and where they agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cai_neural_api.builders import LayerGraph
from cai_neural_api.format import parse_net
from cai_neural_api.generation import (
    GenerationEnd,
    StreamLimits,
    StreamStops,
    generate_streamed,
    generate_text,
    generate_whole_context,
    streamed,
    whole_context,
)
from cai_neural_api.initialization import initialize
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.net.graph import Net
from cai_neural_api.net.session import NetSession
from cai_neural_api.sampling import LibraryTopK
from cai_neural_api.tokenizer import Vocabulary
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.errors import CaiReferenceError
from support_errors_legacy_generation import MORE
from support_net_models import TINY, layers_of
from support_nn_file import KINDS, SAMPLES, needs_samples
from support_refusals import raises

CONTEXT = 8
CAUSAL = ("attention", "window", "latent", "hybrid", "parallel", "grouped")


@dataclass
class Script:
    """A sampler that chooses what it was told, and keeps the rows that it was asked about."""

    tokens: list[int]
    rows: list[Array] = field(default_factory=list)

    def choose(self, row: Array) -> int:
        """Return the next token."""
        self.rows.append(row)
        return self.tokens[len(self.rows) - 1]


@cache
def drawn(kind: str) -> Net:
    """Return a small net with weights large enough for tokens to matter."""
    net = Net.from_file(initialize(layers_of(TINY[kind]), MersenneTwister(3)))
    for layer in net.layers:
        if layer.learned is not None:
            for array in layer.learned.weights:
                array *= 3.0
    assert net.layers[1].learned is not None
    net.layers[1].learned.weights[0][...] *= 30.0
    return net


@cache
def bigram(vocabulary: int = 12) -> Net:
    """Return a net in which id i is followed by i + 1, the last id by 0."""
    graph = LayerGraph()
    x = graph.embedding(graph.input(CONTEXT), vocabulary, vocabulary)
    graph.softmax(graph.pointwise(x, vocabulary), skips_derivative=True)
    net = Net.from_file(initialize(graph.specs, MersenneTwister(1)))
    table, projection = net.layers[1].learned, net.layers[2].learned
    assert table is not None and projection is not None
    table.weights[0][...] = np.eye(vocabulary)
    projection.weights[0][...] = 9.0 * np.roll(np.eye(vocabulary), 1, axis=0)
    return net


def session_of(net: Net) -> NetSession:
    """Open a session with room for the context and a token more."""
    return NetSession(net, STRICT, net.context + 1)


def stream(
    prompt: Sequence[int], new: int, total: int, stops: StreamStops, tokens: Sequence[int]
) -> tuple[tuple[int, ...], GenerationEnd]:
    """Generate scripted tokens by a session; return the new ids and why they ended."""
    sampler = Script(list(tokens))
    done = generate_streamed(session_of(bigram()), prompt, StreamLimits(new, total), stops, sampler)
    return done.new, done.end


@needs_samples
class TestSamples:
    """What the library generated."""

    @pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mtp"])
    def test_a_session_generates_what_the_library_streamed(self, kind: str) -> None:
        """Of the draft, too, whose token shift a session forgets between tokens."""
        net, decoded = sample(kind)
        for each in decoded:
            limits = StreamLimits(net.context, net.context)
            done = generate_streamed(session_of(net), each["prompt"], limits)
            assert tuple(each["library_streamed_eos_lt2"]) == done.ids

    @pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mtp"])
    def test_whole_contexts_generate_what_the_library_encoded_again(self, kind: str) -> None:
        """Whatever stands behind the tokens."""
        net, decoded = sample(kind)
        for each in decoded:
            for tail in ([0] * net.context, [4, 9, 2, 7, 3, 10]):
                done = generate_whole_context(net, STRICT, each["prompt"], last_input=tail)
                assert tuple(each["greedy_full"]) == done.ids


def sample(kind: str) -> tuple[Net, list[dict[str, list[int]]]]:
    """Load a sample net and what the library generated with it."""
    decoded: list[dict[str, list[int]]] = json.loads((SAMPLES / f"{kind}.json").read_text("ascii"))["decode"]
    return Net.from_file(parse_net((SAMPLES / f"{kind}.nn").read_bytes())), decoded


class TestAgreement:
    """Nets in which no token sees later ones."""

    @pytest.mark.parametrize("kind", CAUSAL)
    @given(
        prompt=st.lists(st.integers(1, 12), min_size=1, max_size=6),
        tail=st.lists(st.integers(0, 12), min_size=7, max_size=7),
    )
    @settings(max_examples=4, deadline=None)
    def test_both_ways_choose_the_same_whatever_stands_behind(
        self, kind: str, prompt: list[int], tail: list[int]
    ) -> None:
        """Token by token, to the same end."""
        net = drawn(kind)
        whole = generate_whole_context(net, FAST, prompt, last_input=tail)
        fed = generate_streamed(NetSession(net, FAST, net.context), prompt, StreamLimits(99, net.context))
        assert (whole.new, whole.end) == (fed.new, fed.end)

    def test_both_ways_choose_from_the_same_rows(self) -> None:
        """Up to rounding, at each of the steps."""
        net, tokens = drawn("hybrid"), [5, 9, 2, 7, 3]
        whole, fed = Script(tokens), Script(tokens)
        generate_whole_context(net, STRICT, (4, 8), whole, [11, 10, 9, 8, 7, 6, 5])
        generate_streamed(session_of(net), (4, 8), StreamLimits(99, net.context), sampler=fed)
        assert (5, 5) == (len(whole.rows), len(fed.rows))
        np.testing.assert_allclose(fed.rows, whole.rows, rtol=0, atol=1e-12)
        assert np.ptp(np.array(whole.rows), axis=0).max() > 0.01

    def test_a_net_that_looks_ahead_sees_what_it_read_last(self) -> None:
        """The stale tail is really there: this net gives its last position's id everywhere."""
        graph = LayerGraph()
        x = graph.transpose(graph.embedding(graph.input(3), 4, 4))
        last = graph.transpose(graph.pointwise(x, 3))
        graph.softmax(last, skips_derivative=True)
        net = Net.from_file(initialize(graph.specs, MersenneTwister(1)))
        table, mixing = net.layers[1].learned, net.layers[3].learned
        assert table is not None and mixing is not None
        table.weights[0][...] = np.eye(4)
        mixing.weights[0][...] = [[0.0, 0.0, 9.0]] * 3
        for stale in (2, 3):
            done = generate_whole_context(net, STRICT, (1,), last_input=(1, 1, stale))
            assert (stale, stale) == done.new
        assert (0,) == generate_whole_context(net, STRICT, (1,)).new


class TestWholeContext:
    """Generation by whole contexts."""

    @pytest.mark.parametrize(
        ("prompt", "new", "end"),
        [
            ((2,), (3, 4, 5, 6, 7, 8, 9), GenerationEnd.CONTEXT),
            ((9, 10), (11, 0), GenerationEnd.TOKEN),
            ((2, 2, 2, 2, 2, 2, 2), (3,), GenerationEnd.CONTEXT),
            ((2, 2, 2, 2, 2, 2, 2, 2), (3,), GenerationEnd.CONTEXT),
            ((2, 2, 2, 2, 2, 2, 2, 11), (0,), GenerationEnd.TOKEN),
            ((4, 0), (0,), GenerationEnd.TOKEN),
        ],
    )
    def test_it_ends_with_a_low_id_or_a_full_context(
        self, prompt: tuple[int, ...], new: tuple[int, ...], end: GenerationEnd
    ) -> None:
        """After one token at least, even behind a full prompt. Id 0 ties all ids here, so that 0 follows it."""
        done = generate_whole_context(bigram(), STRICT, prompt)
        assert (prompt, new, end) == (done.prompt, done.new, done.end)

    def test_a_sampler_sees_the_row_behind_the_newest_token(self) -> None:
        """Over all ids."""
        sampler = Script([5, 1])
        done = generate_whole_context(bigram(), STRICT, (2, 7), sampler)
        assert ((5, 1), GenerationEnd.TOKEN) == (done.new, done.end)
        assert [(12,), (12,)] == [row.shape for row in sampler.rows]
        assert [8, 6] == [int(np.argmax(row)) for row in sampler.rows]

    def test_the_librarys_sampler_fits(self) -> None:
        """Top-k of 1 is the largest; its draws are spent all the same."""
        generator, fresh = MersenneTwister(8), MersenneTwister(8)
        done = generate_whole_context(bigram(), STRICT, (8,), LibraryTopK(1, generator))
        assert (9, 10, 11, 0) == done.new
        assert [fresh.next_u32() for _ in range(5)][4] == generator.next_u32()

    def test_a_step_is_computed_when_it_is_asked_for(self) -> None:
        """Whoever stops asking stops the generation."""
        sampler = Script([5, 6, 7])
        steps = list(islice(whole_context(bigram(), STRICT, (2,), sampler), 2))
        assert ([5, 6], 2) == ([step.token for step in steps], len(sampler.rows))


class TestText:
    """Generation of a text."""

    @staticmethod
    def continued(prompt: bytes, tokens: Sequence[int], entries: Sequence[bytes] = (b"cat", b"the")) -> bytes:
        """Continue a prompt with scripted tokens."""
        return generate_text(bigram(140), STRICT, Vocabulary(tuple(entries)), prompt, Script(list(tokens)))

    def test_pieces_are_appended_to_the_prompt(self) -> None:
        """A control byte that ends the text included; ids beyond the vocabulary add nothing."""
        assert b"the cat, the\x01" == self.continued(b"the ", [128, ord(","), 32, 139, 129, 1])
        assert b"a\x00" == self.continued(b"a", [0])

    def test_the_prompt_stays_as_it_was_given(self) -> None:
        """Although the net reads it without capitals."""
        assert b"The\x00" == self.continued(b"The", [0])


class TestStreamed:
    """Generation by a session."""

    @pytest.mark.parametrize(
        ("new", "total", "count", "end"),
        [
            (3, 99, 3, GenerationEnd.LIMIT),
            (99, 4, 2, GenerationEnd.CONTEXT),
            (2, 4, 2, GenerationEnd.LIMIT),
            (0, 99, 0, GenerationEnd.LIMIT),
            (5, 2, 0, GenerationEnd.CONTEXT),
            (5, 1, 0, GenerationEnd.CONTEXT),
        ],
    )
    def test_it_goes_to_the_smaller_limit(self, new: int, total: int, count: int, end: GenerationEnd) -> None:
        """Prompt and new tokens, or all tokens; where both are met, the first is named."""
        done = generate_streamed(session_of(bigram()), (2, 3), StreamLimits(new, total))
        assert ((4, 5, 6, 7)[:count], end) == (done.new, done.end)

    @pytest.mark.parametrize(
        ("end_tokens", "tokens", "new", "end"),
        [
            (None, [5, 1, 9], (5, 1), GenerationEnd.TOKEN),
            (None, [0, 5], (0,), GenerationEnd.TOKEN),
            ((5, 7), [4, 1, 7, 9], (4, 1, 7), GenerationEnd.TOKEN),
            ((), [1, 0, 1], (1, 0, 1), GenerationEnd.LIMIT),
            (None, [4, 5, 1], (4, 5, 1), GenerationEnd.TOKEN),
        ],
    )
    def test_end_tokens_stay(
        self, end_tokens: tuple[int, ...] | None, tokens: list[int], new: tuple[int, ...], end: GenerationEnd
    ) -> None:
        """Those below 2, or a list in place of them; on the last token they go before the limit."""
        assert (new, end) == stream((2,), 3, 99, StreamStops(end_tokens=end_tokens), tokens)

    @pytest.mark.parametrize(
        ("sequences", "tokens", "new"),
        [
            ([(6, 7)], [5, 6, 7, 8], (5,)),
            ([(7,), (6, 7), (5, 6, 8)], [4, 5, 6, 7], (4, 5)),
            ([(3, 4)], [4, 5, 9], (4, 5, 9)),
            ([(4,)], [4, 5], ()),
            ([(2, 3, 4), (9,)], [4, 9], (4,)),
            ([(5, 1)], [5, 1], ()),
        ],
    )
    def test_stop_sequences_are_trimmed(
        self, sequences: list[tuple[int, ...]], tokens: list[int], new: tuple[int, ...]
    ) -> None:
        """The longest one that matches, in new tokens alone; they go before end tokens and limits."""
        end = GenerationEnd.LIMIT if len(new) == len(tokens) else GenerationEnd.STOP
        assert (new, end) == stream((2, 3), len(tokens), 99, StreamStops(sequences), tokens)

    def test_steps_tell_what_is_taken_away(self) -> None:
        """So that whoever prints tokens as they come knows which of them to hold back."""
        steps = list(
            streamed(session_of(bigram()), (2,), StreamLimits(9, 99), StreamStops([(5, 6)]), Script([4, 5, 6]))
        )
        assert [(4, None, 0), (5, None, 0), (6, GenerationEnd.STOP, 2)] == [
            (step.token, step.end, step.trimmed) for step in steps
        ]

    def test_every_token_but_the_last_is_fed(self) -> None:
        """The session then holds the sequence without its newest token."""
        session = session_of(drawn("attention"))
        generate_streamed(session, (2, 3), StreamLimits(3, 99), sampler=Script([4, 5, 6]))
        assert {4} == set(session.lengths)

    def test_what_the_session_remembers_is_forgotten(self) -> None:
        """A second prompt is continued as by a fresh session."""
        session = session_of(drawn("hybrid"))
        first, second = (generate_streamed(session, prompt, StreamLimits(4, 99)) for prompt in ((2, 3, 9), (8, 4)))
        assert first.new != second.new
        assert second.new == generate_streamed(session_of(drawn("hybrid")), (8, 4), StreamLimits(4, 99)).new


@pytest.mark.parametrize(("expected", "trigger"), MORE)
def test_what_is_wrong_is_told_before_the_first_step(
    expected: CaiReferenceError, trigger: Callable[[], object]
) -> None:
    """By both ways alike."""
    with raises(expected):
        trigger()
