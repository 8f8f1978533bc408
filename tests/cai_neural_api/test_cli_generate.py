"""`cai-conform generate`: what is printed where, what the options do, and what is refused in one sentence."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cai_conform.main import app
from support_cli import invoke, output_bytes, program
from support_text_net import ENTRIES, TextNet, write_text_net

pytestmark = pytest.mark.usefixtures("without_ci")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TextNet:
    """The forced net and its vocabulary."""
    return write_text_net(tmp_path_factory.mktemp("text"))


def generated(files: TextNet, *arguments: object) -> bytes:
    """Return the bytes that the command prints."""
    return output_bytes("generate", *files.arguments, *arguments)


def objects(files: TextNet, *arguments: object) -> list[dict[str, Any]]:
    """Return the JSON lines that the command prints."""
    return [json.loads(line) for line in generated(files, "--format", "json", *arguments).splitlines()]


class TestText:
    """Prompt and continuation."""

    def test_a_prompt_is_printed_with_what_follows(self, files: TextNet) -> None:
        """And nothing else; the id that ends the text is not printed."""
        result = invoke("generate", *files.arguments, "--prompt", "the")
        assert (0, "the cat sat.\n", "") == (result.code, result.out, result.err)

    @pytest.mark.parametrize("data", [b"see the", b"see the\n", b"see the\r\n"])
    def test_standard_input_is_a_prompt(self, files: TextNet, data: bytes) -> None:
        """Without the line end at its end."""
        assert "see the cat sat.\n" == invoke("generate", *files.arguments, stdin=data).out

    def test_a_pipe_gets_the_bytes_as_they_are(self, files: TextNet) -> None:
        """Whole characters, line ends and control characters alike."""
        assert "a\u00e9!\n\x1b\n".encode() == generated(files, "--prompt", "a")
        assert b"a\xc3\n" == generated(files, "--prompt", "a", "--max-new", 1)

    def test_it_stops_before_a_text(self, files: TextNet) -> None:
        """The first of several, however it is cut into tokens."""
        assert b"the c\n" == generated(files, "--prompt", "the", "--stop", "zebra", "--stop", "at s")

    def test_a_budget_and_the_context_end_it(self, files: TextNet) -> None:
        """Whichever comes first."""
        assert b"xxx\n" == generated(files, "--prompt", "x", "--max-new", 2)
        assert b"x" * 12 + b"\n" == generated(files, "--prompt", "x", "--max-new", 99)

    def test_several_continuations_have_a_line_each(self, files: TextNet) -> None:
        """All of the same prompt."""
        assert b"the cat\nthe cat\n" == generated(files, "--prompt", "the", "--count", 2, "--max-new", 2)

    def test_what_the_tokenizer_changes_is_told(self, files: TextNet) -> None:
        """The text itself is printed as it was given."""
        result = invoke("generate", *files.arguments, "--prompt", "The")
        assert (0, "The cat sat.\n") == (result.code, result.out)
        assert "cai-conform: the net reads 'the': the tokenizer ignores the case of whole words\n" == result.err

    def test_ids_are_rows_that_the_tokenizer_reads(self, files: TextNet) -> None:
        """Prompt, continuation, and the id that ended it."""
        row = generated(files, "--prompt", "the", "--ids", "--count", 2)
        assert b"130,32,129,128,46,1\n" * 2 == row
        decoded = CliRunner().invoke(app, ["tokenizer", "decode", "--vocabulary", str(files.vocabulary)], input=row)
        assert b"the cat sat.\x01\n" * 2 == decoded.stdout_bytes


class TestTerminal:
    """What a terminal gets."""

    @pytest.fixture
    def shown(self, files: TextNet, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
        """Return a function that runs the command on what passes for a terminal."""

        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        def run(prompt: str, new_tokens: int | None = None) -> str:
            from cai_neural_api.commands import generate

            out = Terminal()
            with monkeypatch.context() as patched:
                patched.setattr(sys, "stdout", out)
                patched.setenv("TERM", "xterm")
                generate.generate(files.net, files.vocabulary, prompt, new_tokens)
            return out.getvalue()

        return run

    def test_control_characters_are_spelt(self, shown: Callable[..., str]) -> None:
        """But for line ends, so that a net cannot move the cursor; the prompt is dim."""
        assert "\x1b[2ma\x1b[0m\u00e9!\n\\x1b\n" == shown("a")

    def test_no_color_is_heeded(self, shown: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
        """Not a single escape."""
        monkeypatch.setenv("NO_COLOR", "1")
        assert "the cat sat.\n" == shown("the")

    def test_half_a_character_is_marked(self, shown: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the budget ends within it."""
        monkeypatch.setenv("NO_COLOR", "1")
        assert "a\ufffd\n" == shown("a", 1)


class TestJson:
    """JSON lines."""

    def test_a_line_tells_everything(self, files: TextNet) -> None:
        """Text, ids, draws, and why it ended."""
        assert [
            {
                "type": "continuation",
                "prompt": "The",
                "read_as": "the",
                "text": " cat sat.",
                "prompt_ids": [130],
                "ids": [32, 129, 128, 46, 1],
                "draws": [None] * 5,
                "end": "end-token",
                "sampler": "greedy",
                "semantics": "library",
                "seed": 0,
            }
        ] == objects(files, "--prompt", "The")

    @pytest.mark.parametrize(
        ("arguments", "end"),
        [
            (("the", "--stop", "sat"), "stop-text"),
            (("the", "--max-new", "2"), "limit"),
            (("x",), "context"),
            (("a",), "end-token"),
        ],
    )
    def test_ends_have_names(self, files: TextNet, arguments: tuple[str, ...], end: str) -> None:
        """Four of them."""
        assert [end] == [made["end"] for made in objects(files, "--prompt", *arguments)]

    def test_a_stop_text_is_no_text_but_has_ids(self, files: TextNet) -> None:
        """The ids are those that the net chose."""
        (made,) = objects(files, "--prompt", "the", "--stop", "at s")
        assert (" c", [32, 129, 128]) == (made["text"], made["ids"])

    def test_continuations_share_one_generator(self, files: TextNet) -> None:
        """The second one draws what the first one left; a token of the library's top-k costs a word."""
        arguments = ("--prompt", "the", "--sampler", "top-k", "--k", "1", "--seed", "5")
        first, second = objects(files, *arguments, "--count", "2")
        words = np.frombuffer(np.random.RandomState(5).bytes(40), "<u4").tolist()
        assert words == [*first["draws"], *second["draws"]]
        assert " cat sat." == first["text"] == second["text"]

    def test_a_token_without_a_draw_has_none(self, files: TextNet) -> None:
        """The library's top-p draws only where more than one token is left."""
        (made,) = objects(files, "--prompt", "the", "--sampler", "top-p")
        assert [None] * 5 == made["draws"]

    def test_standard_samplers_draw_doubles(self, files: TextNet) -> None:
        """The first output of SplitMix64 with seed 0 is published."""
        arguments = ("--sampler", "top-p", "--semantics", "standard", "--temperature", "0.5")
        (made,) = objects(files, "--prompt", "the", *arguments)
        assert (0xE220A8397B1DCDAF >> 11) * 2.0**-53 == made["draws"][0]
        assert ("standard", " cat sat.") == (made["semantics"], made["text"])

    def test_seeds_make_a_difference(self, files: TextNet) -> None:
        """A hot temperature makes all ids alike."""
        arguments = ("--prompt", "the", "--sampler", "min-p", "--semantics", "standard", "--temperature", "1e6")
        texts = [objects(files, *arguments, "--seed", str(seed))[0]["ids"] for seed in (1, 1, 2**40)]
        assert texts[0] == texts[1] != texts[2]


class TestRefusals:
    """One sentence, exit code 2, nothing on standard output."""

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--prompt", ""], "the prompt cannot be continued: it is empty"),
            (
                ["--prompt", "a\x1db"],
                "the prompt cannot be continued: line 1 holds byte 29, which the library keeps for itself",
            ),
            (
                ["--prompt", "xxxxxxxxxxxx"],
                "the prompt is too long: it has 12 tokens, and the net has room for 11 and one to come",
            ),
            (
                ["--prompt", "né"],
                "the prompt cannot be continued: position 1 of the prompt: id 195 is not among the 136 of the net",
            ),
            (["--k", "3"], "--k has no effect on --sampler greedy"),
            (["--sampler", "top-k", "--k", "0"], "top-k with k = 0 keeps no token; k must be at least 1"),
            (["--sampler", "top-k", "--k", "137"], "top-k with k = 137 reads past a row of 136 tokens"),
            (
                ["--sampler", "top-p", "--p", "nan"],
                "top-p with p = nan does not exist; p must be above 0 and at most 1",
            ),
            (["--sampler", "min-p", "--q", "2"], "min-p with q = 2.0 does not exist; q must be above 0 and at most 1"),
            (
                ["--sampler", "min-p", "--semantics", "standard", "--temperature", "0"],
                "temperature 0.0 does not exist; it must be finite and above 0",
            ),
            (
                ["--seed", "4294967296"],
                "seed 4294967296 is too large for the library's generator; the largest is 4294967295",
            ),
            (["--stop", ""], "a text to stop at cannot be empty"),
            (["--ids", "--format", "json"], "--ids has no effect on --format json, which has the ids anyway"),
            (["--arithmetic", "exact"], "unknown arithmetic 'exact'; known are strict/1, libm/1, fast"),
        ],
    )
    def test_settings_and_prompts(self, files: TextNet, arguments: list[str], sentence: str) -> None:
        """That cannot be used."""
        result = invoke("generate", *files.arguments, "--prompt", "the", *arguments)
        assert (2, "", [f"cai-conform: {sentence}"]) == (result.code, result.out, result.sentences)

    def test_damaged_files(self, files: TextNet, tmp_path: Path) -> None:
        """A net cut off, a vocabulary cut off, files that are not there."""
        net, vocabulary = tmp_path / "cut.nn", tmp_path / "cut.txt"
        net.write_bytes(files.net.read_bytes()[:-9])
        vocabulary.write_bytes(b"the\nca")
        missing = tmp_path / "missing"
        for first, second, part in (
            (net, files.vocabulary, "cut.nn' cannot be read as a net: "),
            (files.net, vocabulary, "cut.txt' cannot be read: line 2 has no line end, so the file is cut off"),
            (missing, files.vocabulary, "missing' cannot be read: No such file or directory"),
            (files.net, missing, "missing' cannot be read: No such file or directory"),
        ):
            result = invoke("generate", first, "--vocabulary", second, "--prompt", "the")
            assert (2, "", 1) == (result.code, result.out, len(result.sentences))
            assert part in result.err

    def test_a_net_of_several_future_tokens(self, tmp_path: Path) -> None:
        """It must not be continued this way."""
        files = write_text_net(tmp_path, futures=2)
        result = invoke("generate", *files.arguments, "--prompt", "the")
        assert (2, "") == (result.code, result.out)
        assert "text.nn' cannot continue a text: the net predicts 2 future tokens side by side; " in result.err


class TestVocabularies:
    """A net and a vocabulary of different sizes."""

    def test_a_smaller_vocabulary_prints_nothing_for_ids_beyond(self, tmp_path: Path) -> None:
        """As the library does."""
        files = write_text_net(tmp_path, entries=ENTRIES[:2])
        made = invoke("generate", *files.arguments, "--prompt", " ", "--format", "json")
        assert ([129, 128, 46, 1], "cat sat.") == tuple(json.loads(made.out)[key] for key in ("ids", "text"))
        fewer = write_text_net(tmp_path, entries=ENTRIES[:1])
        assert "  sat.\n" == invoke("generate", *fewer.arguments, "--prompt", " ").out

    def test_a_larger_vocabulary_may_give_a_prompt_that_the_net_does_not_know(self, tmp_path: Path) -> None:
        """Any other prompt is continued."""
        files = write_text_net(tmp_path, known=130)
        assert "see cat sat.\n" == invoke("generate", *files.arguments, "--prompt", "see ").out
        result = invoke("generate", *files.arguments, "--prompt", "the")
        assert (2, "") == (result.code, result.out)
        assert "position 0 of the prompt: id 130 is not among the 130 of the net" in result.err


@pytest.mark.exhaustive
@pytest.mark.skipif(os.name != "posix", reason="about pipes of POSIX")
def test_as_a_program_it_prints_the_text_alone(files: TextNet) -> None:
    """Bytes in, bytes out."""
    done = program("generate", *files.arguments, stdin=b"the\n")
    assert (0, b"the cat sat.\n", b"") == (done.returncode, done.stdout, done.stderr)
