"""This project's own checkpoint: what is written is read, in every bit; and others can read it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load

from cai_reference.arithmetic.instances import FAST, LIBM
from cai_reference.checkpoints.description import read_configuration, write_configuration
from cai_reference.checkpoints.saved import read_checkpoint, write_checkpoint
from cai_reference.checkpoints.tensor_file import read_tensors
from cai_reference.models.llama import Llama
from cai_reference.text import strict_json
from cai_reference.text.errors import BatchError
from cai_reference.training.adamw import AdamWConfiguration
from cai_reference.training.errors import TrainingError
from cai_reference.training.schedules import AnySchedule, ConstantRate, DecayShape, SteppedRate, WarmupDecay
from support_decoder_models import CONFIGURATIONS as DECODERS
from support_llama_models import CONFIGURATIONS as LLAMAS
from support_refusals import raises, refuses
from support_resumable import MODELS, after, saved, values_of_state

GAIN = "final_norm.gain"
TABLE = "token_embedding.weight"


class TestRoundTrip:
    """Bytes and states are each other's inverse."""

    @pytest.mark.parametrize("name", MODELS)
    def test_a_state_comes_back_in_every_bit(self, name: str) -> None:
        """Values, moments, step, powers, place, set-up; and it is written in the same bytes again."""
        state = after(name, 1)
        found = read_checkpoint(write_checkpoint(state))
        assert values_of_state(state) == values_of_state(found)
        assert list(state.values) == list(found.values)
        for field in ("configuration", "setup", "examples", "data", "step", "place", "generators"):
            assert getattr(state, field) == getattr(found, field), field
        powers = state.optimizer.beta1_power, state.optimizer.beta2_power
        assert powers == (found.optimizer.beta1_power, found.optimizer.beta2_power)
        assert write_checkpoint(state) == write_checkpoint(found)

    @pytest.mark.parametrize("name", MODELS)
    def test_the_model_can_be_made_from_it(self, name: str) -> None:
        """Of the right kind, without a run."""
        model = read_checkpoint(saved(name, 1)).model()
        assert type(MODELS[name]()) is type(model)
        expected = [(parameter, value.tobytes()) for parameter, value in after(name, 1).values.items()]
        assert expected == [(parameter.name, parameter.value.tobytes()) for parameter in model.parameters]

    def test_a_tied_head_is_stored_once_and_stays_tied(self) -> None:
        """There is no tensor of an output, and the table moves the logits."""
        tensors, _ = read_tensors(saved("llama", 2))
        weights = [name for name in tensors if name.startswith("weights/")]
        assert (11, 33) == (len(weights), len(tensors))
        model = read_checkpoint(saved("llama", 2)).model()
        assert isinstance(model, Llama)
        assert model.table is model.parameters[0]

    @pytest.mark.parametrize("value", [-0.0, 5e-324, -1.7976931348623157e308, 1.0 / 3.0, 2.0**-1074 * 7.0])
    def test_every_double_survives(self, value: float) -> None:
        """As a weight and as a number of the description."""
        state = read_checkpoint(saved("llama", 0))
        values = {**state.values, GAIN: np.full(4, value)}
        found = read_checkpoint(write_checkpoint(replace(state, values=values)))
        assert values[GAIN].tobytes() == found.values[GAIN].tobytes()
        if value > 0.0:
            setup = replace(state.setup, maximum_norm=value, schedule=ConstantRate(value))
            found = read_checkpoint(write_checkpoint(replace(state, setup=setup)))
            assert setup == found.setup

    @pytest.mark.parametrize("seed", [0, 2**63, 2**64 - 1])
    def test_every_state_of_a_generator_survives(self, seed: int) -> None:
        """Sixty-four bits, as hex digits."""
        state = read_checkpoint(saved("ngram", 1))
        changed = replace(state, place=replace(state.place, generator=seed), generators={"a b": seed, "ä": 0})
        found = read_checkpoint(write_checkpoint(changed))
        assert (seed, {"a b": seed, "ä": 0}) == (found.place.generator, found.generators)
        assert f"{seed:016x}".encode() in write_checkpoint(changed)

    @pytest.mark.parametrize(
        "schedule",
        [
            ConstantRate(0.25),
            SteppedRate(((0.04, 2), (1e-300, 10**20))),
            *(WarmupDecay(0.5, 1e-9, 0, 9, shape) for shape in DecayShape),
        ],
    )
    def test_every_schedule_survives(self, schedule: AnySchedule) -> None:
        """With all of its numbers."""
        state = read_checkpoint(saved("ngram", 1))
        found = read_checkpoint(write_checkpoint(replace(state, setup=replace(state.setup, schedule=schedule))))
        assert schedule == found.setup.schedule

    @pytest.mark.parametrize("arithmetic", [LIBM, FAST])
    def test_arithmetics_and_absent_limits_survive(self, arithmetic: object) -> None:
        """By their names."""
        state = read_checkpoint(saved("ngram", 1))
        setup = replace(state.setup, arithmetic=arithmetic, maximum_norm=None)  # type: ignore[arg-type]
        assert setup == read_checkpoint(write_checkpoint(replace(state, setup=setup))).setup

    def test_whole_numbers_for_rates_are_written_as_doubles(self) -> None:
        """1 is 1.0, so that reading can be strict."""
        state = read_checkpoint(saved("ngram", 0))
        setup = replace(state.setup, optimizer=AdamWConfiguration(1), schedule=ConstantRate(1), maximum_norm=1)
        assert setup == read_checkpoint(write_checkpoint(replace(state, setup=setup))).setup

    def test_every_configuration_survives(self) -> None:
        """All mixers, wirings, groupings, layouts and norms of the small models."""
        for configuration in (*DECODERS.values(), *LLAMAS.values()):
            description = rewritten_model(configuration)
            assert configuration == description


def rewritten_model(configuration: object) -> object:
    """Return a configuration after writing and reading it alone."""
    text = json.dumps(write_configuration(configuration))  # type: ignore[arg-type]
    return read_configuration(strict_json.parse(text.encode()))


class TestFormat:
    """What others can rely on."""

    def test_any_safetensors_reader_reads_the_tensors(self) -> None:
        """Doubles, by name."""
        state, tensors = read_checkpoint(saved("llama", 2)), load(saved("llama", 2))
        assert tensors[f"weights/{TABLE}"].tobytes() == state.values[TABLE].tobytes()
        assert tensors[f"first/{GAIN}"].tobytes() == state.optimizer.moments[GAIN].first.tobytes()
        assert tensors[f"second/{GAIN}"].tobytes() == state.optimizer.moments[GAIN].second.tobytes()

    def test_the_metadata_are_as_documented(self) -> None:
        """Four keys; the description is JSON with sorted keys and no spaces."""
        _, metadata = read_tensors(saved("llama", 2))
        assert ["digest", "format", "state", "version"] == sorted(metadata)
        assert ("cai-conform checkpoint", "1") == (metadata["format"], metadata["version"])
        description = json.loads(metadata["state"])
        assert metadata["state"] == json.dumps(description, sort_keys=True, separators=(",", ":"))
        assert {"step": 2, "optimizer_step": 2, "beta1_power": 0.81, "beta2_power": 0.9801} == {
            key: round(value, 10) for key, value in description["progress"].items()
        }

    def test_the_header_is_aligned_and_sorted(self) -> None:
        """The tensors begin at a multiple of eight."""
        data = saved("llama", 2)
        length = int.from_bytes(data[:8], "little")
        names = list(json.loads(data[8 : 8 + length]))
        assert (0, names) == (length % 8, ["__metadata__", *sorted(names[1:])])

    def test_a_fresh_run_has_no_tensors_of_moments(self) -> None:
        """Only weights."""
        tensors, _ = read_tensors(saved("llama", 0))
        assert 11 == len(tensors)


class TestParts:
    """What a state refuses to be made of."""

    def test_parts_of_a_state_have_to_fit_each_other(self) -> None:
        """Steps, places, finite values."""
        state = after("llama", 2)
        name = next(iter(state.values))
        broken = state.values[name].copy()
        broken[1, 2] = math.nan
        for change, expected in (
            ({"step": 3}, TrainingError("state-steps", step=3, optimizer=2)),
            ({"place": replace(state.place, batch=7)}, TrainingError("order-out-of-range", epoch=0, batch=7, last=6)),
            ({"examples": 0}, TrainingError("no-examples")),
            ({"setup": replace(state.setup, batch_size=0)}, BatchError("zero-batch-size")),
            (
                {"values": {**state.values, name: broken}},
                TrainingError("state-value-not-finite", name=name, index=6, value=math.nan),
            ),
        ):
            with raises(expected):
                replace(state, **change)

    @pytest.mark.parametrize(("part", "name"), [("configuration", "draft"), ("arithmetic", "llama")])
    def test_a_state_of_another_run_is_refused(self, part: str, name: str) -> None:
        """The configuration before the arithmetic."""
        state = after("llama", 2)
        with refuses(TrainingError, "state-differs") as refused:
            state.check_run(after(name, 2).configuration, FAST)
        assert refused.value.fields["part"] == part
