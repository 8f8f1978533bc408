"""Decode arms as published: tokens, forwards, proposals and acceptances, beside plain loops over whole runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pytest

from cai_neural_api.decode.arms import ArmRun, Budget, run_cached, run_draft, run_full, run_heads, run_path
from cai_neural_api.decode.paths import Heads, SessionPath
from cai_neural_api.errors import NetSessionError
from cai_neural_api.format import NetFile
from cai_neural_api.net.graph import Net
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST
from support_net_questions import ATTENTION, CONTEXT, LATENT, SSM, VOCABULARY, decoder_net, draft_net
from support_refusals import refuses

PROMPT = (3, 1, 4)
BUDGET = Budget(40, CONTEXT)


def clock() -> float:
    """Return a time that stands still."""
    return 0.0


def net_of(file: NetFile) -> Net:
    """Make a net."""
    return Net.from_file(file)


def probabilities(net: Net, ids: Sequence[int]) -> Array:
    """Return the output rows for ids padded with zeros to the context: [context, heads · vocabulary]."""
    rows: Array = net.run(FAST, [[*ids, *[0] * (CONTEXT - len(ids))]]).output[0]
    return rows


def best(row: Array, head: int = 0) -> int:
    """Return the first largest of a head, by a scan."""
    scores = row[head * VOCABULARY : (head + 1) * VOCABULARY].tolist()
    chosen = 0
    for token, score in enumerate(scores):
        if score > scores[chosen]:
            chosen = token
    return chosen


def greedy(net: Net, prompt: Sequence[int], length: int) -> list[int]:
    """Continue a prompt to a length, by whole runs."""
    ids = list(prompt)
    while len(ids) < length:
        ids.append(best(probabilities(net, ids)[len(ids) - 1]))
    return ids


@dataclass
class Counters:
    """What a speculative arm counts."""

    forwards: int = 0
    passes: int = 0
    drafts: int = 0
    verified: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    committed: int = 0


def plain_heads(net: Net, heads: int, prompt: Sequence[int], new_tokens: int) -> tuple[list[int], Counters]:
    """Self-speculate as the published program does, position by position."""
    counters = Counters(verified=[0] * (heads - 1), accepted=[0] * (heads - 1))
    tokens, length, pending = [*prompt, *[0] * (2 * CONTEXT)], len(prompt), 0
    while length - len(prompt) < new_tokens and length < CONTEXT:
        rows = probabilities(net, tokens[: length + pending])
        counters.forwards += 1
        counters.passes += 1
        for place in range(pending):
            verdict = best(rows[length + place - 1])
            counters.verified[place] += 1
            if tokens[length + place] == verdict:
                counters.accepted[place] += 1
                continue
            tokens[length + place] = verdict
            last, longer = length + place - 1, length + place + 1
            break
        else:
            last, longer = length + pending - 1, length + pending
            if longer < CONTEXT:
                tokens[longer] = best(rows[last])
                longer += 1
        counters.committed += longer - length
        length, pending = longer, 0
        for head in range(1, heads):
            if length - 1 + head < CONTEXT:
                tokens[length - 1 + head] = best(rows[last], head)
                pending += 1
    return tokens[: min(length, len(prompt) + new_tokens)], counters


def plain_draft(net: Net, draft: Net, prompt: Sequence[int], new_tokens: int, block: int) -> tuple[list[int], Counters]:
    """Speculate with a two-token draft, position by position."""
    counters = Counters(verified=[0], accepted=[0])
    counters.forwards = -(-(len(prompt) - 1) // (block + 1))
    tokens, length = [*prompt, *[0] * (2 * CONTEXT)], len(prompt)
    while length - len(prompt) < new_tokens and length < CONTEXT:
        proposed = 0
        while proposed < block and length + proposed < CONTEXT:
            at = length + proposed
            pair = [tokens[at - 2] if at > 1 else 0, tokens[at - 1]]
            tokens[at] = best(draft.run(FAST, [pair]).output[0][1])
            proposed += 1
        counters.drafts += proposed
        counters.verified[0] += proposed
        counters.forwards += 1
        counters.passes += 1
        truth = greedy(net, tokens[:length], min(length + proposed + 1, CONTEXT))
        right = 0
        while right < proposed and tokens[length + right] == truth[length + right]:
            right += 1
        counters.accepted[0] += right
        longer = min(length + right + 1, CONTEXT)
        tokens[:longer] = truth[:longer]
        counters.committed += longer - length
        length = longer
    return tokens[: min(length, len(prompt) + new_tokens)], counters


def counted(run: ArmRun) -> Counters:
    """Return the counters of a run."""
    found = run.speculation
    assert found is not None
    return Counters(
        run.forwards, found.passes, found.draft_forwards, list(found.verified), list(found.accepted), found.committed
    )


@pytest.fixture(scope="module")
def net() -> Net:
    """A decoder with attention, whose greedy tokens are not all alike."""
    return net_of(decoder_net(ATTENTION))


class TestPlainArms:
    """Full and cached."""

    def test_full_and_cached_have_the_tokens_of_whole_runs(self, net: Net) -> None:
        """To the end of the context, and varied enough to say something."""
        expected = greedy(net, PROMPT, CONTEXT)
        assert len(set(expected[len(PROMPT) :])) > 3
        for run in (run_full, run_cached):
            assert expected == list(run(net, FAST, PROMPT, BUDGET, clock).ids)

    def test_forwards_are_counted_as_published(self, net: Net) -> None:
        """One a token; the cached arm also prefills all prompt tokens but the last, a token a step."""
        full, cached = (run(net, FAST, PROMPT, Budget(5, CONTEXT), clock) for run in (run_full, run_cached))
        assert (5, 0) == (full.forwards, full.prefill_forwards)
        assert (2 + 5, 2) == (cached.forwards, cached.prefill_forwards)

    def test_a_budget_or_the_context_ends(self, net: Net) -> None:
        """Whichever is reached first."""
        for tokens, expected in ((4, 4), (40, CONTEXT - len(PROMPT))):
            assert expected == len(run_full(net, FAST, PROMPT, Budget(tokens, CONTEXT), clock).new)

    def test_a_control_id_ends_only_where_asked(self, net: Net) -> None:
        """It is then the last token."""
        free = run_cached(net, FAST, PROMPT, BUDGET, clock).new
        bound = max(free[:4]) + 1
        place = next(index for index, token in enumerate(free) if token < bound)
        stopped = run_path(SessionPath.open(net, FAST), PROMPT, Budget(40, CONTEXT, bound), clock)
        assert free[: place + 1] == stopped.new

    def test_predictions_are_those_of_the_tokens(self, net: Net) -> None:
        """Scores are probabilities; their logits lead by a margin."""
        run = run_full(net, FAST, PROMPT, BUDGET, clock)
        assert list(run.new) == [prediction.choice for prediction in run.predictions]
        for prediction in run.predictions:
            assert 1.0 == pytest.approx(float(prediction.scores.sum()))
            ordered = sorted(prediction.logits.tolist())
            assert ordered[-1] - ordered[-2] == pytest.approx(prediction.margin)

    def test_time_is_that_of_the_clock_that_was_given(self, net: Net) -> None:
        """Here each look at it costs a second: one lap for the prefill, one a step."""
        ticks = count()
        run = run_cached(net, FAST, PROMPT, Budget(4, CONTEXT), lambda: float(next(ticks)))
        assert (1.0, [(3, 1.0), (4, 1.0), (5, 1.0), (6, 1.0)], 5.0) == (
            run.prefill_seconds,
            list(run.steps),
            run.seconds,
        )
        assert 1250.0 == run.milliseconds_per_token


class TestSelfSpeculation:
    """Later heads draft, head 0 verifies."""

    @pytest.mark.parametrize("seed", [3, 8])
    @pytest.mark.parametrize("budget", [1, 5, 40])
    def test_tokens_and_counters_are_those_of_a_plain_loop(self, seed: int, budget: int) -> None:
        """Overshoot is trimmed from the tokens, not from the counters."""
        net = net_of(decoder_net(ATTENTION, futures=3, seed=seed))
        tokens, counters = plain_heads(net, 3, PROMPT, budget)
        run = run_heads(net, FAST, PROMPT, Budget(budget, CONTEXT), clock)
        assert (tokens, counters) == (list(run.ids), counted(run))
        assert list(greedy(net, PROMPT, min(CONTEXT, len(PROMPT) + budget))) == list(run.ids)

    def test_right_guesses_save_passes(self) -> None:
        """Heads that all say what head 0 says are right wherever a token repeats."""
        net = repeating(3)
        run = run_heads(net, FAST, PROMPT, BUDGET, clock)
        tokens, counters = plain_heads(net, 3, PROMPT, 40)
        assert (tokens, counters) == (list(run.ids), counted(run))
        # One token, then three a pass: 1 + 3 + 3 + 2 = 9.
        assert (4, [3, 3], [3, 3]) == (counters.passes, counters.verified, counters.accepted)

    def test_the_last_pass_fills_the_context(self) -> None:
        """With all guesses right there is no room for one more token."""
        run = run_heads(repeating(3), FAST, (3, 1, 4, 1, 5, 9, 2, 6, 5), BUDGET, clock)
        tokens, counters = plain_heads(repeating(3), 3, (3, 1, 4, 1, 5, 9, 2, 6, 5), 40)
        assert (CONTEXT, tokens, counters) == (len(run.ids), list(run.ids), counted(run))


def repeating(futures: int) -> Net:
    """Return a net whose heads all say one token, whatever they read."""
    net = net_of(decoder_net(ATTENTION, futures=futures))
    for layer in Heads.of(net).logits:
        assert layer is not None
        learned = net.layers[layer].learned
        assert learned is not None
        learned.biases[7] += 1e3
    return net


class TestDraftSpeculation:
    """A draft proposes, windows of the target verify."""

    @pytest.mark.parametrize("block", [1, 4])
    @pytest.mark.parametrize("prompt", [(3,), PROMPT, (3, 1, 4, 1, 5, 9, 2)])
    def test_tokens_and_counters_are_those_of_a_plain_loop(self, net: Net, block: int, prompt: tuple[int, ...]) -> None:
        """Prefill windows are counted among the forwards, and every proposal as one of the draft."""
        draft = net_of(draft_net())
        tokens, counters = plain_draft(net, draft, prompt, 40, block)
        run = run_draft(net, draft, FAST, prompt, BUDGET, block, clock)
        assert (tokens, counters) == (list(run.ids), counted(run))
        assert tokens == greedy(net, prompt, CONTEXT)

    def test_a_draft_that_is_always_right(self, net: Net) -> None:
        """The target drafts for itself: all proposals are accepted, five tokens a pass until the context is full."""
        run = run_draft(net, net, FAST, PROMPT, BUDGET, 4, clock)
        # 3 + 5 = 8; then 4 proposals fill the context of 12, and there is no token behind them.
        assert Counters(1 + 2, 2, 8, [8], [8], 9) == counted(run)
        assert greedy(net, PROMPT, CONTEXT) == list(run.ids)

    def test_overshoot_is_trimmed(self, net: Net) -> None:
        """Of the tokens, not of the counters."""
        run = run_draft(net, net, FAST, PROMPT, Budget(2, CONTEXT), 4, clock)
        assert (2, 2) == (len(run.new), len(run.predictions))
        assert Counters(1 + 1, 1, 4, [4], [4], 5) == counted(run)

    def test_latent_attention_can_be_cut_back(self) -> None:
        """Its caches are attention caches."""
        net = net_of(decoder_net(LATENT))
        run = run_draft(net, net_of(draft_net()), FAST, PROMPT, BUDGET, 4, clock)
        assert greedy(net, PROMPT, CONTEXT) == list(run.ids)

    def test_a_recurrence_cannot_be_cut_back(self) -> None:
        """The library would go on with a state that is too new."""
        with refuses(NetSessionError, "recurrence-stays"):
            run_draft(net_of(decoder_net(SSM)), net_of(draft_net()), FAST, PROMPT, BUDGET, 4, clock)


class TestHeads:
    """Where predictions are."""

    def test_logits_are_the_scores_before_the_softmax(self) -> None:
        """Of one head, of three, and of a net without a softmax."""
        one, three = (net_of(decoder_net(ATTENTION, futures=futures)) for futures in (1, 3))
        for net, heads in ((one, 1), (three, 3)):
            outputs = [output[0] for output in net.run(FAST, [PROMPT]).outputs]
            for head in range(heads):
                prediction = Heads.of(net).prediction(outputs, 2, head)
                logits = prediction.logits - np.max(prediction.logits)
                scores = np.exp(logits) / np.exp(logits).sum()
                assert scores == pytest.approx(prediction.scores)
                assert best(outputs[-1][2], head) == prediction.choice
            assert heads == Heads.of(net).count
        bare = decoder_net(ATTENTION)
        cut = net_of(NetFile(bare.specs[:-1], bare.neurons[:-1]))
        assert (None,) == Heads.of(cut).logits
