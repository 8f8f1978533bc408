"""`cai-conform chat`: lines in a pipe, and a conversation on a terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support_cli import command, environment_of, invoke
from support_terminal import CTRL_C, CTRL_D, Conversation
from support_text_net import TextNet, write_text_net

pytestmark = pytest.mark.usefixtures("without_ci")

POSIX = pytest.mark.skipif(os.name != "posix", reason="about terminals and pipes of POSIX")

SLOW = """
import time
from cai_neural_api.net.session import NetSession
step = NetSession.step
def slowly(self, ids, position):
    time.sleep(0.3)
    return step(self, ids, position)
NetSession.step = slowly
from cai_conform.main import main
main()
"""
"""The program with a net that takes its time."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TextNet:
    """The forced net and its vocabulary."""
    return write_text_net(tmp_path_factory.mktemp("text"))


class TestPipe:
    """One line in, one line out."""

    def test_each_line_is_continued(self, files: TextNet) -> None:
        """On its own: the second answer is that of a fresh chat. No prompt glyph, no colour, no greeting."""
        result = invoke("chat", *files.arguments, stdin=b"the\nsee the\nthe\n")
        assert (0, "the cat sat.\nsee the cat sat.\nthe cat sat.\n", "") == (result.code, result.out, result.err)

    def test_an_empty_line_gives_an_empty_line(self, files: TextNet) -> None:
        """So that the lines of both sides belong together."""
        assert "\nthe cat sat.\n\n" == invoke("chat", *files.arguments, stdin=b"\nthe\n\r\n").out

    @pytest.mark.parametrize(
        ("line", "sentence"),
        [
            (b"x" * 12, "the prompt is too long: it has 12 tokens, and the net has room for 11 and one to come"),
            (b"a\x00", "the prompt cannot be continued: line 1 holds byte 0, which the library keeps for itself"),
            (
                "né".encode(),
                "the prompt cannot be continued: position 1 of the prompt: id 195 is not among the 136 of the net",
            ),
        ],
    )
    def test_a_line_that_cannot_be_continued_does_not_end_it(self, files: TextNet, line: bytes, sentence: str) -> None:
        """A sentence, an empty line, and on it goes; the exit code stays 0."""
        result = invoke("chat", *files.arguments, stdin=line + b"\nthe\n")
        assert (0, "\nthe cat sat.\n", f"cai-conform: {sentence}\n") == (result.code, result.out, result.err)

    @pytest.mark.parametrize("leaving", [b"exit\n", b"  exit \r\n", b"exit"])
    def test_exit_leaves(self, files: TextNet, leaving: bytes) -> None:
        """What follows is not read as lines."""
        result = invoke(
            "chat", *files.arguments, stdin=b"the\n" + leaving + (b"the\n" if leaving[-1:] == b"\n" else b"")
        )
        assert (0, "the cat sat.\n") == (result.code, result.out)

    def test_an_answer_is_one_line(self, files: TextNet) -> None:
        """Its line breaks and control characters are spelt, and no character is split."""
        assert "a\u00e9!\\n\\x1b\n" == invoke("chat", *files.arguments, stdin=b"a").out

    def test_what_the_tokenizer_changes_is_told(self, files: TextNet) -> None:
        """For each line."""
        result = invoke("chat", *files.arguments, stdin=b"The\n")
        assert "The cat sat.\n" == result.out
        assert "cai-conform: the net reads 'the': the tokenizer ignores the case of whole words\n" == result.err

    def test_options_are_those_of_generate(self, files: TextNet) -> None:
        """Budget, texts to stop at, samplers; one generator for all lines."""
        sampled = ("--sampler", "top-k", "--k", "1", "--seed", "3")
        assert "the cat\n" == invoke("chat", *files.arguments, "--max-new", 2, *sampled, stdin=b"the\n").out
        assert "the c\n" == invoke("chat", *files.arguments, "--stop", "at s", stdin=b"the\n").out
        hot = ("--sampler", "min-p", "--semantics", "standard", "--temperature", "1e6", "--max-new", 4)
        lines = [invoke("chat", *files.arguments, *hot, stdin=b"b\nb\n").out.splitlines() for _ in range(2)]
        assert lines[0] == lines[1]
        assert lines[0][0] != lines[0][1]

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--temperature", "1"], "--temperature has no effect on --sampler greedy"),
            (["--stop", ""], "a text to stop at cannot be empty"),
        ],
    )
    def test_settings_are_refused_before_a_line_is_read(
        self, files: TextNet, arguments: list[str], sentence: str
    ) -> None:
        """Exit code 2."""
        result = invoke("chat", *files.arguments, *arguments, stdin=b"the\n")
        assert (2, "", [f"cai-conform: {sentence}"]) == (result.code, result.out, result.sentences)

    def test_damaged_files_are_refused(self, files: TextNet, tmp_path: Path) -> None:
        """One sentence, exit code 2."""
        (tmp_path / "cut.nn").write_bytes(files.net.read_bytes()[:-9])
        result = invoke("chat", tmp_path / "cut.nn", "--vocabulary", files.vocabulary, stdin=b"the\n")
        assert (2, "", 1) == (result.code, result.out, len(result.sentences))

    def test_a_closed_standard_input_is_the_end(self, files: TextNet, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is asked, so nothing is answered."""
        from typer import Exit

        from cai_neural_api.commands import chat

        monkeypatch.setattr(sys, "stdin", None)
        with pytest.raises(Exit) as caught:
            chat.chat(files.net, files.vocabulary)
        assert 0 == caught.value.exit_code

    @POSIX
    @pytest.mark.exhaustive
    def test_an_answer_comes_before_the_next_line(self, files: TextNet) -> None:
        """Nothing waits in a buffer; a reader that leaves ends it without a word."""
        process = subprocess.Popen(
            command("chat", *files.arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment_of(),
        )
        assert process.stdin and process.stdout and process.stderr
        with process.stdin, process.stdout, process.stderr:
            for _ in range(2):
                process.stdin.write(b"the\n")
                process.stdin.flush()
                assert b"the cat sat.\n" == process.stdout.readline()
            process.stdout.close()
            process.stdin.write(b"the\n")
            process.stdin.close()
            assert (141, b"") == (process.wait(60), process.stderr.read())


@POSIX
class TestTerminal:
    """A conversation."""

    @pytest.mark.exhaustive
    def test_lines_are_asked_for_and_answered(self, files: TextNet) -> None:
        """A greeting, a prompt, the dim line with its answer; Ctrl-D leaves with 0 and ends the line."""
        talk = Conversation(command("chat", *files.arguments), TERM="xterm")
        talk.wait_for(b"exit or Ctrl-D leaves")
        talk.wait_for(b"> ")
        talk.type(b"the\r")
        talk.wait_for(b"\x1b[2mthe\x1b[0m cat sat.\r\n")
        talk.wait_for(b"> ")
        talk.type(b"\r")
        talk.wait_for(b"> ")
        talk.type(b"x" * 12 + b"\r")
        talk.wait_for(b"too long")
        talk.wait_for(b"> ")
        talk.type(CTRL_D)
        assert 0 == talk.leave()
        assert talk.shown.endswith(b"\r\n")
        assert b"Traceback" not in talk.shown

    @pytest.mark.exhaustive
    def test_no_color_is_heeded(self, files: TextNet) -> None:
        """The line is repeated as it is; `exit` leaves."""
        talk = Conversation(command("chat", *files.arguments), NO_COLOR="1")
        talk.wait_for(b"> ")
        talk.type(b"the\r")
        talk.wait_for(b"\nthe cat sat.\r\n")
        talk.wait_for(b"> ")
        talk.type(b"exit\r")
        assert 0 == talk.leave()
        assert b"\x1b" not in talk.shown

    @pytest.mark.exhaustive
    def test_bytes_that_are_no_characters_are_taken(self, files: TextNet) -> None:
        """They are told about, and the chat goes on."""
        talk = Conversation(command("chat", *files.arguments), PYTHONUTF8="1", NO_COLOR="1")
        talk.wait_for(b"> ")
        talk.type(b"\xff the\r")
        talk.wait_for(b"id 255 is not among the 136 of the net")
        talk.wait_for(b"> ")
        talk.type(CTRL_D)
        assert 0 == talk.leave()

    @pytest.mark.exhaustive
    def test_ctrl_c_stops_an_answer_and_a_second_one_leaves(self, files: TextNet) -> None:
        """The first one ends the answer between two tokens; a line in between makes up for it."""
        talk = Conversation([sys.executable, "-c", SLOW, "chat", *files.arguments], NO_COLOR="1")
        talk.wait_for(b"> ")
        for _ in range(2):
            talk.type(b"the\r")
            talk.wait_for(b"\nthe cat")
            talk.type(CTRL_C)
            talk.wait_for(b"\r\n> ")
        assert b"sat." not in talk.shown
        talk.type(CTRL_C)
        assert 130 == talk.leave(retyped=CTRL_C)
        assert b"Traceback" not in talk.shown

    @pytest.mark.exhaustive
    def test_ctrl_c_at_the_prompt_tells_how_to_leave(self, files: TextNet) -> None:
        """And the next one does."""
        talk = Conversation(command("chat", *files.arguments), NO_COLOR="1")
        talk.wait_for(b"> ")
        talk.type(CTRL_C)
        talk.wait_for(b"cai-conform: Ctrl-C again leaves\r\n", retyped=CTRL_C)
        talk.wait_for(b"> ")
        talk.type(CTRL_C)
        assert 130 == talk.leave(retyped=CTRL_C)

    @pytest.mark.exhaustive
    def test_answers_may_go_elsewhere(self, files: TextNet, tmp_path: Path) -> None:
        """The prompt then goes to standard error, and the file gets the answers alone."""
        out = tmp_path / "answers.txt"
        talk = Conversation(["/bin/sh", "-c", f'exec "$@" > {out}', "sh", *command("chat", *files.arguments)])
        talk.wait_for(b"> ")
        talk.type(b"the\r")
        talk.wait_for(b"> ")
        talk.type(CTRL_D)
        assert 0 == talk.leave()
        assert b"the cat sat.\n" == out.read_bytes()


@POSIX
@pytest.mark.exhaustive
def test_ctrl_c_in_a_pipe_leaves_without_a_word(files: TextNet) -> None:
    """Exit code 130."""
    import signal

    process = subprocess.Popen(
        command("chat", *files.arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment_of(),
    )  # fmt: skip
    assert process.stdin and process.stdout
    process.stdin.write(b"the\n")
    process.stdin.flush()
    assert b"the cat sat.\n" == process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert (130, b"", b"") == (process.returncode, out, error)
