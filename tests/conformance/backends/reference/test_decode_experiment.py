"""The reference's decode experiments at a tiny size: arms, caches, rollback, stages, records.

The sizes are those of `support_decode_tiny`; that the golden size gives the golden is tested with the goldens.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cai_conformance.backends.engine.stages import drawn_places
from cai_conformance.backends.reference import decoder_run as experiment
from cai_conformance.backends.reference.arms import ArmResult, Rollback, check_rollback, stop_at_offset
from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.backends.reference.decoder_records import trace_records
from cai_conformance.backends.reference.decoder_run import DecodeExperiment, prefixes, run_decode_experiment
from cai_conformance.backends.reference.story_training import prepare, train_models
from cai_conformance.errors import FixtureError
from cai_conformance.fixtures.decoder_phases import PHASES, phase_of, sizes_for
from cai_conformance.fixtures.sizes import GOLDEN_SIZES, PUBLISHED_SIZES
from cai_conformance.trace.format import format_trace
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_conformance.trace.records import Envelope, Trace
from cai_reference.arithmetic.instances import STRICT
from cai_reference.decoding.errors import SessionError
from cai_reference.decoding.session import Session
from support_decode_tiny import TINY, bench_of, tiny, tiny_sizes
from support_decode_traces import question_about

SUITES = tuple(phase.suite for phase in PHASES)
RUNS = [*((suite, "strict/1") for suite in SUITES), ("cai.hybrid", "fast")]
SAMPLE = {("cai.multi-token", "strict/1"), ("cai.hybrid", "fast")}
every_run = pytest.mark.parametrize(
    ("suite", "arithmetic"), [pytest.param(*run, marks=() if run in SAMPLE else pytest.mark.exhaustive) for run in RUNS]
)


def traced(ran: DecodeExperiment) -> Trace:
    """Write an experiment down and read it again."""
    envelope = Envelope(ran.phase.suite, "1.0.0", "golden", ran.arithmetic.identifier, "sha256:" + "0" * 64)
    return parse(format_trace(envelope, trace_records(ran)).encode(), grammar_of)


@every_run
def test_all_arms_generate_the_same_tokens(suite: str, arithmetic: str) -> None:
    """From the same bits in `strict/1`; in `fast` from logits that are close."""
    ran = tiny(suite, arithmetic)
    assert ran.tokens_equal()
    agreement, rollback = ("close", "close") if arithmetic == "fast" else ("bitwise", "exact")
    assert (agreement, rollback) == (ran.logits_agreement(), ran.rollback.value)
    assert (True, True) == (ran.replays, ran.caches_exact())


@every_run
def test_the_arms_of_a_suite(suite: str, arithmetic: str) -> None:
    """Those that it announces in its checks, for each prompt; budgets of 1 to 5 on the first prompt alone."""
    ran = tiny(suite, arithmetic)
    common = ["full", "cached", "chunked"]
    own = {
        "cai.multi-token": ["mtp-full", "mtp-cached"],
        "cai.latent-attention": ["latent", "absorbed"],
        "cai.hybrid": ["latent", "absorbed"],
        "cai.grouped-hybrid": ["latent", "absorbed"],
        "cai.speculative": ["draft", "self-draft"],
    }
    expected = {arm: [0, 1] for arm in [*common, *own.get(suite, []), "scripted"]}
    expected |= {f"scripted.budget-{budget}": [0] for budget in range(1, 6)}
    found: dict[str, list[int]] = {}
    for result in ran.arms:
        if ".eos-" not in result.arm:
            found.setdefault(result.arm, []).append(result.prompt)
    assert expected == found
    stopped = [result.arm for result in ran.arms if ".eos-" in result.arm]
    assert "scripted.eos-0" in stopped
    assert len(set(stopped)) == len(stopped)


@every_run
def test_the_records_keep_the_grammar(suite: str, arithmetic: str) -> None:
    """Bits and digests stand in `strict/1` and not in `fast`."""
    trace = traced(tiny(suite, arithmetic))
    bitwise = arithmetic != "fast"
    assert bitwise == bool(trace.all("BITS"))
    assert {bitwise} == {record.has("bits") for record in trace.all("STAGE")}
    assert {bitwise} == {record.has("logits") for record in trace.all("DECODE")}
    proof = trace.all("PROOF")[0]
    assert ("bitwise" if bitwise else "equal", "equal", "exact") == tuple(map(proof.get, ("replay", "arms", "cache")))
    steps = [str(step) for step in sorted(TINY.reported_steps)]
    assert steps == [record.get("step") for record in trace.all("LOSS")]


@pytest.mark.parametrize("suite", [suite for suite, _ in sorted(SAMPLE)])
def test_every_stage_prints_eight_places_four_of_them_in_the_last_row(suite: str) -> None:
    """Values and norm are those of the stage, which has one row a token; ids and losses are no stages."""
    for place, stage in enumerate(tiny(suite).stages):
        assert place == stage.index
        flat = stage.value.ravel()
        assert [float(flat[at]) for at in stage.at] == stage.values
        assert place or np.isclose(np.linalg.norm(flat), stage.norm(STRICT), rtol=1e-14), "one is enough, it is slow"
        last_row = stage.value.size - stage.value.shape[-1]
        assert min(8, stage.value.size) == len(stage.at)
        assert min(4, stage.value.shape[-1]) <= sum(at >= last_row for at in stage.at)


@pytest.mark.exhaustive
def test_a_model_that_drafts_for_itself_is_always_right() -> None:
    """Every guess is accepted, in every pass."""
    passes = [each for result in tiny("cai.speculative").of_arm("self-draft") for each in result.generation.passes]
    assert [each.proposed for each in passes] == [each.accepted for each in passes]
    assert sum(each.proposed for each in passes) > 0


def test_both_multi_token_arms_make_the_same_passes() -> None:
    """The cache changes nothing that is guessed or accepted."""
    ran = tiny("cai.multi-token")
    assert [r.generation.passes for r in ran.of_arm("mtp-full")] == [
        r.generation.passes for r in ran.of_arm("mtp-cached")
    ]


@pytest.mark.parametrize("arm", ["cached", "latent"])
def test_caches_grow_by_their_formula(arm: str) -> None:
    """Layers of the hybrid: a state of d floats, 2·H·(w + r) or L + r floats a token, a state again."""
    row = 2 * (12 + 2 * 2) if arm == "cached" else 3 + 2
    expected = [(layer, prefix, 12 if layer != 1 else row * prefix) for prefix in (3, 8, 15) for layer in range(3)]
    counts = [count for count in tiny("cai.hybrid").caches if count.arm == arm]
    assert expected == [(count.layer, count.prefix, count.accounting.floats) for count in counts]


# ── what an experiment says about itself when something is wrong ─────────────────────────────────────────────────────


def with_arm(ran: DecodeExperiment, arm: str, change: ArmResult) -> DecodeExperiment:
    """Return an experiment with one arm's first result replaced."""
    place = next(place for place, result in enumerate(ran.arms) if result.arm == arm)
    return replace(ran, arms=(*ran.arms[:place], change, *ran.arms[place + 1 :]))


def moved(ran: DecodeExperiment, arm: str, by: float) -> DecodeExperiment:
    """Return an experiment with one logit of an arm moved."""
    result = ran.of_arm(arm)[0]
    first, *rest = result.generation.rows
    row = first.copy()
    row[5] += by
    return with_arm(ran, arm, replace(result, generation=replace(result.generation, rows=(row, *rest))))


@pytest.mark.parametrize(
    ("suite", "arithmetic", "arm", "by", "expected"),
    [
        ("cai.hybrid", "strict/1", "cached", 1e-13, "different"),
        ("cai.hybrid", "strict/1", "absorbed", 1e-13, "bitwise"),
        ("cai.hybrid", "strict/1", "absorbed", 1e-11, "different"),
        ("cai.hybrid", "fast", "cached", 1e-11, "close"),
        ("cai.hybrid", "fast", "cached", 1e-8, "different"),
    ],
)
def test_how_logits_agree(suite: str, arithmetic: str, arm: str, by: float, expected: str) -> None:
    """In `strict/1` only the absorbed arm has a tolerance, in `fast` every arm."""
    assert expected == moved(tiny(suite, arithmetic), arm, by).logits_agreement()


def test_an_arm_with_another_token_is_different() -> None:
    """One token of one arm is enough."""
    ran = tiny("cai.hybrid")
    result = ran.of_arm("chunked")[0]
    ids = (*result.generation.ids[:-1], 7)
    other = with_arm(ran, "chunked", replace(result, generation=replace(result.generation, ids=ids)))
    assert not other.tokens_equal()
    assert "different" == traced(other).all("PROOF")[0].get("arms")


def test_a_cache_that_holds_more_than_it_allocated_is_wrong() -> None:
    """Live floats and slack have to fit."""
    ran = tiny("cai.hybrid")
    count = ran.caches[0]
    small = replace(count, accounting=replace(count.accounting, allocated=1))
    assert not replace(ran, caches=(small, *ran.caches[1:])).caches_exact()


@pytest.mark.exhaustive
def test_witnesses_need_every_length_every_offset_and_a_window_that_was_left() -> None:
    """Without any one of them they are missing."""
    ran = tiny("cai.local-global")
    offsets = {result.arm for result in ran.arms if ".eos-" in result.arm}
    stops = [replace(ran.arms[0], arm=f"scripted.eos-{offset}") for offset in range(3)]
    whole = replace(ran, arms=(*(r for r in ran.arms if r.arm not in offsets), *stops))
    assert whole.witnesses_met()
    assert not replace(whole, arms=whole.arms[:-1]).witnesses_met()
    assert not replace(whole, arms=tuple(r for r in whole.arms if r.arm != "scripted")).witnesses_met()
    assert not replace(whole, caches=ran.caches[:2]).witnesses_met()


@pytest.mark.parametrize(("by", "expected"), [(0.0, Rollback.EXACT), (1e-12, Rollback.CLOSE), (1e-6, Rollback.WRONG)])
def test_a_session_that_is_cut_back_inexactly_is_found_out(
    monkeypatch: pytest.MonkeyPatch, by: float, expected: Rollback
) -> None:
    """What it says after a cut is compared with what a session says that was never cut."""
    cut = False
    feed, truncate = Session.feed, Session.truncate

    def truncating(session: Session, length: int) -> None:
        nonlocal cut
        truncate(session, length)
        cut = True

    def feeding(session: Session, ids: list[int]) -> list[object]:
        return [head + by * cut for head in feed(session, ids)]

    monkeypatch.setattr(Session, "truncate", truncating)
    monkeypatch.setattr(Session, "feed", feeding)
    assert expected is check_rollback(bench_of("cai.local-global"), range(2, 16))


def test_a_session_that_honours_a_cut_too_deep_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ring that has dropped a row cannot give it back, so a cut that needs it has to be refused."""
    truncate = Session.truncate

    def lenient(session: Session, length: int) -> None:
        try:
            truncate(session, length)
        except SessionError as error:
            if error.code != "truncation-refused":
                raise
            return

    monkeypatch.setattr(Session, "truncate", lenient)
    assert Rollback.WRONG is check_rollback(bench_of("cai.local-global"), range(2, 16))
    assert Rollback.EXACT is check_rollback(bench_of("cai.kv-cache"), range(2, 16)), "nothing is too deep there"


# ── small laws ───────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(0, 200), st.integers(1, 6), st.integers(1, 40))
def test_drawn_places_are_distinct_ascending_and_four_in_the_last_row(index: int, rows: int, row: int) -> None:
    """All of them where there are no eight; the same in every run."""
    size = rows * row
    places = drawn_places(index, size, row)
    assert min(8, size) == len(places)
    assert all(one < other for one, other in pairwise(places))
    assert places[0] >= 0
    assert places[-1] < size
    assert min(4, row) <= sum(place >= size - row for place in places)
    assert places == drawn_places(index, size, row)


def test_drawn_places_worked_by_hand() -> None:
    """The golden of the first stage, which any port has to print."""
    assert (188, 234, 323, 353, 364, 367, 372, 379) == drawn_places(0, 16 * 24, 24)


@pytest.mark.parametrize(
    ("ids", "offset", "block", "expected"),
    [
        ((5, 6, 7, 8), 0, 2, 5),
        ((5, 6, 7, 8), 2, 2, 7),
        ((5, 5, 5, 8), 1, 2, None),
        ((5, 5, 5, 8), 0, 2, 5),
        ((5, 5, 5, 5, 9), 1, 2, 9),
        ((5, 6, 5, 6, 5, 6), 2, 2, None),
        ((), 0, 2, None),
    ],
)
def test_a_stop_id_is_one_that_first_occurs_at_the_offset(
    ids: tuple[int, ...], offset: int, block: int, expected: int | None
) -> None:
    """In the earliest block that has one."""
    assert expected == stop_at_offset(ids, offset, block)


@given(st.lists(st.integers(2, 9), max_size=30), st.integers(1, 5), st.data())
def test_a_stop_id_ends_a_generation_at_its_offset(ids: list[int], block: int, data: st.DataObject) -> None:
    """Cutting at its first occurrence leaves a last block of offset + 1 tokens."""
    offset = data.draw(st.integers(0, block))
    stop = stop_at_offset(ids, offset, block)
    if stop is not None:
        assert offset == ids.index(stop) % (block + 1)
    else:
        assert all(ids.index(token) % (block + 1) != offset for token in set(ids))


def test_caches_are_counted_below_the_window_at_the_prompt_and_at_the_end() -> None:
    """Three lengths, or fewer where the sequence is shorter."""
    assert [5, 16, 48] == prefixes(GOLDEN_SIZES, 48)
    assert [10, 16, 48] == prefixes(PUBLISHED_SIZES, 48)
    assert [5, 16, 17] == prefixes(GOLDEN_SIZES, 17)
    assert [4] == prefixes(GOLDEN_SIZES, 4)


@pytest.mark.parametrize(
    ("suite", "profile", "examples", "steps"),
    [
        ("cai.kv-cache", "golden", 0, 60),
        ("cai.diagonal-ssm", "golden", 0, 36),
        ("cai.kv-cache", "golden", 7, 2),
        ("cai.kv-cache", "foreign", 1, 1),
        ("cai.kv-cache", "published", 0, 20),
        ("cai.kv-cache", "published", 640, 20),
        ("cai.kv-cache", "published", 5, 1),
    ],
)
def test_examples_decide_the_number_of_updates(suite: str, profile: str, examples: int, steps: int) -> None:
    """Whole batches, at least one; 0 stands for the profile's own number."""
    assert steps == sizes_for(phase_of(suite), profile, examples).steps


# ── requests and failures ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.exhaustive
def test_a_request_for_a_trace_runs_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records are those of the experiment."""
    monkeypatch.setattr(experiment, "sizes_for", tiny_sizes)
    request = question_about("cai.local-global").request
    found = parse(ReferenceBackend().trace(request), grammar_of)
    assert trace_records(tiny("cai.local-global")) == tuple(found.inner)


def test_a_prompt_as_long_as_the_context_stops_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage and the reference's sentence."""
    monkeypatch.setattr(experiment, "sizes_for", lambda *_: replace(TINY, context=8, steps=1))
    with pytest.raises(FixtureError, match=r"^Decoding: .*8"):
        run_decode_experiment("cai.kv-cache", "golden", 0, b"", STRICT)


def test_a_model_that_cannot_be_made_stops_the_experiment() -> None:
    """Heads that do not divide the width."""
    sizes = replace(TINY, heads=5)
    with pytest.raises(FixtureError, match=r"^Training: .*5"):
        train_models(phase_of("cai.kv-cache"), sizes, prepare(sizes, b""), STRICT)


def test_a_number_of_merges_below_0_stops_the_experiment() -> None:
    """The sentence holds the number; fewer merges than asked for are no error, short texts have no more."""
    with pytest.raises(FixtureError, match=r"^Training: .*-1"):
        prepare(replace(TINY, merges=-1), b"")
