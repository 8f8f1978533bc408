"""`cai-conform trace`: the golden from the embedded corpus, the published files from the published one, to the byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from cai_conformance.run.record import body_of
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from support_cli import invoke, output_bytes
from support_course import CORPUS, COURSE, PARAMETER_DIGESTS, SPLITS, needs_c_library, needs_corpus
from support_inputs import input_of
from support_traces import edges_bytes, golden_bytes

PUBLISHED = ("trace", "ngram", "--corpus", CORPUS, "--splits", SPLITS)


@pytest.mark.exhaustive
def test_the_trace_of_a_suite_is_its_golden() -> None:
    """The command in the manifest, byte for byte."""
    assert golden_bytes() == output_bytes("trace", "course.ngram")


def test_a_view_is_a_part_of_the_trace() -> None:
    """The body of what any backend answers; the whole trace if nothing is said."""
    assert golden_bytes() == output_bytes("trace", "ngram", "--backend", "stored:good")
    body = output_bytes("trace", "ngram", "--backend", "stored:good", "--view", "body")
    assert body_of(golden_bytes()) == body


def test_the_answers_to_vector_cases_are_a_trace_too() -> None:
    """The profile `edges`."""
    assert edges_bytes() == output_bytes("trace", "ngram", "--profile", "edges")


@needs_corpus
@pytest.mark.parametrize(
    "arithmetic", ["fast", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("libm", "strict"))]
)
def test_the_published_trace_is_reproduced_in_every_arithmetic(arithmetic: str) -> None:
    """No rounding is visible at six decimals."""
    expected = (COURSE / "diagram-trace.txt").read_bytes()
    assert expected == output_bytes(*PUBLISHED, "--arithmetic", arithmetic, "--view", "body")


@pytest.mark.exhaustive
@needs_corpus
def test_the_published_report_is_reproduced() -> None:
    """What learners see."""
    expected = (COURSE / "expected.txt").read_bytes()
    assert expected == output_bytes(*PUBLISHED, "--arithmetic", "libm", "--view", "report")


@needs_corpus
@needs_c_library
def test_the_published_parameters_are_reproduced_bit_for_bit() -> None:
    """A BITS record for each of the steps 0 to 15, with the published digest."""
    trace = parse(output_bytes(*PUBLISHED, "--arithmetic", "libm"), grammar_of)
    assert [f"sha256:{digest}" for digest in PARAMETER_DIGESTS] == [
        record.get("parameters") for record in trace.all("BITS")
    ]
    assert list(range(16)) == [record.integer("step") for record in trace.all("BITS")]


def test_fast_states_no_bits(tmp_path: Path) -> None:
    """Where bits are not defined, none are printed."""
    trace = parse(output_bytes("trace", "ngram", "-a", "fast", *input_of(tmp_path).options), grammar_of)
    assert ("fast", "foreign", ()) == (trace.envelope.arithmetic, trace.envelope.profile, trace.all("BITS"))


def test_only_the_reference_prints_a_report() -> None:
    """A sentence and exit code 2."""
    result = invoke("trace", "ngram", "--backend", "stored:good", "--view", "report")
    assert (2, "") == (result.code, result.out)
    assert [
        "cai-conform: stored does not offer a report of course.ngram: the reference has one of course.ngram only"
    ] == (result.sentences)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("raising", "cai-conform: stored crashed: ValueError: no such layer"),
        ("leaving", "cai-conform: stored crashed: SystemExit: 0"),
        ("half", "cai-conform: line 1"),
    ],
)
def test_a_backend_that_fails_is_told_in_a_sentence(name: str, sentence: str) -> None:
    """Nothing on standard output."""
    result = invoke("trace", "ngram", "--backend", f"stored:{name}", "--view", "body")
    assert (2, "") == (result.code, result.out)
    (found,) = result.sentences
    assert found.startswith(sentence)
