"""Engines that are wrong in ways that no seeded fault has, engines that lack something, and what was met on the way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cai_conformance.checks.rows import Allowance, RowComparison, concluded, repeated, reshaped
from cai_conformance.checks.witness import Witness
from cai_conformance.engine import (
    Evaluated,
    Feature,
    Loaded,
    LossAndGradients,
    Nondeterminism,
    Piece,
    Precision,
    Refused,
    TrainingBatch,
)
from cai_conformance.verdicts import Outcome
from cai_reference.arithmetic import Array
from support_engines import HEADS, NATIVE, SUITE, Wrapped
from support_probes import Disturbed, findings, outcomes, under_probe

PASS, FAIL, SKIPPED = Outcome.PASS, Outcome.FAIL, Outcome.SKIPPED


class TestRows:
    """How rows are compared."""

    def test_bits_are_compared_where_nothing_is_allowed(self) -> None:
        """One unit is too much, and so is another sign of a zero."""
        row = np.array([[[1.0, 0.0, -2.0]]])
        for other in (np.array([[[1.0 + 2.0**-52, 0.0, -2.0]]]), np.array([[[1.0, -0.0, -2.0]]])):
            comparison = RowComparison(Allowance(0.0, "float64"))
            assert comparison.compare(row, row, "the same")
            assert not comparison.compare(row, other, "another call")
            assert (2, False) == (comparison.rows, comparison.holds)
            assert FAIL is comparison.finding("met").outcome

    @pytest.mark.parametrize(("units", "holds"), [(4.0, True), (4.5, False), (math.nan, False)])
    def test_units_are_those_of_the_largest_logit(self, units: float, holds: bool) -> None:
        """What is no number is never near."""
        row = np.array([[[1.0, 0.0, -2.0]]])
        comparison = RowComparison(Allowance(4.0, "float64"))
        assert holds is comparison.compare(row, row + np.array([units * 2.0**-51, 0.0, 0.0]), "another call")
        assert holds is comparison.holds

    def test_the_first_row_that_differs_is_told_and_the_other_calls_are_named(self) -> None:
        """With both values and their distance."""
        row, comparison = np.zeros((1, 2, 3)), RowComparison(Allowance(0.0, "float64"))
        wrong = row.copy()
        wrong[0, 1, 2] = 0.5
        for where in ("cut after 1", "cut after 2"):
            comparison.compare(row, wrong, where)
        message = comparison.finding("2 cuts").message
        assert message.startswith("cut after 1, row 1, field logits[2]: value, expected 0000000000000000 (0)")
        assert message.endswith("wrong as well: cut after 2; 2 cuts")

    def test_another_shape_is_a_difference(self) -> None:
        """Nothing else is compared then."""
        comparison = RowComparison(Allowance(4.0, "float64"))
        assert not comparison.compare(np.zeros((1, 2, 3)), np.zeros((1, 2, 4)), "a call")
        assert "shape [1, 2, 3]" in comparison.finding("").message

    def test_what_was_needed_and_not_met_fails(self) -> None:
        """What would merely have been nice does not."""
        comparison = RowComparison(Allowance(0.0, "float64"))
        cuts, refusals = Witness("cut", "cuts"), Witness("refusal", "refusals", least=0)
        assert PASS is concluded(comparison, [cuts.met(2), refusals.met(0)]).outcome
        found = concluded(comparison, [Witness("rollback", "rollbacks").met(0)])
        assert (FAIL, "this shows nothing, for it met no rollbacks; 0 rollbacks") == (found.outcome, found.message)

    def test_the_same_calls_give_the_same_bits_unless_the_engine_says_otherwise(self) -> None:
        """Other calls over the same tokens may round otherwise, wherever bits are not defined."""
        for stated in Nondeterminism:
            probe = under_probe(Wrapped(nondeterminism=stated))
            moved = stated in (Nondeterminism.BATCH, Nondeterminism.RUN)
            assert moved is not repeated(probe).exact
            assert not reshaped(probe).exact
        assert reshaped(under_probe(Wrapped(arithmetic="strict/1"))).exact
        assert 3.0 == reshaped(under_probe(Wrapped(), policy="ulp:3")).ulps


class TestLacking:
    """What an engine lacks is skipped, with the reason."""

    @pytest.mark.parametrize(
        ("name", "features", "slots", "reason"),
        [
            ("kv.rollback", {Feature.COPY}, 8, "the engine has no feature drop"),
            ("spec.twin", {Feature.COPY}, 8, "the engine has no feature drop"),
            ("spec.twin", {Feature.DROP}, 1, "the engine holds one sequence only"),
            ("spec.rows", set(), 8, "the engine has no feature drop"),
            ("kv.poison", set(), 8, "the engine has no feature poison"),
            ("kv.fail", set(), 8, "the engine has no feature fail-after"),
            ("eval.pure", set(), 8, "the engine does not train"),
            ("eval.batch", set(), 8, "the engine does not train"),
            ("grad.fd", set(), 8, "the engine does not train"),
            ("grad.accum", set(), 8, "the engine does not train"),
            ("loss.shift", set(), 8, "the engine does not train"),
        ],
    )
    def test_a_missing_feature_is_the_reason(self, name: str, features: set[Feature], slots: int, reason: str) -> None:
        """Nothing is asked."""
        (finding,) = findings(name, Wrapped(features=frozenset(features), slots=slots))
        assert (SKIPPED, reason) == (finding.outcome, finding.message)

    def test_a_copy_is_skipped_alone(self) -> None:
        """Emptied slots are judged all the same."""
        found = outcomes("kv.reuse", Wrapped(features=frozenset({Feature.DROP})))
        assert {"clear": PASS, "copy": SKIPPED} == found
        (finding,) = findings("ssm.snap", Wrapped(features=frozenset()), NATIVE)
        assert SKIPPED is finding.outcome

    @pytest.mark.parametrize(
        ("name", "suite", "reason"),
        [
            ("rope.shift", "cai.diagonal-ssm", "no layer of the model is known to have rotary positions"),
            pytest.param("kv.window", "llama.dense", "no layer has a window", marks=pytest.mark.exhaustive),
            pytest.param(
                "kv.window",
                "cai.local-global",
                "a layer that sees everything hides what another one lets go of",
                marks=pytest.mark.exhaustive,
            ),
            ("ssm.split", SUITE, "no layer of the model is known to be recurrent"),
            ("ssm.snap", SUITE, "no layer of the model is known to be recurrent"),
            ("loss.shift", SUITE, "the model has no output bias to which a constant could be added"),
        ],
    )
    def test_a_model_that_has_no_such_thing_is_not_asked(self, name: str, suite: str, reason: str) -> None:
        """The message says what it has not."""
        assert {(SKIPPED, reason)} == {(each.outcome, each.message) for each in findings(name, Wrapped(), suite)}

    @pytest.mark.parametrize("name", ["grad.fd", "loss.shift"])
    def test_a_format_with_few_bits_is_too_coarse(self, name: str) -> None:
        """For differences of a loss, and for logits beyond a thousand."""
        (finding,) = findings(name, Wrapped(precision=Precision.uniform("bfloat16")), HEADS)
        assert SKIPPED is finding.outcome
        assert "bfloat16" in finding.message

    def test_an_engine_that_moves_by_chance_has_no_reach(self) -> None:
        """Every row moves."""
        assert {SKIPPED} == set(outcomes("kv.window", Wrapped(nondeterminism=Nondeterminism.RUN)).values())


class Stubborn(Wrapped):
    """An engine that refuses every cut, and may cut all the same."""

    def __init__(self, *, cuts: bool) -> None:
        super().__init__()
        self._cuts = cuts

    def drop(self, slot: int, first: int, last: int | None = None) -> None:
        """Refuse."""
        if self._cuts:
            super().drop(slot, first, last)
        raise Refused("stubborn", "a cut", "never")


class Roomy(Wrapped):
    """An engine that forgets a full slot instead of refusing one more token."""

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Start again at position 0 where a slot is full."""
        try:
            return super().evaluate(pieces, observe=observe)
        except Refused:
            (piece,) = pieces
            super().clear(piece.slot)
            return super().evaluate([replace(piece, position=0)], observe=observe)


class Sharing(Wrapped):
    """An engine whose copies are the slot itself."""

    def copy(self, source: int, target: int) -> None:
        """Let both be one."""
        self.inner._slots[target] = self.inner._slots[source]


class StaleHeads(Wrapped):
    """An engine whose later heads are those of the row before."""

    def evaluate(self, pieces: Sequence[Piece], *, observe: bool = False) -> tuple[Evaluated, ...]:
        """Shift all heads but the first."""
        found = super().evaluate(pieces, observe=observe)
        return tuple(replace(each, logits=_stale(each.logits)) for each in found)


def _stale(logits: Array) -> Array:
    moved = logits.copy()
    moved[1:, 1:] = logits[1:, :-1]
    return moved


class Training(Wrapped):
    """An engine whose gradients do something else as well.

    Args:
        what: `step` for weights that move, `chance` for gradients that differ, `order` for a loss of the first row,
            `overflow` for a loss without a largest logit.
    """

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what, self._asked = what, 0

    def gradients(self, batch: TrainingBatch) -> LossAndGradients:
        """Return gradients, and spoil something."""
        self._asked += 1
        found = super().gradients(batch)
        held = self.inner._folder
        assert held is not None
        if self._what == "step":
            table = held.model.table
            table.assign(table.value * (1.0 + 1e-9))
        if self._what == "chance":
            return replace(
                found, gradients={name: value * (1.0 + 1e-9 * self._asked) for name, value in found.gradients.items()}
            )
        if self._what == "order":
            return replace(found, loss=found.loss + (1e-6 * batch.inputs[0][2] if len(batch.inputs) > 1 else 0.0))
        biases = [
            each.value
            for each in held.model.parameters
            if each.name.startswith("head.outputs") and each.name.endswith("bias")
        ]
        if self._what == "overflow" and any(float(np.max(bias)) > 700.0 for bias in biases):
            raise Refused("training", "gradients", "a number left the range of binary64")
        return found


class TestWrongEngines:
    """Mistakes that only such an engine makes."""

    @pytest.mark.parametrize(
        ("name", "suite", "engine", "case", "words"),
        [
            pytest.param("kv.rollback", SUITE, Stubborn(cuts=False), "", "met no rollbacks", id="refuses-every-cut"),
            pytest.param("kv.rollback", SUITE, Stubborn(cuts=True), "", "", id="refuses-and-cuts-all-the-same"),
            pytest.param("kv.edge", SUITE, Roomy(), "capacity", "took one more", id="forgets-a-full-slot"),
            pytest.param("kv.reuse", SUITE, Sharing(), "copy", "", id="a-copy-is-the-slot-itself"),
            pytest.param("ssm.snap", NATIVE, Sharing(), None, "", id="so-is-a-snapshot"),
            pytest.param("kv.poison", SUITE, Disturbed(leaks=True), "", "", id="poison-leaks"),
            pytest.param("kv.fail", SUITE, Disturbed(keeps=True), "", "", id="a-failed-call-is-remembered"),
            pytest.param("kv.fail", SUITE, Disturbed(ignores=True), "", "", id="a-call-does-not-fail"),
            pytest.param("mtp.self", HEADS, StaleHeads(), "rows", "", id="later-heads-of-another-row"),
            pytest.param("eval.pure", SUITE, Training("step"), "rows", "", id="gradients-move-weights"),
            pytest.param("eval.pure", SUITE, Training("chance"), "gradients", "", id="gradients-differ-each-time"),
            pytest.param("eval.batch", SUITE, Training("order"), "order", "", id="a-loss-follows-the-order-of-rows"),
            pytest.param("loss.shift", HEADS, Training("overflow"), "", "have no loss", id="a-loss-overflows"),
        ],
    )
    def test_the_mistake_is_found(self, name: str, suite: str, engine: Wrapped, case: str | None, words: str) -> None:
        """In the case that is there for it, or in all."""
        found = [each for each in findings(name, engine, suite) if case is None or each.case == case]
        assert {FAIL} == {each.outcome for each in found}
        assert all(words in each.message for each in found)

    @pytest.mark.parametrize(
        ("name", "suite", "engine", "expected"),
        [
            ("kv.edge", SUITE, Roomy(), {"blocks": PASS, "capacity": FAIL}),
            ("mtp.self", HEADS, Wrapped(), {"rows": PASS, "passes": PASS}),
            ("eval.pure", SUITE, Training("chance"), {"rows": PASS, "gradients": FAIL}),
            ("loss.shift", HEADS, Wrapped(), {"": PASS}),
            ("kv.poison", SUITE, Disturbed(), {"": PASS}),
        ],
    )
    def test_what_is_right_passes(self, name: str, suite: str, engine: Wrapped, expected: dict[str, Outcome]) -> None:
        """The other cases of a wrong engine, and the right ones."""
        assert expected == outcomes(name, engine, suite)

    def test_an_engine_that_states_no_capacity_is_not_filled(self) -> None:
        """Nor one that states a large one."""

        class Silent(Wrapped):
            def load(self, folder: Path, precision: str | None = None) -> Loaded:
                return replace(super().load(folder), context=None)

        class Large(Wrapped):
            def load(self, folder: Path, precision: str | None = None) -> Loaded:
                return replace(super().load(folder), context=100000)

        for engine in (Silent(), Large()):
            assert {"blocks": PASS, "capacity": SKIPPED} == outcomes("kv.edge", engine)


@pytest.mark.parametrize(
    ("name", "engine", "told"),
    [
        ("kv.rollback", Wrapped(), {"": "6 rollbacks, 2 refusals, 6 cuts behind a full window"}),
        ("kv.steps", Wrapped(), {"": "12 calls of one token, 5 rows beyond the window; 12 rows compared"}),
        (
            "spec.rows",
            Wrapped(),
            {
                "full": "5 guesses, 5 accepted, 0 rows rolled back",
                "partial": "2 passes of right and wrong guesses",
                "never": "3 guesses, 0 accepted, 3 rows rolled back",
            },
        ),
        ("grad.fd", Wrapped(), {"": "6 repeated ids, 5 padded places, 20 tensors"}),
        ("kv.poison", Disturbed(), {"": "3 poisons, 3 cuts"}),
        ("kv.fail", Disturbed(), {"": "5 failed calls"}),
    ],
)
def test_the_message_tells_what_was_met(name: str, engine: Wrapped, told: dict[str, str]) -> None:
    """Rollbacks, refusals and full windows; guesses in each way; repeated ids and padding of gradients."""
    found = {each.case: each.message for each in findings(name, engine)}
    assert all(words in found[case] for case, words in told.items())
