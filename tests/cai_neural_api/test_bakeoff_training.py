"""When training ends, which weights are kept, and what the log says of the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cai_neural_api.bakeoff import BakeSettings, OutputFolder, TrainerName
from cai_neural_api.bakeoff.files import make_nets, weights_of
from cai_neural_api.bakeoff.report import PhaseReport
from cai_neural_api.bakeoff.settings import PHASES, TrainingLimit
from cai_neural_api.conversion import build_net, net_to_decoder
from cai_neural_api.errors import BakeOffError
from cai_neural_api.exchange import read_net
from cai_neural_api.format import NetFile
from cai_neural_api.net.graph import Net
from cai_neural_api.tokenizer import Vocabulary
from support_bakeoff import NUMBERS, After, HandClock, bake, baked, settings
from support_refusals import refuses


def boxed(folder: Path, seconds: float, phases: str = "3") -> PhaseReport:
    """Train a phase in a time box on a clock that a step moves by a second; training alone asks whether to stop."""
    clock = HandClock()

    def step() -> bool:
        clock.now += 1.0
        return False

    # The first question is asked before the phase.
    clock.now = -1.0
    return bake(folder, phases, settings(steps=None, budget=seconds), stopped=step, clock=clock).phases[0]


class TestLimits:
    """A time, a number, or a wish."""

    def test_a_box_ends_with_the_step_in_which_its_time_is_over(self) -> None:
        """Not before, and however long that step took."""
        clock = HandClock()
        box = TrainingLimit(2.5, None, clock, lambda: False)
        clock.now = 2.4
        assert "" == box.reached(1)
        clock.now = 9.0
        assert "time box of 2.5 s" == box.reached(2)

    def test_a_number_of_steps(self) -> None:
        """Exactly."""
        limit = TrainingLimit(0.0, 3, HandClock(), lambda: False)
        assert ["", "3 steps", "3 steps"] == [limit.reached(steps) for steps in (2, 3, 4)]

    def test_a_wish_comes_before_the_limit(self) -> None:
        """Whoever stops a run wants to read that it was stopped."""
        limit = TrainingLimit(0.0, 1, HandClock(), After(1))
        assert ["1 steps", "interrupted"] == [limit.reached(1), limit.reached(1)]


class TestTimeBox:
    """Two steps are an epoch; the weights behind the last full one are kept."""

    @pytest.mark.parametrize(
        ("seconds", "steps", "kept"),
        [
            (0.0, 1, 1),
            (1.0, 1, 1),
            # The box ends with the first epoch, before it is validated: the present weights are all there is.
            (2.0, 2, 2),
            (2.5, 3, 2),
            # It ends with the second epoch, which is lost as a whole.
            (4.0, 4, 2),
            (5.0, 5, 4),
        ],
    )
    def test_what_is_kept(self, tmp_path: Path, seconds: float, steps: int, kept: int) -> None:
        """As the library loads it back."""
        course = boxed(tmp_path, seconds).course
        assert (steps, kept, steps - kept, 3 * steps) == (
            course.steps,
            course.kept,
            course.thrown_away,
            course.examples,
        )
        assert f"time box of {seconds:g} s" == course.ending

    def test_the_last_loss_is_told_with_what_is_thrown_away(self, tmp_path: Path) -> None:
        """In the log, in the figures and in the sentence."""
        report = boxed(tmp_path, 3.0)
        course = report.course
        assert course.loss != course.kept_loss
        sentence = (
            f"ended behind step 3 (time box of 3 s), loss of its batch {course.loss:.4f}; the last step is thrown away "
            f"with that loss, the weights of step 2 are kept, loss of its batch {course.kept_loss:.4f}"
        )
        assert sentence in (tmp_path / "phase3.log").read_text(encoding="utf-8").splitlines()
        names = ("loss", "loss of the kept weights", "steps thrown away")
        found = [report.figure(name) for name in names]
        assert [course.loss, course.kept_loss, 1] == [figure and figure.value for figure in found]

    def test_training_ends_by_itself_behind_the_last_epoch(self, tmp_path: Path) -> None:
        """Four epochs of two steps, of which that with the best validation is kept, or the last."""
        course = boxed(tmp_path, 99.0).course
        assert 8 == course.steps
        assert course.ending in ("all epochs", "accuracy 1")
        assert course.kept in (2, 4, 6, 8)

    def test_the_published_box_counts_where_nothing_is_asked_for(self) -> None:
        """185 s of phase 1, 160 s of the draft."""
        boxes = [BakeSettings().box(phase) for phase in PHASES]
        assert ["185 s", "195 s", "195 s", "185 s", "160 s", "190 s", "190 s", "185 s", "180 s"] == boxes


class TestReplay:
    """A number of steps instead of a time: the same bytes again."""

    @pytest.mark.parametrize("trainer", list(TrainerName))
    def test_checkpoint_and_tokens_are_the_same_twice(self, tmp_path: Path, trainer: TrainerName) -> None:
        """Whoever trains."""
        wanted = settings(trainer=trainer)
        first, second = (bake(tmp_path / name, "3", wanted).phases[0] for name in ("one", "two"))
        nets = [(tmp_path / name / "phase3.nn").read_bytes() for name in ("one", "two")]
        assert nets[0] == nets[1]
        assert [result.full.new for result in first.prompts] == [result.full.new for result in second.prompts]

    @pytest.mark.exhaustive
    def test_all_phases_are_the_same_twice(self, tmp_path: Path) -> None:
        """Every net, byte for byte, and every token."""
        first, second = (bake(tmp_path / name, "all") for name in ("one", "two"))
        for number in NUMBERS:
            one, two = ((tmp_path / name / f"phase{number}.nn").read_bytes() for name in ("one", "two"))
            assert one == two
        assert [[result.full.new for result in report.prompts] for report in first.phases] == [
            [result.full.new for result in report.prompts] for report in second.phases
        ]

    def test_another_seed_gives_another_net(self, tmp_path: Path) -> None:
        """Weights and batches are drawn from it."""
        for seed in (1, 2):
            bake(tmp_path / str(seed), "3", settings(seed=seed))
        assert (tmp_path / "1/phase3.nn").read_bytes() != (tmp_path / "2/phase3.nn").read_bytes()


def first_weights(net: NetFile, count: int) -> list[float]:
    """Return the first numbers of the embedding."""
    return [float(value) for value in net.neurons[1][0].weights[:count]]


def drawn(seed: int, skipped: int, count: int) -> list[float]:
    """Return the embedding's first weights, drawn from NumPy's Mersenne Twister behind some words."""
    bits = np.random.MT19937()
    bits._legacy_seeding(seed)
    words = [int(bits.random_raw()) for _ in range(skipped + count)][skipped:]
    levels = [np.float32((((word * 10000) >> 32) - 5000) / 5000) for word in words]
    return [float(level * np.float32(0.02)) for level in levels]


class TestInitialNets:
    """One generator: first the vocabulary's sorting draws from it, then the nets in order."""

    def test_the_sorts_of_the_vocabulary_draw_first(self, tmp_path: Path) -> None:
        """Two sorts of three entries take a pivot each, of two words; two entries take none."""
        for entries, words in (((b"a1", b"b1"), 0), ((b"a1", b"b1", b"c1"), 4)):
            nets = make_nets(PHASES[0], settings(seed=5), Vocabulary(entries), OutputFolder(tmp_path))
            assert drawn(5, words, 6) == first_weights(nets.initial, 6)

    def test_the_draft_is_drawn_behind_its_target(self, tmp_path: Path) -> None:
        """Reading a net makes its layers, whose weights are drawn before they are overwritten."""
        wanted, vocabulary, folder = settings(seed=5), Vocabulary((b"a1",)), OutputFolder(tmp_path)
        target = make_nets(PHASES[0], wanted, vocabulary, folder).initial
        folder.write_net(1, target)
        nets = make_nets(PHASES[4], wanted, vocabulary, folder)
        # All weights of phase 1 but those of its norms, which draw nothing: 4 norms of 2 · 16 + 1.
        draws = Net.from_file(target).weight_count - 4 * 33
        assert drawn(5, draws, 6) == first_weights(nets.initial, 6)
        assert nets.target is not None
        assert first_weights(target, 6) == first_weights(nets.target, 6)

    def test_weights_are_counted_as_the_library_counts_them(self) -> None:
        """Biases are left out: embedding, two blocks of norms, slab, output and feed-forward layer, and the head."""
        block = 2 * 33 + 16 * 48 + 16 * 16 + 16 * 16 + 8 * 16
        assert 140 * 16 + 2 * block + 16 * 16 + 16 * 140 == weights_of(build_net(settings().decoder(PHASES[0])))


class TestCheckpoint:
    """What phase 5 makes of the net of phase 1."""

    def test_without_it_the_next_command_is_named(self, tmp_path: Path) -> None:
        """And nothing is written."""
        with refuses(BakeOffError, "checkpoint-missing") as caught:
            bake(tmp_path / "run", "5")
        assert f"cai-conform bakeoff --phase 1 --output {tmp_path / 'run'}" == caught.value.next_command
        assert 2 == caught.value.exit_code
        assert not (tmp_path / "run").exists()

    def test_another_net_is_refused(self, tmp_path: Path) -> None:
        """The first layer that differs is named."""
        bake(tmp_path, "3", settings(steps=1))
        (tmp_path / "phase3.nn").rename(tmp_path / "phase1.nn")
        with refuses(
            BakeOffError, "checkpoint-differs", match=r"phase1\.nn' is not the net of phase 1: layer 3 differs"
        ):
            bake(tmp_path, "5")

    def test_it_is_decoded_as_it_was_written(self) -> None:
        """The tokens of phase 5 are those of phase 1, whatever its draft guesses."""
        first, fifth = baked().phases[0], baked().phases[4]
        assert [result.full.new for result in first.prompts] == [result.full.new for result in fifth.prompts]


class TestCleanTraining:
    """The family's own training, written as a net."""

    def test_the_loss_falls_and_nothing_is_thrown_away(self, tmp_path: Path) -> None:
        """Over a few epochs of four rows; every step counts its own examples."""
        course = bake(tmp_path, "3", settings(trainer=TrainerName.CLEAN, steps=12)).phases[0].course
        assert course.loss < course.first_loss
        # Batches of three and of one.
        assert (12, 12, 24) == (course.steps, course.kept, course.examples)

    def test_its_net_is_a_decoder_of_the_family(self, tmp_path: Path) -> None:
        """Of the phase's configuration."""
        wanted = settings(trainer=TrainerName.CLEAN)
        bake(tmp_path, "3", wanted)
        found = net_to_decoder(read_net(tmp_path / "phase3.nn")).configuration
        # A net without attention does not tell its heads.
        assert replace(wanted.decoder(PHASES[2]), heads=1) == found

    def test_its_losses_are_not_held_against_published_ones(self, tmp_path: Path) -> None:
        """The verdict says why."""
        run = bake(tmp_path, "6", settings(trainer=TrainerName.CLEAN))
        assert "NOT COMPARABLE" == run.phases[0].verdicts[0].word.value
        assert any("losses do not compare" in caution for caution in run.cautions)

    @pytest.mark.exhaustive
    def test_it_trains_a_draft(self, tmp_path: Path) -> None:
        """For the net of phase 1."""
        bake(tmp_path, "1", settings(trainer=TrainerName.CLEAN))
        run = bake(tmp_path, "5", settings(trainer=TrainerName.CLEAN))
        assert run.phases[0].identical
        assert run.complete
