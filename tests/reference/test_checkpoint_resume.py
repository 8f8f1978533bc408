"""Four steps are two steps, a checkpoint, and two steps: bit for bit, whatever is trained and wherever it is cut."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from cai_reference.arithmetic import LIBM, STRICT
from cai_reference.autograd import Tape, backward
from cai_reference.checkpoints.saved import read_checkpoint, write_checkpoint
from cai_reference.errors import CaiReferenceError
from cai_reference.models.llama import Llama
from cai_reference.splitmix import SplitMix64
from cai_reference.text import sequential_plan, shuffled_plan
from cai_reference.text.errors import ZeroBatchSize
from cai_reference.text.story_batches import shuffled_story_batches
from cai_reference.training import AdamW, AdamWConfiguration, ParameterGroups
from cai_reference.training.adamw import AdamWState, Moments
from cai_reference.training.clipping import clip_to
from cai_reference.training.data_order import DataOrder, OrderPlace
from cai_reference.training.decay_groups import everything
from cai_reference.training.errors import InvalidMaximumNorm, StepBehindSchedule
from cai_reference.training.examples import DecoderWindows, NgramWindows, Stories
from cai_reference.training.planned_epoch import window_batch
from cai_reference.training.resumable import ResumableTraining, Setup, TrainingState
from cai_reference.training.schedules import ConstantRate, SteppedRate
from cai_reference.training.state_errors import (
    NoExamples,
    OrderOutOfRange,
    StateDiffers,
    StateShape,
    StateSteps,
    StateValueNotFinite,
    StateValues,
)
from support_course_fixtures import MODEL, epoch
from support_raising import raises
from support_resumable import (
    CONTEXT,
    MAKERS,
    MAXIMUM_NORM,
    SCHEDULE,
    STORIES,
    WINDOWS,
    after,
    draft_training,
    llama_training,
    ngram_training,
    saved,
    values_of_state,
)


class TestLaw:
    """Stopping changes nothing."""

    @pytest.mark.parametrize(
        "name", [name if name != "grouped" else pytest.param(name, marks=pytest.mark.exhaustive) for name in MAKERS]
    )
    def test_four_steps_are_two_and_two(self, name: str) -> None:
        """The new run starts from other values, another order and other generators, all of which are replaced."""
        whole = after(name, 4)
        resumed = MAKERS[name]()
        resumed.step()
        resumed.restore(read_checkpoint(saved(name, 2)))
        steps = [resumed.step(), resumed.step()]
        assert [3, 4] == [step.step for step in steps]
        assert values_of_state(whole.state()) == values_of_state(resumed.state())
        assert write_checkpoint(whole.state()) == write_checkpoint(resumed.state())

    @pytest.mark.parametrize("cut", range(9))
    def test_any_cut_of_nine_steps(self, cut: int) -> None:
        """Before the first step, within warm-up, at and between the ends of two epochs."""
        resumed = ngram_training(seed=77)
        resumed.restore(read_checkpoint(saved("ngram", cut)))
        for _ in range(9 - cut):
            resumed.step()
        assert saved("ngram", 9) == write_checkpoint(resumed.state())

    def test_the_runs_of_these_tests_have_everything_in_them(self) -> None:
        """Clipped steps, rates that differ, batches that differ, an epoch that ends within four steps."""
        for name in ("ngram", "decoder"):
            training = MAKERS[name]()
            steps = [training.step() for _ in range(4)]
            assert [True] * 4 == [step.clip is not None and step.clip.clipped for step in steps]
            assert 4 == len({step.learning_rate for step in steps})
            assert (4, 1) == (len({step.examples for step in steps}), training.state().place.epoch)
            assert 0 < after(name, 2).state().place.batch

    def test_a_state_is_not_changed_by_later_steps(self) -> None:
        """It can be written at any time."""
        training = after("decoder", 2)
        state = training.state()
        training.step()
        assert saved("decoder", 2) == write_checkpoint(state)

    def test_other_generators_go_on_too(self) -> None:
        """The one that samples draws what it would have drawn."""
        training = ngram_training()
        first = [training.generators["sampling"].next_u64() for _ in range(5)][-1]
        data = write_checkpoint(training.state())
        expected = training.generators["sampling"].next_u64()
        resumed = ngram_training(seed=50)
        resumed.restore(read_checkpoint(data))
        assert expected == resumed.generators["sampling"].next_u64() != first


class TestEveryPartMatters:
    """With any part of the state lost, the next two steps are others: the law above would see it."""

    def changed(self, state: TrainingState) -> bool:
        """Tell whether two more steps from a state differ from those that should follow."""
        resumed = ngram_training()
        resumed.restore(state)
        resumed.step()
        resumed.step()
        return values_of_state(after("ngram", 4).state()) != values_of_state(resumed.state())

    def test_moments(self) -> None:
        """First and second, each alone."""
        state = read_checkpoint(saved("ngram", 2))
        assert not self.changed(state)
        for part in ("first", "second"):
            moments = {
                name: replace(both, **{part: np.zeros(both.first.shape)})
                for name, both in state.optimizer.moments.items()
            }
            assert self.changed(replace(state, optimizer=replace(state.optimizer, moments=moments)))

    def test_powers(self) -> None:
        """Each as after one step less."""
        state = read_checkpoint(saved("ngram", 2))
        assert self.changed(replace(state, optimizer=replace(state.optimizer, beta1_power=0.9)))
        assert self.changed(replace(state, optimizer=replace(state.optimizer, beta2_power=0.99)))

    def test_the_place_in_the_schedule(self) -> None:
        """One step further on, the rate is another."""
        state = read_checkpoint(saved("ngram", 2))
        assert self.changed(replace(state, step=3, optimizer=replace(state.optimizer, step=3)))

    def test_the_place_in_the_data(self) -> None:
        """Another batch, and another order of the epoch."""
        state = read_checkpoint(saved("ngram", 2))
        place = state.place
        assert self.changed(replace(state, place=replace(place, batch=0)))
        assert self.changed(replace(state, place=replace(place, generator=place.generator ^ 1)))

    def test_the_last_bit_of_a_weight(self) -> None:
        """Nothing is rounded away."""
        state = read_checkpoint(saved("ngram", 2))
        name = next(iter(state.values))
        values = {**state.values, name: np.nextafter(state.values[name], 9.0)}
        assert self.changed(replace(state, values=values))


class TestSteps:
    """One step is its parts in order."""

    def test_against_the_parts_put_together(self) -> None:
        """The order of the data drawn here, the same clip, a copy of the optimiser with its rate exchanged."""
        training, model = llama_training(), Llama.initialize(MODEL, SplitMix64(33))
        rates = AdamWConfiguration(0.05, beta2=0.99, epsilon=1e-6, weight_decay=0.1)
        optimizer = AdamW(rates, training.setup.groups)
        plan = shuffled_plan(epoch("train"), 3, SplitMix64(3))
        for number, batch in enumerate(plan, start=1):
            loss = model.loss(Tape(STRICT), window_batch(epoch("train"), batch))
            backward(loss)
            optimizer.configuration = replace(rates, learning_rate=SCHEDULE.rate(number, STRICT))
            optimizer.step(model.parameters, clip_to(model.parameters, MAXIMUM_NORM).transform)
            for parameter in model.parameters:
                parameter.zero_gradient()
            step = training.step()
            assert (number, float(loss.value)) == (step.step, step.loss)
        expected = [parameter.value.tobytes() for parameter in model.parameters]
        assert expected == [parameter.value.tobytes() for parameter in training.model.parameters]
        assert (7, 1, 0) == (training.step_count, training.state().place.epoch, training.state().place.batch)

    def test_without_a_limit_nothing_is_clipped(self) -> None:
        """And no clip is reported."""
        model = ngram_training().model
        plain = replace(ngram_training().setup, maximum_norm=None)
        training = ResumableTraining(model, plain, NgramWindows(WINDOWS), 3)
        assert training.step().clip is None
        resumed = ResumableTraining(ngram_training().model, plain, NgramWindows(WINDOWS), 4)
        resumed.restore(read_checkpoint(write_checkpoint(training.state())))
        assert write_checkpoint(training.state()) == write_checkpoint(resumed.state())

    def test_a_failed_step_changes_nothing(self) -> None:
        """The schedule ends; and a weight overflows: values, moments, order and gradients stay."""
        setup = replace(ngram_training().setup, schedule=SteppedRate(((0.1, 2),)))
        training = ResumableTraining(ngram_training().model, setup, NgramWindows(WINDOWS), 3)
        training.step()
        training.step()
        before = write_checkpoint(training.state())
        with raises(StepBehindSchedule(3, 2)):
            training.step()
        assert before == write_checkpoint(training.state())
        training = ngram_training()
        for parameter in training.model.parameters[1:3]:
            parameter.assign(np.full((6, 4), 1e200))
        before = write_checkpoint(training.state())
        with pytest.raises(CaiReferenceError):
            training.step()
        assert before == write_checkpoint(training.state())
        assert not any(parameter.gradient.any() for parameter in training.model.parameters)

    def test_the_limit_is_checked(self) -> None:
        """When the run is set up."""
        with raises(InvalidMaximumNorm(math.inf)):
            replace(ngram_training().setup, maximum_norm=math.inf)


class TestOrder:
    """Epoch after epoch, each shuffled anew."""

    def test_it_is_that_of_shuffled_story_batches(self) -> None:
        """Seven batches over three epochs, by the same generator."""
        order = DataOrder.from_seed(len(STORIES), 2, 12)
        expected = shuffled_story_batches(STORIES, 2, CONTEXT, SplitMix64(12), 7)
        for batch in expected:
            assert batch == Stories(STORIES, CONTEXT).batch(order.next_batch())
            order.advance()
        assert (OrderPlace(2, 1, order.place.generator), 3) == (order.place, order.batches)

    def test_it_begins_like_a_shuffled_plan(self) -> None:
        """Of the windows of an epoch."""
        windows, order = DecoderWindows(epoch("train")), DataOrder.from_seed(20, 3, 33)
        for batch in shuffled_plan(epoch("train"), 3, SplitMix64(33)):
            assert batch == tuple(windows.slots[index] for index in order.next_batch())
            order.advance()

    def test_every_epoch_holds_everything_once_in_another_order(self) -> None:
        """The last batch is as wide as what is left."""
        order, epochs = DataOrder.from_seed(7, 3, 1), []
        for _ in range(4):
            batches = []
            for _ in range(3):
                batches.append(order.next_batch())
                order.advance()
            assert [3, 3, 1] == [len(batch) for batch in batches]
            epochs.append(tuple(index for batch in batches for index in batch))
        assert [list(range(7))] * 4 == [sorted(indices) for indices in epochs]
        assert 4 == len(set(epochs))

    def test_any_place_can_be_come_back_to(self) -> None:
        """From the three numbers alone."""
        order = DataOrder.from_seed(7, 3, 1)
        seen = []
        for _ in range(8):
            seen.append((order.place, order.next_batch()))
            order.advance()
        for place, batch in reversed(seen):
            order.go_to(place)
            assert batch == order.next_batch() == DataOrder(7, 3, place).next_batch()

    def test_looking_does_not_go_on(self) -> None:
        """A batch is taken only when the order advances."""
        order = DataOrder.from_seed(5, 2, 1)
        assert order.next_batch() == order.next_batch()

    def test_places_that_do_not_exist_are_refused(self) -> None:
        """And leave the order where it is."""
        order = DataOrder.from_seed(5, 2, 1)
        for place in (OrderPlace(0, 3, 1), OrderPlace(0, -1, 1), OrderPlace(-1, 0, 1)):
            with raises(OrderOutOfRange(place.epoch, place.batch, 2)):
                order.go_to(place)
        assert OrderPlace(0, 0, 1) == order.place
        with raises(ZeroBatchSize()):
            DataOrder.from_seed(5, 0, 1)
        with raises(NoExamples()):
            DataOrder.from_seed(0, 2, 1)

    def test_digests_tell_examples_apart(self) -> None:
        """Their ids, their order, their lengths, their context, their kind."""
        digests = [
            Stories(STORIES, CONTEXT).digest,
            Stories(STORIES, CONTEXT + 1).digest,
            Stories(STORIES[::-1], CONTEXT).digest,
            Stories(((0, 2), (3, 1)), CONTEXT).digest,
            Stories(((0, 2, 3), (1,)), CONTEXT).digest,
            NgramWindows(WINDOWS).digest,
            NgramWindows(WINDOWS[1:]).digest,
            DecoderWindows(epoch("train")).digest,
            DecoderWindows(epoch("validation")).digest,
        ]
        assert len(digests) == len(set(digests))
        assert digests[0] == Stories(STORIES, CONTEXT).digest
        assert len(sequential_plan(epoch("train"), 1)) == DecoderWindows(epoch("train")).count


class TestRestore:
    """A run that is set up otherwise says what differs, and stays as it is."""

    def refused(self, training: ResumableTraining[Llama], state: TrainingState, expected: CaiReferenceError) -> None:
        """Restore, expect an error, and find the run unchanged."""
        before = write_checkpoint(training.state())
        with raises(expected):
            training.restore(state)
        assert before == write_checkpoint(training.state())

    @pytest.mark.parametrize(
        ("part", "changes"),
        [
            ("optimiser", {"optimizer": AdamWConfiguration(0.05)}),
            ("schedule", {"schedule": ConstantRate(0.05)}),
            ("largest norm", {"maximum_norm": None}),
            ("batch size", {"batch_size": 4}),
            ("arithmetic", {"arithmetic": LIBM}),
        ],
    )
    def test_parts_of_the_set_up(self, part: str, changes: dict[str, object]) -> None:
        """Named in words, with both values."""
        training = llama_training()
        field, value = next(iter(changes.items()))
        own = getattr(training.setup, field)
        spelled = [str(getattr(v, "identifier", v)) for v in (own, value)]
        state = read_checkpoint(saved("llama", 2))
        other = replace(state, setup=replace(state.setup, **changes))  # type: ignore[arg-type]
        self.refused(training, other, StateDiffers(part, spelled[0], spelled[1]))

    def test_groups_sizes_data_and_generators(self) -> None:
        """The order of names in a group does not count."""
        state, training = read_checkpoint(saved("llama", 2)), llama_training()
        groups = state.setup.groups
        turned = replace(state.setup, groups=ParameterGroups(groups.decay[::-1], groups.no_decay[::-1]))
        training.restore(replace(state, setup=turned))
        all_decay = everything(training.model.parameters)
        expected = tuple(sorted(groups.decay)), tuple(sorted(groups.no_decay))
        self.refused(
            training,
            replace(state, setup=replace(state.setup, groups=all_decay)),
            StateDiffers("groups", str(expected), str((tuple(sorted(all_decay.decay)), ()))),
        )
        wider = replace(MODEL, rope_base=500.0)
        self.refused(
            training, replace(state, configuration=wider), StateDiffers("configuration", str(MODEL), str(wider))
        )
        self.refused(training, replace(state, examples=21), StateDiffers("number of examples", "20", "21"))
        self.refused(
            training, replace(state, data="0" * 64), StateDiffers("digest of the examples", state.data, "0" * 64)
        )
        self.refused(training, replace(state, generators={"a": 1}), StateDiffers("generators", "[]", "['a']"))

    def test_a_state_of_another_model_is_refused(self) -> None:
        """By its configuration."""
        training, state = draft_training(), read_checkpoint(saved("decoder", 1))
        before = write_checkpoint(training.state())
        found = state.configuration
        with raises(StateDiffers("configuration", str(training.model.configuration), str(found))):
            training.restore(state)
        assert before == write_checkpoint(training.state())

    def test_values_of_other_parameters_are_refused(self) -> None:
        """Names, their order, shapes; in a fresh state, which has no moments to differ from."""
        training = llama_training()
        state = training.state()
        names = tuple(state.values)
        turned = {name: state.values[name] for name in names[::-1]}
        self.refused(training, replace(state, values=turned), StateValues(names, names[::-1]))
        flat = {**state.values, names[0]: np.zeros(20)}
        self.refused(training, replace(state, values=flat), StateShape(names[0], (5, 4), (20,)))
        with raises(StateShape(names[0], (5, 4), (20,))):
            replace(state, values=flat).model()

    def test_parts_of_a_state_have_to_fit_each_other(self) -> None:
        """Steps, places, finite values."""
        state = read_checkpoint(saved("llama", 2))
        name = next(iter(state.values))
        broken = state.values[name].copy()
        broken[1, 2] = math.nan
        for change, expected in (
            ({"step": 3}, StateSteps(3, 2)),
            ({"place": replace(state.place, batch=7)}, OrderOutOfRange(0, 7, 6)),
            ({"examples": 0}, NoExamples()),
            ({"setup": replace(state.setup, batch_size=0)}, ZeroBatchSize()),
            ({"values": {**state.values, name: broken}}, StateValueNotFinite(name, 6, math.nan)),
        ):
            with raises(expected):
                replace(state, **change)

    def test_stored_gradients_do_not_leak_into_a_restored_run(self) -> None:
        """They belong to what was there before."""
        training = llama_training()
        for parameter in training.model.parameters:
            parameter.gradient = np.ones(parameter.shape)
        training.restore(read_checkpoint(saved("llama", 2)))
        training.step()
        training.step()
        assert saved("llama", 4) == write_checkpoint(training.state())

    def test_a_fresh_state_has_no_moments(self) -> None:
        """And can be gone back to."""
        training = llama_training()
        start = training.state()
        assert AdamWState() == start.optimizer
        training.step()
        assert isinstance(training.state().optimizer.moments["final_norm.gain"], Moments)
        training.restore(start)
        assert saved("llama", 0) == write_checkpoint(training.state())
        assert isinstance(training.setup, Setup)
