"""Nets as the library computed them: output rows, gradients, and the rows of its streaming session."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from cai_neural_api.net.cache import Eviction
from cai_neural_api.net.layers.layer import GradientRules, Learned
from cai_neural_api.net.session import NetSession
from cai_neural_api.training.pairs import TokenMemory, difference, make_pairs
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST, STRICT
from support_net_graph import (
    SESSION_EDGE,
    Neurons,
    edge_steps,
    sample,
    sample_gradients,
    sample_net,
    sample_stories,
    streamed,
)
from support_nn_file import KINDS, SAMPLES, needs_samples

ROWS: Final = 2e-6
"""The samples are in single precision, with nine digits."""
GRADIENTS: Final = 2e-5
"""Of the largest entry of a layer."""

needs_edge = pytest.mark.skipif(
    not SESSION_EDGE.is_file(), reason="the session samples of the CAI library do not lie beside this checkout"
)
needs_gradients = pytest.mark.skipif(
    not all((SAMPLES / f"{kind}.{end}.json").is_file() for kind in KINDS for end in ("grad", "train")),
    reason="the training samples of the CAI library do not lie beside this checkout",
)


def as_neurons(learned: Learned, kind: str) -> Neurons:
    """Lay gradients out as the samples do: bias and weights of each neuron."""
    if kind == "TNNetEmbedding":
        rows = [learned.weights[0].reshape(-1)]
    else:
        rows = list(learned.weights[0]) if len(learned.weights[0].shape) == 2 else list(learned.weights)
    return [(float(bias), row.tolist()) for bias, row in zip(learned.biases, rows, strict=True)]


def flat(neurons: Neurons) -> list[float]:
    """Return all numbers of a layer."""
    return [number for bias, weights in neurons for number in (bias, *weights)]


@needs_samples
@pytest.mark.parametrize("kind", KINDS)
class TestNets:
    """Each sample net."""

    def test_rows_are_the_librarys(self, kind: str) -> None:
        """Three inputs, one with a 0 inside and one padded, all rows of all tokens."""
        answers = sample(kind)
        found = sample_net(kind).run(FAST, [each["input"] for each in answers["forward"]]).output
        np.testing.assert_allclose(found, [each["output"] for each in answers["forward"]], rtol=0.0, atol=ROWS)

    def test_weights_are_counted_as_the_library_counts(self, kind: str) -> None:
        """Without biases."""
        assert sample(kind)["count_weights"] == sample_net(kind).weight_count

    def test_the_session_collects_what_the_librarys_does(self, kind: str) -> None:
        """Attention caches, recurrences and rotary layers; no token shift."""
        counts = sample(kind)["session"]
        assert (counts["sdpa"], counts["ssm"], counts["rope"]) == NetSession(sample_net(kind), FAST, 7).counts

    def test_session_rows_are_the_librarys(self, kind: str) -> None:
        """A token a step, of all three prompts; the draft's are wrong in the library, and here alike."""
        for decode in sample(kind)["decode"]:
            rows = decode["session_rows"]
            session = NetSession(sample_net(kind), FAST, 7)
            found = [session.step([token], at)[-1][0] for at, token in enumerate(decode["greedy_session"][: len(rows)])]
            np.testing.assert_allclose(found, rows, rtol=0.0, atol=ROWS)

    @needs_gradients
    def test_gradients_are_the_librarys(self, kind: str) -> None:
        """Of every weight and bias, over two stories, with the limit and the remembered ids."""
        net = sample_net(kind)
        heads = net.shapes[-1].depth // net.specs[1].integers[0]
        pairs = make_pairs(sample_stories(kind)[:2], net.context, net.specs[1].integers[0], heads)
        run = net.run(FAST, pairs.inputs)
        rules = GradientRules(100.0, TokenMemory(net.context).see(pairs.inputs))
        found = net.gradients(FAST, run, difference(run.output, pairs.targets), rules)
        expected = sample_gradients(kind)
        assert set(expected) == {layer for layer, gradient in enumerate(found) if gradient is not None}
        for layer, neurons in expected.items():
            gradient = found[layer]
            assert gradient is not None
            mine, theirs = flat(as_neurons(gradient, net.specs[layer].kind)), flat(neurons)
            np.testing.assert_allclose(
                mine, theirs, rtol=0.0, atol=GRADIENTS * max(map(abs, theirs)), err_msg=str(layer)
            )


def assert_steps(session: NetSession, name: str) -> None:
    """Feed one sequence of the session samples: rows, and lengths after each step."""
    for step in edge_steps(name):
        row = session.step([step["token"]], step["pos"])[-1][0]
        np.testing.assert_allclose(row, step["row"], rtol=0.0, atol=ROWS)
        assert (step["cache_len"],) * len(session.lengths) == session.lengths


@needs_edge
class TestSessionEdges:
    """What the library's session does at its edges, on the net of phase 1."""

    def session(self, capacity: int = 8, *, stale_overflow: bool = False) -> NetSession:
        """Open a session."""
        return NetSession(sample_net("phase1"), FAST, capacity, stale_overflow=stale_overflow)

    def test_plain(self) -> None:
        """Six tokens."""
        assert_steps(self.session(), "plain")

    def test_one_sink_and_two_recent_tokens(self) -> None:
        """Three rows stay, whose keys keep their rotation."""
        session = self.session()
        session.evict(Eviction(1, 2))
        assert_steps(session, "evict_sink1_window2")

    def test_eight_bits(self) -> None:
        """A scale a row, codes rounded to even."""
        session = self.session()
        session.quantise()
        assert_steps(session, "int8_kv")

    def test_a_snapshot_is_taken_and_restored(self) -> None:
        """What follows is the same twice."""
        session = self.session()
        assert_steps(session, "pre_snapshot")
        snapshot = session.snapshot()
        assert_steps(session, "after_snapshot_first")
        session.restore(snapshot)
        assert_steps(session, "after_restore")

    def test_caches_are_cut(self) -> None:
        """To two tokens, and go on from there."""
        session = self.session()
        assert_steps(session, "pre_truncate")
        session.truncate(2)
        assert_steps(session, "after_truncate_to_2")

    def test_full_caches_give_what_they_gave_before(self) -> None:
        """With room for two, attention of the third and fourth token is that of the second."""
        assert_steps(self.session(2, stale_overflow=True), "overflow_maxcache2")


def argmax(row: Array) -> int:
    """Return the first maximum."""
    return int(np.argmax(row))


@needs_samples
class TestDraft:
    """A token shift: what carries it, what does not."""

    def greedy(self, session: NetSession, prompt: list[int], total: int) -> list[int]:
        """Continue a prompt a token a step."""
        ids = list(prompt)
        for at in range(total - 1):
            row = session.step([ids[at]], at)[-1][0]
            if at + 1 == len(ids):
                ids.append(argmax(row))
        return ids

    def test_a_carried_shift_gives_what_the_net_level_mode_gives(self) -> None:
        """The library's tokens, for each prompt."""
        for decode in sample("draft")["draft_decode"]:
            expected = decode["net_incremental"]
            session = NetSession(sample_net("draft"), FAST, 7, carries_shift=True)
            assert expected == self.greedy(session, decode["prompt"], len(expected))

    def test_a_carried_shift_gives_the_whole_pass(self) -> None:
        """Bit by bit."""
        for each in sample("draft")["forward"]:
            whole = sample_net("draft").run(STRICT, [each["input"]]).output[0]
            session = NetSession(sample_net("draft"), STRICT, 7, carries_shift=True)
            assert whole.tobytes() == streamed(session, each["input"], [1, 2, 3, 4, 5])[-1].tobytes()

    def test_windows_of_two_need_no_state(self) -> None:
        """Previous and current token, row 1: the tokens of the library's width-2 arm."""
        found = 0
        for decode in sample("draft")["draft_decode"]:
            if "width2" not in decode:
                continue
            ids, expected = list(decode["prompt"]), decode["width2"]
            while len(ids) < len(expected):
                session = NetSession(sample_net("draft"), FAST, 7)
                ids.append(argmax(session.step(ids[-2:], 0)[-1][1]))
            assert expected == ids
            found += 1
        assert found == 2

    def test_a_plain_session_is_wrong(self) -> None:
        """It takes every token for the first; its rows are off by as much as the library's, 0.39 at most."""
        largest = 0.0
        for decode in sample("draft")["decode"]:
            ids = decode["greedy_session"][: len(decode["session_rows"])]
            whole = sample_net("draft").run(FAST, [ids]).output[0]
            found = streamed(NetSession(sample_net("draft"), FAST, 7), ids, range(1, len(ids)))[-1]
            largest = max(largest, float(np.abs(found - whole).max()))
            assert decode["greedy_full"] != decode["greedy_session"]
        assert 0.385 < largest < 0.395
