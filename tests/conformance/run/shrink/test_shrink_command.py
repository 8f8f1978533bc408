"""`cai-conform shrink`, and `cai-conform probe` about what it prints."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from cai_conformance.run.shrink.failures import identifiers_of
from support_cli import Result, invoke
from support_shrinking import LLAMA, SUITE, given_model, write_model

TILED = "fault:attention.groups-strided"
"""What needs four query heads on two of keys and values, and one token."""


@pytest.fixture(scope="class")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """Shrink a wrong engine once, as a table."""
    folder = tmp_path_factory.mktemp("shrunk") / "case"
    return invoke("shrink", SUITE, "--backend", TILED, "--output", folder, "--format", "table"), folder


def replayed(command: str, backend: str = "") -> Result:
    """Run a printed command, on another backend if one is named."""
    words = shlex.split(command)
    assert "cai-conform" == words[0]
    if backend:
        words[words.index("--backend") + 1] = backend
    return invoke(*words[1:], "--format", "json")


def verdicts(result: Result) -> list[dict[str, Any]]:
    """Return the verdicts among JSON lines."""
    lines = [json.loads(line) for line in result.out.splitlines()]
    return [line for line in lines if line["type"] == "verdict"]


@pytest.mark.exhaustive
class TestShrink:
    """A failure made small, written, printed and replayed."""

    def test_the_printed_command_replays_the_failure(self, tiled: tuple[Result, Path]) -> None:
        """The same check fails, and on the reference it passes."""
        result, _ = tiled
        command = result.out.splitlines()[-1]
        assert 1 == result.code
        failing = replayed(command)
        assert (1, [("probe::fwd.oracle", "fail")]) == (
            failing.code, [(each["check"], each["outcome"]) for each in verdicts(failing)],
        )  # fmt: skip
        right = replayed(command, "reference")
        assert (0, ["pass"]) == (right.code, [each["outcome"] for each in verdicts(right)])

    def test_what_was_and_what_is_left_stand_side_by_side(self, tiled: tuple[Result, Path]) -> None:
        """Sizes, the number of trials, and the values that differ."""
        out = tiled[0].out
        assert f"{SUITE}::fwd.oracle fails on {TILED}" == out.splitlines()[0]
        for text in ("4 of 8 channels", "4 of 2 channels", "the suite's", "drawn, seed 1", "nothing smaller fails"):
            assert text in out
        assert "left: 1 layer, 4 heads of 2 channels, vocabulary 2, prompt 0" in out
        assert "expected" in out and "found" in out

    def test_only_the_command_is_wider_than_a_terminal(self, tiled: tuple[Result, Path]) -> None:
        """It can be copied as one line; nothing is coloured in a pipe."""
        out = tiled[0].out
        assert "\x1b" not in out
        assert [out.splitlines()[-1]] == [line for line in out.splitlines() if len(line) > 80]

    def test_the_folder_says_what_it_is(self, tiled: tuple[Result, Path]) -> None:
        """Beside the model that engines load."""
        result, folder = tiled
        found = json.loads((folder / "case.json").read_text(encoding="utf-8"))
        assert ("fwd.oracle", SUITE, [0], "1") == (found["check"], found["suite"], found["prompt"], found["calls"])
        assert result.out.splitlines()[-1] == found["command"]
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        assert (4, 2, 2) == (
            settings["num_attention_heads"], settings["num_key_value_heads"], settings["head_dim"],
        )  # fmt: skip

    def test_a_check_with_questions_of_its_own_is_replayed_by_its_name(self, tmp_path: Path) -> None:
        """Its model alone is made smaller; a pipe gets one JSON object."""
        arguments = ("-b", "fault:cache.window-ignored", "-k", "kv.window", "-o", tmp_path / "case")
        result = invoke("shrink", SUITE, *arguments)
        found = json.loads(result.out)
        assert (1, "kv.window[cached]", "2") == (result.code, found["check"], found["last"]["window"])
        assert 1 == replayed(found["command"]).code
        assert 0 == replayed(found["command"], "reference").code

    def test_training_is_replayed_by_its_rows(self, tmp_path: Path) -> None:
        """One step of one row."""
        arguments = ("-b", "fault:adamw.decay-after-update", "-k", "opt.given", "-o", tmp_path / "case")
        found = json.loads(invoke("shrink", "llama.dense", *arguments).out)
        assert ("1", "0,0") == (found["last"]["steps"], found["last"]["rows"])
        assert found["command"].endswith("-k opt.given --batch 0,0")
        assert (1, 0) == (replayed(found["command"]).code, replayed(found["command"], "reference").code)

    def test_an_engine_that_loads_one_model_only_has_its_prompt_shrunk(self, tmp_path: Path) -> None:
        """With exit code 2, and the reason in one sentence; what is left is replayed like any other."""
        arguments = ("-b", "support_shrinking:OwnModelOnly", "-k", "fwd.oracle", "-o", tmp_path / "case")
        result = invoke("shrink", SUITE, *arguments, "--policy", "ulp:64")
        found = json.loads(result.out)
        assert (2, "the suite's", "0") == (result.code, found["last"]["weights"], found["last"]["prompt"])
        (sentence,) = result.sentences
        assert "loads no other model than the suite's, so only the prompt was shrunk" in sentence
        assert given_model().weights == (tmp_path / "case" / "model.safetensors").read_bytes()
        assert (1, 0) == (replayed(found["command"]).code, replayed(found["command"], "reference").code)


class TestNothing:
    """What does not fail, and what cannot be judged."""

    @pytest.mark.exhaustive
    def test_a_right_engine_leaves_nothing_to_shrink(self, tmp_path: Path) -> None:
        """Exit code 0, and nothing is written."""
        result = invoke("shrink", SUITE, "-k", "fwd.oracle or kv.steps", "-o", tmp_path / "case")
        assert (0, False) == (result.code, (tmp_path / "case").exists())
        assert [f"cai-conform: nothing fails on {SUITE}: 2 checks passed, so there is nothing to shrink"] == (
            result.sentences
        )

    @pytest.mark.exhaustive
    def test_nothing_judged_is_no_success(self) -> None:
        """A model of one head is not asked about several."""
        result = invoke("shrink", SUITE, "-a", "fast", "-k", "mtp.self")
        assert 2 == result.code
        assert result.sentences[0].startswith("cai-conform: nothing was judged: the model is not known to predict")

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["ngram"], "course.ngram gives no model that an engine could load"),
            ([SUITE, "-b", "exec:true"], "cannot be driven call by call"),
            ([SUITE, "-b", "fault:rope.sideways"], "rope.sideways"),
            ([SUITE, "-k", "nothing-like-this"], "nothing-like-this"),
        ],
    )
    def test_what_cannot_be_shrunk_is_refused(self, arguments: list[str], text: str) -> None:
        """With exit code 2, and one sentence."""
        result = invoke("shrink", *arguments)
        assert 2 == result.code
        assert text in result.sentences[0]

    def test_a_folder_of_something_else_is_not_overwritten(self, tmp_path: Path) -> None:
        """It is looked at before anything is tried."""
        (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
        result = invoke("shrink", SUITE, "-b", TILED, "-o", tmp_path)
        assert 2 == result.code
        assert "holds something else than a shrunk case" in result.err
        assert ["notes.txt"] == [path.name for path in tmp_path.iterdir()]

    def test_every_check_has_an_id_of_the_suite(self) -> None:
        """Each once."""
        found = identifiers_of(SUITE)
        assert len(found) == len(set(found))
        assert {
            f"{SUITE}::fwd.oracle",
            f"{SUITE}::kv.reuse[copy]",
            f"{SUITE}::opt.given",
            f"{SUITE}::kv.batch[shape]",
        } < (set(found))


class TestProbe:
    """`cai-conform probe` about a prompt, and about rows."""

    @pytest.mark.exhaustive
    def test_a_prompt_is_asked_in_every_way(self, tmp_path: Path) -> None:
        """On any folder."""
        folder = write_model(LLAMA, tmp_path / "model")
        result = invoke("probe", "--model", folder, "--prompt", "0,3,1", "--start", "2", "-f", "json")
        assert 0 == result.code
        assert ["pass"] * 7 == [each["outcome"] for each in verdicts(result)]

    def test_the_way_that_fails_is_told(self, tmp_path: Path) -> None:
        """So that it can be asked alone."""
        folder = write_model(LLAMA, tmp_path / "model")
        arguments = ("probe", "-b", "fault:cache.stale-row-after-rollback", "--model", folder, "--prompt", "0,3,1")
        (found,) = verdicts(invoke(*arguments, "-k", "kv.rollback", "-f", "json"))
        assert "fail" == found["outcome"]
        calls = found["message"].split()[1].rstrip(":")
        assert found["message"].startswith(f"--calls {calls}: call ")

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (["--prompt", "0,7"], "the model has 7 ids"),
            (["--batch", "0,7"], "the model has 7 ids"),
            (["--prompt", "0,1", "--calls", "3"], "the calls feed 3 tokens, and the prompt has 2"),
            (["--calls", "3"], "there is no prompt that they feed"),
            (["--prompt", "0,x"], "'x'"),
            (["--prompt", "0,1", "--calls", "1,1", "-k", "kv.rollback"], "kv.rollback"),
        ],
    )
    def test_what_cannot_be_asked_is_refused(self, arguments: list[str], text: str, tmp_path: Path) -> None:
        """With exit code 2."""
        folder = write_model(LLAMA, tmp_path / "model")
        result = invoke("probe", "--model", folder, *arguments)
        assert 2 == result.code
        assert text in result.sentences[0]
