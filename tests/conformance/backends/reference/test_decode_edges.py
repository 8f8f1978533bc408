"""The reference's answers to the vector cases of the decode suites, and the files that a golden is made of."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cai_conformance.backends.protocol import ask
from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.fixtures.decoder_phases import phase_of
from cai_conformance.fixtures.vectors import read_vectors
from cai_conformance.suites import decoder as decoder_inputs
from cai_conformance.trace.format import format_trace
from cai_conformance.trace.records import Envelope
from cai_conformance.verdicts import Outcome
from support_decode_given import read_tensors
from support_decode_tiny import tiny_sizes, trained
from support_decode_traces import driven, golden_of, question_about, verdicts_on

VECTOR_CHECKS = {"fwd.oracle", "kv.split", "gen.given", "smp.tie"}


@pytest.mark.parametrize(
    "suite",
    [
        "cai.kv-cache",
        *(pytest.param(suite, marks=pytest.mark.exhaustive) for suite in ("cai.multi-token", "cai.hybrid")),
    ],
)
def test_the_reference_answers_every_case(suite: str) -> None:
    """Between them the last two suites have all arms; each answer is the one right answer, in the order of the file."""
    asked = question_about(suite)
    edges = ask(ReferenceBackend(), replace(asked.request, profile="edges"))
    verdicts = verdicts_on(suite, golden_of(suite), more={"edges": edges})
    others = {name for name, verdict in verdicts.items() if verdict.outcome is not Outcome.PASS}
    # None of these models has a window to leave.
    assert driven(suite) | {"run.witness"} == {name.partition("[")[0] for name in others}
    assert {"run.witness[window]"} == {name for name in others if name.startswith("run.witness")}
    assert {Outcome.SKIPPED} == {verdicts[name].outcome for name in others}
    names = [f"case={case.identifier}" for case in read_vectors(asked.request.vectors).cases]
    assert names == [line.split("|")[1] for line in edges.decode().splitlines() if line.startswith("SAMPLE")]


def test_a_wrong_token_and_a_wrong_bit_fail() -> None:
    """The message names the case, the field, and the usual cause."""
    suite = "cai.multi-token"
    asked = question_about(suite)
    right = {case.identifier: case for case in read_vectors(asked.request.vectors).cases}
    tie, last = right["smp.tie.mtp-cached"].expected, right["fwd.oracle.last"].expected
    assert tie is not None and tie.ids is not None and last is not None and last.values is not None
    wrong = (
        replace(tie, ids=(tie.ids[0] + 1, *tie.ids[1:])).record("smp.tie.mtp-cached"),
        replace(last, values=(last.values[0] * (1 + 2**-52), *last.values[1:])).record("fwd.oracle.last"),
    )
    envelope = Envelope(suite, "1.0.0", "edges", "strict/1", read_vectors(asked.request.vectors).digest)
    edges = format_trace(envelope, (asked.conventions, *wrong)).encode()
    verdicts = verdicts_on(suite, golden_of(suite), more={"edges": edges})
    failed = {name: verdict.message for name, verdict in verdicts.items() if verdict.outcome is Outcome.FAIL}
    assert ["fwd.oracle[last]", "smp.tie[mtp-cached]"] == list(failed)
    assert failed["smp.tie[mtp-cached]"].startswith("SAMPLE case=smp.tie.mtp-cached draw=0, field ids[0]: value, ")
    assert failed["smp.tie[mtp-cached]"].endswith("of two exactly equal maxima the higher id is taken")
    assert ", field values[0]: value, " in failed["fwd.oracle[last]"]
    assert "1 ULP apart" in failed["fwd.oracle[last]"]


def test_weights_and_vectors_are_made_by_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are the trained ones, rounded to 8 bits; every case has an answer."""
    monkeypatch.setattr(decoder_inputs, "sizes_for", tiny_sizes)
    suite = "cai.parallel-block"
    files = decoder_inputs.record_files(phase_of(suite))
    tensors = read_tensors(files.weights)
    for parameter in trained(suite).model.parameters:
        exact = parameter.value.ravel().tolist()
        rounded = tensors.pop(parameter.name).values
        assert all(
            abs(one - other) <= max(2.0**-8 * abs(other), 2.0**-25) for one, other in zip(rounded, exact, strict=True)
        )
    assert {} == tensors
    document = json.loads(files.vectors)
    assert (suite, "strict/1") == (document["suite"], document["arithmetic"])
    assert VECTOR_CHECKS == {case["check"] for case in document["cases"]}
    assert all(case["expected"] for case in document["cases"])
