"""The judges on the goldens of the Llama suites: they pass, and each planted fault is named by the right check."""

from __future__ import annotations

from collections import Counter

import pytest

from cai_conformance.checks.run import rate_of
from cai_conformance.fixtures.goldens.store import locate
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_conformance.verdicts import Outcome
from support_decode_traces import (
    Change,
    both,
    driven,
    everywhere,
    field,
    golden_of,
    item,
    question_about,
    verdicts_on,
    without,
)

DENSE, WINDOW, COURSE = "llama.dense", "llama.gqa-window", "course.decoder"
SUITES = (DENSE, WINDOW, COURSE)
VECTORS = {"fwd.oracle", "kv.split", "gen.given", "smp.tie", "causal.flip", "smp.seed"}


def found(suite: str, change: Change, check: str) -> tuple[Outcome, str]:
    """Return outcome and message of a check on a damaged golden."""
    verdict = verdicts_on(suite, change(golden_of(suite)), check)[check]
    return verdict.outcome, verdict.message


@pytest.mark.parametrize("suite", SUITES)
def test_the_golden_passes_whatever_a_trace_can_show(suite: str) -> None:
    """A stored trace has no answers to the vector cases, and cannot be driven; that is skipped, and all else passes."""
    verdicts = verdicts_on(suite, golden_of(suite))
    skipped = {check for check, verdict in verdicts.items() if verdict.outcome is Outcome.SKIPPED}
    assert (suite != WINDOW) is ("run.witness[window]" in skipped)
    skipped = {check.partition("[")[0] for check in skipped - {"run.witness[window]"}}
    more = {
        DENSE: set[str](),
        WINDOW: {"kv.reach"},
        COURSE: {"smp.law", "smp.support", "smp.edge", "spec.law", "opt.step"},
    }
    assert VECTORS | driven(suite) | more[suite] == skipped
    assert {Outcome.SKIPPED, Outcome.PASS} == set(Counter(verdict.outcome for verdict in verdicts.values()))


@pytest.mark.parametrize("suite", SUITES)
def test_the_conventions_are_stated(suite: str) -> None:
    """In words, and before any number; what sets the suites apart is in them."""
    said = dict(parse(golden_of(suite), grammar_of).all("CONVENTION")[0].fields)
    course = suite == COURSE
    assert ("adjacent pairs" if course else "half-split pairs") == said["rope"]
    base = {DENSE: "500000, ", WINDOW: "1000000, ", COURSE: "10000, "}[suite]
    assert said["rope_base"].startswith(base)
    assert ("7, the current token included" if suite == WINDOW else "none") == said["window"]
    assert ("untied" if suite == DENSE else "tied") == said["tie"]
    assert {DENSE: "0.001000", WINDOW: "0.000300", COURSE: "0.000001"}[suite] + ", inside the root" == said["norm_eps"]
    assert ("exp(log(" in said["norm"]) == course
    assert ("windows" in said["loss"]) == course


@pytest.mark.parametrize("suite", SUITES)
def test_another_convention_is_told_before_any_number(suite: str) -> None:
    """The rotary layout, whose exchange changes every number and no shape."""
    outcome, message = found(suite, field("CONVENTION|", "rope", "other pairs"), "trace.convention")
    assert Outcome.FAIL is outcome
    assert message.startswith("CONVENTION, field rope: the backend follows another convention, other pairs, not ")


class TestCaches:
    """2·G·w floats a token, and of a window no more than W tokens."""

    @pytest.mark.parametrize(("layer", "prefix"), [(0, 5), (1, 16), (0, 48)])
    def test_the_formulas_worked_by_hand(self, layer: int, prefix: int) -> None:
        """Two heads of keys and values, 8 wide: 32 floats a token; W 7, S 4, C 48. Four heads hold twice as much."""
        for suite, per_token, seen, held, ring in (
            (WINDOW, 32, min(prefix, 7), min(prefix, 11), 11),
            (DENSE, 64, prefix, prefix, 48),
        ):
            record = parse(golden_of(suite), grammar_of).find("CACHE", layer=layer, arm="cached", prefix=prefix)
            assert record is not None
            expected = [per_token * seen, per_token * (held - seen), per_token * ring]
            assert expected == [record.integer(name) for name in ("floats", "slack", "allocated")]
            assert ("2*G*w*min(t,W)" if suite == WINDOW else "2*G*w*t") == record.get("formula")

    @pytest.mark.parametrize(
        ("suite", "name", "value", "message"),
        [
            (WINDOW, "floats", "448", "448, but 224 follows from CONFIG"),
            (WINDOW, "allocated", "704", "704, but 352 follows from CONFIG"),
            (WINDOW, "slack", "0", "0, but 128 follows from CONFIG"),
            (DENSE, "formula", "2*d*t", "2*d*t, but 2*G*w*t follows from CONFIG"),
        ],
    )
    def test_a_cache_of_every_query_head_is_found(self, suite: str, name: str, value: str, message: str) -> None:
        """As large as if keys were not shared, or no row kept for rolling back."""
        record = "CACHE|layer=0|arm=cached|prefix=16|"
        expected = Outcome.FAIL, f"CACHE layer=0 arm=cached prefix=16, field {name}: {message}"
        assert expected == found(suite, field(record, name, value), "cache.formula")


class TestArms:
    """A model that drafts for itself, and the common arms."""

    @pytest.mark.parametrize("suite", SUITES)
    def test_a_wrong_token_of_each_arm_is_found(self, suite: str) -> None:
        """By the check that compares the arm with re-encoding."""
        arms = {"cached": "kv.inc", "chunked": "kv.inc", "scripted": "spec.eq", "self-draft": "spec.eq"}
        for arm, check in arms.items():
            change = item(f"DECODE|arm={arm}|prompt=1|", "ids", 3, "2")
            outcome, message = found(suite, change, f"{check}[{arm}]")
            assert Outcome.FAIL is outcome
            assert message.startswith(f"DECODE arm={arm} prompt=1, field ids[3]: value, ")

    def test_own_guesses_that_are_refused_are_found(self) -> None:
        """Tokens never show a fault of the draft; its acceptance does."""
        change = field("DRAFT|arm=self-draft|prompt=1|pass=2|", "accepted", "3")
        message = "DRAFT arm=self-draft prompt=1 pass=2: 3 of 4 own guesses were accepted"
        assert (Outcome.FAIL, message) == found(DENSE, change, "spec.self")

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            (
                "key_value_heads",
                "3",
                "CONFIG, field key_value_heads: 3 heads of keys and values do not divide 4 query h",
            ),
            ("key_value_heads", "0", "CONFIG, field key_value_heads: 0 is not positive"),
            ("head_width", "0", "CONFIG, field head_width: 0 is not positive"),
        ],
    )
    def test_sizes_that_contradict_each_other_are_found(self, name: str, value: str, message: str) -> None:
        """Before anything is computed from them."""
        outcome, text = found(WINDOW, field("CONFIG|", name, value), "trace.recount")
        assert (Outcome.FAIL, message) == (outcome, text[: len(message)])

    def test_a_window_that_was_never_left_is_found(self) -> None:
        """Its equalities would mean nothing."""
        change = without(
            *(f"CACHE|layer={layer}|arm=cached|prefix={prefix}|" for layer in (0, 1) for prefix in (16, 48))
        )
        outcome, message = found(WINDOW, change, "run.witness[window]")
        assert (Outcome.FAIL, "CACHE: the longest prefix, 5, never left a ring of 7 + 4 rows") == (outcome, message)


class TestSelection:
    """Rates, clipping and the checkpoint that was kept, recounted."""

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                field("RESULT|", "selected_step", "48"),
                "RESULT, field selected_step: 48, but the earliest smallest validation loss is that of step 32",
            ),
            (
                both(field("RESULT|", "selected_step", "40"), field("RESULT|", "selected_validation", "3.525267")),
                "RESULT, field selected_validation: 3.525267, but the smallest validation loss is 3.512163 (and 1 m",
            ),
            (
                field("LOSS|step=40|", "rate", "0.015000"),
                "LOSS step=40, field rate: 0.015000, but 0.008000 follows from CONFIG",
            ),
            (
                field("LOSS|step=0|", "rate", "0.040000"),
                "LOSS step=0, field rate: 0.040000, but 0.000000 follows from CONFIG",
            ),
            (field("LOSS|step=8|", "clipped", "9"), "LOSS step=8, field clipped: 9 of 8 updates (and 2 more)"),
            (field("LOSS|step=16|", "norm", "0.700000"), ""),
            (
                field("LOSS|step=24|", "clipped", "9"),
                "LOSS step=24, field clipped: 0 more in 8 updates, the last with a norm of 3.162195 (and 1 more)",
            ),
            (field("LOSS|step=24|", "norm", "nan"), "LOSS step=24, field norm: nan"),
            (
                without("LOSS|step=24|", "BITS|step=24|"),
                "LOSS: losses after the steps [0, 8, 16, 32, 40, 48], but CONFIG",
            ),
            (field("CONFIG|", "rates", "[]"), "CONFIG, field rates: there is none"),
            (
                everywhere("SPLIT|", "batches", "48"),
                "this shows nothing, for it met no batches taken again; step 32 of 48 selected",
            ),
        ],
    )
    def test_a_wrong_record_is_found(self, change: Change, message: str) -> None:
        """The message tells what follows from the other records; what only some numbers rule out may pass."""
        outcome, text = found(COURSE, change, "run.selection")
        assert (Outcome.FAIL if message else Outcome.PASS) is outcome
        assert not message or text.startswith(message)

    def test_of_equal_losses_the_earliest_is_selected(self) -> None:
        """Steps 16 and 32 with the same loss: 16 has to be selected, and 32 may not be."""
        bits = parse(golden_of(COURSE), grammar_of).find("BITS", step=32)
        assert bits is not None
        equal = both(
            field("LOSS|step=16|", "validation", "3.512163"),
            field("BITS|step=16|", "validation", bits.get("validation")),
        )
        outcome, message = found(COURSE, equal, "run.selection")
        assert Outcome.FAIL is outcome
        assert (
            message == "RESULT, field selected_step: 32, but the earliest smallest validation loss is that of step 16"
        )
        right = both(equal, field("RESULT|", "selected_step", "16"))
        assert Outcome.PASS is found(COURSE, right, "run.selection")[0]

    def test_losses_that_only_print_alike_do_not_decide_without_their_bits(self) -> None:
        """A program without exact bits may have seen what its digits do not show."""
        alike = both(field("LOSS|step=40|", "validation", "3.512163"), without("BITS|"))
        for step in ("32", "40"):
            change = both(alike, field("RESULT|", "selected_step", step))
            assert Outcome.PASS is found(COURSE, change, "run.selection")[0]

    def test_what_decided_nothing_is_no_witness(self) -> None:
        """A selected last step would show the last step's model as well."""
        change = both(
            field("RESULT|", "selected_step", "48"),
            field("RESULT|", "selected_validation", "3.500000"),
            field("LOSS|step=48|", "validation", "3.500000"),
            without("BITS|"),
        )
        message = "this shows nothing, for it met no updates behind the selected step; step 48 of 48 selected"
        message += ", 40 updates clipped"
        assert (Outcome.FAIL, message) == found(COURSE, change, "run.selection")

    def test_the_run_tells_what_it_met(self) -> None:
        """The selected step, and how many updates were clipped."""
        verdict = verdicts_on(COURSE, golden_of(COURSE), "run.selection")["run.selection"]
        assert (Outcome.PASS, "step 32 of 48 selected, 40 updates clipped") == (verdict.outcome, verdict.message)

    @pytest.mark.parametrize(
        ("steps", "expected"),
        [(8, [4.0, 4.0, 3.0, 3.0, 2.0, 2.0, 1.0, 1.0]), (4, [4.0, 3.0, 2.0, 1.0]), (2, [3.0, 1.0]), (1, [1.0])],
    )
    def test_rates_share_the_steps(self, steps: int, expected: list[float]) -> None:
        """Two updates a rate in chapter 33; with fewer updates than rates some rates have none."""
        assert expected == [rate_of([4.0, 3.0, 2.0, 1.0], steps, step) for step in range(1, steps + 1)]


def test_only_the_course_has_checkpoints_without_digests() -> None:
    """States are kept at the start, at the selected step and at the end."""
    trace = parse(golden_of(COURSE), grammar_of)
    kept = [record.get("step") for record in trace.all("BITS") if record.has("parameters")]
    assert ["0", "32", "48"] == kept
    assert [record.get("step") for record in trace.all("LOSS")] == [record.get("step") for record in trace.all("BITS")]
    assert all(record.has("parameters") for record in parse(golden_of(DENSE), grammar_of).all("BITS"))


@pytest.mark.parametrize("suite", SUITES)
def test_the_request_carries_the_given_weights(suite: str) -> None:
    """Whatever the file is called."""
    name = "weights.safetensors" if suite == COURSE else "model.safetensors"
    assert (locate() / suite / name).read_bytes() == question_about(suite).request.weights
