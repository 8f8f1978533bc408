"""`bakeoff`: pages for people, lines for programs, refusals, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from cai_neural_api.bakeoff import settings
from cai_neural_api.bakeoff.settings import TrainingLimit
from support_bakeoff import ROWS, SCHEDULE, TINY, WORDS
from support_cli import Result, invoke

pytestmark = pytest.mark.usefixtures("without_ci")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow nets and short epochs."""
    monkeypatch.setattr(settings, "SIZES", TINY)
    monkeypatch.setattr(settings, "SCHEDULE", SCHEDULE)


@pytest.fixture
def data(tmp_path: Path) -> list[object]:
    """Return the options that name a vocabulary and rows."""
    vocabulary, rows = tmp_path / "vocabulary.txt", tmp_path / "rows.csv"
    vocabulary.write_bytes(WORDS.format())
    rows.write_text("".join(",".join(map(str, row)) + "\n" for row in ROWS), encoding="ascii", newline="\n")
    return ["--vocabulary", vocabulary, "--rows", rows]


def bake(folder: Path, *arguments: object) -> Result:
    """Run the command with few steps and tokens."""
    return invoke("bakeoff", "--output", folder / "out", "--steps", 2, "--max-new", 4, *arguments)


class TestOutput:
    """Results on standard output, one line a phase on standard error."""

    def test_a_pipe_gets_a_line_a_phase_and_a_summary(self, tmp_path: Path, data: list[object]) -> None:
        """Each of them a JSON object."""
        result = bake(tmp_path, "--phase", 3, *data)
        assert 0 == result.code
        phase, summary = (json.loads(line) for line in result.out.splitlines())
        assert ("phase", 3, True) == (phase["type"], phase["phase"], phase["token_identical"])
        assert ("summary", 1, True, 0) == (summary["type"], summary["asked"], summary["complete"], summary["exit_code"])
        assert {"rows": 4, "read": 4, "empty": 0, "with_larger_ids": 0, "beyond_the_limit": 0} == {
            name: count for name, count in summary["data"].items() if name != "source"
        }
        assert [f"phase 3, recurrence: legacy training, 2 steps, seed 424242, fast, 4 rows of {data[3]}"] == (
            result.err.splitlines()
        )

    def test_a_table_says_what_was_read_and_what_came_of_it(self, tmp_path: Path, data: list[object]) -> None:
        """Page and summary."""
        result = bake(tmp_path, "--phase", 3, "--format", "table", "--prompt", "the cat", *data)
        lines = result.out.splitlines()
        # Long paths are folded, wherever the line ends.
        assert "".join(result.out.split()).startswith(f"4rowsof{data[3]}")
        assert "Phase 3: recurrence" in lines
        assert "  phase 3: token-identical" in lines
        assert any(line.startswith('  "the cat" continues "') for line in lines)
        assert "1 phase: 1 token-identical. Exit 0: all arms token-identical." == lines[-1]

    def test_files_are_written_where_they_are_asked_for(self, tmp_path: Path, data: list[object]) -> None:
        """A net, a log, a summary."""
        bake(tmp_path, "--phase", 3, *data)
        assert {"phase3.nn", "phase3.log", "summary.json"} == {path.name for path in (tmp_path / "out").iterdir()}

    def test_the_same_steps_give_the_same_net(self, tmp_path: Path, data: list[object]) -> None:
        """By either trainer; they do not give each other's."""
        nets = []
        for folder, trainer in (("a", "legacy"), ("b", "legacy"), ("c", "clean")):
            assert 0 == bake(tmp_path / folder, "--phase", 3, "--trainer", trainer, *data).code
            nets.append((tmp_path / folder / "out/phase3.nn").read_bytes())
        assert nets[0] == nets[1] != nets[2]

    def test_without_files_it_says_that_nothing_compares(self, tmp_path: Path) -> None:
        """Generated stories have another vocabulary."""
        result = bake(tmp_path, "--phase", 3, "--format", "table", "--prompt", "tom")
        assert result.out.startswith("12 rows of 12 generated stories, vocabulary of 140 ids fitted to them")
        assert "Trained on generated stories: losses" in result.out

    def test_prompts_are_not_repeated(self, tmp_path: Path, data: list[object]) -> None:
        """The same text twice is one prompt."""
        result = bake(tmp_path, "--phase", 3, "--prompt", "cat", "--prompt", "cat", *data)
        assert 1 == len(json.loads(result.out.splitlines()[0])["prompts"])


class TestRefusals:
    """Exit code 2 and one sentence."""

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (("--phase", "12"), "cai-conform: phase '12' is unknown; a phase is a number from 1 to 9, or all"),
            (("--budget", 3), "cai-conform: --budget and --steps exclude each other"),
            (("--rows", "rows.csv"), "cai-conform: --rows needs --vocabulary beside it"),
            (("--arithmetic", "exact"), "cai-conform: "),
        ],
    )
    def test_what_cannot_be_meant(self, tmp_path: Path, arguments: tuple[object, ...], sentence: str) -> None:
        """Before anything is read or trained."""
        result = bake(tmp_path, *arguments)
        assert (2, "") == (result.code, result.out)
        assert result.sentences[0].startswith(sentence)

    def test_phase_5_without_phase_1(self, tmp_path: Path, data: list[object]) -> None:
        """With the command to try."""
        result = bake(tmp_path, "--phase", 5, *data)
        assert 2 == result.code
        assert f"try: cai-conform bakeoff --phase 1 --output {tmp_path / 'out'}" in result.err.splitlines()

    def test_a_damaged_row(self, tmp_path: Path, data: list[object]) -> None:
        """With file, line and field."""
        rows = Path(str(data[3]))
        rows.write_bytes(b"1,2\n3,-4\n")
        result = bake(tmp_path, "--phase", 3, *data)
        assert 2 == result.code
        assert [f"cai-conform: {str(rows)!r}: line 2, field 2: token id -4 is negative"] == result.sentences

    def test_numbers_out_of_range(self, tmp_path: Path) -> None:
        """The option is named."""
        for option, number in (("--budget", -1), ("--steps", 0), ("--threads", 0), ("--max-new", 0), ("--seed", -1)):
            result = invoke("bakeoff", "--output", tmp_path, option, number)
            assert 2 == result.code
            assert option in result.err


class TestDifference:
    """Exit code 1."""

    def test_arms_that_differ(self, tmp_path: Path, data: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
        """The place stands in the object of the phase."""
        from cai_neural_api.decode import arms

        monkeypatch.setattr(
            arms,
            "run_cached",
            lambda net, arithmetic, prompt, budget, clock: arms.run_full(
                net, arithmetic, [*prompt[:-1], (prompt[-1] + 1) % 140], budget, clock
            ),
        )
        result = bake(tmp_path, "--phase", 3, *data)
        assert 1 == result.code
        differences = json.loads(result.out.splitlines()[0])["differences"]
        assert {"cached"} == {found["arm"] for found in differences}
        assert all(found["position"] >= 3 and found["full_margin"] >= 0.0 for found in differences)


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is no signal there")
class TestCtrlC:
    """The first one ends soon, the second one at once."""

    def test_the_first_keeps_what_was_done(
        self, tmp_path: Path, data: list[object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The step in progress is completed, and its net is written; exit code 130."""
        asked = TrainingLimit.reached

        def reached(limit: TrainingLimit, steps: int) -> str:
            if steps == 1:
                signal.raise_signal(signal.SIGINT)
            return asked(limit, steps)

        monkeypatch.setattr(TrainingLimit, "reached", reached)
        before = signal.getsignal(signal.SIGINT)
        result = bake(tmp_path, "--phase", "all", *data)
        assert 130 == result.code
        assert before is signal.getsignal(signal.SIGINT)
        phase, summary = (json.loads(line) for line in result.out.splitlines())
        assert ("interrupted", 1, False) == (phase["training"]["ending"], phase["training"]["steps"], phase["complete"])
        assert (9, 130) == (summary["asked"], summary["exit_code"])
        assert (tmp_path / "out/phase1.nn").stat().st_size > 0
        assert "cai-conform: interrupted; completing the step in progress, again to end at once" in result.err

    def test_the_second_ends_at_once(self, tmp_path: Path, data: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
        """No net, nothing half-written, the same exit code."""

        def reached(_limit: TrainingLimit, _steps: int) -> str:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            return ""

        monkeypatch.setattr(TrainingLimit, "reached", reached)
        result = bake(tmp_path, "--phase", 3, *data)
        assert (130, "") == (result.code, result.out)
        assert ["phase3.log"] == [path.name for path in (tmp_path / "out").iterdir()]
