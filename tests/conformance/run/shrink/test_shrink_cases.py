"""Whole cases made small: seeded faults from small models down to what each of them needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cai_conformance.backends.engine.backend import EngineBackend
from cai_conformance.backends.engine.guard import GuardedEngine
from cai_conformance.checks.tolerance.policy import parse_policy
from cai_conformance.engine import EngineBroken, Evaluated, Piece
from cai_conformance.run.probe.batches import BATCH_CHECKS, Batches
from cai_conformance.run.probe.calls import Calls
from cai_conformance.run.shrink.failures import Found, smallest
from cai_conformance.run.shrink.models import SmallModel
from cai_conformance.run.shrink.replay import remaining, replay_arguments
from cai_conformance.run.shrink.search import Case
from cai_conformance.run.shrink.trial import driver_of, trials_on, wrong_backend
from cai_conformance.verdicts import Outcome
from cai_reference.arithmetic.instances import STRICT
from cai_reference.models.llama import LlamaConfiguration
from support_engines import Wrapped
from support_shrinking import ADJACENT, LLAMA, PROMPT, SUITE, given_model, sequence_check, shrunk


def llama_of(model: SmallModel) -> LlamaConfiguration:
    """Return the sizes of a Llama model."""
    assert isinstance(model.configuration, LlamaConfiguration)
    return model.configuration


class TestForwardPass:
    """What the reference does otherwise."""

    @pytest.mark.exhaustive
    def test_a_window_that_is_one_too_long_needs_a_window_and_one_token_more(self) -> None:
        """The narrowest window is that of one token."""
        found = shrunk("window.plus-one", "fwd.oracle", LLAMA, Calls.at_once(PROMPT))
        sizes = llama_of(found.last.model)
        assert (1, 1) == (sizes.window, sizes.layers)
        assert 2 == len(found.last.ids)
        assert found.finished and found.last_judged.outcome is Outcome.FAIL

    def test_pairs_of_another_layout_need_four_channels(self) -> None:
        """Two channels are one pair in both layouts; the first token stands at position 0, and is not turned."""
        found = shrunk("rope.half-split", "fwd.oracle", ADJACENT, Calls.at_once((0, 3, 5)))
        assert (4, 1, 2) == (found.last.model.head_width, found.last.model.configuration.heads, len(found.last.ids))
        assert "1 layer, 1 head of 4 channels, vocabulary 2, prompt 0 1" == remaining(found.last)

    @pytest.mark.exhaustive
    def test_heads_that_are_tiled_need_two_of_each_kind(self) -> None:
        """Four query heads on two of keys and values; of fewer, both orders are the same."""
        found = shrunk("attention.groups-strided", "fwd.oracle", LLAMA, Calls.at_once(PROMPT[:3]))
        sizes = llama_of(found.last.model)
        assert (4, 2, 2, 1) == (sizes.heads, sizes.groups, sizes.features, len(found.last.ids))


class TestSlots:
    """What an engine itself does otherwise."""

    def test_a_stale_row_needs_a_drop_and_something_behind_it(self) -> None:
        """Two tokens, one of them dropped, and one more: no more calls, no larger drop."""
        calls = Calls.of((0, 3, 5, 1), "2,1,-1,1")
        found = shrunk("cache.stale-row-after-rollback", "kv.rollback", ADJACENT, calls)
        assert isinstance(found.last.asked, Calls)
        assert "2,-1,1" == found.last.asked.text
        assert (1, 2) == (found.last.model.layers, found.last.model.configuration.vocabulary)

    @pytest.mark.exhaustive
    def test_a_cached_window_that_is_ignored_needs_two_calls(self) -> None:
        """The first token is still seen in the second."""
        found = shrunk("cache.window-ignored", "kv.steps", LLAMA, Calls.cut(PROMPT, range(1, 6)))
        assert isinstance(found.last.asked, Calls)
        assert ("1,1", 1) == (found.last.asked.text, llama_of(found.last.model).window)
        one, other = found.last.ids
        assert ["-k", "kv.steps", "--prompt", f"{one},{other}"] == replay_arguments(found, "fault:x", "dir")[5:]

    @pytest.mark.exhaustive
    def test_what_one_case_leaves_behind_does_not_spoil_the_next(self) -> None:
        """A cache that is kept between sequences shows where a slot is emptied, in an engine that has seen nothing."""
        found = shrunk("cache.kept-between-sequences", "kv.reuse[clear]", LLAMA, Calls.of(PROMPT, "2,clear,1,3"))
        assert isinstance(found.last.asked, Calls)
        assert "1,clear,1,1" == found.last.asked.text
        assert found.last_judged.outcome is Outcome.FAIL


class TestTraining:
    """Steps, rows and ids."""

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("slug", ["adamw.decay-after-update", "adamw.betas-exchanged"])
    def test_a_wrong_step_is_one_step_of_one_row(self, slug: str) -> None:
        """Two ids, of which one is predicted, in one layer."""
        batches = Batches.of(["0,3,1,4/0,2,5", "0,4,4,1"])
        check = BATCH_CHECKS[2]
        with trials_on(driver_of(wrong_backend(slug)), given_model(), parse_policy("auto")) as trials:
            case = Case(LLAMA, batches)
            found = smallest(Found(check, case, trials.judged(check, case)), SUITE, trials)
        assert isinstance(found.last.asked, Batches)
        assert ("0,0",) == found.last.asked.texts
        assert (1, 2) == (found.last.model.layers, found.last.model.configuration.vocabulary)
        assert ["-k", "opt.given", "--batch", "0,0"] == replay_arguments(found, "fault:x", "dir")[5:]

    @pytest.mark.exhaustive
    def test_padding_needs_a_second_row(self) -> None:
        """Of another length."""
        check = BATCH_CHECKS[0]
        with trials_on(driver_of(wrong_backend("loss.pads-counted")), given_model(), parse_policy("auto")) as trials:
            case = Case(LLAMA, Batches.of(["0,3,1,4/0,2,5/0,1"]))
            found = smallest(Found(check, case, trials.judged(check, case)), SUITE, trials)
        assert isinstance(found.last.asked, Batches)
        ((one, other),) = found.last.asked.steps
        assert {2, 3} == {len(one), len(other)}


class Fragile(Wrapped):
    """Is wrong on any number of tokens, and crashes on two."""

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Evaluate wrongly, or crash."""
        if len(pieces[0].tokens) == 2:
            raise EngineBroken("fragile", "crashed")
        found = super().evaluate(pieces, observe=observe)
        return tuple(replace(each, logits=each.logits + 0.1) for each in found)


class TestEngines:
    """What engines will not do."""

    @pytest.mark.exhaustive
    def test_a_crash_is_not_the_same_failure(self) -> None:
        """Two tokens crash the engine; so three are left, though a single one would fail as well."""
        check, case = sequence_check("fwd.oracle"), Case(LLAMA, Calls.at_once(PROMPT))
        backend = EngineBackend("fragile", lambda: GuardedEngine(Fragile(STRICT)))
        with trials_on(driver_of(backend), given_model(), parse_policy("auto")) as trials:
            found = smallest(Found(check, case, trials.judged(check, case)), SUITE, trials)
        assert 3 == len(found.last.ids)
        assert trials.crashes

    def test_trials_that_are_used_up_are_told(self) -> None:
        """What is printed then may not be the smallest."""
        found = shrunk("rope.half-split", "fwd.oracle", ADJACENT, Calls.at_once((0, 3)), most=3)
        assert not found.finished
        assert 3 == found.trials
        assert ("3 cases were tried, and no more; --trials allows others",) == found.notes
