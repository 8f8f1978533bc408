"""Steps of training by the reference, with every part of a step kept, and its checkpoints as an engine writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cai_conformance.engine import TrainingBatch, TrainingSettings
from cai_conformance.fixtures.files import read_file, write_file
from cai_conformance.fixtures.given_weights import Tensors
from cai_reference.arithmetic import Arithmetic
from cai_reference.autograd import Tape, Variable
from cai_reference.autograd.backward import backward
from cai_reference.autograd.operations import gather, mean_of, reshape
from cai_reference.autograd.probability import mean_nll
from cai_reference.checkpoints.saved import read_checkpoint, write_checkpoint
from cai_reference.errors import ModelError
from cai_reference.models.decoder import Decoder
from cai_reference.models.llama import Llama
from cai_reference.models.stack import DecoderStack
from cai_reference.text.story_batches import StoryBatch
from cai_reference.training.adamw import AdamW, AdamWConfiguration, GradientScale, ParameterGroups
from cai_reference.training.decoder_training import gradient_norm
from cai_reference.training.model_kinds import assign_all
from cai_reference.training.schedules import ConstantRate
from cai_reference.training.state import OrderPlace, Setup, TrainingState

FILE: Final = "training.safetensors"


def write_training(directory: Path, state: TrainingState) -> None:
    """Write a state.

    Raises:
        InterchangeError (output-not-written): the operating system refuses.
    """
    write_file(directory / FILE, write_checkpoint(state))


def read_training(directory: Path) -> TrainingState:
    """Read a state, or refuse all of it.

    Raises:
        InputError (input-unreadable): there is no such file.
        CaiReferenceError: it is damaged, or something else; a leaf that says what.
    """
    return read_checkpoint(read_file(directory / FILE))


Targets = Sequence[Sequence[Sequence[int]]]
NO_DATA: Final = "0" * 64
"""Stands for the digest of the examples in a checkpoint: batches are given, so that there are none."""
START: Final = OrderPlace(0, 0, 0)
"""Stands for the place among them."""


@dataclass(frozen=True)
class StepParts:
    """One step, part by part, by the reference's names of tensors.

    Attributes:
        loss: before the step, in nats.
        gradients: before clipping.
        norm: of all gradients together.
        first_moments, second_moments, weights: after the step.
    """

    loss: float
    gradients: Tensors
    norm: float
    first_moments: Tensors
    second_moments: Tensors
    weights: Tensors


class ReferenceTraining:
    """A model of the reference that is trained step by step; the model is changed.

    Args:
        model: whose weights move.
        settings: of AdamW; tensors that decay by the reference's names.
        arithmetic: in which it computes.
    """

    def __init__(self, model: DecoderStack, settings: TrainingSettings, arithmetic: Arithmetic) -> None:
        self._model, self._settings, self._arithmetic = model, settings, arithmetic
        rest = tuple(each.name for each in model.parameters if each.name not in set(settings.decayed))
        configuration = AdamWConfiguration(
            settings.learning_rate, settings.beta1, settings.beta2, settings.epsilon, settings.weight_decay
        )
        self._optimizer = AdamW(configuration, ParameterGroups(settings.decayed, rest))

    def step(self, inputs: Sequence[Sequence[int]], targets: Targets) -> StepParts:
        """Take one step on a batch.

        Raises:
            ModelError (no-targets): a head has none.
            AutogradError, AdamWError: a number left the range of binary64.
        """
        loss, gradients = loss_and_gradients(self._model, inputs, targets, self._arithmetic)
        parameters, clip = self._model.parameters, self._settings.clip
        norm = gradient_norm(parameters, self._arithmetic)
        clipped = clip is not None and norm > clip
        self._optimizer.step(parameters, GradientScale((clip or 0.0) / norm) if clipped else None)
        for parameter in parameters:
            parameter.zero_gradient()
        return StepParts(loss, gradients, norm, *self.state())

    def state(self) -> tuple[Tensors, Tensors, Tensors]:
        """Return first moments, second moments and weights."""
        moments = {each.name: self._optimizer.moments(each) for each in self._model.parameters}
        return (
            {name: moment.first.copy() for name, moment in moments.items()},
            {name: moment.second.copy() for name, moment in moments.items()},
            {each.name: each.value.copy() for each in self._model.parameters},
        )

    def checkpoint(self) -> TrainingState:
        """Return everything from which training goes on.

        Raises:
            TrainingError: the limit of the norm is none.
        """
        model, optimizer, settings = self._model, self._optimizer, self._settings
        assert isinstance(model, Decoder | Llama)
        rate = ConstantRate(settings.learning_rate)
        return TrainingState(
            model.configuration,
            Setup(optimizer.configuration, optimizer.groups, rate, settings.clip, 1, self._arithmetic),
            1,
            NO_DATA,
            optimizer.state.step,
            {each.name: each.value for each in model.parameters},
            optimizer.state,
            START,
        )

    @classmethod
    def resumed(cls, model: DecoderStack, state: TrainingState, arithmetic: Arithmetic) -> ReferenceTraining:
        """Return a training that goes on from a state, whose weights the model has then, or raise and change nothing.

        Raises:
            TrainingError (state-differs): the state is one of another model, or was computed in another arithmetic.
            TrainingError (state-values, state-shape): its weights are those of other parameters.
        """
        assert isinstance(model, Decoder | Llama)
        state.check_run(model.configuration, arithmetic)
        state.check_values(model)
        made, groups = state.setup.optimizer, state.setup.groups
        settings = TrainingSettings(
            made.learning_rate,
            made.beta1,
            made.beta2,
            made.epsilon,
            made.weight_decay,
            state.setup.maximum_norm,
            groups.decay,
        )
        training = cls(model, settings, arithmetic)
        assign_all(model.parameters, list(state.values.values()))
        training._optimizer.state = state.optimizer
        return training


def loss_and_gradients(
    model: DecoderStack, inputs: Sequence[Sequence[int]], targets: Targets, arithmetic: Arithmetic
) -> tuple[float, Tensors]:
    """Return the mean loss over real targets, and the gradients, which the model's parameters hold afterwards as well.

    Raises:
        ModelError (no-targets): a head has none.
        AutogradError: a number left the range of binary64.
    """
    for parameter in model.parameters:
        parameter.zero_gradient()
    loss = _loss(Tape(arithmetic), model, inputs, targets)
    backward(loss)
    return float(loss.value), {each.name: each.gradient.copy() for each in model.parameters}


def _loss(tape: Tape, model: DecoderStack, inputs: Sequence[Sequence[int]], targets: Targets) -> Variable:
    """Return the model's own loss over the stories that the rows are; over the targets one by one, if they are none."""
    stories = _stories(inputs, targets)
    return _loss_of_targets(tape, model, inputs, targets) if stories is None else model.loss(tape, stories)


def _stories(inputs: Sequence[Sequence[int]], targets: Targets) -> StoryBatch | None:
    """Return the stories of which these rows are a batch."""
    stories: list[tuple[int, ...]] = []
    for row, ids in enumerate(inputs):
        known = {0: ids[0]}
        for head, rows in enumerate(targets):
            known |= {place + 1 + head: token for place, token in enumerate(rows[row]) if token >= 0}
        if sorted(known) != list(range(len(known))):
            return None
        stories.append(tuple(known[place] for place in range(len(known))))
    batch = StoryBatch(tuple(stories), len(inputs[0]))
    same = TrainingBatch.of(batch, len(targets)) == TrainingBatch(
        tuple(map(tuple, inputs)), tuple(tuple(map(tuple, rows)) for rows in targets)
    )
    return batch if same else None


def _loss_of_targets(tape: Tape, model: DecoderStack, inputs: Sequence[Sequence[int]], targets: Targets) -> Variable:
    rows, width = len(inputs), len(inputs[0])
    flat = [token for row in inputs for token in row]
    losses: list[Variable] = []
    for head, logits in enumerate(model.forward(tape, flat, batch=rows)):
        wanted = [token for row in targets[head] for token in row] if head < len(targets) else []
        places = [place for place, token in enumerate(wanted) if token >= 0]
        if not places:
            raise ModelError("no-targets")
        values = reshape(tape, logits, (rows * width, logits.shape[-1]))
        chosen = gather(tape, values, places, (len(places),))
        losses.append(mean_nll(tape, chosen, [wanted[place] for place in places]))
    return losses[0] if len(losses) == 1 else mean_of(tape, losses)
