"""Training by PyTorch against the reference's autograd and optimiser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from cai_conformance.engine import Refused, TrainingBatch, TrainingSettings
from cai_conformance.fixtures.given_weights import read_given
from cai_conformance.fixtures.weight_files import WeightsLayout, hugging_face_name, is_transposed
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import FAST
from cai_reference.autograd import Parameter, Tape
from cai_reference.autograd.backward import backward
from cai_reference.models.registry import decayed_names
from cai_reference.models.stack import DecoderStack
from cai_reference.text.story_batches import StoryBatch
from cai_reference.training.adamw import AdamW, AdamWConfiguration, ParameterGroups
from cai_reference.training.clipping import clip_to
from support_foreign_engines import DECODERS, drawn, fed_afresh, given

if TYPE_CHECKING:
    from cai_conformance.backends.torch.engine import TorchEngine

Folder = Callable[[str], Path]

CLOSE = 1e-9
"""Measured are 1e-14 for gradients, 2e-12 for weights."""
STEPS = 3
SETTINGS = TrainingSettings(0.02, 0.9, 0.98, 1e-8, 0.01, 1.0, ())
BATCHES = tuple(
    StoryBatch(tuple((*drawn(length, seed), 1) for length in (20, 13, 7)), 20) for seed in range(1, STEPS + 1)
)
"""Ragged stories; the longest one fills the rows."""


def fresh(suite: str) -> DecoderStack:
    """Return the reference's model, as nobody has trained it yet."""
    model = given(suite)
    return read_given(model.phase, model.sizes, model.weights)


def heads(suite: str) -> int:
    """Return how many tokens a suite's model predicts at once."""
    return given(suite).sizes.futures if given(suite).phase.futures else 1


def in_file(suite: str, name: str) -> str:
    """Return what a suite's file calls a parameter."""
    return hugging_face_name(name) if given(suite).phase.weights_layout is WeightsLayout.HUGGING_FACE else name


def as_reference(suite: str, parameter: Parameter, values: Mapping[str, Array]) -> Array:
    """Return a tensor of a file as the reference has it."""
    value = values[in_file(suite, parameter.name)]
    turned = given(suite).phase.weights_layout is WeightsLayout.HUGGING_FACE and is_transposed(parameter.name)
    return value.T if turned else value


def largest(suite: str, values: Mapping[str, Array], expected: Mapping[str, Array]) -> dict[str, float]:
    """Return the distances beyond what is close, by the reference's names."""
    parameters = fresh(suite).parameters
    assert {in_file(suite, parameter.name) for parameter in parameters} == set(values)
    far = {
        parameter.name: float(np.max(np.abs(as_reference(suite, parameter, values) - expected[parameter.name])))
        for parameter in parameters
    }
    return {name: value for name, value in far.items() if not value <= CLOSE}


def gradients(model: DecoderStack, batch: StoryBatch) -> tuple[float, dict[str, Array]]:
    """Leave the gradients in the reference's parameters, and return the loss and them."""
    for parameter in model.parameters:
        parameter.zero_gradient()
    loss = model.loss(Tape(FAST), batch)
    backward(loss)
    return float(loss.value), {parameter.name: parameter.gradient.copy() for parameter in model.parameters}


@cache
def trained(suite: str) -> tuple[list[float], DecoderStack, AdamW]:
    """Return the losses before each step of the reference, its model and its optimiser."""
    model = fresh(suite)
    decayed = decayed_names(model.parameters)
    others = tuple(parameter.name for parameter in model.parameters if parameter.name not in decayed)
    optimizer = AdamW(AdamWConfiguration(0.02, 0.9, 0.98, 1e-8, 0.01), ParameterGroups(decayed, others))
    losses, clipped = [], []
    for batch in BATCHES:
        losses.append(gradients(model, batch)[0])
        clip = clip_to(model.parameters, 1.0)
        clipped.append(clip.clipped)
        optimizer.step(model.parameters, clip.transform)
    assert all(clipped), "the limit is never reached"
    return losses, model, optimizer


def settings(suite: str) -> TrainingSettings:
    """Return the settings with the matrices of a suite decaying."""
    names = tuple(in_file(suite, name) for name in decayed_names(fresh(suite).parameters))
    return TrainingSettings(0.02, 0.9, 0.98, 1e-8, 0.01, 1.0, names)


class TestGradients:
    """The loss, and how it changes with every number."""

    @pytest.mark.parametrize("suite", DECODERS)
    def test_they_are_the_references(self, engine: TorchEngine, folder: Folder, suite: str) -> None:
        """Of every tensor of the file, in the file's shape."""
        engine.load(folder(suite))
        found = engine.gradients(TrainingBatch.of(BATCHES[0], heads(suite)))
        loss, expected = gradients(fresh(suite), BATCHES[0])
        assert abs(found.loss - loss) <= CLOSE
        assert {} == largest(suite, found.gradients, expected)
        assert max(float(np.max(np.abs(value))) for value in found.gradients.values()) > 0.1

    def test_they_change_nothing(self, engine: TorchEngine, folder: Folder) -> None:
        """Neither weights nor slots nor the next gradients."""
        engine.load(folder("cai.local-global"))
        before = fed_afresh(engine, drawn(9, 1)).tobytes()
        batch = TrainingBatch.of(BATCHES[0])
        first, second = engine.gradients(batch), engine.gradients(batch)
        assert before == fed_afresh(engine, drawn(9, 1)).tobytes()
        assert [value.tobytes() for value in first.gradients.values()] == [
            value.tobytes() for value in second.gradients.values()
        ]


class TestSteps:
    """AdamW behind one norm. PyTorch imports its compiler for its first optimiser, which takes seconds."""

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("suite", ["llama.dense", "cai.multi-token", "course.decoder", "cai.grouped-hybrid"])
    def test_losses_weights_and_moments_are_the_references(
        self, engine: TorchEngine, folder: Folder, suite: str
    ) -> None:
        """After three steps, all of which are clipped."""
        losses, model, optimizer = trained(suite)
        engine.load(folder(suite))
        engine.start_training(settings(suite))
        found = [engine.train_step(TrainingBatch.of(batch, heads(suite))) for batch in BATCHES]
        assert [] == [pair for pair in zip(found, losses, strict=True) if not abs(pair[0] - pair[1]) <= CLOSE]
        state = engine.training_state()
        assert {} == largest(suite, state.weights, {each.name: each.value for each in model.parameters})
        moments = {each.name: optimizer.moments(each) for each in model.parameters}
        assert {} == largest(suite, state.first_moments, {name: each.first for name, each in moments.items()})
        assert {} == largest(suite, state.second_moments, {name: each.second for name, each in moments.items()})

    @pytest.mark.exhaustive
    def test_training_starts_again_where_the_folder_is(self, engine: TorchEngine, folder: Folder) -> None:
        """Weights as loaded, moments of zero; what was remembered belongs to other weights and is gone."""
        engine.load(folder("cai.local-global"))
        batch = TrainingBatch.of(BATCHES[0])
        before = fed_afresh(engine, drawn(9, 1)).tobytes()
        engine.start_training(SETTINGS)
        untouched = engine.training_state()
        engine.train_step(batch)
        assert before != fed_afresh(engine, drawn(9, 1)).tobytes()
        engine.start_training(SETTINGS)
        state = engine.training_state()
        assert all(np.array_equal(value, state.weights[name]) for name, value in untouched.weights.items())
        assert all(not value.any() for value in (*state.first_moments.values(), *state.second_moments.values()))
        assert before == fed_afresh(engine, drawn(9, 1), slot=1).tobytes()

    def test_what_cannot_be_trained_is_refused(self, engine: TorchEngine, folder: Folder) -> None:
        """In words, and nothing changes."""
        engine.load(folder("cai.multi-token"))
        one = TrainingBatch(((0, 5),), (((5, 1),),) * 3)
        with pytest.raises(Refused, match="training has not begun"):
            engine.train_step(one)
        with pytest.raises(Refused, match="there is no tensor 'head' to decay"):
            engine.start_training(TrainingSettings(0.02, 0.9, 0.98, 1e-8, 0.01, 1.0, ("head",)))
        batches = {
            "targets for 1 heads, of which the model has 3": TrainingBatch(((0, 5),), (((5, 1),),)),
            "head 1 has nothing to predict": TrainingBatch(((0, 5),), (((5, 1),), ((-1, -1),), ((1, -1),))),
            "an input is none of the ids 0 … 319": TrainingBatch(((0, 320),), (((5, 1),),) * 3),
            "a target is none of the ids 0 … 319": TrainingBatch(((0, 5),), (((5, -2),),) * 3),
            "rows of 49 tokens are longer than the context of 48": TrainingBatch(((0,) * 49,), (((1,) * 49,),) * 3),
            r"the targets of head 0 are \[1, 1\], the inputs \[1, 2\]": TrainingBatch(((0, 5),), (((5,),),) * 3),
        }
        for text, batch in batches.items():
            with pytest.raises(Refused, match=text):
                engine.gradients(batch)
