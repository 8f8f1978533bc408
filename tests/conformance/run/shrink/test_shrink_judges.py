"""The checks of a sequence and of batches that somebody names: on the reference, and on it with seeded faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cai_conformance.engine import Engine, EngineBroken, Evaluated, Feature, Piece, Refused
from cai_conformance.errors import InputError
from cai_conformance.run.probe.batches import BATCH_CHECKS, Batches, judge_batches
from cai_conformance.run.probe.calls import Calls
from cai_conformance.run.probe.judged import Judged, ProbeWay
from cai_conformance.run.probe.sequences import SEQUENCE_CHECKS, judge_all, judge_sequence
from cai_conformance.run.shrink.models import SmallModel
from cai_conformance.run.shrink.trial import wrong_backend
from cai_conformance.verdicts import Outcome
from cai_reference.arithmetic.instances import FAST, STRICT
from support_engines import Wrapped
from support_refusals import refuses
from support_shrinking import ADJACENT, DECODER, LLAMA, PROMPT, loaded, sequence_check


def judged(slug: str, identifier: str, text: str, model: SmallModel = LLAMA, start: int = 0) -> Judged:
    """Return what a check says about the reference with a seeded fault, which is fed the prompt in some calls."""
    with loaded(model, wrong_backend(slug).engine) as folder:
        return judge_sequence(sequence_check(identifier), Calls.of(PROMPT, text, start), folder)


class Rotten(Wrapped):
    """An engine that fails behind its first call.

    Args:
        error: how.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(STRICT)
        self._error = error

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Evaluate what stands at the beginning."""
        if pieces[0].position:
            raise self._error
        return super().evaluate(pieces, observe=observe)


class TestRight:
    """The reference passes whatever it is asked."""

    @pytest.mark.parametrize(
        "model",
        [
            pytest.param(LLAMA, marks=pytest.mark.exhaustive),
            ADJACENT,
            pytest.param(DECODER, marks=pytest.mark.exhaustive),
        ],
    )
    def test_every_way_to_feed_a_prompt_is_right(self, model: SmallModel) -> None:
        """In fast arithmetic, whose rounding is measured; in every family."""
        ids = tuple(token % model.configuration.vocabulary for token in PROMPT[:4])
        with loaded(model, Wrapped(FAST)) as folder:
            for check in SEQUENCE_CHECKS:
                start = 3 if check.name == "rope.shift" else 0
                found, failed = judge_all(check, check.asked(ids, start, model.configuration.vocabulary), folder)
                assert (Outcome.PASS, None) == (found.outcome, failed), (check.identifier, found.message)

    @pytest.mark.parametrize("model", [ADJACENT, pytest.param(DECODER, marks=pytest.mark.exhaustive)])
    def test_every_step_of_training_is_right(self, model: SmallModel) -> None:
        """Of ragged rows; the model has several heads, or a tied one."""
        batches = Batches.of(["0,3,1,4/0,2,5", "0,4,4,1"])
        with loaded(model, Wrapped(FAST)) as folder:
            assert [Outcome.PASS] * 3 == [judge_batches(check, batches, folder).outcome for check in BATCH_CHECKS]


class TestWrong:
    """Each check sees what it is there for, in the calls that show it, and in no others."""

    @pytest.mark.parametrize(
        ("slug", "identifier", "shows", "hides"),
        [
            ("rope.adjacent", "fwd.oracle", "6", None),
            ("cache.window-ignored", "kv.steps", "1,1,1,1,1,1", None),
            ("cache.chunk-unmasked", "kv.cuts", "1,5", "1,1,1,1,1,1"),
            ("cache.stale-row-after-rollback", "kv.rollback", "3,-1,3", None),
            ("cache.kept-between-sequences", "kv.reuse[clear]", "3,clear,1,2", "3,clear,3"),
        ],
    )
    def test_a_fault_shows_in_its_calls(self, slug: str, identifier: str, shows: str, hides: str | None) -> None:
        """The value, and the first row that is wrong."""
        found = judged(slug, identifier, shows)
        assert (Outcome.FAIL, ProbeWay.VALUE) == (found.outcome, found.way)
        assert found.differences
        assert hides is None or Outcome.PASS is judged(slug, identifier, hides).outcome

    def test_a_late_start_is_held_against_an_early_one(self) -> None:
        """A later call that forgets the start shows in the second of two calls."""
        assert Outcome.FAIL is judged("rope.start-forgotten", "rope.shift", "3,3", start=2).outcome
        assert Outcome.PASS is judged("rope.start-forgotten", "rope.shift", "6", start=2).outcome

    @pytest.mark.parametrize(
        ("slug", "failing"),
        [
            pytest.param("loss.pads-counted", ["loss.given", "grad.given", "opt.given"], marks=pytest.mark.exhaustive),
            pytest.param("gradient.tied-once", ["grad.given", "opt.given"], marks=pytest.mark.exhaustive),
            ("adamw.no-decay", ["opt.given"]),
        ],
    )
    def test_a_wrong_part_of_a_step_shows_from_there_on(self, slug: str, failing: list[str]) -> None:
        """Loss, gradients, then moments and weights."""
        batches = Batches.of(["0,3,1,4/0,2,5"])
        with loaded(LLAMA, wrong_backend(slug).engine) as folder:
            found = {check.identifier: judge_batches(check, batches, folder).outcome for check in BATCH_CHECKS}
        assert failing == [name for name, outcome in found.items() if outcome is Outcome.FAIL]

    def test_what_is_clearly_wrong_is_more_than_what_is_wrong(self) -> None:
        """A difference of few units fails, and is none that a smaller case is exchanged for."""

        class Slightly(Wrapped):
            def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
                found = super().evaluate(pieces, observe=observe)
                return tuple(replace(each, logits=each.logits * (1.0 + 2.0**-40)) for each in found)

        calls, check = Calls.at_once(PROMPT), sequence_check("fwd.oracle")
        with loaded(LLAMA, Slightly(STRICT)) as folder:
            assert Outcome.FAIL is judge_sequence(check, calls, folder).outcome
            assert Outcome.PASS is judge_sequence(check, calls, replace(folder, clearly=True)).outcome


class TestNoAnswers:
    """Refusals and crashes are told from values."""

    def asked(self, engine: Engine, identifier: str, text: str) -> Judged:
        """Return what a check says about an engine."""
        with loaded(LLAMA, engine) as folder:
            return judge_sequence(sequence_check(identifier), Calls.of(PROMPT, text), folder)

    def test_an_engine_that_never_goes_on_is_skipped(self) -> None:
        """It offers whole sequences only."""
        found = self.asked(Rotten(Refused("rotten", "it", "no")), "kv.cuts", "3,3")
        assert Outcome.SKIPPED is found.outcome

    def test_a_refusal_behind_a_rollback_is_a_failure_of_its_own_kind(self) -> None:
        """For the same tokens are taken in one call."""
        found = self.asked(Rotten(Refused("rotten", "it", "no")), "kv.rollback", "3,-1,3")
        assert (Outcome.FAIL, ProbeWay.REFUSAL) == (found.outcome, found.way)

    def test_a_crash_is_no_verdict(self) -> None:
        """Nothing is known of the numbers."""
        found = self.asked(Rotten(EngineBroken("rotten", "crashed")), "kv.rollback", "3,-1,3")
        assert (Outcome.ERRORED, ProbeWay.CRASH) == (found.outcome, found.way)

    @pytest.mark.parametrize(
        ("text", "identifier"), [("3,-1,3", "kv.rollback"), ("2,copy,2,other,2", "kv.reuse[copy]")]
    )
    def test_what_an_engine_does_not_offer_is_skipped(self, text: str, identifier: str) -> None:
        """Neither drops nor copies."""
        found = self.asked(Wrapped(STRICT, features=frozenset({Feature.OBSERVE})), identifier, text)
        assert Outcome.SKIPPED is found.outcome
        assert "the engine has no feature" in found.message

    def test_an_engine_that_refuses_every_cut_has_shown_nothing(self) -> None:
        """If it goes on with what it holds; else it fails."""

        class Uncut(Wrapped):
            def drop(self, slot: int, first: int, last: int | None = None) -> None:
                raise Refused("uncut", "a cut", "it never does")

        found = self.asked(Uncut(STRICT), "kv.rollback", "3,-1,3")
        assert (Outcome.SKIPPED, "every cut is refused, and what is held stays as it was") == (
            found.outcome,
            found.message,
        )

    def test_an_engine_that_does_not_train_is_skipped(self) -> None:
        """As in the checks of a suite."""
        with loaded(LLAMA, Wrapped(STRICT, features=frozenset())) as folder:
            found = judge_batches(BATCH_CHECKS[0], Batches.of(["0,1"]), folder)
        assert Outcome.SKIPPED is found.outcome

    def test_a_folder_that_the_reference_cannot_read_has_no_right_numbers(self) -> None:
        """Self-consistency can be asked of it all the same."""
        with loaded(LLAMA, Wrapped(STRICT)) as folder:
            folder.probe.model.load()
            (folder.path / "config.json").write_text("{}", encoding="utf-8")
            with refuses(InputError, "folder-unreadable", match="no model of the reference"):
                _ = folder.reference
