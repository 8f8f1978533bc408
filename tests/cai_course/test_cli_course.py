"""`course`: traces to standard output, comparison with a file, and what is refused before any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from cai_course.chapters import CHAPTERS, chapter_bytes
from cai_reference.arithmetic.instances import FAST, STRICT
from support_cli import invoke, output_bytes

pytestmark = pytest.mark.usefixtures("without_ci")


@pytest.fixture
def trace() -> bytes:
    """Chapter 34 in defined bits."""
    return chapter_bytes(CHAPTERS[34], STRICT)


class TestPrinting:
    """Results on standard output."""

    def test_without_a_chapter_all_are_listed(self) -> None:
        """A line each, with what it needs."""
        result = invoke("course")
        assert (0, "") == (result.code, result.err)
        assert [str(number) for number in CHAPTERS] == [line.split()[0] for line in result.out.splitlines()]
        assert "35  the checkpoint file of the selected model, a file of bytes" in result.out.splitlines()

    @pytest.mark.parametrize("arithmetic", ["strict", "strict/1"])
    def test_a_trace_is_printed_as_it_is(self, trace: bytes, arithmetic: str) -> None:
        """Byte for byte."""
        assert trace == output_bytes("course", 34, "--arithmetic", arithmetic)

    def test_the_c_library_is_the_default(self) -> None:
        """It printed the published digits."""
        assert output_bytes("course", 36) == output_bytes("course", 36, "-a", "libm")
        assert output_bytes("course", 36, "-a", "fast") == chapter_bytes(CHAPTERS[36], FAST)

    def test_another_c_library_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """On standard error, where it matters: not for defined bits."""
        from cai_reference.arithmetic import selftest
        from cai_reference.arithmetic.selftest import CLibrarySelfTest, SelfTestResult

        other = CLibrarySelfTest("a libm", (SelfTestResult("exp", 1, ("exp(1)",)),))
        monkeypatch.setattr(selftest, "c_library_selftest", lambda: other)
        sentence = "cai-conform: a libm rounds exp otherwise than the published C library"
        assert [sentence] == invoke("course", 36).sentences
        assert [] == invoke("course", 36, "-a", "strict").sentences


class TestWriting:
    """--output."""

    def test_the_checkpoint_goes_into_a_file(self, tmp_path: Path) -> None:
        """Nothing is printed."""
        path = tmp_path / "v1.bin"
        result = invoke("course", 35, "-a", "strict", "--output", path)
        assert (0, "", [f"cai-conform: {path}: 6330 bytes"]) == (result.code, result.out, result.sentences)
        assert chapter_bytes(CHAPTERS[35], STRICT) == path.read_bytes()

    def test_a_file_is_replaced_only_on_request(self, tmp_path: Path, trace: bytes) -> None:
        """And refused before anything is computed."""
        path = tmp_path / "trace.txt"
        path.write_text("mine")
        result = invoke("course", 34, "-a", "strict", "-o", path)
        assert (2, "", "mine") == (result.code, result.out, path.read_text())
        assert result.sentences[0].endswith("it exists already; --force replaces it")
        assert 0 == invoke("course", 34, "-a", "strict", "-o", path, "--force").code
        assert trace == path.read_bytes()

    def test_a_folder_has_to_be_there(self, tmp_path: Path) -> None:
        """It is not made."""
        result = invoke("course", 34, "-o", tmp_path / "none" / "trace.txt")
        assert (2, True) == (result.code, result.sentences[0].endswith("there is no such folder"))


class TestChecking:
    """--check."""

    def test_an_equal_file(self, tmp_path: Path, trace: bytes) -> None:
        """One line, exit code 0."""
        path = tmp_path / "diagram-trace.txt"
        path.write_bytes(trace)
        result = invoke("course", 34, "-a", "strict", "--check", path)
        line = f"{path}: chapter 34, equal in all 1,152 bytes to strict/1\n"
        assert (0, line, "") == (result.code, result.out, result.err)

    def test_the_first_difference(self, trace: bytes) -> None:
        """Place and both lines, exit code 1; a pipe is read."""
        other = trace.replace(b"gate_openings_after=1", b"gate_openings_after=2")
        result = invoke("course", 34, "-a", "strict", "--check", "-", stdin=other)
        first, expected, found = result.out.splitlines()
        assert 1 == result.code
        assert "standard input: line 2, field gate_openings_after differs from chapter 34 in strict/1" == first
        assert expected.startswith("  expected  REPORT|version=1|") and expected.endswith("gate_openings_after=1")
        assert found.startswith("  found     REPORT|version=1|") and found.endswith("gate_openings_after=2")

    def test_a_file_of_bytes(self, tmp_path: Path) -> None:
        """Chapter 35 needs no --output to be compared."""
        data = bytearray(chapter_bytes(CHAPTERS[35], STRICT))
        data[100] ^= 1
        path = tmp_path / "v1.bin"
        path.write_bytes(bytes(data))
        result = invoke("course", 35, "-a", "strict", "--check", path)
        assert (1, f"{path}: byte 100 differs from chapter 35 in strict/1") == (result.code, result.out.splitlines()[0])

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        """Is told before anything is computed."""
        result = invoke("course", 34, "--check", tmp_path / "none.txt")
        assert (2, "", 1) == (result.code, result.out, len(result.sentences))


class TestRefusing:
    """Exit code 2, one sentence, nothing on standard output."""

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ((31,), "there is no chapter 31 here, only "),
            ((35,), "chapter 35 is a file of bytes, which are not printed: --output says where they go"),
            ((34, "-a", "exact"), "unknown arithmetic 'exact'; known are "),
            (
                (39,),
                "chapter 39 trains on the course's corpus, which is not part of this package; it needs --corpus and",
            ),
            (
                (39, "--corpus", "c.json"),
                "chapter 39 trains on the course's corpus, which is not part of this package; it",
            ),
            ((39, "--corpus", "/nowhere", "--splits", "/nowhere"), "'/nowhere' cannot be read: "),
            ((34, "--corpus", "c.json"), "chapter 34 reads no corpus: --corpus changes nothing"),
            ((34, "--splits", "s.json"), "chapter 34 reads no corpus: --splits changes nothing"),
        ],
    )
    def test_what_cannot_be_printed(self, arguments: tuple[object, ...], sentence: str) -> None:
        """Before any work."""
        result = invoke("course", *arguments)
        assert (2, "") == (result.code, result.out)
        assert result.sentences[0].removeprefix("cai-conform: ").startswith(sentence)

    def test_what_is_missing_is_named_with_the_next_command(self) -> None:
        """One of two files, and how both are given."""
        lines = invoke("course", 39, "--corpus", "c.json").err.splitlines()
        assert lines[0].endswith("it needs --splits")
        assert "try: cai-conform course 39 --corpus tiny-bilingual-corpus.json --splits splits.json" == lines[1]

    def test_a_corpus_that_is_none(self, tmp_path: Path) -> None:
        """The stage is named."""
        (tmp_path / "c.json").write_text("[]")
        result = invoke("course", 39, "--corpus", tmp_path / "c.json", "--splits", tmp_path / "c.json")
        assert (2, ["cai-conform: Corpus: the corpus has no documents"]) == (result.code, result.sentences)

    def test_nothing_is_computed_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A refusal does not take the time of a training."""

        def never(*_: object) -> bytes:
            raise AssertionError

        monkeypatch.setattr("cai_course.chapters.chapter_bytes", never)
        for arguments in ((35,), (34, "-o", "/"), (34, "--check", "/nowhere/at/all")):
            assert 2 == invoke("course", *arguments).code
