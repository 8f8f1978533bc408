"""`tokenizer`: vocabularies that are written whole or not at all, ids in and out, and one sentence where that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

import cai_neural_api.tokenizer as tokenizer
from support_cli import Result, invoke, output_bytes
from support_legacy_tokenizer import TOKENIZER, needs_samples

pytestmark = pytest.mark.usefixtures("without_ci")

TEXT = b"banana band bandana\nanna ran\n"
ENTRIES = b"the\nban\nba\nan\n"


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    """Four tokens, not in sorted order."""
    return write(tmp_path / "vocabulary.txt", ENTRIES)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A few words."""
    return write(tmp_path / "text.txt", TEXT)


def write(path: Path, data: bytes) -> Path:
    """Write a file and return its path."""
    path.write_bytes(data)
    return path


def refused(result: Result) -> str:
    """Return the one sentence of a command that refused."""
    assert (2, "") == (result.code, result.out)
    (sentence,) = result.sentences
    return sentence.removeprefix("cai-conform: ")


class TestFit:
    """From a text to a vocabulary file."""

    @needs_samples
    @pytest.mark.parametrize("seed", [1, 2])
    def test_the_file_is_that_of_the_library(self, tmp_path: Path, seed: int) -> None:
        """Byte for byte; a line says what it holds."""
        output = tmp_path / "fitted.txt"
        result = invoke("tokenizer", "fit", TOKENIZER / "tiny.txt", "--size", 140, "--seed", seed, "--output", output)
        assert (0, f"{output}: 12 tokens, 140 ids of at most 140\n", "") == (result.code, result.out, result.err)
        assert (TOKENIZER / f"vocab.tiny.txt.{seed}.140.txt").read_bytes() == output.read_bytes()

    def test_a_text_may_come_through_a_pipe(self, tmp_path: Path, text: Path) -> None:
        """The same as from its file; the seed is 0 if left out."""
        one, other = tmp_path / "one.txt", tmp_path / "other.txt"
        assert 0 == invoke("tokenizer", "fit", text, "--size", 133, "--output", one).code
        piped = invoke("tokenizer", "fit", "-", "--size", 133, "--seed", 0, "-o", other, stdin=TEXT)
        assert 0 == piped.code
        assert one.read_bytes() == other.read_bytes() != b""

    def test_fewer_tokens_than_asked_for(self, tmp_path: Path) -> None:
        """One merge, and then no pair is left."""
        output = tmp_path / "fitted.txt"
        result = invoke("tokenizer", "fit", "-", "--size", 300, "--output", output, stdin=b"ab ab cd")
        assert f"{output}: 1 token, 129 ids of at most 300\n" == result.out
        assert b"ab\n" == output.read_bytes()

    def test_an_existing_file_stays_unless_forced(self, text: Path, vocabulary: Path) -> None:
        """And is then replaced."""
        arguments = ("tokenizer", "fit", text, "--size", 133, "--output", vocabulary)
        sentence = refused(invoke(*arguments))
        assert f"'{vocabulary}' cannot be written: it exists already; --force replaces it" == sentence
        assert ENTRIES == vocabulary.read_bytes()
        assert 0 == invoke(*arguments, "--force").code
        assert ENTRIES != vocabulary.read_bytes()

    def test_the_text_itself_is_never_replaced(self, text: Path, tmp_path: Path) -> None:
        """Not even with --force, and not through a link either."""
        link = tmp_path / "link.txt"
        link.symlink_to(text)
        for output in (text, link):
            result = invoke("tokenizer", "fit", text, "--size", 140, "--output", output, "--force")
            assert "it is the file that is read, which would be lost" in refused(result)
        assert text.read_bytes() == TEXT

    def test_an_interrupted_fit_leaves_nothing(
        self, tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After some rounds: no file, no part of one, and an old one as it was."""
        whole = tokenizer.fit

        def stop() -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(tokenizer, "fit", lambda data, size, generator, _: whole(data, size, generator, stop))
        old = write(tmp_path / "old.txt", ENTRIES)
        for output in (tmp_path / "new.txt", old):
            assert 130 == invoke("tokenizer", "fit", text, "--size", 133, "--output", output, "--force").code
        assert [old, text] == sorted(tmp_path.iterdir())
        assert ENTRIES == old.read_bytes()

    @pytest.mark.parametrize(
        ("source", "output", "sentence"),
        [
            ("text.txt", "none/v.txt", "'{output}' cannot be written: there is no such folder"),
            ("-", "v.txt", "'-' cannot be read: line 2 holds byte 30, which the library keeps for itself"),
            ("none", "v.txt", "'{source}' cannot be read: No such file or directory"),
        ],
    )
    @pytest.mark.usefixtures("text")
    def test_what_cannot_be_fitted(self, tmp_path: Path, source: str, output: str, sentence: str) -> None:
        """A folder that is not there, a byte that the library could not take, a missing text: nothing is written."""
        read, made = source if source == "-" else tmp_path / source, tmp_path / output
        result = invoke("tokenizer", "fit", read, "--size", 133, "--output", made, stdin=b"an\nan\x1ean\n")
        assert sentence.format(source=read, output=made) == refused(result)
        assert not made.exists()

    @pytest.mark.parametrize("size", ["128", "0", "-3", "many"])
    def test_sizes_without_room(self, tmp_path: Path, text: Path, size: str) -> None:
        """Usage errors."""
        result = invoke("tokenizer", "fit", text, "--size", size, "--output", tmp_path / "v.txt")
        assert (2, "") == (result.code, result.out)
        assert "--size" in result.err


class TestEncode:
    """From texts to ids."""

    def test_a_text_from_the_command_line(self, vocabulary: Path) -> None:
        """As it is, line ends included."""
        assert b"131,32,129,120\n" == output_bytes("tokenizer", "encode", "--vocabulary", vocabulary, "the banx")
        assert b"131,10\n" == output_bytes("tokenizer", "encode", "--vocabulary", vocabulary, "an\n")
        assert b"\n" == output_bytes("tokenizer", "encode", "--vocabulary", vocabulary, "")

    def test_a_text_from_a_file_or_a_pipe(self, vocabulary: Path, tmp_path: Path) -> None:
        """Without its last line end, of either kind."""
        for data in (b"an the", b"an the\n", b"an the\r\n"):
            file = write(tmp_path / "text.txt", data)
            assert b"128,32,131\n" == output_bytes("tokenizer", "encode", "--vocabulary", vocabulary, "--file", file)
            assert "128,32,131\n" == invoke("tokenizer", "encode", "--vocabulary", vocabulary, stdin=data).out

    def test_a_row_a_line(self, vocabulary: Path, tmp_path: Path) -> None:
        """Empty lines are empty rows."""
        file = write(tmp_path / "text.txt", b"an\n\nthe the\n")
        rows = output_bytes("tokenizer", "encode", "--vocabulary", vocabulary, "--rows", "--file", file)
        assert b"128\n\n131,32,131\n" == rows

    @needs_samples
    def test_rows_are_those_of_the_library(self) -> None:
        """Byte for byte."""
        fitted = TOKENIZER / "vocab.tiny.txt.2.140.txt"
        rows = output_bytes("tokenizer", "encode", "--vocabulary", fitted, "--rows", "--file", TOKENIZER / "tiny.txt")
        assert (TOKENIZER / "rows.tiny.txt.2.140.csv").read_bytes() == rows

    def test_bytes_are_taken_as_they_are(self, vocabulary: Path) -> None:
        """Also those that are no UTF-8."""
        assert (
            "255,32,195,169\n" == invoke("tokenizer", "encode", "--vocabulary", vocabulary, stdin=b"\xff \xc3\xa9").out
        )
        assert b"195,169\n" == output_bytes("tokenizer", "encode", "--vocabulary", vocabulary, "é")

    def test_a_text_and_a_file_are_too_much(self, vocabulary: Path) -> None:
        """One of them is meant."""
        sentence = refused(invoke("tokenizer", "encode", "--vocabulary", vocabulary, "an", "--file", "text.txt"))
        assert "'text.txt' cannot be read: a text is given beside the file; leave one of them out" == sentence

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (b"an\nb\0n\n", "line 2 holds a NUL byte, so this is no plain text"),
            (b"an\r\nban\r\n", "line 1 holds a carriage return; lines end in LF alone, not in CR LF"),
            (b"an\n\nban\n", "line 2 is empty; a vocabulary has one token a line"),
            (b"an\nban\nAN\n", "line 3 repeats line 1; letter case makes no difference"),
            (b"an\nba", "line 2 has no line end, so the file is cut off"),
            (b"\xef\xbb\xbfan\n", "line 1 opens with a byte order mark, which would become part of its first token"),
        ],
    )
    @pytest.mark.parametrize("command", ["encode", "decode"])
    def test_damaged_vocabularies(self, tmp_path: Path, command: str, data: bytes, problem: str) -> None:
        """With the file and the line."""
        file = write(tmp_path / "damaged.txt", data)
        assert f"'{file}' cannot be read: {problem}" == refused(
            invoke("tokenizer", command, "--vocabulary", file, stdin=b"1\n")
        )

    @pytest.mark.parametrize("command", ["encode", "decode"])
    def test_a_missing_vocabulary(self, tmp_path: Path, command: str) -> None:
        """And one that is not given is a usage error."""
        result = invoke("tokenizer", command, "--vocabulary", tmp_path / "none")
        assert f"'{tmp_path / 'none'}' cannot be read: No such file or directory" == refused(result)
        assert 2 == invoke("tokenizer", command).code


class TestDecode:
    """From ids to texts."""

    def test_ids_on_the_command_line(self, vocabulary: Path) -> None:
        """The bytes and nothing else; commas may stay."""
        assert b"the ba" == output_bytes("tokenizer", "decode", "--vocabulary", vocabulary, 128, 32, 130)
        assert b"the ba" == output_bytes("tokenizer", "decode", "--vocabulary", vocabulary, "128,32,130")

    def test_rows_through_a_pipe(self, vocabulary: Path) -> None:
        """A line each."""
        result = invoke("tokenizer", "decode", "--vocabulary", vocabulary, stdin=b"128,32,130\n\n97\n")
        assert (0, "the ba\n\na\n", "") == (result.code, result.out, result.err)

    def test_what_was_encoded_comes_back(self, tmp_path: Path) -> None:
        """Through a sorted vocabulary, small letters."""
        fitted, data = tmp_path / "v.txt", b"band an ban\n\na bandana !\n"
        assert 0 == invoke("tokenizer", "fit", "-", "--size", 135, "--output", fitted, stdin=TEXT).code
        rows = invoke("tokenizer", "encode", "--vocabulary", fitted, "--rows", stdin=data).out
        assert data.decode() == invoke("tokenizer", "decode", "--vocabulary", fitted, stdin=rows.encode()).out

    def test_ids_beyond_the_vocabulary_are_told(self, vocabulary: Path) -> None:
        """They stand for nothing, as in the library."""
        result = invoke("tokenizer", "decode", "--vocabulary", vocabulary, 97, 3_000, 200, 98)
        assert (0, "ab") == (result.code, result.out)
        assert [f"cai-conform: 2 ids are not among the 132 of '{vocabulary}' and left out"] == result.sentences
        (sentence,) = invoke("tokenizer", "decode", "--vocabulary", vocabulary, 200).sentences
        assert "1 id is not among the 132" in sentence

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (b"1,2\n3,x\n", "line 2, field 2: 'x' is not a token id"),
            (b"1,2\n-3\n", "line 2, field 1: token id -3 is negative"),
            (b"1\r\n", "line 1 holds a carriage return; lines end in LF alone, not in CR LF"),
            (b"1\n9999999999\n", "line 2, field 1: token id 9999999999 is too large; the largest is 2147483647"),
            (b"1,2\n3", "line 2 has no line end, so the file is cut off"),
        ],
    )
    def test_damaged_rows(self, vocabulary: Path, data: bytes, problem: str) -> None:
        """With the line and the field; nothing of the rows before is printed."""
        result = invoke("tokenizer", "decode", "--vocabulary", vocabulary, stdin=data)
        assert f"'-' cannot be read: {problem}" == refused(result)

    def test_ids_that_are_none(self, vocabulary: Path) -> None:
        """Counted as one line."""
        result = invoke("tokenizer", "decode", "--vocabulary", vocabulary, "1", "two")
        assert "'the ids' cannot be read: line 1, field 2: 'two' is not a token id" == refused(result)
