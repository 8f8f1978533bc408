"""The cases about special tokens and streams: their ids worked out by hand, and what backends may leave out."""

from __future__ import annotations

import json
from typing import Final

import pytest

from cai_conformance.goldens import GoldenStore, locate
from cai_conformance.judges.grammar import judge_grammar
from cai_conformance.judges.vectors import vector_check
from cai_conformance.verdicts import Outcome
from support_traces import SUITE, edges_bytes, evidence_of, golden_bytes, question_of, sealed, with_field

SPECIAL: Final = {
    # a   <   e    o    s    >   b    <   b    o    s    >: each byte and 2.
    "spelled": [99, 62, 103, 113, 117, 64, 100, 62, 100, 113, 117, 64],
    # a<  e    os>  <eos>: `a<` has the first rank, so that the first name is taken apart and the second is one id.
    "spelled-merged": [258, 103, 261, 262],
    # a  EOS b    <   b    os>  <e   os: EOS was asked for, BOS was not, and the last name lacks its end.
    "allowed": [99, 1, 100, 62, 100, 261, 259, 260],
}
STREAM: Final = {
    # Ids of c3, a9e2, 82, ac, f09f, 98, 80: é ends in the second, € in the fourth, the last in the seventh.
    "characters": ([197, 258, 132, 174, 259, 154, 130], "- c3a9 - e282ac - - f09f9880 -"),
    "cut-off": ([197, 258, 132, 174, 259, 154], "- c3a9 - e282ac - - efbfbd"),
}
CASES: Final = {case["id"]: case for case in json.loads(question_of("edges").request.vectors)["cases"]}


class TestExpectations:
    """What the file expects is what a person finds."""

    @pytest.mark.parametrize("name", SPECIAL)
    def test_ids_around_special_tokens(self, name: str) -> None:
        """Of the bytes and merges of the case."""
        assert {"ids": SPECIAL[name]} == CASES[f"tok.special.{name}"]["expected"]

    def test_texts_are_those_that_were_worked_out(self) -> None:
        """Two names, of which one is asked for in one case."""
        texts = [bytes.fromhex(CASES[f"tok.special.{name}"]["input"]["bytes"]) for name in SPECIAL]
        assert [b"a<eos>b<bos>", b"a<eos><eos>", b"a<eos>b<bos><eos"] == texts
        given = CASES["tok.special.allowed"]["input"]
        assert ["3c656f733e"] == given["allowed"]
        assert [("3c626f733e", 0), ("3c656f733e", 1)] == [(each["spelled"], each["id"]) for each in given["special"]]

    @pytest.mark.parametrize("name", STREAM)
    def test_pieces_of_streams(self, name: str) -> None:
        """Of é€😀, whole and without its last byte."""
        ids, text = STREAM[name]
        case = CASES[f"tok.stream.{name}"]
        assert (ids, {"text": text}) == (case["input"]["ids"], case["expected"])
        assert [[0xA9, 0xE2], [0xF0, 0x9F]] == case["input"]["pairs"]

    def test_the_body_of_the_trace_is_that_of_the_version_before(self) -> None:
        """The whole file of 1.0.0 comes back when its version, its vectors and its end are put back."""
        vectors = "sha256:f5376007d7cecb60da754b04bcdc774c37ca52bd9c5553604ba06077ba381087"
        before = with_field("TRACE", "vectors", vectors, with_field("TRACE", "suite_version", "1.0.0"))
        digest = b"sha256:a2f491bed134c3ba3730b3588c7b0d9f326afe842a9ae6fb6c3f4b7c66e665b1"
        assert before.splitlines()[-1] == b"END|records=30|digest=" + digest


class TestWitnesses:
    """What the cases make a backend meet, counted by hand."""

    @pytest.mark.parametrize(
        ("check", "met"),
        [
            (
                "tok.special",
                {
                    "spelled": {"names of tokens that stay text": 2},
                    "spelled-merged": {"names of tokens that stay text": 2, "ids of merges": 3},
                    "allowed": {
                        "names of tokens that stay text": 1,
                        "tokens that were asked for": 1,
                        "ids of merges": 3,
                    },
                },
            ),
            (
                "tok.stream",
                {
                    "characters": {"ids that end inside a character": 5},
                    "cut-off": {"ids that end inside a character": 5, "unfinished characters at the end": 1},
                },
            ),
        ],
    )
    def test_each_case_meets_what_it_is_about(self, check: str, met: dict[str, dict[str, int]]) -> None:
        """Zeros and the number of compared values left out."""
        found = vector_check(check)(evidence_of(golden_bytes(), question_of("golden"), edges_bytes()))
        assert met == {
            finding.case: {
                each.witness.many: each.count
                for each in finding.met
                if each.count and each.witness.many != "compared values"
            }
            for finding in found
        }


class TestOlderBackends:
    """What was made for version 1.0.0."""

    @pytest.mark.parametrize("check", ["tok.special", "tok.stream"])
    def test_cases_that_are_not_answered_are_skipped(self, check: str) -> None:
        """A program that leaves out operations that it does not know goes on as before."""
        lines = edges_bytes().decode().split("\n")
        kept = [line for line in lines if not line.startswith(("SAMPLE|case=tok.special", "SAMPLE|case=tok.stream"))]
        assert len(lines) - len(kept) == len(SPECIAL) + len(STREAM)
        edges = sealed("\n".join(kept).encode())
        found = vector_check(check)(evidence_of(golden_bytes(), question_of("golden"), edges))
        assert {(Outcome.SKIPPED, "the backend gave no answer to this case")} == {
            (finding.outcome, finding.message) for finding in found
        }
        others = vector_check("tok.roundtrip")(evidence_of(golden_bytes(), question_of("golden"), edges))
        assert {Outcome.PASS} == {finding.outcome for finding in others}

    def test_a_trace_that_states_the_older_version_fails(self) -> None:
        """In one sentence, before anything else is judged."""
        (finding,) = judge_grammar(evidence_of(with_field("TRACE", "suite_version", "1.0.0")))
        assert (Outcome.FAIL, "TRACE, field suite_version: the trace states 1.0.0, 1.1.0 was asked for") == (
            finding.outcome,
            finding.message,
        )

    def test_the_version_is_that_of_the_golden(self) -> None:
        """Suite, manifest and ledger agree."""
        assert ("1.1.0", "1.1.0") == (SUITE.version, GoldenStore(locate()).read(SUITE.identifier).entry.suite_version)
