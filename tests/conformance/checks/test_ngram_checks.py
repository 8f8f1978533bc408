"""The judges of grammar, conventions, golden values, vector cases, replay and published facts, each on one finding."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from cai_conformance.checks import published
from cai_conformance.checks.evidence import Evidence, Question
from cai_conformance.checks.finding import Finding, counted
from cai_conformance.checks.published import judge_published_bits, judge_published_text
from cai_conformance.checks.run import golden_bits, golden_records, golden_stages
from cai_conformance.checks.trace import judge_conventions, judge_grammar, judge_replay
from cai_conformance.checks.vectors import vector_check
from cai_conformance.errors import InputError
from cai_conformance.fixtures.published import BODY_SHA256, PARAMETER_SHA256
from cai_conformance.fixtures.vectors import Answer, VectorCase, read_vectors, write_vectors
from cai_conformance.run.record import body_of
from cai_conformance.verdicts import Outcome, Problem
from cai_reference.arithmetic.selftest import CLibrarySelfTest, SelfTestResult
from support_refusals import refuses
from support_traces import (
    changed,
    conforming,
    edges_bytes,
    evidence_of,
    field_of,
    golden_bytes,
    question,
    question_of,
    sealed,
    with_field,
    without_bits,
)

DIGEST = "sha256:" + "0" * 64


def only(judge: Callable[[Evidence], tuple[Finding, ...]], evidence: Evidence) -> tuple[Outcome, str]:
    """Return outcome and message of the one finding of a judge."""
    (finding,) = judge(evidence)
    return finding.outcome, finding.message


class TestGrammar:
    """Is it a trace, and an answer to the question?"""

    def test_a_right_trace_passes_with_its_size(self) -> None:
        """Records and the beginning of the digest."""
        digest = field_of("END", "digest")
        expected = f"{field_of('END', 'records')} records, digest {digest[:15]}…"
        assert (Outcome.PASS, expected) == only(judge_grammar, evidence_of(golden_bytes()))

    def test_a_fault_of_the_grammar_names_line_record_and_field(self) -> None:
        """The parser's sentence is the message."""
        outcome, message = only(judge_grammar, evidence_of(golden_bytes().replace(b"merges=8", b"merges=x")))
        assert (Outcome.FAIL, True) == (outcome, message.startswith("line 3, CONFIG, field merges: 'x' is not "))

    def test_a_wrong_digest_is_traced_to_the_record_that_changed(self) -> None:
        """Where there is a golden, the first difference is told beside the digests."""
        data = golden_bytes().replace(b"argmax=44", b"argmax=45")
        outcome, message = only(judge_grammar, evidence_of(data))
        assert Outcome.FAIL is outcome
        assert "END, field digest" in message
        assert message.endswith(
            "; first difference from the golden: STAGE index=4, field argmax: value, expected 44, found 45"
        )

    def test_a_wrong_digest_on_a_foreign_input_is_told_alone(self) -> None:
        """There is nothing to compare with."""
        data = changed("profile=golden", "profile=foreign").replace(b"argmax=44", b"argmax=45")
        outcome, message = only(judge_grammar, evidence_of(data, question_of("foreign")))
        assert Outcome.FAIL is outcome
        assert "first difference" not in message

    def test_a_wrong_digest_of_the_right_records_is_told_alone(self) -> None:
        """If only the END line is wrong, no record differs."""
        data = golden_bytes().replace(field_of("END", "digest").encode(), DIGEST.encode())
        outcome, message = only(judge_grammar, evidence_of(data))
        assert Outcome.FAIL is outcome
        assert "first difference" not in message

    @pytest.mark.parametrize(
        ("field", "value"),
        [("suite_version", "0.9.0"), ("profile", "foreign"), ("arithmetic", "libm/1"), ("vectors", DIGEST)],
    )
    def test_an_answer_to_another_question_fails(self, field: str, value: str) -> None:
        """The TRACE record must say what was asked for."""
        outcome, message = only(judge_grammar, evidence_of(with_field("TRACE", field, value)))
        assert Outcome.FAIL is outcome
        assert message.startswith(f"TRACE, field {field}: the trace ")
        assert value in message
        assert field_of("TRACE", field) in message

    def test_a_trace_of_another_suite_is_no_trace_of_this_one(self) -> None:
        """The grammar is the suite's."""
        outcome, message = only(judge_grammar, evidence_of(with_field("TRACE", "suite", "course.other")))
        assert (Outcome.FAIL, "line 1, TRACE, field suite: suite course.other is unknown") == (outcome, message)


class TestConventions:
    """Which conventions a backend states."""

    def test_the_suites_own_pass(self) -> None:
        """Nothing but the CONVENTION record is looked at."""
        expected = (Outcome.PASS, "the stated conventions are the suite's")
        assert expected == only(judge_conventions, evidence_of(golden_bytes()))

    @pytest.mark.parametrize(("value", "shown"), [("rounded up", "rounded up"), (r"a\nb", r"a\nb"), ("", "nothing")])
    def test_another_one_is_told_in_words(self, value: str, shown: str) -> None:
        """Field and both words, on one line."""
        outcome, message = only(judge_conventions, evidence_of(with_field("CONVENTION", "tie", value)))
        expected = f"CONVENTION, field tie: the backend follows another convention, {shown}, not untied"
        assert (Outcome.FAIL, expected) == (outcome, message)

    def test_every_difference_is_kept(self) -> None:
        """The message tells the first, the differences all."""
        data = with_field("CONVENTION", "loss", "sum", with_field("CONVENTION", "argmax", "last"))
        (finding,) = judge_conventions(evidence_of(data))
        assert [("argmax", "last"), ("loss", "sum")] == [(one.field, one.found) for one in finding.differences]


class TestGolden:
    """Records and bits against the golden."""

    def test_equal_records_pass_and_are_counted(self) -> None:
        """One record, several records."""
        evidence = evidence_of(golden_bytes())
        assert (Outcome.PASS, "1 record equal to the golden") == only(golden_records({"CONFIG"}), evidence)
        assert (Outcome.PASS, "3 records equal to the golden") == only(golden_records({"LOSS"}), evidence)

    def test_only_the_kinds_asked_for_are_compared(self) -> None:
        """A difference elsewhere is another check's."""
        evidence = evidence_of(with_field("CONFIG", "lr", "0.020000"))
        expected = (Outcome.FAIL, "CONFIG, field lr: value, expected 0.010000, found 0.020000")
        assert expected == only(golden_records({"CONFIG", "SPLIT"}), evidence)
        assert Outcome.PASS is only(golden_records({"LOSS"}), evidence)[0]

    def test_the_stage_that_differs_fails_alone(self) -> None:
        """One finding a stage, each under its name."""
        findings = golden_stages(evidence_of(with_field("STAGE|index=4", "argmax", "45")))
        names = ["context_ids", "embeddings", "concatenated", "hidden", "logits"]
        assert names == [finding.case for finding in findings]
        assert ["pass"] * 4 + ["fail"] == [finding.outcome.value for finding in findings]
        assert ["STAGE index=4"] == [difference.record for difference in findings[-1].differences]

    def test_equal_bits_pass_and_are_counted(self) -> None:
        """A BITS record a step, the one before training included."""
        expected = (Outcome.PASS, "16 records equal to the golden in every bit")
        assert expected == only(golden_bits, evidence_of(golden_bytes()))

    def test_other_bits_fail_with_their_distance(self) -> None:
        """The last bit of a loss is one unit in the last place."""
        digits = field_of("BITS|step=1|", "batch_loss")
        other = f"{int(digits, 16) + 1:016x}"
        (finding,) = golden_bits(evidence_of(with_field("BITS|step=1|", "batch_loss", other)))
        (difference,) = finding.differences
        assert (Outcome.FAIL, "BITS step=1", "batch_loss", 1) == (
            finding.outcome,
            difference.record,
            difference.field,
            difference.ulp,
        )

    def test_bits_of_another_arithmetic_are_not_comparable(self) -> None:
        """The reason names both."""
        evidence = evidence_of(with_field("TRACE", "arithmetic", "libm/1"), question_of("golden", "libm/1"))
        expected = "the golden's bits are those of strict/1; the backend ran in libm/1"
        assert (Outcome.SKIPPED, expected) == only(golden_bits, evidence)

    def test_a_program_without_bits_is_not_blamed(self) -> None:
        """BITS records may be left out."""
        expected = (Outcome.SKIPPED, "the trace carries no BITS records")
        assert expected == only(golden_bits, evidence_of(without_bits()))

    @pytest.mark.parametrize("judge", [golden_records({"CONFIG"}), golden_stages, golden_bits])
    def test_a_foreign_input_has_no_golden(self, judge: Callable[[Evidence], tuple[Finding, ...]]) -> None:
        """All of them skip with one reason."""
        evidence = evidence_of(changed("profile=golden", "profile=foreign"), question_of("foreign"))
        expected = (Outcome.SKIPPED, "the input is not the suite's own, so there is no golden for it")
        assert expected == only(judge, evidence)


CASES = (
    VectorCase("list", "some.check", "op", {}, "the list is reversed", Answer(ids=(1, 2))),
    VectorCase("exact", "some.check", "op", {}, "the sum is rounded", Answer(values=(1.0, -0.0))),
    VectorCase("text", "some.check", "op", {}, "the text is cut", Answer(text="ab")),
    VectorCase("other", "another.check", "op", {}, "nothing", Answer(ids=())),
)
ONE, ZERO = "3ff0000000000000", "8000000000000000"


def asked(*samples: str, arithmetic: str = "strict/1", check: str = "some.check") -> dict[str, Finding]:
    """Return the findings on SAMPLE records by the name of their case."""
    own = question()
    vectors = write_vectors("course.ngram", "1.0.0", CASES)
    given = replace(own, request=replace(own.request, vectors=vectors))
    opening = edges_bytes().decode().split("\n")[:2]
    lines = [opening[0].replace("strict/1", arithmetic), opening[1], *samples, "END|", ""]
    evidence = evidence_of(golden_bytes(), given, sealed("\n".join(lines).encode()))
    return {finding.case: finding for finding in vector_check(check)(evidence)}


class TestVectors:
    """Answers to vector cases."""

    def test_the_file_keeps_its_cases(self) -> None:
        """Reading is the inverse of writing, doubles included."""
        assert CASES == read_vectors(write_vectors("course.ngram", "1.0.0", CASES)).cases

    def test_an_answer_of_no_type_is_refused(self) -> None:
        """Neither is a case without one."""
        document = json.loads(write_vectors("course.ngram", "1.0.0", CASES[:1]))
        document["cases"][0]["expected"] = {"number": 1}
        with refuses(InputError, "input-unreadable", match=r"expected of case 0 is not an answer$"):
            read_vectors(json.dumps(document).encode())

    def test_the_right_answers_pass(self) -> None:
        """Integers, bits and text."""
        found = asked(
            "SAMPLE|case=some.check.list|draw=0|ids=[1, 2]",
            f"SAMPLE|case=some.check.exact|draw=0|values=[{ONE}, {ZERO}]",
            "SAMPLE|case=some.check.text|draw=0|text=ab",
        )
        assert {"list", "exact", "text"} == set(found)
        assert {(Outcome.PASS, "the one right answer")} == {(one.outcome, one.message) for one in found.values()}

    @pytest.mark.parametrize(
        ("case", "answer", "problem", "index", "expected", "found", "ulp"),
        [
            ("list", "ids=[2, 1]", Problem.VALUE, 0, "1", "2", None),
            ("list", "ids=[1]", Problem.SHAPE, None, "2 items", "1 items", None),
            ("list", "ids=[1, 2]|text=a", Problem.EXTRA, None, "", "", None),
            ("list", "text=a", Problem.MISSING, None, "", "", None),
            ("exact", f"values=[{ONE}, 0000000000000000]", Problem.VALUE, 1, ZERO, "0" * 16, 0),
            ("exact", f"values=[3ff0000000000001, {ZERO}]", Problem.VALUE, 0, ONE, "3ff0000000000001", 1),
            ("exact", f"values=[7ff8000000000000, {ZERO}]", Problem.NAN, 0, ONE, "7ff8000000000000", None),
            ("exact", f"values=[{ONE}]", Problem.SHAPE, None, "2 items", "1 items", None),
            ("text", "text=ac", Problem.VALUE, None, "ab", "ac", None),
            ("text", "text=", Problem.VALUE, None, "ab", "", None),
        ],
    )
    def test_a_wrong_answer_fails_with_the_typical_cause(
        self, case: str, answer: str, problem: Problem, index: int | None, expected: str, found: str, ulp: int | None
    ) -> None:
        """The first difference, both values, the distance, and what the case was made to catch."""
        finding = asked(f"SAMPLE|case=some.check.{case}|draw=0|{answer}")[case]
        (difference,) = finding.differences
        assert (Outcome.FAIL, problem, index) == (finding.outcome, difference.problem, difference.index)
        assert (expected, found, ulp) == (difference.expected, difference.found, difference.ulp)
        sees = next(one.sees for one in CASES if one.case == case)
        assert finding.message == f"{difference}. Typical cause: {sees}"

    def test_cases_may_be_left_out(self) -> None:
        """What is not offered is skipped."""
        found = asked("SAMPLE|case=some.check.text|draw=0|text=ab")
        expected = (Outcome.SKIPPED, "the backend gave no answer to this case")
        assert [expected] * 2 == [(found[case].outcome, found[case].message) for case in ("list", "exact")]

    def test_exact_doubles_are_those_of_strict(self) -> None:
        """In another arithmetic only the exact cases are skipped, right or wrong."""
        samples = [
            "SAMPLE|case=some.check.list|draw=0|ids=[1, 2]",
            f"SAMPLE|case=some.check.exact|draw=0|values=[{ONE}, {ONE}]",
        ]
        found = asked(*samples, arithmetic="fast")
        assert (Outcome.PASS, Outcome.SKIPPED) == (found["list"].outcome, found["exact"].outcome)
        assert "the answer's bits are those of strict/1; the backend ran in fast" == found["exact"].message

    def test_a_check_without_cases_cannot_pass(self) -> None:
        """An empty list of cases would make it vacuous."""
        found = asked("SAMPLE|case=some.check.list|draw=0|ids=[1, 2]", check="unheard.check")
        assert {"": Outcome.FAIL} == {case: finding.outcome for case, finding in found.items()}


class TestReplay:
    """The second run."""

    def test_the_same_bytes_pass(self) -> None:
        """Their number shows that something was compared."""
        expected = f"a second run in a fresh process gave the same {len(golden_bytes())} bytes"
        assert (Outcome.PASS, expected) == only(judge_replay, Evidence(conforming(), question()))

    def test_the_line_that_changed_is_shown_from_both_runs(self) -> None:
        """Shortened, with its number."""
        backend = conforming(second=golden_bytes().replace(b"stop=limit", b"stop=eos"))
        outcome, message = only(judge_replay, Evidence(backend, question()))
        assert Outcome.FAIL is outcome
        assert message.startswith("line 14 changed from GENERATE|prompt=At|")
        assert 2 == message.count("…")

    def test_a_shorter_second_run_fails(self) -> None:
        """If one is the beginning of the other, sizes are told."""
        cut = golden_bytes()[: golden_bytes().rindex(b"END")]
        outcome, message = only(judge_replay, Evidence(conforming(second=cut), question()))
        assert (Outcome.FAIL, True) == (outcome, message.startswith("line 32 changed from END|"))
        backend = conforming(golden=b"a\n", second=b"a\nb")
        assert Outcome.FAIL is only(judge_replay, Evidence(backend, question()))[0]
        backend = conforming(golden=b"a", second=b"a\nb")
        expected = (Outcome.FAIL, "the second run gave 3 bytes, the first 1")
        assert expected == only(judge_replay, Evidence(backend, question()))


def published_question(arithmetic: str = "libm/1") -> Question:
    """Return the question about the published corpus."""
    return question_of("published", arithmetic)


def published_evidence(arithmetic: str = "libm/1") -> Evidence:
    """Return the evidence of a backend that ran on the published corpus, as it says."""
    data = with_field("TRACE", "arithmetic", arithmetic, changed("profile=golden", "profile=published"))
    return evidence_of(data, published_question(arithmetic))


class TestPublished:
    """Facts about one corpus and one C library; here with the golden's values in their place."""

    @pytest.mark.parametrize("judge", [judge_published_text, judge_published_bits])
    def test_they_are_about_the_published_corpus(self, judge: Callable[[Evidence], tuple[Finding, ...]]) -> None:
        """On any other they are skipped."""
        expected = (Outcome.SKIPPED, "the input is not the published corpus")
        assert expected == only(judge, evidence_of(golden_bytes()))

    def test_another_body_fails_with_both_digests(self) -> None:
        """The golden's body is not the published one."""
        outcome, message = only(judge_published_text, published_evidence())
        assert Outcome.FAIL is outcome
        assert message.endswith(f"the published trace {BODY_SHA256}")

    def test_the_published_body_passes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Here with the digest of the golden's body in its place."""
        digest = hashlib.sha256(body_of(golden_bytes())).hexdigest()
        monkeypatch.setattr(published, "BODY_SHA256", digest)
        expected = (Outcome.PASS, "13 lines equal to the published trace, byte for byte")
        assert expected == only(judge_published_text, published_evidence())

    def test_parameters_are_compared_step_by_step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first digest that differs is told; equal ones pass."""
        monkeypatch.setattr(published, "c_library_selftest", lambda: CLibrarySelfTest("here", ()))
        outcome, message = only(judge_published_bits, published_evidence())
        expected = f"BITS step=1, field parameters: the published digest is sha256:{PARAMETER_SHA256[1]}, "
        assert Outcome.FAIL is outcome
        assert message.startswith(expected)
        records = published_evidence().main.all("BITS")
        digests = tuple(record.get("parameters").removeprefix("sha256:") for record in records)
        monkeypatch.setattr(published, "PARAMETER_SHA256", digests)
        expected = "parameters after 16 steps equal to the published bits"
        assert (Outcome.PASS, expected) == only(judge_published_bits, published_evidence())

    def test_too_few_steps_fail(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sixteen digests need sixteen records."""
        monkeypatch.setattr(published, "c_library_selftest", lambda: CLibrarySelfTest("here", ()))
        data = with_field("TRACE", "arithmetic", "libm/1", changed("profile=golden", "profile=published"))
        evidence = evidence_of(without_bits(data), published_question())
        assert (Outcome.FAIL, "expected 16 BITS records, found 0") == only(judge_published_bits, evidence)

    def test_another_arithmetic_has_other_bits(self) -> None:
        """Only `libm/1` is comparable."""
        expected = "the published bits are those of libm/1; the backend ran in strict/1"
        assert (Outcome.SKIPPED, expected) == only(judge_published_bits, published_evidence("strict/1"))

    def test_another_c_library_has_other_bits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The library and the functions that matter are the reason; others do not matter."""
        results = tuple(SelfTestResult(name, 1, ("differs",)) for name in ("exp", "log1p", "tanh"))
        monkeypatch.setattr(published, "c_library_selftest", lambda: CLibrarySelfTest("musl 1.2 on Toaster", results))
        outcome, message = only(judge_published_bits, published_evidence())
        expected = "the C library here (musl 1.2 on Toaster) computes exp and log1p with other bits than the one of the"
        assert (Outcome.SKIPPED, f"{expected} published digests") == (outcome, message)
        monkeypatch.setattr(published, "c_library_selftest", lambda: CLibrarySelfTest("musl", results[2:]))
        assert Outcome.FAIL is only(judge_published_bits, published_evidence())[0]


def test_counts_are_said_in_words() -> None:
    """One is singular."""
    assert ["0 lines", "1 line", "2 lines"] == [counted(count, "line") for count in range(3)]
