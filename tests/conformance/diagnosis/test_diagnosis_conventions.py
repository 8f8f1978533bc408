"""Planted faults as backends: the right stage is the first that goes wrong, and the right mistake is named first."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest

from cai_conformance.diagnosis.diagnosis import diagnosis_of_stages
from cai_conformance.diagnosis.evidence import BatchRows, Begin, Call, Cut, SessionRows, ShownFeed
from cai_conformance.diagnosis.fits import fitting_conventions
from cai_conformance.diagnosis.stages import session_findings, stage_findings
from cai_conformance.faults import fault_named, planted_together
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.decoding.session import SessionOptions
from support_fault_workloads import IDS, forward, model_of
from support_observed_session import ObservedSession

FORWARD: Final = (
    ("rope.half-split", "course.decoder", "blocks.0.mixer.query"),
    ("rope.half-split", "cai.kv-cache", "blocks.0.mixer.query"),
    ("rope.adjacent", "llama.dense", "blocks.0.mixer.query"),
    ("rope.base-10000", "llama.dense", "blocks.0.mixer.query"),
    ("rope.start-plus-one", "llama.dense", "blocks.0.mixer.query"),
    ("attention.keys-unrotated", "cai.kv-cache", "blocks.0.mixer.key"),
    ("window.plus-one", "llama.gqa-window", "blocks.0.mixer.weights"),
    ("window.plus-one", "cai.local-global", "blocks.0.mixer.weights"),
    ("window.none", "llama.gqa-window", "blocks.0.mixer.weights"),
    ("norm.eps-outside", "llama.gqa-window", "blocks.0.norm1"),
    ("norm.eps-1e-5", "llama.dense", "blocks.0.norm1"),
    ("norm.alpha-ignored", "cai.kv-cache", "blocks.0.norm1"),
    ("attention.scale-model-width", "llama.dense", "blocks.0.mixer.weights"),
    ("attention.groups-strided", "llama.gqa-window", "blocks.0.mixer.weights"),
    ("attention.future-token", "llama.dense", "blocks.0.mixer.weights"),
    ("attention.keys-and-values-exchanged", "llama.dense", "blocks.0.mixer.key"),
    ("attention.heads-unmerged", "cai.kv-cache", "blocks.0.mixer.mixture"),
    ("swiglu.halves-exchanged", "cai.kv-cache", "blocks.0.feed_forward.gated"),
    ("swiglu.gelu-for-silu", "llama.dense", "blocks.0.feed_forward.gated"),
    ("block.sequential-for-parallel", "cai.parallel-block", "blocks.0.feed_forward.gated"),
    ("mla.scale-nope", "cai.latent-attention", "blocks.0.mixer.weights"),
    ("ssm.euler", "cai.diagonal-ssm", "blocks.0.mixer.scanned"),
    ("projection.groups-strided", "cai.grouped-hybrid", "blocks.0.mixer.scanned"),
    ("embedding.padding-embedded", "cai.kv-cache", "embedding"),
    ("head.no-final-norm", "llama.dense", "final_norm"),
    ("rope.adjacent + rope.base-10000", "llama.dense", "blocks.0.mixer.query"),
    ("rope.adjacent + rope.base-10000 + rope.start-plus-one", "llama.dense", "blocks.0.mixer.query"),
    ("rope.adjacent + norm.eps-1e-5", "llama.gqa-window", "blocks.0.norm1"),
)
"""Faults, a suite in which they show, and the first stage that they spoil."""

CHUNKS: Final = (ShownFeed(IDS[:9]), ShownFeed(IDS[9:15]), ShownFeed(IDS[15:]))
ROLLBACK: Final = (ShownFeed(IDS[:12]), ShownFeed((5, 9, 70)), Cut(12), ShownFeed(IDS[12:15]), ShownFeed(IDS[15:]))
AGAIN: Final = (ShownFeed((9, 8, 7, 60, 3)), Begin(), ShownFeed(IDS[:15]), ShownFeed(IDS[15:]))
CHUNK: Final = (ShownFeed(IDS[:9]), ShownFeed(IDS[9:]))

SESSIONS: Final = (
    ("cache.stale-row-after-rollback", "llama.dense", ROLLBACK, "blocks.0.mixer.weights"),
    ("rope.restart", "llama.dense", CHUNKS, "blocks.0.mixer.query"),
    ("rope.start-forgotten", "llama.dense", CHUNKS, "blocks.0.mixer.query"),
    ("cache.keys-rotated-again", "cai.kv-cache", CHUNKS, "blocks.0.mixer.weights"),
    ("cache.stale-row-after-rollback", "cai.diagonal-ssm", ROLLBACK, "blocks.0.mixed"),
    ("cache.rollback-ignored", "llama.gqa-window", ROLLBACK, "blocks.0.mixer.weights"),
    ("cache.position-plus-one-after-rollback", "llama.dense", ROLLBACK, "blocks.0.mixer.query"),
    ("cache.kept-between-sequences", "llama.dense", AGAIN, "blocks.0.mixer.weights"),
    ("cache.chunk-unmasked", "cai.kv-cache", CHUNK, "blocks.0.mixer.weights"),
    ("cache.mask-top-left", "llama.dense", CHUNK, "blocks.0.mixer.weights"),
    ("cache.values-one-behind", "llama.dense", CHUNKS, "blocks.0.mixed"),
    ("cache.window-ignored", "llama.gqa-window", CHUNKS, "blocks.0.mixer.weights"),
    ("ssm.state-kept", "cai.diagonal-ssm", AGAIN, "blocks.0.mixed"),
    ("ssm.chunk-from-zero", "cai.hybrid", CHUNKS, "blocks.0.mixed"),
    ("ssm.one-step-a-call", "cai.diagonal-ssm", CHUNKS, "blocks.0.mixed"),
)
"""Faults, a suite in which they show, what is done with a session, and the first stage that they spoil."""

TOLERANCE: Final = 1e-9
START: Final = 7
SAMPLE: Final = 16


def logits_of(stages: dict[str, Array]) -> Array:
    """Return the logits [heads, tokens, vocabulary] of a pass."""
    return np.stack([value for name, value in stages.items() if name.startswith("logits.")])


def sampled(rows: tuple[tuple[object, ...], ...]) -> list[object]:
    """Return all rows as parameters, all but a sample of them marked as exhaustive."""
    return [
        pytest.param(*row, id=f"{row[0]} in {row[1]}", marks=pytest.mark.exhaustive if place % SAMPLE else ())
        for place, row in enumerate(rows)
    ]


@pytest.mark.parametrize(("slugs", "suite", "stage"), sampled(FORWARD))
def test_a_wrong_forward_pass_is_explained(slugs: str, suite: str, stage: str) -> None:
    """The stage where it begins, and the mistake, alone at the top."""
    model, faults = model_of(suite), [fault_named(slug) for slug in slugs.split(" + ")]
    with planted_together(faults):
        shown = forward(model, arithmetic=STRICT)
    findings = stage_findings(model, IDS, 0, shown, STRICT, TOLERANCE)
    known = {name: value for name, value in shown.items() if name not in findings.unknown}
    evidence = BatchRows(IDS, 0, tuple(range(len(IDS))), logits_of(shown), known)
    fits = fitting_conventions(model, [evidence], TOLERANCE)
    diagnosis = diagnosis_of_stages(findings, fits)
    assert (diagnosis.stage, diagnosis.origin) == (stage, "added")
    assert diagnosis.conventions[0] == slugs
    assert len(diagnosis.lines) <= 6 and fits[0].residual < 1e-12


@pytest.mark.parametrize(("slug", "suite", "calls", "stage"), sampled(SESSIONS))
def test_a_wrong_cache_is_explained(slug: str, suite: str, calls: tuple[Call, ...], stage: str) -> None:
    """By the backend's own full pass, and by what gives both the right full pass and the wrong cached rows."""
    model = model_of(suite)
    with fault_named(slug).planted():
        session = ObservedSession(model, STRICT, SessionOptions(START, slack=4))
        for call in calls:
            match call:
                case ShownFeed(ids):
                    rows = session.feed(ids)
                case Cut(length):
                    session.truncate(length)
                case Begin():
                    session.reset()
        whole = forward(model, start=START, arithmetic=STRICT)
    findings = session_findings(model, IDS, START, whole, session.seen, STRICT, TOLERANCE)
    assert findings.first_added is not None and findings.first_added.stage == stage
    evidence = (
        BatchRows(IDS, START, tuple(range(len(IDS))), logits_of(whole)),
        SessionRows(calls, np.stack(rows), START, slack=4),
    )
    assert fitting_conventions(model, evidence, TOLERANCE)[0].slugs == (slug,)


class TestRightSessions:
    """A cached call that is right agrees with the full pass in every stage, whatever columns its weights have."""

    def test_every_stage_agrees(self) -> None:
        """With a window, whose session shows zeros for what it does not see."""
        model = model_of("llama.gqa-window")
        session = ObservedSession(model, STRICT, SessionOptions(START))
        session.feed(IDS[:9])
        session.feed(IDS[9:])
        whole = forward(model, start=START, arithmetic=STRICT)
        findings = session_findings(model, IDS, START, whole, session.seen, STRICT, 0.0)
        assert findings.first_different is None
        assert len(findings.stages) == 18

    @pytest.mark.parametrize("columns", [7, 12, 16])
    def test_weights_may_have_a_column_for_each_visible_key(self, columns: int) -> None:
        """Or for more, up to all tokens."""
        model = model_of("llama.gqa-window")
        whole = forward(model, start=START, arithmetic=STRICT)
        cached = {name: value[..., -1:, :] for name, value in whole.items()}
        for name in [name for name in cached if name.endswith(".weights")]:
            cached[name] = cached[name][..., -columns:]
        assert session_findings(model, IDS, START, whole, cached, STRICT, 0.0).first_different is None

    def test_weights_may_have_a_column_for_each_token_of_the_call(self) -> None:
        """Then they do not add up to 1, and the others are taken from the full pass."""
        model = model_of("llama.dense")
        whole = forward(model, start=START, arithmetic=STRICT)
        cached = {name: value[..., -3:, :] for name, value in whole.items()}
        for name in [name for name in cached if name.endswith(".weights")]:
            cached[name] = cached[name][..., -3:]
        assert session_findings(model, IDS, START, whole, cached, STRICT, 0.0).first_different is None

    def test_a_mistake_of_the_full_pass_is_none_of_the_cache(self) -> None:
        """Both are wrong in the same way."""
        model = model_of("llama.dense")
        with fault_named("rope.adjacent").planted():
            whole = forward(model, start=START, arithmetic=STRICT)
        cached = {name: value[..., -1:, :] for name, value in whole.items()}
        findings = session_findings(model, IDS, START, whole, cached, STRICT, 1e-9)
        assert findings.stages[0].overall is not None
        assert all(finding.overall is not None and finding.overall.agrees for finding in findings.stages)


class TestWhatFits:
    """Naming needs a difference, and something that explains all of it."""

    def test_a_right_backend_has_nothing_to_explain(self) -> None:
        """No mistake is named, although many change nothing."""
        model = model_of("llama.dense")
        shown = forward(model)
        assert fitting_conventions(model, [BatchRows(IDS, 0, (15,), logits_of(shown)[:, 15:])], 1e-9) == ()
        assert fitting_conventions(model, [], 1e-9) == ()

    @pytest.mark.exhaustive
    def test_numbers_that_no_mistake_gives_are_not_explained(self) -> None:
        """Random ones."""
        model = model_of("llama.gqa-window")
        rows = logits_of(forward(model))[:, 14:] + np.linspace(-1.0, 1.0, 2 * 320).reshape(1, 2, 320)
        assert fitting_conventions(model, [BatchRows(IDS, 0, (14, 15), rows)], 1e-9) == ()

    def test_a_tolerance_lets_a_narrow_format_be_explained(self) -> None:
        """Rows in single precision, with the best explanation first."""
        model = model_of("llama.dense")
        with fault_named("rope.base-10000").planted():
            rows = logits_of(forward(model))[:, 8:].astype(np.float32).astype(np.float64)
        fits = fitting_conventions(model, [BatchRows(IDS, 0, tuple(range(8, 16)), rows)], 1e-4)
        assert fits[0].slugs == ("rope.base-10000",)
        assert 0.0 < fits[0].residual < 1e-5 < fits[0].unexplained

    def test_where_positions_begin_shows_in_queries_and_not_in_logits(self) -> None:
        """Scores depend on distances alone, so that logits have nothing to explain."""
        model = model_of("llama.dense")
        with fault_named("rope.start-plus-one").planted():
            shown = forward(model)
        logits, wanted = logits_of(shown), tuple(range(16))
        assert fitting_conventions(model, [BatchRows(IDS, 0, wanted, logits)], 1e-9) == ()
        (fit,) = fitting_conventions(model, [BatchRows(IDS, 0, wanted, logits, shown)], 1e-9)
        assert fit.slugs == ("rope.start-plus-one",)

    def test_rows_that_are_right_narrow_the_choice(self) -> None:
        """A window that only the cache ignores is not taken for one that everything ignores."""
        model, wanted = model_of("llama.gqa-window"), tuple(range(16))
        with fault_named("cache.window-ignored").planted():
            session = ObservedSession(model, STRICT, SessionOptions(0))
            rows = np.stack(session.feed(IDS))[:, -1:]
        cached = SessionRows((ShownFeed(IDS),), rows)
        alone = {fit.slugs[0] for fit in fitting_conventions(model, [cached], 1e-9)}
        assert alone == {"window.none", "cache.window-ignored"}
        both = fitting_conventions(model, [BatchRows(IDS, 0, wanted, logits_of(forward(model))), cached], 1e-9)
        assert [fit.slugs for fit in both] == [("cache.window-ignored",)]
