"""The judges of the decode suites: the accepted goldens pass, and each planted fault is named by the right check.

Every fault is one change of a golden, sealed again, so that the trace keeps grammar and digest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from cai_conformance.verdicts import Outcome
from support_decode_traces import (
    Change,
    both,
    driven,
    everywhere,
    field,
    golden_of,
    item,
    items,
    question_about,
    verdicts_on,
    without,
)

KV, MULTI, SSM = "cai.kv-cache", "cai.multi-token", "cai.diagonal-ssm"
LATENT, SPECULATIVE, LOCAL = "cai.latent-attention", "cai.speculative", "cai.local-global"
SUITES = (KV, MULTI, SSM, LATENT, SPECULATIVE, "cai.hybrid", "cai.grouped-hybrid", LOCAL, "cai.parallel-block")

ZEROS = "sha256:" + "0" * 64
CACHED = "DECODE|arm=cached|prompt=0|"
FULL = "DECODE|arm=full|prompt=1|"
BUDGET, EOS = "DECODE|arm=scripted.budget-2|", "DECODE|arm=scripted.eos-2|"
PASS = "DRAFT|arm=scripted|prompt=0|pass=1|"
STAGE = "STAGE|index=3|"
ENORMOUS = str(2**63 - 1)


@dataclass(frozen=True)
class Fault:
    """A change of a suite's golden, the check that has to see it, and how its message begins."""

    suite: str
    change: Change
    check: str
    message: str


def named(**faults: Fault) -> pytest.MarkDecorator:
    """Make one test a fault."""
    return pytest.mark.parametrize("fault", faults.values(), ids=[name.replace("_", "-") for name in faults])


def found(fault: Fault) -> tuple[Outcome, str]:
    """Return outcome and message of the check on the damaged golden, and require that what it needs passed."""
    verdict = verdicts_on(fault.suite, fault.change(golden_of(fault.suite)), fault.check)[fault.check]
    return verdict.outcome, verdict.message


@pytest.mark.parametrize("suite", SUITES)
def test_the_golden_passes_whatever_a_trace_can_show(suite: str) -> None:
    """A stored trace has no answers to the vector cases, and cannot be driven; that is skipped, and all else passes.

    Without a window there is none to leave.
    """
    verdicts = verdicts_on(suite, golden_of(suite))
    skipped = {check for check, verdict in verdicts.items() if verdict.outcome is Outcome.SKIPPED}
    assert (suite != LOCAL) is ("run.witness[window]" in skipped)
    skipped = {check.partition("[")[0] for check in skipped - {"run.witness[window]"}}
    assert {"fwd.oracle", "kv.split", "gen.given", "smp.tie"} | driven(suite) == skipped
    assert {Outcome.SKIPPED, Outcome.PASS} == set(Counter(verdict.outcome for verdict in verdicts.values()))


@named(
    token=Fault(KV, item(CACHED, "ids", 3, "7"), "kv.inc[cached]", "DECODE arm=cached prompt=0, field ids[3]: value, "),
    fewer=Fault(
        KV, items(CACHED, "ids", lambda ids: ids[:-1]), "kv.inc[cached]", "DECODE arm=cached prompt=0, field ids: shape"
    ),
    prompt=Fault(
        KV, item(CACHED, "prompt_ids", 1, "7"), "kv.inc[cached]", "DECODE arm=cached prompt=0, field prompt_ids: value"
    ),
    stop=Fault(
        KV,
        field(CACHED, "stop", "eos"),
        "kv.inc[cached]",
        "DECODE arm=cached prompt=0, field stop: value, expected limit, found eos",
    ),
    logits=Fault(
        KV,
        field("DECODE|arm=chunked|prompt=1|", "logits", ZEROS),
        "kv.inc[chunked]",
        "DECODE arm=chunked prompt=1, field logits: value, expected sha256:c7a571bc",
    ),
    latent_logits=Fault(
        LATENT,
        field("DECODE|arm=latent|prompt=1|", "logits", ZEROS),
        "mla.absorb[latent]",
        "DECODE arm=latent prompt=1, field logits: value",
    ),
    absorbed_token=Fault(
        LATENT,
        item("DECODE|arm=absorbed|prompt=1|", "ids", 31, "7"),
        "mla.absorb[absorbed]",
        "DECODE arm=absorbed prompt=1, field ids[31]: value",
    ),
    scripted_token=Fault(
        KV,
        item("DECODE|arm=scripted|prompt=2|", "ids", 31, "7"),
        "spec.eq[scripted]",
        "DECODE arm=scripted prompt=2, field ids[31]: value, expected 123, found 7; re-encoding preferred",
    ),
    mtp_token=Fault(
        MULTI,
        item("DECODE|arm=mtp-cached|prompt=2|", "ids", 0, "7"),
        "spec.eq[mtp-cached]",
        "DECODE arm=mtp-cached prompt=2, field ids[0]: value",
    ),
    draft_token=Fault(
        SPECULATIVE,
        item("DECODE|arm=draft|prompt=0|", "ids", 0, "7"),
        "spec.eq[draft]",
        "DECODE arm=draft prompt=0, field ids[0]: value",
    ),
    prompt_left_out=Fault(
        KV,
        without("DECODE|arm=chunked|prompt=1|"),
        "kv.inc[chunked]",
        "DECODE arm=chunked prompt=1: missing, but arm full has it",
    ),
    nothing_to_compare_with=Fault(
        KV,
        without("DECODE|arm=full|prompt=0|"),
        "kv.inc[chunked]",
        "DECODE arm=chunked prompt=0: there is no arm full for this prompt",
    ),
    nothing_to_stop_like=Fault(
        KV,
        without("DECODE|arm=full|prompt=0|"),
        "spec.budget[2]",
        "DECODE arm=scripted.budget-2 prompt=0: there is no arm full for this prompt",
    ),
    beyond_the_budget=Fault(
        KV,
        items(BUDGET, "ids", lambda ids: [*ids, "7"]),
        "spec.budget[2]",
        "DECODE arm=scripted.budget-2 prompt=0, field ids: expected [312, 294], found [312, 294, 7]",
    ),
    other_stop=Fault(
        KV,
        field(BUDGET, "stop", "context-limit"),
        "spec.budget[2]",
        "DECODE arm=scripted.budget-2 prompt=0, field stop: context-limit",
    ),
    past_the_stop_id=Fault(
        KV,
        items(EOS, "ids", lambda ids: [*ids, ids[-1]]),
        "spec.eos[2]",
        "DECODE arm=scripted.eos-2 prompt=0, field ids: expected [312, 294, 114], found [312, 294, 114, 114]",
    ),
    other_token_behind=Fault(
        KV,
        items(EOS, "ids", lambda ids: [*ids, "7"]),
        "spec.eos[2]",
        "DECODE arm=scripted.eos-2 prompt=0, field ids: expected [312, 294, 114, ",
    ),
    nothing_generated=Fault(
        KV,
        field(EOS, "ids", "[]"),
        "spec.eos[2]",
        "DECODE arm=scripted.eos-2 prompt=0, field ids: expected [312, 294, 114, ",
    ),
    limit_at_the_stop_id=Fault(
        KV, field(EOS, "stop", "limit"), "spec.eos[2]", "DECODE arm=scripted.eos-2 prompt=0, field stop: limit"
    ),
)
def test_an_arm_that_generates_something_else_fails(fault: Fault) -> None:
    """The message names arm, prompt and field, and how decided re-encoding was."""
    outcome, message = found(fault)
    assert (Outcome.FAIL, fault.message) == (outcome, message[: len(fault.message)])


@named(
    chunked=Fault(KV, without("DECODE|arm=chunked|"), "kv.inc[chunked]", "the trace has no arm chunked"),
    budget=Fault(KV, without(BUDGET), "spec.budget[2]", "the trace has no arm scripted.budget-2"),
    eos=Fault(KV, without(EOS), "spec.eos[2]", "the trace has no arm scripted.eos-2"),
    mtp=Fault(MULTI, without("DRAFT|arm=mtp-full|"), "spec.cache", "the trace has no passes of mtp-full"),
    self=Fault(SPECULATIVE, without("DRAFT|arm=self-draft|"), "spec.self", "the trace has no arm self-draft"),
)
def test_an_arm_that_is_not_there_is_skipped(fault: Fault) -> None:
    """A program need not have every arm; the check says which one it missed."""
    assert (Outcome.SKIPPED, fault.message) == found(fault)


def test_logits_of_the_absorbed_arm_may_have_other_bits() -> None:
    """Its sums are regrouped; its tokens may not differ."""
    change = field("DECODE|arm=absorbed|prompt=1|", "logits", ZEROS)
    expected = (Outcome.PASS, "96 tokens, equal to re-encoding over 3 prompts")
    assert expected == found(Fault(LATENT, change, "mla.absorb[absorbed]", ""))


def test_a_token_without_a_margin_is_still_named() -> None:
    """Where re-encoding tells no margin at the place, the sentence ends before it."""
    change = both(field("DECODE|arm=full|prompt=0|", "margins", "[]"), item(CACHED, "ids", 3, "7"))
    expected = (Outcome.FAIL, "DECODE arm=cached prompt=0, field ids[3]: value, expected 317, found 7")
    assert expected == found(Fault(KV, change, "kv.inc[cached]", ""))


@named(
    forwards=Fault(
        KV,
        field(CACHED, "forwards", "48"),
        "spec.trace",
        "DECODE arm=cached prompt=0, field forwards: 48, but 15 + 32 w",
    ),
    forwards_full=Fault(
        KV,
        field("DECODE|arm=full|prompt=0|", "forwards", "47"),
        "spec.trace",
        "DECODE arm=full prompt=0, field forwards: 47, but 0 + 32 were needed",
    ),
    forwards_chunked=Fault(
        KV,
        field("DECODE|arm=chunked|prompt=0|", "forwards", "36"),
        "spec.trace",
        "DECODE arm=chunked prompt=0, field forwards: 36, but 3 + 32 were needed",
    ),
    draft_forwards=Fault(
        SPECULATIVE,
        field("DECODE|arm=draft|prompt=0|", "draft_forwards", "1"),
        "spec.trace",
        "DECODE arm=draft prompt=0, field draft_forwards: 1, but 49 guesses were made",
    ),
    draft_forwards_of_heads=Fault(
        MULTI,
        field("DECODE|arm=mtp-full|prompt=0|", "draft_forwards", "1"),
        "spec.trace",
        "DECODE arm=mtp-full prompt=0, field draft_forwards: 1, but 0 guesses were made",
    ),
    margins=Fault(
        KV,
        items(CACHED, "margins", lambda margins: margins[1:]),
        "spec.trace",
        "DECODE arm=cached prompt=0, field margins: 31 for 32 tokens",
    ),
    committed=Fault(
        KV,
        field(PASS, "committed", "1"),
        "spec.trace",
        "DECODE arm=scripted prompt=0: its passes committed 31 tokens, it has 32 (and 2 more)",
    ),
    committed_alone=Fault(
        KV,
        both(field(PASS, "committed", "1"), field("DRAFT|arm=scripted|prompt=0|pass=2|", "committed", "4")),
        "spec.trace",
        "DRAFT arm=scripted prompt=0 pass=1, field committed: 1 with 1 accepted",
    ),
    accepted=Fault(
        KV, field(PASS, "accepted", "5"), "spec.trace", "DRAFT arm=scripted prompt=0 pass=1: 5 accepted of 4 proposed"
    ),
    accepted_below_nothing=Fault(
        KV, field(PASS, "accepted", "-1"), "spec.trace", "DRAFT arm=scripted prompt=0 pass=1: -1 accepted of 4 proposed"
    ),
    proposed=Fault(
        KV,
        field(PASS, "proposed", "5"),
        "spec.trace",
        "DRAFT arm=scripted prompt=0 pass=1: 1 accepted of 5 proposed, in blocks of 4",
    ),
    proposed_of_heads=Fault(
        MULTI,
        field("DRAFT|arm=mtp-full|prompt=0|pass=1|", "proposed", "3"),
        "spec.trace",
        "DRAFT arm=mtp-full prompt=0 pass=1: 2 accepted of 3 proposed, in blocks of 2",
    ),
    rolled_back=Fault(
        KV,
        field(PASS, "rolled_back", "0"),
        "spec.trace",
        "DRAFT arm=scripted prompt=0 pass=1, field rolled_back: 0, but 5 were fed and 2 kept",
    ),
    number=Fault(KV, field(PASS, "pass", "70"), "spec.trace", "DRAFT arm=scripted prompt=0 pass=70: pass 1 is missing"),
    passes_of_nothing=Fault(
        KV,
        without("DECODE|arm=scripted|prompt=1|"),
        "spec.trace",
        "DRAFT arm=scripted prompt=1: there is no DECODE record for it",
    ),
    no_passes=Fault(
        KV,
        without("DRAFT|arm=scripted|prompt=1|"),
        "spec.trace",
        "DECODE arm=scripted prompt=1, field forwards: 15, but 3 + 32 were needed",
    ),
    chunk_of_nothing=Fault(
        KV, field("CONFIG|", "chunk", "0"), "spec.trace", "DECODE arm=chunked prompt=0, field forwards"
    ),
    drafts_differ=Fault(
        MULTI,
        field("DRAFT|arm=mtp-cached|prompt=1|pass=2|", "accepted", "2"),
        "spec.cache",
        "DRAFT arm=mtp-cached prompt=1 pass=2: other counters than mtp-full",
    ),
    drafts_fewer=Fault(
        MULTI,
        without("DRAFT|arm=mtp-cached|prompt=2|pass=23|"),
        "spec.cache",
        "DRAFT arm=mtp-cached prompt=2 pass=23: other counters than mtp-full",
    ),
    drafts_more=Fault(
        MULTI,
        without("DRAFT|arm=mtp-full|prompt=2|pass=22|", "DRAFT|arm=mtp-full|prompt=2|pass=23|"),
        "spec.cache",
        "DRAFT arm=mtp-cached prompt=2 pass=22: other counters than mtp-full",
    ),
    own_guess_refused=Fault(
        SPECULATIVE,
        field("DRAFT|arm=self-draft|prompt=1|pass=2|", "accepted", "3"),
        "spec.self",
        "DRAFT arm=self-draft prompt=1 pass=2: 3 of 4 own guesses were accepted",
    ),
)
def test_counters_that_do_not_add_up_fail(fault: Fault) -> None:
    """They are recounted from the passes, never believed; the message holds the stated and the found number."""
    outcome, message = found(fault)
    assert (Outcome.FAIL, fault.message) == (outcome, message[: len(fault.message)])


@named(
    floats=Fault(
        LOCAL,
        field("CACHE|layer=0|arm=cached|prefix=16|", "floats", "337"),
        "cache.formula",
        "CACHE layer=0 arm=cached prefix=16, field floats: 337, but 336 follows from CONFIG",
    ),
    slack=Fault(
        LOCAL,
        field("CACHE|layer=0|arm=cached|prefix=16|", "slack", "191"),
        "cache.formula",
        "CACHE layer=0 arm=cached prefix=16, field slack: 191, but 192 follows from CONFIG",
    ),
    allocated=Fault(
        LOCAL,
        field("CACHE|layer=1|arm=cached|prefix=16|", "allocated", "2305"),
        "cache.formula",
        "CACHE layer=1 arm=cached prefix=16, field allocated: 2305, but 2304 follows from CONFIG",
    ),
    formula=Fault(
        LATENT,
        field("CACHE|layer=1|arm=latent|prefix=16|", "formula", "2*(L+r)*t"),
        "cache.formula",
        "CACHE layer=1 arm=latent prefix=16, field formula: 2*(L+r)*t, but (L+r)*t follows from CONFIG",
    ),
    no_zero_channels=Fault(
        LATENT,
        field("CACHE|layer=1|arm=cached|prefix=48|", "floats", "2880"),
        "cache.formula",
        "CACHE layer=1 arm=cached prefix=48, field floats: 2880, but 3456 follows from CONFIG",
    ),
    state=Fault(
        SSM,
        field("CACHE|layer=1|arm=cached|prefix=48|", "floats", "1152"),
        "cache.formula",
        "CACHE layer=1 arm=cached prefix=48, field floats: 1152, but 24 follows from CONFIG",
    ),
    layer=Fault(
        KV,
        field("CACHE|layer=1|arm=cached|prefix=48|", "layer", "2"),
        "cache.formula",
        "CACHE layer=2 arm=cached prefix=48: the model has 2 layers",
    ),
    layer_below_0=Fault(
        KV,
        field("CACHE|layer=1|arm=cached|prefix=48|", "layer", "-1"),
        "cache.formula",
        "CACHE layer=-1 arm=cached prefix=48: the model has 2 layers",
    ),
    silent=Fault(KV, without("CACHE|layer=1|"), "cache.formula", "CACHE: nothing is said about layer 1"),
)
def test_a_cache_of_another_size_fails(fault: Fault) -> None:
    """Sizes and formulas are recomputed from CONFIG."""
    assert (Outcome.FAIL, fault.message) == found(fault)


@named(
    heads=Fault(
        KV, field("CONFIG|", "heads", "5"), "trace.recount", "CONFIG, field heads: 5 do not divide a width of 24"
    ),
    no_heads=Fault(KV, field("CONFIG|", "heads", "0"), "trace.recount", "CONFIG, field heads: 0 is not positive"),
    vocabulary=Fault(
        KV,
        field("CONFIG|", "vocabulary", "319"),
        "trace.recount",
        "CONFIG, field vocabulary: 319, but bytes, merges and control ids make 320",
    ),
    weights=Fault(
        KV, field("CONFIG|", "weights", "99999"), "trace.recount", "CONFIG, field weights: 99999 of 28428 parameters"
    ),
    stories=Fault(
        KV, field("SPLIT|", "train_stories", "73"), "trace.recount", "SPLIT: 81 stories in all, but CONFIG has 80"
    ),
    batches=Fault(
        KV, field("SPLIT|", "batches", "59"), "trace.recount", "SPLIT, field batches: 59, but CONFIG has 60 steps"
    ),
    last_step=Fault(
        KV, field("LOSS|step=60|", "step", "61"), "trace.recount", "LOSS: the first step is not 0, or the last not 60"
    ),
    step=Fault(
        KV, field("RESULT|", "step", "61"), "trace.recount", "LOSS: the first step is not 0, or the last not 60"
    ),
    before=Fault(
        KV,
        field("RESULT|", "initial_validation", "5.766493"),
        "trace.recount",
        "RESULT, field initial_validation: 5.766493, but LOSS step=0 has 5.766492",
    ),
    after=Fault(
        KV,
        field("RESULT|", "final_validation", "2.393144"),
        "trace.recount",
        "RESULT, field final_validation: 2.393144, but LOSS step=60 has 2.393143",
    ),
    improvement=Fault(
        KV,
        field("RESULT|", "improvement", "3.373359"),
        "trace.recount",
        "RESULT, field improvement: 3.373359, but the losses differ by 3.373349",
    ),
    loss=Fault(
        KV,
        field("LOSS|step=30|", "train", "3.000000"),
        "trace.recount",
        "LOSS step=30, field train: prints 3.000000, its bits are another number",
    ),
    stage_left_out=Fault(KV, without(STAGE), "trace.recount", "STAGE index=4: stage 3 is missing"),
    place_twice=Fault(
        KV,
        items(STAGE, "at", lambda at: [at[1], *at[1:]]),
        "trace.recount",
        "STAGE index=3, field at: not distinct places of shape [3, 16, 8]",
    ),
    place_outside=Fault(
        KV,
        item(STAGE, "at", 7, "384"),
        "trace.recount",
        "STAGE index=3, field at: not distinct places of shape [3, 16, 8]",
    ),
    fewer_values=Fault(
        KV,
        items(STAGE, "values", lambda values: values[1:]),
        "trace.recount",
        "STAGE index=3, field values: 7 for 8 places",
    ),
    value=Fault(
        KV, item(STAGE, "values", 0, "0.123456"), "trace.recount", "STAGE index=3, field values: prints [0.123456, "
    ),
    token_outside=Fault(
        KV,
        item(CACHED, "ids", 0, "320"),
        "trace.recount",
        "DECODE arm=cached prompt=0: token 320 at 16 is not in a vocabulary of 320",
    ),
    context=Fault(
        KV,
        items(CACHED, "ids", lambda ids: [*ids, "5"]),
        "trace.recount",
        "DECODE arm=cached prompt=0: 49 tokens in a context of 48",
    ),
    generated_ids=Fault(
        KV,
        item("GENERATE|arm=full|prompt=1|", "ids", 0, "5"),
        "trace.recount",
        "GENERATE arm=full prompt=1, field ids: another value than in DECODE arm=full prompt=1",
    ),
    generated_stop=Fault(
        KV,
        field("GENERATE|arm=full|prompt=1|", "stop", "eos"),
        "trace.recount",
        "GENERATE arm=full prompt=1, field stop: another value than in DECODE arm=full prompt=1",
    ),
    generated_elsewhere=Fault(
        KV,
        field("GENERATE|arm=full|prompt=1|", "prompt", "9"),
        "trace.recount",
        "GENERATE arm=full prompt=9: there is no DECODE record for it",
    ),
    proof_replay=Fault(KV, field("PROOF|", "replay", "changed"), "trace.recount", "PROOF, field replay: changed"),
    proof_arms=Fault(KV, field("PROOF|", "arms", "different"), "trace.recount", "PROOF, field arms: different"),
    proof_logits=Fault(KV, field("PROOF|", "logits", "different"), "trace.recount", "PROOF, field logits: different"),
    proof_cache=Fault(KV, field("PROOF|", "cache", "wrong"), "trace.recount", "PROOF, field cache: wrong"),
    proof_rollback=Fault(KV, field("PROOF|", "rollback", "wrong"), "trace.recount", "PROOF, field rollback: wrong"),
    only_close=Fault(
        KV,
        field("PROOF|", "logits", "close"),
        "trace.recount",
        "PROOF, field logits: close and rollback exact, in strict arithmetic",
    ),
    only_close_again=Fault(
        KV,
        field("PROOF|", "rollback", "close"),
        "trace.recount",
        "PROOF, field logits: bitwise and rollback close, in strict arithmetic",
    ),
)
def test_a_trace_that_contradicts_itself_fails(fault: Fault) -> None:
    """The first contradiction is the message, with how many more there are."""
    outcome, message = found(fault)
    assert (Outcome.FAIL, fault.message) == (outcome, message[: len(fault.message)])


@named(
    prompts=Fault(KV, without("DECODE|arm=full|prompt=2|"), "run.witness[variety]", "DECODE: 2 prompts, not 3"),
    tokens=Fault(
        KV,
        items(FULL, "ids", lambda ids: ids[:31]),
        "run.witness[variety]",
        "DECODE arm=full prompt=1: 31 new tokens, not 32",
    ),
    distinct=Fault(
        KV,
        items(FULL, "ids", lambda ids: [*ids[:9], *[ids[0]] * 23]),
        "run.witness[variety]",
        "DECODE arm=full prompt=1: 9 distinct tokens, not 10",
    ),
    margin=Fault(
        KV,
        item(FULL, "margins", 4, "0.000099"),
        "run.witness[variety]",
        "DECODE arm=full prompt=1: a choice by less than 0.0001",
    ),
    acceptance=Fault(
        KV,
        everywhere("DRAFT|arm=scripted|", "accepted", "2"),
        "run.witness[acceptance]",
        "DRAFT arm=scripted: no full block had 0 accepted",
    ),
    enormous_block=Fault(
        KV,
        field("CONFIG|", "block", ENORMOUS),
        "run.witness[acceptance]",
        "DRAFT arm=scripted: no full block had 0 accepted",
    ),
    enormous_block_again=Fault(
        KV, field("CONFIG|", "block", ENORMOUS), "run.witness[stops]", "DECODE: no arm scripted.eos-5"
    ),
    offset=Fault(KV, without("DECODE|arm=scripted.eos-3|"), "run.witness[stops]", "DECODE: no arm scripted.eos-3"),
    budget=Fault(
        KV, without("DECODE|arm=scripted.budget-5|"), "run.witness[stops]", "DECODE: no arm scripted.budget-5"
    ),
    other_offset=Fault(
        KV,
        field("DRAFT|arm=scripted.eos-3|", "committed", "5"),
        "run.witness[stops]",
        "DRAFT arm=scripted.eos-3 prompt=0: the stop stood at offset 4",
    ),
    window=Fault(
        LOCAL,
        without(*(f"CACHE|layer={layer}|arm=cached|prefix={prefix}|" for layer in (0, 1) for prefix in (16, 48))),
        "run.witness[window]",
        "CACHE: the longest prefix, 5, never left a ring of 7 + 4 rows",
    ),
    little_learning=Fault(
        KV,
        field("LOSS|step=60|", "validation", "4.036545"),
        "run.learning",
        "LOSS, field validation: 5.766492 before training, 4.036545 after it",
    ),
    no_number=Fault(
        KV,
        field("LOSS|step=60|", "validation", "nan"),
        "run.learning",
        "LOSS, field validation: 5.766492 before training, nan after it",
    ),
    from_infinity=Fault(
        KV,
        field("LOSS|step=0|", "validation", "inf"),
        "run.learning",
        "LOSS, field validation: inf before training, 2.393143 after it",
    ),
    below_nothing=Fault(
        KV,
        both(field("LOSS|step=0|", "validation", "0.000000"), field("LOSS|step=60|", "validation", "-1.000000")),
        "run.learning",
        "LOSS, field validation: 0.000000 before training, -1.000000 after it",
    ),
)
def test_a_run_that_meets_too_little_fails(fault: Fault) -> None:
    """Each witness has its own case; the message says what was not met."""
    assert (Outcome.FAIL, fault.message) == found(fault)


def test_a_fall_by_30_percent_is_enough() -> None:
    """One millionth above it fails, as the table has it."""
    data = field("LOSS|step=60|", "validation", "4.036544")(golden_of(KV))
    verdict = verdicts_on(KV, data, "run.learning")["run.learning"]
    assert (Outcome.PASS, "validation loss fell by 30.0 %") == (verdict.outcome, verdict.message)


@named(
    convention=Fault(
        KV,
        field("CONVENTION|", "argmax", "highest id"),
        "trace.convention",
        "CONVENTION, field argmax: the backend follows another convention, highest id, not lowest id",
    ),
    size=Fault(KV, field("CONFIG|", "width", "25"), "data.split", "CONFIG, field width: value, expected 24, found 25"),
    stage=Fault(
        KV,
        item(STAGE, "bits", 0, "3fe6666666666666"),
        "fwd.stage",
        "STAGE index=3, field bits[0]: value, expected 3fd204162d1cd403 (0.28149942784813237), found 3fe66",
    ),
    moments=Fault(
        KV,
        field("BITS|step=60|", "moments", ZEROS),
        "run.bits",
        "BITS step=60, field moments: value, expected sha256:2b82",
    ),
    loss=Fault(
        KV,
        field("LOSS|step=60|", "train", "2.000000"),
        "run.golden",
        "LOSS step=60, field train: value, expected 2.128121, found 2.000000",
    ),
    text=Fault(
        KV,
        field("GENERATE|arm=full|prompt=1|", "text", "x"),
        "run.decode",
        "GENERATE arm=full prompt=1, field text: value",
    ),
    pass_left_out=Fault(
        KV, without("DRAFT|arm=scripted|prompt=1|pass=2|"), "run.decode", "DRAFT arm=scripted prompt=1 pass=2: missing"
    ),
)
def test_a_trace_unlike_the_golden_fails(fault: Fault) -> None:
    """Records are aligned by key, and the first difference is named."""
    outcome, message = found(fault)
    assert (Outcome.FAIL, fault.message) == (outcome, message[: len(fault.message)])


def test_another_convention_leaves_no_number_to_judge() -> None:
    """Vectors and sizes are blocked, not failed: one mistake is reported once."""
    data = field("CONVENTION|", "rope", "halves")(golden_of(KV))
    verdicts = verdicts_on(KV, data)
    failed = [check for check, verdict in verdicts.items() if verdict.outcome is Outcome.FAIL]
    blocked = {check.partition("[")[0] for check, verdict in verdicts.items() if verdict.outcome is Outcome.BLOCKED}
    assert ["trace.convention"] == failed
    assert {"fwd.oracle", "kv.split", "gen.given", "smp.tie", "data.split", "run.golden", "run.bits"} < blocked


class TestForeignProfile:
    """On other stories there is no golden, and nobody can promise witnesses."""

    DATA = field("TRACE|", "profile", "foreign")(golden_of(LOCAL))

    def test_what_needs_the_own_stories_is_skipped(self) -> None:
        """Comparisons with the golden, and every witness."""
        verdicts = verdicts_on(LOCAL, self.DATA, asked=question_about(LOCAL, "foreign"))
        skipped = {check.partition("[")[0] for check, verdict in verdicts.items() if verdict.outcome is Outcome.SKIPPED}
        compared = {"data.split", "run.golden", "run.bits", "fwd.stage", "run.decode"}
        assert {"fwd.oracle", "kv.split", "gen.given", "smp.tie", "run.witness"} | driven(LOCAL) | compared == skipped
        failed = [
            check for check, verdict in verdicts.items() if verdict.outcome not in (Outcome.PASS, Outcome.SKIPPED)
        ]
        assert [] == failed

    @pytest.mark.parametrize(("after", "outcome"), [("5.767250", Outcome.PASS), ("5.767251", Outcome.FAIL)])
    def test_the_loss_only_has_to_fall(self, after: str, outcome: Outcome) -> None:
        """By however little."""
        data = field("LOSS|step=36|", "validation", after)(self.DATA)
        asked = question_about(LOCAL, "foreign")
        assert outcome is verdicts_on(LOCAL, data, "run.learning", asked=asked)["run.learning"].outcome
