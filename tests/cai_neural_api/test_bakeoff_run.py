"""All nine phases: equal arms, figures beside the published ones, interruption, and what is written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len

from cai_conformance.errors import InputError
from cai_conformance.fixtures.files import InterchangeError
from cai_neural_api.bakeoff import BakeOff, BakeSettings, OutputFolder, PhaseReport
from cai_neural_api.bakeoff.figures import FigureList, memory_figures, step_figures
from cai_neural_api.bakeoff.files import make_nets, weights_of
from cai_neural_api.bakeoff.publication import MEASURED, PUBLISHED
from cai_neural_api.bakeoff.report import data_lines, phase_lines, run_object, summary_lines
from cai_neural_api.bakeoff.settings import PHASES, ArmName, chosen_phases
from cai_neural_api.bakeoff.verdicts import Bucket, time_forward
from cai_neural_api.conversion import build_net
from cai_neural_api.decode import arms
from cai_neural_api.decode.arms import ArmRun
from cai_neural_api.decode.decoding import first_difference
from cai_neural_api.errors import BakeOffError, NetInputError
from cai_neural_api.exchange import read_net
from cai_neural_api.net.graph import Net
from cai_neural_api.published import DRAFT
from cai_neural_api.published import PHASE_WEIGHTS as WEIGHTS
from cai_neural_api.training import FitSchedule
from cai_reference.arithmetic.instances import FAST
from support_bakeoff import DATA, NUMBERS, After, HandClock, bake, baked, settings
from support_refusals import refuses


def report(number: int) -> PhaseReport:
    """Return a phase of the run that is made once."""
    return baked().phases[number - 1]


def value(number: int, name: str) -> float:
    """Return a figure of a phase."""
    found = report(number).figure(name)
    assert found is not None, name
    assert found.value is not None
    return found.value


class TestAllPhases:
    """Nine nets, each decoded in two or three ways."""

    @pytest.mark.parametrize("number", NUMBERS)
    def test_all_arms_are_token_identical(self, number: int) -> None:
        """And every arm of the phase ran on both prompts."""
        found = report(number)
        assert "token-identical" == found.word
        for result in found.prompts:
            assert list(found.phase.arms) == list(result.runs)
            assert all(result.full.ids == run.ids for run in result.runs.values())
            assert 5 == len(result.full.new)

    def test_the_run_is_complete(self) -> None:
        """Exit code 0, whatever the verdicts on losses say."""
        assert baked().complete
        assert 0 == baked().exit_code
        assert ["NOT CONFIRMED", "HOLDS"] == [verdict.word.value for verdict in report(6).verdicts]

    def test_prompts_are_coded_by_the_vocabulary(self) -> None:
        """Whole words, and the space between them."""
        assert [(132, 32, 129), (131, 32, 136, 32, 97, 32, 135)] == [result.full.prompt for result in report(1).prompts]

    def test_a_name_stands_once_in_a_phase(self) -> None:
        """A published figure is found by its name."""
        for number in NUMBERS:
            names = [figure.name for figure in report(number).figures]
            assert len(set(names)) == len(names)

    def test_every_published_figure_stands_beside_one_of_ours(self) -> None:
        """But for buckets of steps that a short context does not reach."""
        ours = {(number, figure.name) for number in NUMBERS for figure in report(number).figures}
        late = {(number, f"prefix {name}") for number in NUMBERS for name in ("16-31", ">=32")}
        assert set() == {*PUBLISHED, *MEASURED} - ours - late

    def test_buckets_of_long_prefixes_find_their_published_figures(self) -> None:
        """Phase 3 printed 1.05 and 0.75 ms."""
        figures = FigureList(PHASES[2])
        step_figures(figures, [Bucket("16-31", 16, 1.0), Bucket(">=32", 9, 2.0)])
        assert ["1.05", "", "0.75", ""] == [figure.published for figure in figures.figures]


class TestPublishedSize:
    """What has no clock in it is exactly as published."""

    def test_nets_have_the_published_weights(self) -> None:
        """All nine, and the draft."""
        published = BakeSettings()
        for phase in PHASES:
            assert WEIGHTS[phase.number][0] == weights_of(build_net(published.decoder(phase)))
        assert DRAFT[0] == weights_of(build_net(published.trained(PHASES[4])))

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("number", [4, 6, 8])
    def test_cache_tables_are_the_published_ones(self, number: int) -> None:
        """Every figure of them, as printed."""
        figures = FigureList(PHASES[number - 1])
        memory_figures(figures, PHASES[number - 1].memory, BakeSettings().sizes)
        assert len(figures.figures) >= 8
        assert [figure.published for figure in figures.figures] == [figure.text for figure in figures.figures]


class TestFigures:
    """Counters and times against what the tiny run must have."""

    def test_forwards_a_token_include_the_prefill(self) -> None:
        """Two and six tokens are prefilled, five are generated, twice."""
        assert 1.0 == value(1, "all: full, forwards a token")
        assert (2 + 6 + 10) / 10 == value(1, "all: cached, forwards a token")

    def test_times_are_those_of_the_clock(self) -> None:
        """A prompt of five tokens reads it six times behind its start: a millisecond each."""
        assert pytest.approx(6.0) == value(1, '"one day": full, all')
        assert pytest.approx(1.2) == value(1, '"one day": full, a token')
        assert pytest.approx(1.0) == value(3, "prefix <16")
        assert 10 == value(3, "prefix <16, steps")

    def test_a_draft_asks_four_times_a_pass(self) -> None:
        """As long as the context has room; what it proposes is what it was asked for."""
        proposed = value(5, "all: guesses proposed")
        assert proposed == 10 * value(5, "all: speculative, draft forwards a token")
        assert pytest.approx(100 * value(5, "all: guesses right") / proposed) == value(5, "all: guesses accepted")

    def test_heads_are_told_apart(self) -> None:
        """A later head is verified only where the earlier one was right."""
        assert value(2, "head 2, guesses verified") <= value(2, "head 1, guesses accepted")

    def test_memory_follows_from_the_sizes(self) -> None:
        """Width 16, two heads, latent 4, rotary width 2, window 4."""
        assert 2 * 16 == value(4, "plain attention, a token and layer")
        assert 2 * 2 * (8 + 2) == value(4, "latent attention as executed, a token and layer")
        assert 4 + 2 == value(4, "latent and rotary key only, a token and layer")
        assert 2 * 16 == value(6, "states of both recurrences, in all")
        assert 2 * 16 * 4 == value(8, "bound of the local layer")
        assert 2 * 16 * (4 + 192) == value(8, "local and global, 192 tokens")

    def test_phase_9_compares_with_phase_1(self) -> None:
        """One norm less a block; and the loss of phase 1 from the same run."""
        assert 2 * (2 * 16 + 1) == value(9, "fewer weights than phase 1")
        assert report(1).course.loss == value(9, "loss of phase 1")

    def test_twelve_forwards_are_timed_behind_two(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Over the whole context; the ids count up from 2 and begin anew behind a hundred."""
        clock, seen = HandClock(), list[list[list[int]]]()

        def run(_net: Net, _arithmetic: object, values: list[list[int]]) -> None:
            clock.now += 0.003
            seen.append(values)

        monkeypatch.setattr(Net, "run", run)
        net = Net.from_file(make_nets(PHASES[2], settings(), DATA.vocabulary, OutputFolder(tmp_path)).initial)
        net.context = 103
        assert pytest.approx(3.0) == time_forward(net, FAST, clock)
        assert 14 == len(seen)
        assert [[*range(2, 102), 2, 3, 4]] == seen[0]


class TestDifferingArms:
    """What happens when an arm is wrong: a session that chooses other tokens from the third on."""

    @pytest.fixture
    def differing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PhaseReport:
        """Run phase 3 with a cached arm whose third token is another one."""
        right = arms.run_cached

        def wrong(*arguments: object) -> ArmRun:
            run = right(*arguments)  # type: ignore[arg-type]  # handed through
            return replace(run, new=(*run.new[:2], (run.new[2] + 1) % 140, *run.new[3:]))

        monkeypatch.setattr(arms, "run_cached", wrong)
        return bake(tmp_path, "3").phases[0]

    def test_the_first_difference_is_told_with_both_margins(self, differing: PhaseReport) -> None:
        """Position in the sequence, prompt included."""
        (_, name, found), _ = differing.differences
        assert (ArmName.CACHED, 3 + 2) == (name, found.position)
        assert found.expected is not None
        assert (found.expected + 1) % 140 == found.found
        # The logits are the right ones: only what was said of them is wrong.
        assert pytest.approx(found.expected_margin) == found.found_margin

    def test_the_run_does_not_conform(self, differing: PhaseReport) -> None:
        """Exit code 1, and a word for it."""
        assert "ARMS DIFFER" == differing.word
        assert 1 == replace(baked(), phases=(differing,), asked=1).exit_code

    def test_the_screen_says_where(self, differing: PhaseReport) -> None:
        """In words, with ids and margins."""
        text = " ".join(line.plain.strip() for line in phase_lines(differing, 80))
        _, _, found = differing.differences[0]
        assert f'"one day", position 5: full chooses {found.expected} by ' in text
        assert f"cached {found.found} by " in text

    def test_arms_of_different_lengths_differ_behind_the_shorter(self) -> None:
        """There is no token then, and no margin."""
        full = report(1).prompts[0].full
        shorter = replace(full, new=full.new[:4])
        found = first_difference(full, shorter)
        assert found is not None
        assert (3 + 4, full.new[4], None) == (found.position, found.expected, found.found)


class TestInterruption:
    """Somebody wants the run to end."""

    def test_the_step_in_progress_is_completed_and_written(self, tmp_path: Path) -> None:
        """The first of three phases is done, the second was in its second step, the third is never begun."""
        # It is asked before a phase, behind each of three steps, and before each of four runs of an arm.
        run = bake(tmp_path, [PHASES[2]] * 3, stopped=After(1 + 3 + 4 + 1 + 1))
        assert ["token-identical", "interrupted"] == [found.word for found in run.phases]
        last = run.phases[-1]
        assert ("interrupted", 2, 2) == (last.course.ending, last.course.steps, last.course.kept)
        assert (False, 130) == (run.complete, run.exit_code)
        assert 12 == Net.from_file(read_net(tmp_path / "phase3.nn")).context

    def test_nothing_is_half_written(self, tmp_path: Path) -> None:
        """Nets and logs of what was begun, a summary that says so, and nothing else."""
        bake(tmp_path, "3", stopped=After(2))
        assert ["phase3.log", "phase3.nn", "summary.json"] == sorted(path.name for path in tmp_path.iterdir())
        summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
        assert (False, 130) == (summary["complete"], summary["exit_code"])
        assert "interrupted" == summary["phases"][0]["training"]["ending"]
        assert "interrupted" == (tmp_path / "phase3.log").read_text(encoding="utf-8").splitlines()[-1]

    def test_a_showdown_keeps_the_prompts_that_are_complete(self, tmp_path: Path) -> None:
        """Behind both arms of the first prompt and one of the second."""
        run = bake(tmp_path, "3", stopped=After(1 + 3 + 3))
        assert ["one day"] == [result.prompt for result in run.phases[0].prompts]
        assert "interrupted" == run.phases[0].word

    def test_a_wish_before_the_first_phase_runs_none(self, tmp_path: Path) -> None:
        """Nothing is written, and the run is not complete."""
        run = bake(tmp_path / "run", "3", stopped=After(0))
        assert ((), 130) == (run.phases, run.exit_code)
        assert not (tmp_path / "run").exists()


class TestWhatIsWritten:
    """A folder of nets, logs and a summary."""

    def test_a_phase_leaves_a_net_and_a_log(self, tmp_path: Path) -> None:
        """The net is the one that was decoded."""
        run = bake(tmp_path, "3")
        assert "phase3.nn" == run.phases[0].net
        log = (tmp_path / "phase3.log").read_text(encoding="utf-8").splitlines()
        assert log[0] == "phase 3, recurrence: legacy training, 3 steps, seed 424242, fast, 4 rows of a list"
        assert "rate 0.0005, 3 examples a step, 2 steps an epoch" == log[1]
        assert log[3].startswith("epoch 1, step 2: validation loss ")
        assert "token-identical" == log[-1]

    def test_the_log_has_a_line_every_25_steps(self, tmp_path: Path) -> None:
        """And one for the first."""
        wanted = settings(steps=51, schedule=FitSchedule(batch=1, samples=100, epochs=4, validation=3))
        run = bake(tmp_path, "3", wanted)
        lines = (tmp_path / "phase3.log").read_text(encoding="utf-8").splitlines()
        steps = [line.partition(":")[0] for line in lines if line.startswith("step ")]
        assert ["step 1", "step 25", "step 50"] == steps
        assert lines[3].startswith(f"step 25: loss {run.phases[0].course.logged_loss:.4f}, ")

    def test_a_summary_holds_every_phase(self) -> None:
        """Finite numbers only, and the published figures as numbers."""
        found = json.loads(json.dumps(run_object(baked()), allow_nan=False))
        assert list(NUMBERS) == [phase["phase"] for phase in found["phases"]]
        figures = {figure["figure"]: figure for figure in found["phases"][0]["figures"]}
        assert 1309700.0 == figures["weights"]["published"]
        assert (None, 24.0) == (figures["a full forward"]["published"], figures["a full forward"]["measured"])
        assert all(prompt["distinct"] >= 1 for phase in found["phases"] for prompt in phase["prompts"])

    def test_a_folder_that_is_a_file_is_refused(self, tmp_path: Path) -> None:
        """Before anything is trained."""
        (tmp_path / "run").write_text("", encoding="utf-8")
        with refuses(InterchangeError, "output-not-written", match="something else than a folder"):
            bake(tmp_path / "run", "3")

    def test_a_folder_belongs_to_one_run_at_a_time(self, tmp_path: Path) -> None:
        """Another one is refused before anything of the first is replaced; afterwards the folder is free again."""
        pytest.importorskip("fcntl")
        first = BakeOff(settings(), DATA, OutputFolder(tmp_path), HandClock()).run(chosen_phases("3"))
        next(first)
        log = (tmp_path / "phase3.log").read_bytes()
        with refuses(InterchangeError, "output-not-written", match="another run is writing there"):
            bake(tmp_path, "3")
        assert log == (tmp_path / "phase3.log").read_bytes()
        first.close()
        assert 1 == len(bake(tmp_path, "3").phases)


class TestRefusals:
    """What makes no sense is refused before anything is trained."""

    @pytest.mark.parametrize("text", ["0", "10", "one", "", "1,2"])
    def test_a_phase_is_a_number_from_1_to_9(self, text: str) -> None:
        """Or all of them."""
        with refuses(BakeOffError, "unknown-bake-phase"):
            chosen_phases(text)
        assert PHASES == chosen_phases("ALL")
        assert (PHASES[6],) == chosen_phases("7")

    def test_a_time_and_a_number_of_steps_exclude_each_other(self) -> None:
        """A run is boxed, or replayable."""
        with refuses(BakeOffError, "limits-conflict"):
            settings(budget=1.0)

    @pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
    def test_a_time_is_a_finite_number(self, seconds: float) -> None:
        """Others would never end."""
        with refuses(BakeOffError, "invalid-budget"):
            settings(steps=None, budget=seconds)

    @pytest.mark.parametrize("name", ["steps", "new_tokens", "threads"])
    def test_what_is_counted_is_at_least_one(self, name: str) -> None:
        """Steps, tokens, threads."""
        with refuses(BakeOffError, "invalid-bake-setting"):
            settings(**{name: 0})

    def test_prompts_have_to_leave_room(self, tmp_path: Path) -> None:
        """Neither empty, nor as long as the context, nor with ids that the nets do not know."""
        with refuses(NetInputError, "empty-net-prompt"):
            bake(tmp_path, "3", settings(prompts=("the", "")))
        with refuses(NetInputError, "net-prompt-too-long"):
            bake(tmp_path, "3", settings(prompts=("abcdefghijkl",)))
        with refuses(NetInputError, "prompt-id-too-large"):
            bake(tmp_path, "3", settings(prompts=("zebr\u00e4",)))

    def test_prompts_are_bytes(self, tmp_path: Path) -> None:
        """What is no UTF-8 is coded as it is, and what the tokenizer keeps for itself is refused with the prompt."""
        with refuses(NetInputError, "prompt-id-too-large") as caught:
            bake(tmp_path, "3", settings(prompts=("\udcff",)))
        assert (1, 0, 255) == (
            caught.value.fields["number"],
            caught.value.fields["position"],
            caught.value.fields["token"],
        )
        with refuses(InputError, "input-unreadable", match="prompt 2"):
            bake(tmp_path, "3", settings(prompts=("the", "\x1d")))


class TestScreen:
    """Pages and the table of all phases."""

    @pytest.mark.parametrize("width", [80, 120])
    def test_lines_fit(self, width: int) -> None:
        """At both usual widths."""
        lines = [line.plain for found in baked().phases for line in phase_lines(found, width)]
        lines += [line.plain for line in summary_lines(baked(), width)]
        lines += [line.plain for line in data_lines(DATA, width)]
        assert [] == [line for line in lines if cell_len(line) > width]

    def test_a_page_shows_ours_beside_the_published(self) -> None:
        """With the mark of what was measured, and a dash where nothing is known."""
        lines = [" ".join(line.plain.split()) for line in phase_lines(report(1), 120)]
        assert f"loss {report(1).course.loss:.2f} 2.87 nats" in lines
        assert "loss of step 25 – 5.02 nats" in lines
        assert "a cached step 1.00 0.87 * ms" in lines
        assert "cached 6.00 7 1.20 1.50 1.00 22.4" in lines

    def test_the_summary_has_a_line_a_phase(self) -> None:
        """Loss, steps, examples a second, milliseconds, speedup, equality, verdicts."""
        lines = [" ".join(line.plain.split()) for line in summary_lines(baked(), 120)]
        assert sum(line.startswith(f"{number} ") for line in lines for number in NUMBERS) >= 9
        assert any(line.endswith("10/10 equal; convergence NOT CONFIRMED; decode cost HOLDS") for line in lines)
        assert "9 phases: 9 token-identical. Exit 0: all arms token-identical." == lines[-1]
        assert any("smaller than the published ones" in line for line in lines)

    def test_a_loop_is_named(self) -> None:
        """Two different tokens in all continuations prove little; of eight and more nothing is said."""
        result = report(3).prompts[0]
        for tokens, said in (((7, 9, 7, 9), True), (tuple(range(8)), False)):
            full = replace(result.full, new=tokens)
            looping = replace(report(3), prompts=(replace(result, runs={ArmName.FULL: full}),))
            cautions = list(replace(baked(), phases=(looping,)).cautions)
            assert said == any(caution.startswith("Phase 3: fewer than 8 distinct tokens") for caution in cautions)

    def test_a_text_cannot_disturb_the_terminal(self) -> None:
        """Control characters of a continuation are spelt out."""
        lines = [line.plain for line in phase_lines(replace(report(1), texts=("a\x1b[31m", "b\x07")), 80)]
        assert not any(char in line for line in lines for char in "\x1b\x07")
