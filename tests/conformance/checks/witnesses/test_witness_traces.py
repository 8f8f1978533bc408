"""Witnesses in traces: every passing check of the goldens met what it states, and a trace that lacks it fails.

The traces are goldens from which what a check must have met was cut, sealed again; all that is left agrees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.checks.evidence import Evidence
from cai_conformance.checks.finding import witnessed
from cai_conformance.checks.run import golden_records
from cai_conformance.checks.tolerance.policy import Policy, PolicyKind
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.questions import Options, question_for
from cai_conformance.run.runner import SuiteRun, run_suites
from cai_conformance.suites import SUITES, find_suite
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_conformance.verdicts import Outcome, Verdict
from support_decode_traces import Change, both, everywhere, field, golden_of, question_about, verdicts_on, without
from support_traces import StoredBackend, sealed

NGRAM, KV, MULTI, SPECULATIVE = "course.ngram", "cai.kv-cache", "cai.multi-token", "cai.speculative"
LOCAL, LATENT = "cai.local-global", "cai.latent-attention"
SHORT = "[0, 261, 275]"
GUESSING = ("scripted", *(f"scripted.budget-{n}" for n in range(2, 6)), *(f"scripted.eos-{n}" for n in range(5)))
"""The arms that guess; a budget of one token leaves nothing to guess."""


def rejections(suite: str, arm: str) -> tuple[str, ...]:
    """Return the beginnings of the passes of an arm in which a guess was rejected."""
    drafts = [record for record in parse(golden_of(suite), grammar_of).all("DRAFT") if record.get("arm") == arm]
    found = [record for record in drafts if record.get("accepted") != record.get("proposed")]
    return tuple(f"DRAFT|arm={arm}|prompt={each.get('prompt')}|pass={each.get('pass')}|" for each in found)


def inside(suite: str, arm: str) -> tuple[str, ...]:
    """Return the beginnings of the passes of an arm in which some guesses were right, and some not."""
    passes = {name: golden_of(suite).decode().partition(f"\n{name}")[2] for name in rejections(suite, arm)}
    return tuple(name for name, rest in passes.items() if "accepted=0|" not in rest.partition("\n")[0])


def unstated(record: str, name: str) -> Change:
    """Leave a field out of every line that starts with `record`."""

    def changed(data: bytes) -> bytes:
        lines = [
            "|".join(
                piece for piece in line.split("|") if not (line.startswith(record) and piece.startswith(f"{name}="))
            )
            for line in data.decode().split("\n")
        ]
        return sealed("\n".join(lines).encode())

    return changed


@dataclass(frozen=True)
class Cut:
    """A change of a suite's golden, the check that then shows nothing, and what it did not meet."""

    suite: str
    change: Change
    check: str
    missing: str


NO_TOKENS = both(*(everywhere(f"DECODE|arm={arm}|", "ids", "[]") for arm in ("full", "cached")))
ONE_TOKEN = both(*(everywhere(f"DECODE|arm={arm}|", "ids", "[5, 5, 5]") for arm in ("full", "latent")))
SHORT_PROMPTS = both(*(everywhere(f"DECODE|arm={arm}|", "prompt_ids", SHORT) for arm in ("full", "cached", "chunked")))
WITHIN = both(SHORT_PROMPTS, *(everywhere(f"DECODE|arm={arm}|", "ids", "[5, 6]") for arm in ("full", "cached")))

CUTS = {
    "no-token": Cut(KV, NO_TOKENS, "kv.inc[cached]", "no tokens, no distinct tokens in a generation"),
    "one-token-again-and-again": Cut(
        LATENT, ONE_TOKEN, "mla.absorb[latent]", "only 1 of at least 2 distinct tokens in a generation"
    ),
    "one-chunk": Cut(KV, SHORT_PROMPTS, "kv.inc[chunked]", "no prompts of several chunks"),
    "within-the-window": Cut(LOCAL, WITHIN, "kv.inc[cached]", "no tokens beyond the window"),
    "ring-never-wrapped": Cut(
        LOCAL,
        without(*(f"CACHE|layer={layer}|arm=cached|prefix={prefix}|" for layer in (0, 1) for prefix in (16, 48))),
        "cache.formula",
        "no rings that have let go of rows",
    ),
    "never-rejected": Cut(
        KV,
        without(*rejections(KV, "scripted")),
        "spec.eq[scripted]",
        "no rejected guesses, no rejections inside a block, no rows rolled back",
    ),
    "never-rejected-inside": Cut(
        SPECULATIVE, without(*inside(SPECULATIVE, "draft")), "spec.eq[draft]", "no rejections inside a block"
    ),
    "never-accepted": Cut(
        MULTI,
        everywhere("DRAFT|arm=mtp-full|", "accepted", "0"),
        "spec.eq[mtp-full]",
        "no accepted guesses, no rejections inside a block",
    ),
    "nothing-to-cut": Cut(
        KV,
        both(field("DECODE|arm=full|prompt=0|", "ids", "[312, 294]")),
        "spec.budget[2]",
        "no generations that would go on",
    ),
    "no-block": Cut(KV, without("DRAFT|arm=scripted.eos-2|"), "spec.eos[2]", "no stops at this offset of a block"),
    "other-offset": Cut(
        KV, field("DRAFT|arm=scripted.eos-2|", "committed", "2"), "spec.eos[2]", "no stops at this offset of a block"
    ),
    "no-speculation": Cut(
        KV,
        without(*(f"{kind}|arm={arm}|" for kind in ("DRAFT", "DECODE") for arm in GUESSING)),
        "spec.trace",
        "no rejected guesses, no rows rolled back",
    ),
    "no-guess": Cut(
        SPECULATIVE,
        both(*(everywhere("DRAFT|arm=self-draft|", name, "0") for name in ("proposed", "accepted"))),
        "spec.self",
        "no guesses",
    ),
    "always-right": Cut(
        MULTI,
        both(*(everywhere("DRAFT|arm=mtp-", name, "2") for name in ("proposed", "accepted"))),
        "spec.cache",
        "no rejected guesses",
    ),
    "no-number-with-its-bits": Cut(
        KV,
        both(*(unstated(*each) for each in (("STAGE|", "bits"), ("BITS|", "train"), ("BITS|", "validation")))),
        "trace.recount",
        "no printed numbers with their bits",
    ),
    "no-continuation": Cut(
        NGRAM,
        both(field("GENERATE|", "ids", "[]"), field("GENERATE|", "stop", "eos")),
        "trace.recount",
        "no generated tokens",
    ),
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_a_trace_that_meets_too_little_fails(cut: Cut) -> None:
    """Although nothing in it is wrong; the message says what was not met."""
    verdict = verdicts_on(cut.suite, cut.change(golden_of(cut.suite)), cut.check)[cut.check]
    assert Outcome.FAIL is verdict.outcome
    assert verdict.message.startswith(f"this shows nothing, for it met {cut.missing}; "), verdict.message


def test_on_foreign_stories_it_is_skipped() -> None:
    """Nobody promises that a draft of theirs is ever wrong."""
    cut = CUTS["never-rejected"]
    data = both(cut.change, field("TRACE|", "profile", "foreign"))(golden_of(KV))
    verdict = verdicts_on(KV, data, cut.check, asked=question_about(KV, "foreign"))[cut.check]
    assert Outcome.SKIPPED is verdict.outcome
    assert verdict.message.startswith(f"this shows nothing, for it met {cut.missing}; ")


def test_records_that_no_golden_has_are_not_compared() -> None:
    """Two traces without any agree in all of them, which shows nothing."""
    evidence = Evidence(StoredBackend({"golden": golden_of(KV)}), question_about(KV))
    (finding,) = golden_records(("SAMPLE",))(evidence)
    assert (Outcome.PASS, "0 records equal to the golden") == (finding.outcome, finding.message)
    found = witnessed(finding, find_suite(KV).check("run.golden").witnesses)
    assert (Outcome.FAIL, "this shows nothing, for it met no records of the golden; 0 records equal to the golden") == (
        found.outcome,
        found.message,
    )


def judged_golden(suite: str) -> Iterator[Verdict]:
    """Yield the verdicts on a golden that passed; the second run is the same."""
    for verdict in verdicts_on(suite, golden_of(suite)).values():
        assert verdict.outcome in (Outcome.PASS, Outcome.SKIPPED), (verdict.check, verdict.message)
        if verdict.outcome is Outcome.PASS:
            yield verdict


class TestGoldens:
    """What passes has met what it states, and tells how often."""

    @pytest.mark.parametrize("suite", [NGRAM, LOCAL, MULTI])
    def test_every_pass_on_a_golden_tells_what_it_met(self, suite: str) -> None:
        """As often as it has to be."""
        assert_met(suite, judged_golden(suite))

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("suite", [suite.identifier for suite in SUITES])
    def test_every_pass_on_every_golden_tells_what_it_met(self, suite: str) -> None:
        """Of all suites."""
        assert_met(suite, judged_golden(suite))


@pytest.mark.exhaustive
class TestTheReference:
    """Driven call by call on the given weights of every suite."""

    def test_every_pass_tells_what_it_met(self) -> None:
        """And what is needed of some models only is met by one of them."""
        allowed = Policy(PolicyKind.ULP, 1e6)
        options = Options(arithmetic="fast", profile="edges", policy=allowed)
        met: dict[str, int] = {}
        for suite in SUITES[1:]:
            runs = [SuiteRun(suite, question_for(suite, GoldenStore(locate()), options))]
            verdicts = list(run_suites(runs, ReferenceBackend(), lambda _: True))
            assert [] == [(each.check, each.message) for each in verdicts if each.outcome is Outcome.FAIL]
            counts = assert_met(suite.identifier, (verdict for verdict in verdicts if verdict.outcome is Outcome.PASS))
            for check, found in counts.items():
                name = check.partition("::")[2].partition("[")[0]
                met |= {f"{name} {what}": max(count, met.get(f"{name} {what}", 0)) for what, count in found.items()}
        assert [] == [what for what, count in met.items() if not count]


def assert_met(identifier: str, verdicts: Iterator[Verdict]) -> dict[str, dict[str, int]]:
    """Require that each verdict tells what its check states, often enough, and return all counts by check."""
    suite, counts = find_suite(identifier), {}
    for verdict in verdicts:
        name, _, case = verdict.check.partition("::")[2].rstrip("]").partition("[")
        needed = [each for each in suite.check(name).witnesses if each.needed_in(case)]
        met = dict(verdict.met)
        assert {each.many for each in needed} == set(met), verdict.check
        for witness in needed:
            assert met[witness.many] >= witness.least or (witness.where and not met[witness.many]), verdict.check
        counts[verdict.check] = met
    assert counts
    return counts
