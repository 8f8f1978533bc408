"""The library's fitting loop: what it draws, when it validates, and which weights it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
import pytest

from cai_neural_api.format import NetFile, format_net
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.training import AdamSettings, BatchReport, Ending, FitResult, FitSchedule, LegacyFit, LegacyTrainer
from cai_reference.arithmetic.instances import STRICT
from support_legacy_training import STORIES, tiny_net, tiny_trainer

SCHEDULE = FitSchedule(batch=2, samples=6, epochs=3, validation=4, stride=20)
"""Three steps an epoch, three epochs."""

LONG = ((1, 2, 3, 4, 5, 6, 7), (7, 6, 5, 4, 3, 2, 1), (2, 4, 6, 8, 10, 1, 3))
"""Stories whose last row has a real target."""

SHORT = ((1, 2), (3, 4, 5), (6,))
"""Stories whose last row is padding, so that id 0 is right there."""


class Recorder(LegacyTrainer):
    """A trainer that keeps what it was asked for, in order."""

    def __init__(self, rate: float = 0.01, threads: int = 1) -> None:
        super().__init__(tiny_net(), AdamSettings(rate), STRICT, threads)
        self.batches: list[Sequence[Sequence[int]]] = []
        self.evaluated: list[tuple[int, Sequence[Sequence[int]]]] = []
        self.rates: list[float] = []
        self.after: list[NetFile] = []

    def step(self, stories: Sequence[Sequence[int]]) -> BatchReport:
        """Step, and keep the batch and the weights after it."""
        self.batches.append(stories)
        reported = super().step(stories)
        self.after.append(self.net.to_file())
        return reported

    def evaluate(self, stories: Sequence[Sequence[int]], thread: int = 0) -> BatchReport:
        """Evaluate, and keep the batch and its thread."""
        self.evaluated.append((thread, stories))
        return super().evaluate(stories, thread)

    def change_rate(self, rate: float) -> None:
        """Change the rate, and keep it."""
        self.rates.append(rate)
        super().change_rate(rate)


def fit(
    trainer: LegacyTrainer,
    stories: Sequence[Sequence[int]] = STORIES,
    schedule: FitSchedule = SCHEDULE,
    events: int | None = None,
    seed: int = 7,
) -> FitResult:
    """Fit until `events` steps and validations were seen, or to the end, and return what is left."""
    running = LegacyFit(trainer, stories, schedule, MersenneTwister(seed))
    for _ in islice(running.run(), events):
        pass
    return running.result()


def same(left: NetFile, right: NetFile) -> bool:
    """Tell whether two nets would be written alike, number by number."""
    return format_net(left) == format_net(right)


class TestBatches:
    """What is drawn."""

    def test_every_example_is_one_draw_below_the_number_of_rows(self) -> None:
        """In the order of the batches; the generator has moved on by as many."""
        trainer, generator, other = Recorder(), MersenneTwister(7), MersenneTwister(7)
        for _ in LegacyFit(trainer, STORIES, SCHEDULE, generator).run():
            pass
        drawn = [STORIES[(other.next_u32() * len(STORIES)) >> 32] for _ in range(18)]
        assert drawn == [story for batch in trainer.batches for story in batch]
        assert other.next_u32() == generator.next_u32()

    def test_progress_counts_steps_over_all_epochs(self) -> None:
        """A validation stands behind the last step of its epoch and carries that step's report."""
        events = list(LegacyFit(Recorder(), STORIES, SCHEDULE, MersenneTwister(7)).run())
        assert [1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9] == [event.step for event in events]
        assert [1] * 4 + [2] * 4 + [3] * 4 == [event.epoch for event in events]
        assert [3, 7, 11] == [place for place, event in enumerate(events) if event.validation is not None]
        assert events[2].batch == events[3].batch

    def test_first_and_last_loss_are_those_of_single_batches(self) -> None:
        """From before the step each, as if the net had only taken the steps before it."""
        recorder = Recorder()
        result = fit(recorder)
        repeated = tiny_trainer()
        reports = [repeated.step(batch) for batch in recorder.batches[:1]]
        assert reports[0] == result.first
        assert result.last is not None
        assert result.last != result.first

    def test_the_published_loop_has_100_steps_an_epoch(self) -> None:
        """With one thread; with twelve there are 133 of 24 examples."""
        schedule = FitSchedule()
        assert (32, 100) == (schedule.examples(1), schedule.steps(1))
        assert (24, 133) == (schedule.examples(12), schedule.steps(12))


class TestValidation:
    """What is evaluated behind an epoch."""

    def test_it_strides_through_the_rows_and_skips_the_last_sample(self) -> None:
        """Ten samples, nine evaluated: row 20 k modulo the seven rows."""
        trainer = Recorder()
        fit(trainer, schedule=FitSchedule(4, 4, 1, 10, 20))
        rows = [STORIES[20 * sample % 7] for sample in range(9)]
        assert [(0, rows[0:4]), (0, rows[4:8]), (0, rows[8:9])] == trainer.evaluated

    def test_each_thread_skips_the_last_sample_of_its_share(self) -> None:
        """Eleven samples make two shares of five, of which the first four are evaluated."""
        trainer = Recorder(threads=2)
        fit(trainer, schedule=FitSchedule(4, 4, 1, 11, 20))
        shares = [[STORIES[20 * sample % 7] for sample in samples] for samples in (range(4), range(5, 9))]
        assert [(0, shares[0]), (1, shares[1])] == trainer.evaluated

    def test_its_report_does_not_depend_on_our_batches(self) -> None:
        """Means over all evaluated samples."""
        recorder = Recorder()
        schedule = FitSchedule(4, 4, 1, 10, 20)
        running = LegacyFit(recorder, STORIES, schedule, MersenneTwister(7))
        *_, event = running.run()
        one_by_one = [recorder.evaluate([STORIES[20 * sample % 7]]) for sample in range(9)]
        assert event.validation is not None
        assert np.isclose(event.validation.loss, sum(report.loss for report in one_by_one) / 9.0, rtol=1e-13)
        assert np.isclose(event.validation.error, sum(report.error for report in one_by_one) / 9.0, rtol=1e-13)
        assert np.isclose(event.validation.accuracy, sum(report.accuracy for report in one_by_one) / 9.0, rtol=1e-13)

    def test_it_changes_no_weight_but_what_padding_trains(self) -> None:
        """The ids that it leaves in the embedding's memory take the padding's gradient of the next step."""
        nets = [tiny_net(), tiny_net()]
        for net, validated in zip(nets, (True, False), strict=True):
            trainer = LegacyTrainer(net, AdamSettings(0.01), STRICT)
            trainer.step([(1, 2, 3)])
            before = net.to_file()
            if validated:
                trainer.evaluate([(9, 9, 9, 9, 9, 9)])
            assert same(before, net.to_file())
            trainer.step([(4, 5)])
        assert not same(nets[0].to_file(), nets[1].to_file())


class TestWhatIsLeft:
    """Which weights a fit leaves, by how it ends."""

    def test_a_stop_in_the_first_epoch_keeps_the_current_weights(self) -> None:
        """Nothing was saved yet."""
        trainer = Recorder()
        result = fit(trainer, events=2)
        assert (Ending.STOPPED, 2, 2) == (result.ending, result.steps, result.kept)
        assert same(trainer.after[1], result.net)
        assert same(result.net, result.final)

    def test_a_stop_on_the_last_step_of_the_first_epoch_keeps_them_too(self) -> None:
        """Its validation does not take place."""
        trainer = Recorder()
        result = fit(trainer, events=3)
        assert (3, 3, 0.0, []) == (result.steps, result.kept, result.best_accuracy, trainer.evaluated)
        assert same(trainer.after[2], result.net)

    def test_a_stop_in_the_second_epoch_goes_back_to_the_first(self) -> None:
        """What was learned since is thrown away."""
        trainer = Recorder()
        result = fit(trainer, events=6)
        assert (Ending.STOPPED, 5, 3) == (result.ending, result.steps, result.kept)
        assert same(trainer.after[2], result.net)
        assert same(trainer.after[4], result.final)
        assert not same(result.net, result.final)

    def test_a_stop_on_the_last_step_of_a_later_epoch_loses_the_epoch(self) -> None:
        """The ninth step is the last of the third epoch: six steps are left."""
        trainer = Recorder()
        result = fit(trainer, events=11)
        assert (9, 6) == (result.steps, result.kept)
        assert same(trainer.after[5], result.net)

    def test_a_stop_behind_a_validation_keeps_its_epoch(self) -> None:
        """Its weights were saved."""
        result = fit(Recorder(), events=8)
        assert (6, 6) == (result.steps, result.kept)
        assert same(result.net, result.final)

    def test_a_fit_that_was_not_begun_keeps_what_it_got(self) -> None:
        """And has no reports."""
        result = fit(tiny_trainer(), events=0)
        assert (0, 0, None, None) == (result.steps, result.kept, result.first, result.last)
        assert same(tiny_net().to_file(), result.net)

    def test_accuracy_1_ends_it(self) -> None:
        """Short stories only: id 0 is soon right in every last row."""
        trainer = Recorder(rate=0.5)
        result = fit(trainer, SHORT, FitSchedule(2, 6, 50, 4, 20))
        assert (Ending.PERFECT, 1.0) == (result.ending, result.best_accuracy)
        assert result.steps == result.kept == len(trainer.after) < 150
        assert result.steps % 3 == 0
        assert same(trainer.after[-1], result.net)

    def test_all_epochs_leave_the_first_of_the_best(self) -> None:
        """An accuracy that is reached again is no record."""
        mixed = (*SHORT[:2], *LONG[:2])
        trainer = Recorder(rate=0.5)
        events = list(LegacyFit(trainer, mixed, FitSchedule(2, 6, 6, 5, 1), MersenneTwister(7)).run())
        accuracies = [event.validation.accuracy for event in events if event.validation is not None]
        result = fit(Recorder(rate=0.5), mixed, FitSchedule(2, 6, 6, 5, 1))
        best = accuracies.index(max(accuracies))
        assert 0.0 < max(accuracies) < 1.0
        assert best < 5
        assert (Ending.EPOCHS, 18, 3 * (best + 1)) == (result.ending, result.steps, result.kept)
        assert max(accuracies) == result.best_accuracy
        assert same(trainer.after[3 * best + 2], result.net)

    def test_all_epochs_without_a_record_leave_the_last(self) -> None:
        """Targets that a net of rate 0 never predicts."""
        trainer = Recorder(rate=0.0)
        output = trainer.net.run(STRICT, [[1, 2, 3, 4, 5, 6]]).output
        never = (int(np.argmax(output[0, -1])) + 1) % 12
        result = fit(trainer, [(1, 2, 3, 4, 5, 6, never)])
        assert (Ending.EPOCHS, 0.0, 9, 9) == (result.ending, result.best_accuracy, result.steps, result.kept)


class TestReplay:
    """The same seed gives the same bits."""

    def test_two_fits_are_alike_in_every_bit(self) -> None:
        """Weights before their rounding, and reports."""
        trainers = [Recorder(), Recorder()]
        events = [list(LegacyFit(each, STORIES, SCHEDULE, MersenneTwister(7)).run()) for each in trainers]
        assert events[0] == events[1]
        for mine, other in zip(trainers[0].net.layers, trainers[1].net.layers, strict=True):
            if mine.learned is not None and other.learned is not None:
                for left, right in zip(mine.learned.arrays, other.learned.arrays, strict=True):
                    assert left.tobytes() == right.tobytes()

    def test_another_seed_draws_others(self) -> None:
        """So that the seed is what makes them alike."""
        assert not same(fit(tiny_trainer()).final, fit(tiny_trainer(), seed=8).final)

    @pytest.mark.parametrize("events", [0, 1, 3, 4, 7, 11])
    def test_a_fit_goes_on_where_it_was_left(self, events: int) -> None:
        """Within an epoch, on its last step, and behind its validation."""
        whole = list(LegacyFit(tiny_trainer(), STORIES, SCHEDULE, MersenneTwister(7)).run())
        running = LegacyFit(tiny_trainer(), STORIES, SCHEDULE, MersenneTwister(7))
        seen = list(islice(running.run(), events))
        running.result()
        seen.extend(running.run())
        assert whole == seen
        assert same(fit(tiny_trainer()).net, running.result().net)

    def test_a_finished_fit_does_nothing_more(self) -> None:
        """Asking again is no error."""
        running = LegacyFit(tiny_trainer(), STORIES, SCHEDULE, MersenneTwister(7))
        assert len(list(running.run())) == 12
        assert not list(running.run())


class TestRates:
    """A learning rate an epoch."""

    def test_each_epoch_asks_for_its_rate(self) -> None:
        """Counted from 0, before its first step."""
        trainer = Recorder()
        running = LegacyFit(trainer, STORIES, SCHEDULE, MersenneTwister(7), lambda epoch: 0.1 / (1.0 + epoch))
        next(running.run())
        assert [0.1] == trainer.rates
        list(running.run())
        assert {0.1, 0.05, 0.1 / 3.0} == set(trainer.rates)

    def test_the_rate_is_the_optimisers(self) -> None:
        """The same steps, with the rate changed by hand."""
        by_hand, recorder = tiny_trainer(), Recorder()
        list(LegacyFit(recorder, STORIES, SCHEDULE, MersenneTwister(7), lambda epoch: 0.1 / (1.0 + epoch)).run())
        for step, batch in enumerate(recorder.batches):
            if step % 3 == 0:
                by_hand.change_rate(0.1 / (1.0 + step // 3))
                if step:
                    for _, validated in recorder.evaluated[2 * (step // 3) - 2 : 2 * (step // 3)]:
                        by_hand.evaluate(validated)
            by_hand.step(batch)
        assert same(recorder.net.to_file(), by_hand.net.to_file())
