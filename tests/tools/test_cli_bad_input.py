"""Whatever users hand in: one clear sentence on standard error, nothing on standard output, exit code 2."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cai_conformance.fixtures.goldens.store import locate
from support_cli import Result, invoke
from support_corpora import document
from support_inputs import FOX, Files, input_of, write_input

TEXTS = (FOX, "the dog is quick", "the fox is lazy")
GROUPS = ("g", "h", "i")


def refused(result: Result) -> str:
    """Return the one sentence of a command that refused."""
    assert (2, "") == (result.code, result.out)
    (sentence,) = result.sentences
    assert "Traceback" not in sentence
    return sentence.removeprefix("cai-conform: ")


def with_corpus(data: bytes) -> Callable[[Path], Files]:
    """Return a maker of a corpus of these bytes, with a manifest of another one."""
    return lambda folder: write_input(folder, data, input_of(folder).splits.read_bytes())


def with_splits(data: bytes) -> Callable[[Path], Files]:
    """Return a maker of a right corpus with a manifest of these bytes."""
    return lambda folder: write_input(folder, input_of(folder).corpus.read_bytes(), data)


def with_changes(
    texts: Sequence[str] = TEXTS, groups: Sequence[str] = GROUPS, **changes: object
) -> Callable[[Path], Files]:
    """Return a maker of an input with these texts, groups and keys of the manifest."""
    return lambda folder: input_of(folder, texts, groups, changes)


def documents(*extra: dict[str, str]) -> bytes:
    """Spell a corpus of one right document and others."""
    return json.dumps([document(text=FOX), *extra]).encode()


ONE = document()

INPUTS = {
    "not UTF-8": (with_corpus(b'[{"id": "\xff"}]'), "Corpus: invalid corpus JSON: it is not UTF-8 at byte 9"),
    "not JSON": (with_corpus(b"corpus"), "Corpus: invalid corpus JSON: "),
    "empty file": (with_corpus(b""), "Corpus: invalid corpus JSON: "),
    "not an array": (with_corpus(b"{}"), "Corpus: invalid corpus JSON: "),
    "deep": (with_corpus(b"[" * 100_000), "Corpus: invalid corpus JSON: "),
    "no documents": (with_corpus(b"[]"), "Corpus: the corpus has no documents"),
    "unknown key": (with_corpus(documents({**ONE, "source": "me"})), "Corpus: invalid corpus JSON: document 2: unk"),
    "missing key": (with_corpus(b'[{"id": "a"}]'), "Corpus: invalid corpus JSON: document 1: "),
    "duplicate key": (with_corpus(b'[{"id": "a", "id": "b"}]'), "Corpus: invalid corpus JSON: duplicate key 'id'"),
    "white space": (with_changes((FOX, "\u2003\n", "c")), "Corpus: document 2: text is empty"),
    "duplicate text": (with_changes((FOX, "b", "b")), "Corpus: two documents hold "),
    "one document": (with_corpus(documents()), "Corpus: the manifest names corpus checksum fnv1a64:"),
    "manifest not UTF-8": (with_splits(b"\xff"), "Corpus: invalid split manifest JSON: it is not UTF-8"),
    "manifest not JSON": (with_splits(b"{"), "Corpus: invalid split manifest JSON: "),
    "manifest with an unknown key": (with_changes(note="x"), "Corpus: invalid split manifest JSON: unknown key 'note'"),
    "wrong checksum": (with_changes(corpus_checksum="fnv1a64:0"), "Corpus: the manifest names corpus checksum fnv1a64"),
    "overlapping": (with_changes(test=["c", "b"]), "Corpus: "),
    "overlapping in order": (with_changes(test=["b", "c"]), "Corpus: document 'b' has more than one manifest position"),
    "empty partition": (with_changes(validation=[]), "Corpus: the validation partition is empty"),
    "uncovered": (with_changes(train=["a"], validation=["b"], test=["d"]), "Corpus: "),
    "split group": (with_changes(groups=("g", "h", "h")), "Corpus: group 'h' is split over partitions: documents"),
    "one document everywhere": (
        with_changes((FOX,), ("g",), train=["a"], validation=["a"], test=["a"]),
        "Corpus: document 'a' has more than one manifest position",
    ),
    "too few pairs": (with_changes(("ab", "cd", "ef")), "Invariant: 8 merges were requested, 1 could be learned"),
    "no pairs": (with_changes(("a", "b", "c")), "Invariant: 8 merges were requested, 0 could be learned"),
    "prompt of one id": (with_changes(("At " * 40 + "the quick fox", "b", "c")), "Invariant: the prompt 'At' has 1"),
}


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("command", ["run", "trace"])
def test_a_corpus_that_cannot_be_used_says_why(tmp_path: Path, command: str, name: str) -> None:
    """The user's files are at fault, so no backend is asked, and none is blamed."""
    make, sentence = INPUTS[name]
    result = invoke(command, "ngram", "--backend", "stored:raising", *make(tmp_path).options)
    assert refused(result).startswith(sentence)


@pytest.mark.exhaustive
@pytest.mark.parametrize("texts", [(text, "x", "y") for text in ("a b c d e f g h i j", "a" * 3000, FOX)])
def test_short_and_dull_corpora_can_be_used(tmp_path: Path, texts: tuple[str, ...]) -> None:
    """Few windows, one letter, one token of validation: every text has a window, so there is something to train on."""
    result = invoke("run", "ngram", *input_of(tmp_path, texts).options, "-k", "trace")
    assert 0 == result.code


class TestFiles:
    """Paths that lead nowhere, or too far."""

    def test_missing_files_are_named(self, tmp_path: Path) -> None:
        """Corpus, manifest, trace, expectations."""
        files = input_of(tmp_path)
        missing = tmp_path / "nothere"
        reason = f"'{missing}' cannot be read: No such file or directory"
        assert reason == refused(invoke("run", "ngram", "--corpus", missing, "--splits", files.splits))
        assert reason == refused(invoke("trace", "ngram", "--corpus", files.corpus, "--splits", missing))
        assert reason == refused(invoke("diff", missing, files.corpus))
        assert f"trace file {reason}" == refused(invoke("run", "--backend", f"trace:{missing}"))
        expected = f"{missing}: no such expected-failure file"
        assert expected == refused(invoke("run", "ngram", "--expect-failures", missing))

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        """The system's reason."""
        files = input_of(tmp_path)
        result = invoke("run", "ngram", "--corpus", tmp_path, "--splits", files.splits)
        assert f"'{tmp_path}' cannot be read: Is a directory" == refused(result)

    def test_the_limit_of_size_is_stated(self, tmp_path: Path) -> None:
        """For the corpus and for the manifest."""
        files = input_of(tmp_path)
        big = tmp_path / "big.json"
        big.write_bytes(b"[" + b" " * (1 << 20) + b"]")
        expected = f"'{big}' holds 1048578 bytes; the limit is 1048576"
        assert expected == refused(invoke("trace", "ngram", "--corpus", big, "--splits", files.splits))
        assert expected == refused(invoke("trace", "ngram", "--corpus", files.corpus, "--splits", big))

    def test_a_corpus_needs_its_manifest(self, tmp_path: Path) -> None:
        """And the other way round."""
        files = input_of(tmp_path)
        assert "--corpus needs --splits beside it" == refused(invoke("run", "ngram", "--corpus", files.corpus))
        assert "--splits needs --corpus beside it" == refused(invoke("trace", "ngram", "--splits", files.splits))


@pytest.mark.parametrize(
    ("arguments", "beginning", "hint"),
    [
        (("run", "--backend", "nothing"), "backend 'nothing' is unknown; known are reference, ", "backends list"),
        (("run", "--backend", "stored:nothing"), "backend 'stored:nothing' cannot be loaded: ", "backends list"),
        (
            ("trace", "ngram", "--backend", "no.such:thing"),
            "backend 'no.such:thing' cannot be loaded: ModuleNotFound",
            "b",
        ),
        (("smoke", "--backend", ""), "backend '' is unknown; known are reference, ", "backends list"),
        (("run", "nothing"), "suite 'nothing' is unknown; known are course.ngram", "list"),
        (("trace", ""), "suite '' is unknown; known are course.ngram", "list"),
        (("run", "ngram", "--arithmetic", "numpy"), "unknown arithmetic 'numpy'; known are strict/1, libm/1, fast", ""),
        (("trace", "ngram", "--arithmetic", ""), "unknown arithmetic ''; known are strict/1, libm/1, fast", ""),
        (("trace", "ngram", "--profile", "x"), "profile 'x' is unknown; course.ngram has golden, published, ", ""),
        (("run", "--require", "I9"), "level 'I9' is unknown; known are I0, I1, I2, I3, T0, T1, T2, T3", ""),
        (("run", "--require", ""), "level '' is unknown; known are I0, I1, I2, I3, T0, T1, T2, T3", ""),
        (("run", "ngram", "-k", ""), "-k '' cannot be read: it is empty", "run"),
        (("list", "-k", "(golden"), "-k '(golden' cannot be read: a parenthesis is not closed", "run"),
        (("golden", "review", "nothing"), "suite 'nothing' is unknown; known are course.ngram", "list"),
    ],
)
def test_names_that_mean_nothing_are_answered_with_what_is_known(
    arguments: tuple[str, ...], beginning: str, hint: str
) -> None:
    """And with the next command, where there is one."""
    result = invoke(*arguments)
    assert refused(result).startswith(beginning)
    assert (f"try: cai-conform {hint}" in result.err) == bool(hint)


class TestGoldenFolder:
    """A folder of goldens that is missing or damaged stops every command that needs it."""

    COMMANDS = (
        ("run", "ngram"),
        ("smoke",),
        ("trace", "ngram"),
        ("golden", "review"),
        ("golden", "accept", "--reason", "test"),
    )

    @pytest.fixture
    def copy(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A copy of the goldens that the program is pointed at."""
        copied = shutil.copytree(locate(), tmp_path / "golden")
        monkeypatch.setenv("CAI_CONFORM_GOLDEN", str(copied))
        return copied

    @pytest.mark.parametrize("command", [*COMMANDS, ("golden", "status")], ids=" ".join)
    def test_a_missing_folder(self, copy: Path, command: tuple[str, ...]) -> None:
        """The variable that names it is named."""
        shutil.rmtree(copy)
        expected = f"No golden folder at {copy} (named by the environment variable CAI_CONFORM_GOLDEN)."
        assert expected == refused(invoke(*command))

    @pytest.mark.parametrize("command", COMMANDS[:3], ids=" ".join)
    def test_a_changed_trace(self, copy: Path, command: tuple[str, ...]) -> None:
        """The file is named with both digests."""
        path = copy / "course.ngram" / "trace.txt"
        path.write_bytes(path.read_bytes() + b"\n")
        assert refused(invoke(*command)).startswith("Golden course.ngram/trace.txt: sha256 ")

    @pytest.mark.parametrize("command", COMMANDS[:3], ids=" ".join)
    def test_a_missing_file(self, copy: Path, command: tuple[str, ...]) -> None:
        """The manifest lists it."""
        (copy / "course.ngram" / "vectors.json").unlink()
        assert refused(invoke(*command)).startswith("Golden course.ngram/vectors.json: the manifest lists it, but")

    @pytest.mark.parametrize("command", [*COMMANDS[:3], ("golden", "status")], ids=" ".join)
    def test_a_damaged_manifest(self, copy: Path, command: tuple[str, ...]) -> None:
        """It is never overwritten."""
        (copy / "manifest.json").write_text("{", encoding="utf-8")
        assert refused(invoke(*command)).startswith(f"The manifest {copy}/manifest.json is damaged: it is not JSON")

    @pytest.mark.parametrize("command", COMMANDS[:3], ids=" ".join)
    def test_no_golden_of_the_suite(self, copy: Path, command: tuple[str, ...]) -> None:
        """The next command records one."""
        shutil.rmtree(copy)
        copy.mkdir()
        result = invoke(*command)
        assert f"There is no golden for suite course.ngram in {copy}." == refused(result)
        assert "try: Record one: cai-conform golden accept course.ngram" in result.err
