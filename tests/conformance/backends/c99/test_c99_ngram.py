"""The n-gram of the example in C: the golden trace byte for byte, and the right answer to every vector case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.questions import Options, question_for
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from cai_reference.splitmix import SplitMix64, below
from cai_reference.text.tokenizer import BpeTokenizer
from support_c99 import Program, write_question
from support_inputs import input_of
from support_traces import SUITE, golden_bytes, question_of

EDGES_OF_UTF8 = bytes.fromhex(
    "00 41 7f 80 82 8f 90 9f a0 a9 ac bf c0 c1 c2 c3 df e0 e1 e2 ec ed ee ef f0 f1 f3 f4 f5 ff"
)
"""Where the tables of well-formed sequences begin and end."""
OTHERS = ("ναι και όχι, " * 81, "yes | no\\\n\u00a0\U0001f980" * 7, "a")


class TestTraceInC:
    def test_the_golden_comes_out_byte_for_byte(self, program: Program, tmp_path: Path) -> None:
        """The experiment on the embedded corpus prints the accepted trace, its bits and its digest included."""
        called = program.trace(write_question(tmp_path))
        assert (called.code, called.complaint) == (0, "")
        assert called.output == golden_bytes()

    def test_a_second_call_prints_the_same_bytes(self, program: Program, tmp_path: Path) -> None:
        """Nothing depends on the process: the answers to the cases come again."""
        folder = write_question(tmp_path)
        assert program.trace(folder, "edges") == program.trace(folder, "edges")

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("texts", [None, OTHERS])
    def test_another_corpus_gives_the_trace_of_the_reference(
        self, texts: tuple[str, ...] | None, program: Program, tmp_path: Path
    ) -> None:
        """On corpora that nobody prepared for, C and NumPy print the same bytes."""
        files = input_of(tmp_path) if texts is None else input_of(tmp_path, texts)
        request = question_for(SUITE, GoldenStore(locate()), Options(corpus=files.corpus, splits=files.splits)).request
        changes = {"corpus.txt": request.corpus, "splits.json": request.splits}
        called = program.trace(write_question(tmp_path / "question", changes), request.profile)
        assert called.output == ReferenceBackend().trace(request)


class TestCasesInC:
    def test_every_case_has_the_expected_answer(self, program: Program, tmp_path: Path) -> None:
        """All operations of the suite are known, and each answer is the one that the file expects."""
        called = program.trace(write_question(tmp_path), "edges")
        assert (called.code, called.complaint) == (0, "")
        cases = json.loads(question_of("edges").request.vectors)["cases"]
        samples = {record.get("case"): record for record in parse(called.output, grammar_of).all("SAMPLE")}
        assert list(samples) == [case["id"] for case in cases]
        for case in cases:
            ((name, wanted),) = case["expected"].items()
            text = wanted if isinstance(wanted, str) else f"[{', '.join(map(str, wanted))}]"
            assert (case["id"], samples[case["id"]].get(name)) == (case["id"], text)

    def test_streams_of_any_bytes_are_those_of_python(self, program: Program, tmp_path: Path) -> None:
        """What is no UTF-8 is replaced as Python's decoder does, however the bytes are cut into tokens."""
        generator = SplitMix64(3)
        texts = [
            bytes(EDGES_OF_UTF8[below(generator, len(EDGES_OF_UTF8))] for _ in range(1 + below(generator, 9)))
            for _ in range(400)
        ]
        pairs = [[0xE2, 0x82], [0xED, 0x9F], [0xF0, 0x90]]
        tokenizer = BpeTokenizer([(left, right) for left, right in pairs])
        cases = [
            {
                "id": str(place),
                "operation": "bpe.decode-stream",
                "input": {"pairs": pairs, "ids": tokenizer.encode(text)},
            }
            for place, text in enumerate(texts)
        ]
        folder = write_question(tmp_path, {"vectors.json": json.dumps({"cases": cases}).encode()})
        samples = parse(program.trace(folder, "edges").output, grammar_of).all("SAMPLE")
        for text, sample in zip(texts, samples, strict=True):
            pieces = [bytes.fromhex(piece.strip("-")) for piece in sample.get("text").split(" ")]
            assert len(pieces) == len(tokenizer.encode(text)) + 1
            assert b"".join(pieces).decode("utf-8") == text.decode("utf-8", "replace"), text
            assert all(piece.decode("utf-8") or not piece for piece in pieces)

    @pytest.mark.parametrize(
        ("text", "allowed", "ids"),
        [
            ("<e><e><e>", ["<e>", "<e><e>"], [1, 0]),
            ("<e><e><e>", ["<e>"], [0, 0, 0]),
            ("xy<e", ["<e>"], [122, 123, 62, 103]),
            ("<e>x<e>", ["<e>"], [0, 122, 0]),
            ("", ["<e>"], []),
        ],
    )
    def test_names_of_special_tokens_are_read_from_the_left(
        self, text: str, allowed: list[str], ids: list[int], program: Program, tmp_path: Path
    ) -> None:
        """Of those that start together the longest."""
        special = [{"spelled": b"<e>".hex(), "id": 0}, {"spelled": b"<e><e>".hex(), "id": 1}]
        names = [name.encode().hex() for name in allowed]
        given = {"pairs": [], "special": special, "allowed": names, "bytes": text.encode().hex()}
        vectors = {"cases": [{"id": "a.b", "operation": "bpe.encode-special", "input": given}]}
        folder = write_question(tmp_path, {"vectors.json": json.dumps(vectors).encode()})
        (sample,) = parse(program.trace(folder, "edges").output, grammar_of).all("SAMPLE")
        assert f"[{', '.join(map(str, ids))}]" == sample.get("ids")

    def test_an_unknown_operation_is_left_out(self, program: Program, tmp_path: Path) -> None:
        """A program answers the cases that it knows; the judge skips the others."""
        vectors = json.loads(question_of("edges").request.vectors)
        vectors["cases"] = vectors["cases"][:2]
        vectors["cases"][0]["operation"] = "bpe.dream"
        folder = write_question(tmp_path, {"vectors.json": json.dumps(vectors).encode()})
        (sample,) = parse(program.trace(folder, "edges").output, grammar_of).all("SAMPLE")
        assert sample.get("case") == vectors["cases"][1]["id"]
