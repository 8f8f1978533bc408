"""What the example in C refuses: questions that are not its own, damaged ones; in one sentence, without a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cai_conformance.suites.ngram import embedded_input
from cai_reference.splitmix import SplitMix64, below
from cai_reference.text.corpus import corpus_checksum
from support_c99 import Called, Program, write_question
from support_traces import question

CORPUS, SPLITS = embedded_input().corpus, embedded_input().splits
VECTORS, WEIGHTS = question().request.vectors, question().request.weights
Change = Callable[[bytes], bytes]


def check_refused(called: Called, code: int = 2) -> None:
    """A refusal is an exit code and one line on standard error, and nothing on standard output."""
    assert (called.code, called.output) == (code, b"")
    assert called.complaint.startswith("cai-c99: ")
    assert called.complaint.count("\n") == 1 and called.complaint.endswith("\n")


def split_of(corpus: bytes) -> bytes:
    """Return the embedded split with the checksum of another corpus."""
    manifest = json.loads(SPLITS)
    return json.dumps({**manifest, "corpus_checksum": corpus_checksum(corpus)}).encode()


def corpus_with(**changes: object) -> bytes:
    """Return the embedded corpus with some keys of its second document replaced."""
    documents = json.loads(CORPUS)
    documents[1].update(changes)
    return json.dumps(documents).encode()


def manifest_with(**changes: object) -> bytes:
    """Return the embedded split with some keys replaced."""
    return json.dumps({**json.loads(SPLITS), **changes}).encode()


def deep(depth: int) -> bytes:
    """Return brackets in brackets."""
    return b"[" * depth + b"]" * depth


def cases_with(operation: str, given: dict[str, object]) -> bytes:
    """Return a file of one case."""
    return json.dumps({"cases": [{"id": "a.b.c", "operation": operation, "input": given}]}).encode()


MANIFEST = json.loads(SPLITS)
FIRST = MANIFEST["train"][0]

CORPORA = {
    "nothing": b"",
    "no documents": b"[]",
    "an object": b"{}",
    "cut": CORPUS[: len(CORPUS) // 2],
    "a byte order mark": b"\xef\xbb\xbf" + CORPUS,
    "more behind it": CORPUS + b"]",
    "a NUL behind it": CORPUS + b"\0",
    "nested too deeply": deep(100_000),
    "not UTF-8": CORPUS.replace(b"At the", b"A\xc3 the", 1),
    "a surrogate in UTF-8": CORPUS.replace(b"At the", b"\xed\xa0\x80t the", 1),
    "a lone surrogate": CORPUS.replace(b"At the", rb"\ud800t the", 1),
    "a control character": CORPUS.replace(b"At the", b"A\tt the", 1),
    "a key twice": CORPUS.replace(b'"language"', b'"id"', 1),
    "an unknown key": CORPUS.replace(b'"language"', b'"tongue"', 1),
    "a number for a text": corpus_with(text=7),
    "an id of another case": corpus_with(id="En-harbour"),
    "a hyphen at the end": corpus_with(language="el-"),
    "white space alone": corpus_with(text="\u00a0\u2028 \u0085"),
    "an id twice": corpus_with(id=FIRST),
    "a text twice": corpus_with(text=json.loads(CORPUS)[0]["text"]),
    "one small document": json.dumps([{"id": "a", "language": "b", "provenance_group": "c", "text": "d"}]).encode(),
}

MANIFESTS = {
    "nothing": b"",
    "an array of five": b"[1, 2, 3, 4, 5]",
    "another version": manifest_with(schema_version=2),
    "a real version": SPLITS.replace(b'"schema_version": 1', b'"schema_version": 1.0', 1),
    "another strategy": manifest_with(strategy="random"),
    "another corpus": manifest_with(corpus_checksum="fnv1a64:0000000000000000"),
    "an empty partition": manifest_with(test=[]),
    "another order": manifest_with(train=MANIFEST["train"][::-1]),
    "an unknown document": manifest_with(test=[*MANIFEST["test"], "who"]),
    "a document twice": manifest_with(test=[FIRST, *MANIFEST["test"]]),
    "a document left out": manifest_with(train=MANIFEST["train"][2:]),
    "a split group": manifest_with(train=MANIFEST["train"][1:], test=[FIRST, *MANIFEST["test"]]),
    "a number for an id": manifest_with(train=[1]),
}

CASES = {
    "cut": VECTORS[:1000],
    "no cases": b"{}",
    "a case of nothing": b'{"cases": [{}]}',
    "a case that is no object": b'{"cases": [7]}',
    "digits left out": cases_with("bpe.encode", {"pairs": [], "bytes": "abc"}),
    "no hexadecimal digits": cases_with("bpe.encode", {"pairs": [], "bytes": "zz"}),
    "a merge of later tokens": cases_with("bpe.encode", {"pairs": [[97, 300]], "bytes": "61"}),
    "a control id": cases_with("bpe.decode", {"pairs": [], "ids": [0]}),
    "an expansion without end": cases_with(
        "bpe.decode", {"pairs": [[97, 97], *([256 + rank, 256 + rank] for rank in range(60))], "ids": [318]}
    ),
    "a control id in a stream": cases_with("bpe.decode-stream", {"pairs": [], "ids": [99, 1]}),
    "a name of no special token": cases_with(
        "bpe.encode-special", {"pairs": [], "special": [{"spelled": "61", "id": 1}], "allowed": ["62"], "bytes": "62"}
    ),
    "an empty name": cases_with(
        "bpe.encode-special", {"pairs": [], "special": [{"spelled": "", "id": 1}], "allowed": [""], "bytes": "62"}
    ),
    "a special token that is text": cases_with(
        "bpe.encode-special", {"pairs": [], "special": [{"spelled": "61", "id": 257}], "allowed": ["61"], "bytes": ""}
    ),
    "special tokens left out": cases_with("bpe.encode-special", {"pairs": [], "allowed": ["61"], "bytes": ""}),
    "a stride of 0": cases_with("windows.list", {"documents": [[1]], "context": 1, "stride": 0}),
    "a bound of 0": cases_with("splitmix.below", {"seed": 1, "bound": 0, "draws": 1}),
    "a seed beyond 64 bits": cases_with("splitmix.below", {"seed": 2**64, "bound": 1, "draws": 1}),
    "a shape without columns": cases_with("init.xavier", {"seed": 1, "shapes": [[0, 2]]}),
    "an unknown function": cases_with("arithmetic.elementary", {"function": "gamma", "arguments": []}),
    "a short double": cases_with("arithmetic.elementary", {"function": "exp", "arguments": ["3ff"]}),
    "no logits": cases_with("logits.argmax", {"logits": [], "masked": []}),
    "an infinite logit": cases_with("logits.argmax", {"logits": ["7ff0000000000000"], "masked": []}),
    "everything masked": cases_with("logits.argmax", {"logits": ["3ff0000000000000"], "masked": [0]}),
    "a mask beyond the logits": cases_with("logits.argmax", {"logits": ["3ff0000000000000"], "masked": [1]}),
    "a target beyond the row": cases_with("logits.mean-nll", {"logits": [["3ff0000000000000"]], "targets": [1]}),
    "no rows": cases_with("logits.mean-nll", {"logits": [], "targets": []}),
    "a model of no width": cases_with("ngram.forward", {"sizes": [1, 1, 0, 1], "weights": [[], [], [], [], []]}),
    "a model of few weights": cases_with("ngram.forward", {"sizes": [1, 1, 1, 1], "weights": [[], [], [], [], []]}),
    "a context beyond the vocabulary": cases_with(
        "ngram.forward", {"weights": "weights.safetensors", "contexts": [[1, 999]], "stage": "logits"}
    ),
    "a context of another length": cases_with(
        "ngram.forward", {"weights": "weights.safetensors", "contexts": [[1]], "stage": "logits"}
    ),
}

GIVEN = cases_with("ngram.forward", {"weights": "weights.safetensors", "contexts": [[67, 118]], "stage": "logits"})
DAMAGES = {
    "nothing": b"",
    "cut in the data": WEIGHTS[:-1],
    "cut in the header": WEIGHTS[:100],
    "a header beyond the file": b"\xff" * 8 + WEIGHTS[8:],
    "a header that is no JSON": WEIGHTS[:8] + b"x" + WEIGHTS[9:],
    "another type": WEIGHTS.replace(b'"F32"', b'"F16"', 1),
    "another name": WEIGHTS.replace(b"ngram.ffn.up", b"ngram.ffn.to", 1),
    "another shape": WEIGHTS.replace(b"[8,266]", b"[9,266]", 1),
}


class TestNotOffered:
    @pytest.mark.parametrize("suite", ["cai.kv-cache", "llama.dense", "", "course.ngram2"])
    def test_another_suite_is_not_offered(self, suite: str, program: Program, tmp_path: Path) -> None:
        """Exit code 3 and the reason; the folder is not even read."""
        check_refused(program.trace(tmp_path, "golden", suite), 3)

    def test_another_profile_is_not_offered(self, program: Program, tmp_path: Path) -> None:
        """So is a profile that the suite does not have."""
        check_refused(program.trace(tmp_path, "stages"), 3)

    def test_another_arithmetic_is_not_offered(self, program: Program, tmp_path: Path) -> None:
        """Only strict/1 is computed."""
        arguments = ["--vectors", str(tmp_path), "--profile", "golden", "--arithmetic", "libm/1"]
        check_refused(program.call("trace", "course.ngram", *arguments), 3)


class TestDamagedQuestions:
    @pytest.mark.parametrize("name", CORPORA)
    def test_a_broken_corpus_is_refused(self, name: str, program: Program, tmp_path: Path) -> None:
        """The split fits the broken bytes, so that it is the corpus that is refused."""
        corpus = CORPORA[name]
        folder = write_question(tmp_path, {"corpus.txt": corpus, "splits.json": split_of(corpus)})
        check_refused(program.trace(folder))

    @pytest.mark.parametrize("name", MANIFESTS)
    def test_a_broken_split_is_refused(self, name: str, program: Program, tmp_path: Path) -> None:
        """Seven rules stand between a split and a corpus."""
        check_refused(program.trace(write_question(tmp_path, {"splits.json": MANIFESTS[name]})))

    @pytest.mark.parametrize("name", CASES)
    def test_a_case_without_an_answer_is_refused(self, name: str, program: Program, tmp_path: Path) -> None:
        """A case of a known operation that cannot be answered ends the program."""
        check_refused(program.trace(write_question(tmp_path, {"vectors.json": CASES[name]}), "edges"))

    @pytest.mark.parametrize("name", DAMAGES)
    def test_damaged_weights_are_refused(self, name: str, program: Program, tmp_path: Path) -> None:
        """A file of weights is read with suspicion."""
        folder = write_question(tmp_path, {"vectors.json": GIVEN, "weights.safetensors": DAMAGES[name]})
        check_refused(program.trace(folder, "edges"))

    @pytest.mark.parametrize("name", ["vectors.json", "request.json", "corpus.txt", "splits.json"])
    def test_a_missing_file_is_named(self, name: str, program: Program, tmp_path: Path) -> None:
        """The sentence holds the name of the file."""
        folder = write_question(tmp_path)
        (folder / name).unlink()
        called = program.trace(folder)
        check_refused(called)
        assert name in called.complaint

    @pytest.mark.parametrize(
        "arguments",
        [
            [],
            ["dream"],
            ["trace"],
            ["trace", "course.ngram"],
            ["trace", "course.ngram", "--vectors"],
            ["trace", "course.ngram", "--speed", "fast"],
            ["trace", "course.ngram", "other", "--vectors", "."],
        ],
    )
    def test_a_wrong_call_is_refused(self, arguments: list[str], program: Program) -> None:
        """Options are checked before anything is read."""
        check_refused(program.call(*arguments))

    def test_a_message_is_one_line_whatever_it_quotes(self, program: Program) -> None:
        """What is quoted cannot break the line or steer a terminal."""
        check_refused(program.call("trace", "a\nb\x1b[2Jc", "--vectors", "."), 3)

    @pytest.mark.exhaustive
    @pytest.mark.parametrize(
        "name", ["vectors.json", "weights.safetensors", "splits.json", "corpus.txt", "request.json"]
    )
    def test_no_damage_crashes_the_program(self, name: str, program: Program, tmp_path: Path) -> None:
        """Bytes are flipped, cut and doubled at 30 places of a file; the program answers, or refuses as ever."""
        folder = write_question(tmp_path)
        whole, generator = (folder / name).read_bytes(), SplitMix64(2026)
        profile = "golden" if name in ("corpus.txt", "splits.json") else "edges"
        for _ in range(30):
            place, length = below(generator, len(whole)), 1 + below(generator, 8)
            part = whole[place : place + length]
            pieces = [bytes([whole[place] ^ (1 << below(generator, 8))]), b"", part + part, b"\x00", b'"', b"9" * 30]
            damaged = (
                whole[:place] + pieces[below(generator, len(pieces))] + whole[place + length * below(generator, 2) :]
            )
            changed: dict[str, bytes] = {name: damaged}
            if name == "corpus.txt":
                changed["splits.json"] = split_of(damaged)
            called = program.trace(write_question(tmp_path, changed), profile)
            if called.code != 0:
                check_refused(called)
