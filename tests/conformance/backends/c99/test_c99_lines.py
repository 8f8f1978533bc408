"""The conversation with the example in C, line by line: what is no message, and messages that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cai_reference.splitmix import SplitMix64, below
from support_c99 import Called, Program

FOLDER = Path(__file__).resolve().parents[4] / "golden" / "llama.dense"
START = {"do": "start", "seconds": 60, "protocol": "1", "client": "a test", "scratch": "/nowhere"}
LOAD = {"do": "load", "seconds": 60, "folder": str(FOLDER), "precision": None}
STOP = {"do": "stop", "seconds": 2}
PIECE = {"slot": 0, "position": 0, "tokens": [1, 2], "wanted": [1]}
EVALUATE = {"do": "evaluate", "seconds": 20, "pieces": [PIECE], "observe": False}


def lines_of(*messages: dict[str, Any]) -> bytes:
    """Number messages and write them as lines."""
    numbered = [{"id": number, **message} for number, message in enumerate(messages, start=1)]
    return "".join(json.dumps(message) + "\n" for message in numbered).encode()


def answers_of(called: Called) -> list[dict[str, Any]]:
    """Read the answers of a conversation that ended well."""
    assert (called.code, called.complaint) == (0, "")
    return [json.loads(line) for line in called.output.splitlines()]


class TestConversation:
    def test_it_ends_at_stop_and_reads_no_further(self, program: Program) -> None:
        """What stands behind `stop` is not answered."""
        answers = answers_of(program.call("serve", given=lines_of(START, STOP, START)))
        assert [answer["id"] for answer in answers] == [1, 2]
        assert answers[1] == {"id": 2, "ok": {}}

    def test_it_ends_with_its_input(self, program: Program) -> None:
        """An input that ends without `stop`, or that is empty, is no failure."""
        assert answers_of(program.call("serve")) == []
        assert len(answers_of(program.call("serve", given=lines_of(START)))) == 1

    def test_an_unknown_message_is_skipped(self, program: Program) -> None:
        """So is another version of the protocol; the conversation goes on."""
        answers = answers_of(
            program.call(
                "serve", given=lines_of({"do": "dance"}, {**START, "protocol": "2"}, {"do": "train-step"}, STOP)
            )
        )
        assert [sorted(answer) for answer in answers] == [["id", "skipped"]] * 3 + [["id", "ok"]]

    def test_keys_of_other_people_are_ignored(self, program: Program) -> None:
        """Whatever begins with x_ is, in pieces, too."""
        piece = {**PIECE, "x_y": None}
        given = lines_of({**LOAD, "x_mood": [1]}, {**EVALUATE, "pieces": [piece]}, {**STOP, "x_": 1})
        assert all("ok" in answer for answer in answers_of(program.call("serve", given=given)))

    def test_a_cancelled_request_is_done_by_then(self, program: Program) -> None:
        """Requests are answered in order, so that there is nothing left to cancel."""
        given = lines_of(START, {"do": "cancel", "seconds": 5, "request": 1}, STOP)
        assert answers_of(program.call("serve", given=given))[1] == {"id": 2, "ok": {}}

    def test_escapes_are_read_and_written(self, program: Program) -> None:
        """A reason that quotes foreign text is a string of JSON, whatever stands in it."""
        given = lines_of({"do": 'a"b\\c\u001fд\U0001f980'}, STOP)
        (answer, _) = answers_of(program.call("serve", given=given))
        assert 'a"b\\c?д\U0001f980' in answer["skipped"]


class TestWrongMessages:
    @pytest.mark.parametrize(
        "message",
        [
            {"do": 7},
            {},
            {**START, "shoe": 1},
            {key: value for key, value in START.items() if key != "scratch"},
            {**START, "scratch": ""},
            {**START, "scratch": "a\0b"},
            {**LOAD, "folder": None},
            {**LOAD, "folder": "/nowhere/at/all"},
            {**LOAD, "precision": 64},
            {**EVALUATE, "pieces": {}},
            {**EVALUATE, "pieces": []},
            {**EVALUATE, "pieces": [7]},
            {**EVALUATE, "observe": 1},
            {**EVALUATE, "pieces": [PIECE, PIECE]},
            {**EVALUATE, "pieces": [{**PIECE, "slot": 16}]},
            {**EVALUATE, "pieces": [{**PIECE, "slot": -1}]},
            {**EVALUATE, "pieces": [{**PIECE, "slot": 0.0}]},
            {**EVALUATE, "pieces": [{**PIECE, "position": 2**53 + 1}]},
            {**EVALUATE, "pieces": [{**PIECE, "tokens": []}]},
            {**EVALUATE, "pieces": [{**PIECE, "tokens": [2**32]}]},
            {**EVALUATE, "pieces": [{**PIECE, "wanted": [2]}]},
            {**EVALUATE, "pieces": [{**PIECE, "wanted": [1, 0]}]},
            {**EVALUATE, "pieces": [{**PIECE, "wanted": [0, 0]}]},
            {**EVALUATE, "pieces": [{**PIECE, "wanted": None}]},
            {**EVALUATE, "pieces": [{**PIECE, "why": 1}]},
            {"do": "clear", "seconds": 1, "slot": 16},
            {"do": "drop", "seconds": 1, "slot": 0, "first": None, "last": None},
            {"do": "poison", "seconds": 1, "value": 0.5},
            {"do": "fail-after", "seconds": 1, "layers": "1"},
            {"do": "generate", "seconds": 1, "prompt": [], "new_tokens": 1, "arm": "full", "stop": None, "top": 0},
            {"do": "generate", "seconds": 1, "prompt": [1], "new_tokens": -1, "arm": "full", "stop": None, "top": 0},
        ],
    )
    def test_a_wrong_message_is_an_error_and_no_more(self, message: dict[str, Any], program: Program) -> None:
        """The answer says what is wrong in one sentence, and the next message is answered."""
        answers = answers_of(program.call("serve", given=lines_of(LOAD, message, EVALUATE, STOP)))
        assert list(answers[1]) == ["id", "errored"]
        assert answers[1]["errored"]
        # After a load that failed there is no model any more.
        assert "ok" in answers[2] or (message.get("do") == "load" and "no model" in answers[2]["skipped"])

    @pytest.mark.parametrize(
        "line",
        [
            b"\n",
            b"hello\n",
            b'{"id": 1, "do": "stop"\n',
            b'{"do": "stop", "seconds": 1}\n',
            b'{"id": -1, "do": "stop"}\n',
            b'{"id": 1.0, "do": "stop"}\n',
            b'{"id": "1", "do": "stop"}\n',
            b'{"id": 1, "id": 1}\n',
            b'[{"id": 1}]\n',
            b'{"id": 1, "x_": NaN}\n',
            b'{"id": 1, "x_": 01}\n',
            b'{"id": 1, "x_": 1e999}\n',
            b'{"id": 1, "x_": "\\ud83e"}\n',
            b'{"id": 1, "x_": "\xff"}\n',
            b"\xef\xbb\xbf{}\n",
            b'{"id": 1}\0\n',
            b'{"id": 1, "x_": ' + b"[" * 100_000 + b"\n",
            b'{"id": 1, "x_": [' + b"0," * 1_100_000 + b"0]}\n",
            b'{"id": 1, "do": "stop", "seconds": 1}',
            b'"' + b"a" * (16 << 20) + b'"\n',
        ],
        ids=lambda line: line[:24].decode("latin-1").encode("unicode_escape").decode(),
    )
    def test_what_is_no_message_ends_the_conversation(self, line: bytes, program: Program) -> None:
        """There is no id to answer to: exit code 2, and one sentence on standard error."""
        called = program.call("serve", given=line)
        assert (called.code, called.output) == (2, b"")
        assert called.complaint.startswith("cai-c99: ") and called.complaint.count("\n") == 1

    def test_large_tensors_need_a_folder(self, program: Program) -> None:
        """Where `scratch` cannot be written to, the call fails, and its tokens are not remembered."""
        piece = {"slot": 0, "position": 0, "tokens": [5] * 40, "wanted": list(range(40))}
        given = lines_of(START, LOAD, {**EVALUATE, "pieces": [piece]}, EVALUATE, STOP)
        answers = answers_of(program.call("serve", given=given))
        assert "scratch" in answers[2]["errored"]
        assert "ok" in answers[3]


class TestDamagedModels:
    @pytest.mark.parametrize(
        "changes",
        [
            {"vocab_size": 321},
            {"vocab_size": 0},
            {"hidden_size": 2**40},
            {"num_hidden_layers": 3},
            {"num_attention_heads": 5},
            {"num_key_value_heads": 3},
            {"head_dim": 7},
            {"head_dim": None, "num_attention_heads": 3},
            {"rope_theta": 10.0},
            {"rope_theta": -1, "rope_parameters": None},
            {"rms_norm_eps": "small"},
            {"sliding_window": 0},
        ],
    )
    def test_sizes_that_do_not_fit_are_refused(
        self, changes: dict[str, object], program: Program, tmp_path: Path
    ) -> None:
        """What config.json says and what the file of weights holds have to go together."""
        settings = json.loads((FOLDER / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps({**settings, **changes}))
        (tmp_path / "model.safetensors").write_bytes((FOLDER / "model.safetensors").read_bytes())
        given = lines_of({**LOAD, "folder": str(tmp_path)}, LOAD, EVALUATE, STOP)
        answers = answers_of(program.call("serve", given=given))
        assert "errored" in answers[0]
        assert "ok" in answers[2]

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
    def test_no_damage_of_a_folder_crashes_the_program(self, name: str, program: Program, tmp_path: Path) -> None:
        """Bytes are flipped and cut at 80 places; every load is answered, and so is the next one."""
        for other in ("config.json", "model.safetensors"):
            (tmp_path / other).write_bytes((FOLDER / other).read_bytes())
        whole, generator = (FOLDER / name).read_bytes(), SplitMix64(2027)
        head = len(whole) if name == "config.json" else 2800
        for _ in range(80):
            place = below(generator, head)
            flipped = whole[:place] + bytes([whole[place] ^ (1 << below(generator, 8))]) + whole[place + 1 :]
            (tmp_path / name).write_bytes(flipped if below(generator, 2) else whole[:place])
            given = lines_of({**LOAD, "folder": str(tmp_path)}, EVALUATE, LOAD, EVALUATE, STOP)
            answers = answers_of(program.call("serve", given=given))
            assert "ok" in answers[3]

    @pytest.mark.exhaustive
    def test_no_damage_of_a_line_crashes_the_program(self, program: Program) -> None:
        """A flipped or lost byte gives an answer, or the end with one sentence."""
        whole = lines_of(
            START, LOAD, EVALUATE, {**EVALUATE, "observe": True, "pieces": [{**PIECE, "position": 2}]}, STOP
        )
        generator = SplitMix64(2028)
        for _ in range(100):
            place = below(generator, len(whole))
            called = program.call("serve", given=whole[:place] + whole[place + 1 :])
            assert called.code in (0, 2)
            place = below(generator, len(whole))
            changed = whole[:place] + bytes([whole[place] ^ (1 << below(generator, 8))]) + whole[place + 1 :]
            assert program.call("serve", given=changed).code in (0, 2)
