"""Explanations beside verdicts: which of them gets one, what an engine shows for it, backends that fail meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.checks.evidence import Evidence
from cai_conformance.diagnosis.explanation.shown import shown_rows
from cai_conformance.diagnosis.explanation.suite import explained
from cai_conformance.engine import EngineBroken, Evaluated, Feature, LossAndGradients, Piece, Refused, TrainingBatch
from cai_conformance.errors import BackendError
from cai_conformance.verdicts import Level, Outcome, Verdict
from support_engines import STAGED, SUITE, Wrapped, evidence_of, evidence_with, floor_of, opened_in, question
from support_traces import question as question_of_the_ngram


def verdict(check: str, outcome: Outcome = Outcome.FAIL) -> Verdict:
    """Return a verdict of a suite."""
    return Verdict(f"{SUITE}::{check}", Level.I1, outcome, "it is wrong")


class Off(Wrapped):
    """An engine whose logits are wrong by one at one id."""

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Add one."""
        answers = super().evaluate(pieces, observe=observe)
        for answer in answers:
            answer.logits[..., 7] += 1.0
        return answers


class Broken(Wrapped):
    """An engine that breaks whenever it is asked."""

    def gradients(self, batch: TrainingBatch) -> LossAndGradients:
        """Break."""
        raise EngineBroken("broken", "crashed")

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Break."""
        raise EngineBroken("broken", "crashed")


def evidence_about(engine: Wrapped) -> Evidence:
    """Return evidence with a floor, so that none is measured, about an engine that is asked again."""
    evidence = evidence_of(engine, question(SUITE, "auto", "float64", STAGED))
    opened = opened_in(engine)
    vars(evidence).update({"floor": floor_of(4.0), "opened": opened})
    return evidence


class TestWhich:
    """One explanation for each part of a suite."""

    def test_verdicts_that_did_not_fail_have_none(self) -> None:
        """Nobody is asked for them."""
        verdicts = [verdict("fwd.oracle[last]", outcome) for outcome in Outcome if outcome is not Outcome.FAIL]
        assert tuple(verdicts) == explained(evidence_about(Broken()), verdicts)

    def test_checks_of_no_part_have_none(self) -> None:
        """A trace that breaks the grammar has no rows to look at."""
        verdicts = [verdict("trace.format"), verdict("smp.law[cold]")]
        assert tuple(verdicts) == explained(evidence_about(Broken()), verdicts)

    def test_a_suite_without_a_model_has_none(self) -> None:
        """There is nothing to hold rows against."""
        evidence = Evidence(evidence_about(Wrapped()).backend, question_of_the_ngram())
        verdicts = [verdict("fwd.oracle[last]")]
        assert tuple(verdicts) == explained(evidence, verdicts)

    def test_a_backend_that_fails_when_it_is_asked_again_leaves_the_failures(self) -> None:
        """As they were, each with its own sentence."""
        verdicts = [verdict("fwd.oracle[last]"), verdict("kv.split[one]")]
        assert tuple(verdicts) == explained(evidence_about(Broken()), verdicts)

    @pytest.mark.exhaustive
    def test_so_does_one_that_fails_while_it_trains(self) -> None:
        """The steps are taken again."""
        verdicts = [verdict("grad.given"), verdict("opt.given[1]")]
        assert tuple(verdicts) == explained(evidence_about(Broken()), verdicts)

    def test_a_program_that_fails_leaves_them_as_well(self) -> None:
        """One that answers traces."""

        class Crashing:
            name = "crashing"

            def trace(self, request: TraceRequest) -> bytes:
                raise BackendError("backend-crashed", backend=self.name, problem="no memory")

            def replay(self, request: TraceRequest) -> bytes:
                return self.trace(request)

        evidence = Evidence(Crashing(), question(SUITE, "auto", "float64", STAGED))
        verdicts = [verdict("fwd.oracle[last]"), verdict("loss.given")]
        assert tuple(verdicts) == explained(evidence, verdicts)

    @pytest.mark.exhaustive
    def test_a_failure_of_which_nothing_is_to_be_seen_has_none(self) -> None:
        """An engine that was wrong once, and is right now."""
        verdicts = [verdict("kv.batch[shape]")]
        assert tuple(verdicts) == explained(evidence_about(Wrapped()), verdicts)


@pytest.mark.exhaustive
class TestWrongRows:
    """An engine whose rows are wrong by no known mistake."""

    def test_the_first_failure_says_where_it_begins(self) -> None:
        """Stages were right up to the logits, so that the first logit is told; no convention fits."""
        verdicts = [verdict("fwd.oracle[last]"), verdict("fwd.oracle[far]"), verdict("kv.split[one]")]
        first, *others = explained(evidence_about(Off()), verdicts)
        assert others == verdicts[1:]
        assert first.explanation is not None
        assert () == first.explanation.conventions
        assert "logits.0" == first.explanation.stage
        assert first.explanation.expected is not None and first.explanation.found is not None
        assert np.isclose(first.explanation.found - first.explanation.expected, 1.0)
        assert 1 <= len(first.explanation.lines) <= 6

    def test_infinite_logits_are_no_scale(self) -> None:
        """What is beyond all numbers hides nothing else."""

        class Infinite(Off):
            def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
                answers = super().evaluate(pieces, observe=observe)
                for answer in answers:
                    if len(pieces[0].tokens) == 1:
                        answer.logits[..., 9] = np.inf
                return answers

        (found,) = explained(evidence_about(Infinite()), [verdict("fwd.oracle[last]")])
        assert found.explanation is not None
        assert "logits.0" == found.explanation.stage


class TestShown:
    """What an engine shows of itself."""

    def words(self, engine: Wrapped) -> list[str]:
        """Return what was done, in words."""
        return [each.words for each in shown_rows(evidence_about(engine))]

    def test_an_engine_shows_passes_calls_and_cuts(self) -> None:
        """Whole passes first; all of them right."""
        words = self.words(Wrapped())
        assert ["a whole pass", "a whole pass from position 3000"] == words[:2]
        assert {"a call behind the first token", "calls of one token", "a cut", "a slot that was emptied"} <= set(words)

    def test_what_is_refused_is_left_out(self) -> None:
        """Cuts of an engine that forgets nothing, and starts from far away."""

        class Plain(Wrapped):
            def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
                if pieces[0].position >= 3000:
                    raise Refused("plain", "a late start", "sequences start at 0")
                return super().evaluate(pieces, observe=observe)

        words = self.words(Plain(features=frozenset[Feature]()))
        assert not {"a cut", "a partial cut", "calls from a far position"} & set(words)
        assert "a whole pass from position 3000" not in words
        assert {"a whole pass", "a second call", "a slot that was emptied"} <= set(words)

    def test_a_trace_shows_single_rows(self) -> None:
        """Those of its answers; an answer of another kind shows nothing."""
        asked = question(SUITE, "auto", "float64", STAGED, "kv.split.half", "fwd.oracle.far")
        right = {case.identifier: case.expected for case in asked.vectors.cases}
        answers = {name: answer for name, answer in right.items() if answer is not None and name != "fwd.oracle.far"}
        answers["fwd.oracle.far"] = replace(answers[STAGED], values=None, ids=(3,))
        shown = shown_rows(evidence_with(asked, answers, floor_of(4.0)))
        assert ["the case fwd.oracle.last", "the case kv.split.half"] == [each.words for each in shown]
        assert (1, 1, 320) == shown[0].rows.rows.shape
