"""States of small training runs of every kind of model, that clip and follow a schedule, and their checkpoints."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np

from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.autograd import Tape
from cai_reference.autograd.backward import backward
from cai_reference.checkpoints.saved import write_checkpoint
from cai_reference.checkpoints.tensor_file import read_tensors, write_tensors
from cai_reference.models.decoder import Decoder
from cai_reference.models.llama import Llama
from cai_reference.models.neural_ngram import NeuralNgram, NeuralNgramConfiguration
from cai_reference.models.token_shift_draft import DraftConfiguration, TokenShiftDraft
from cai_reference.splitmix import SplitMix64
from cai_reference.text.batches import Window
from cai_reference.text.story_batches import story_batches
from cai_reference.training.adamw import AdamW, AdamWConfiguration, all_but_gains
from cai_reference.training.clipping import clip_to
from cai_reference.training.model_kinds import AnyModel
from cai_reference.training.schedules import DecayShape, WarmupDecay
from cai_reference.training.state import OrderPlace, Setup, TrainingState
from support_course_fixtures import MODEL
from support_decoder_models import CONFIGURATIONS

SCHEDULE: Final = WarmupDecay(0.05, 0.002, 3, 12, DecayShape.COSINE)
RATES: Final = AdamWConfiguration(0.05, beta2=0.99, epsilon=1e-6, weight_decay=0.1)
MAXIMUM_NORM: Final = 0.05
CONTEXT: Final = 6
STORIES: Final = ((0, 2, 3, 4, 1), (0, 2, 1), (0, 3, 3, 4, 2, 4, 1))
WINDOWS: Final = (Window((1, 1), (1, 2)), Window((2, 4), (4, 1)))
EXAMPLES, BATCH_SIZE = 20, 3

MODELS: Final[Mapping[str, Callable[[], AnyModel]]] = {
    "ngram": lambda: NeuralNgram.initialize(NeuralNgramConfiguration(5, 2, 3, 4), SplitMix64(9)),
    "decoder": lambda: Decoder.initialize(replace(CONFIGURATIONS["hybrid"], context=CONTEXT), SplitMix64(4)),
    "grouped": lambda: Decoder.initialize(replace(CONFIGURATIONS["grouped-futures"], context=CONTEXT), SplitMix64(4)),
    "llama": lambda: Llama.initialize(MODEL, SplitMix64(33)),
    "draft": lambda: TokenShiftDraft.initialize(DraftConfiguration(11, CONTEXT, 6, 10), SplitMix64(4)),
}


@cache
def after(name: str, steps: int) -> TrainingState:
    """Return the state of a run after so many steps, as a loop over the parts gives it."""
    model = MODELS[name]()
    setup = Setup(RATES, all_but_gains(model.parameters), SCHEDULE, MAXIMUM_NORM, BATCH_SIZE, STRICT)
    optimizer = AdamW(setup.optimizer, setup.groups)
    for step in range(1, steps + 1):
        if isinstance(model, NeuralNgram):
            loss = model.loss(Tape(STRICT), WINDOWS)
        else:
            (batch,) = story_batches(STORIES, BATCH_SIZE, model.configuration.context)
            loss = model.loss(Tape(STRICT), batch)
        backward(loss)
        clip = clip_to(model.parameters, MAXIMUM_NORM)
        optimizer.step_at(SCHEDULE.rate(step, STRICT), model.parameters, clip.transform)
        for parameter in model.parameters:
            parameter.zero_gradient()
    values = {parameter.name: parameter.value for parameter in model.parameters}
    generators = {"sampling": 103} if name == "ngram" else {}
    place = OrderPlace(0, steps, 3)
    digest = hashlib.sha256(name.encode()).hexdigest()
    return TrainingState(
        model.configuration, setup, EXAMPLES, digest, steps, values, optimizer.state, place, generators
    )


@cache
def saved(name: str, steps: int) -> bytes:
    """Return the checkpoint of a run after so many steps."""
    return write_checkpoint(after(name, steps))


def rewritten(
    data: bytes,
    describe: Callable[[dict[str, object]], object] = lambda description: None,
    tensors: Callable[[dict[str, Array]], object] = lambda tensors: None,
    listed: bool = True,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """Return a checkpoint with its description, its tensors or its metadata changed.

    The digest of the description is right again; the list of tensors too, unless `listed` says otherwise.
    """
    stored, texts = read_tensors(data)
    values = {name: tensor.values() for name, tensor in stored.items()}
    description = json.loads(texts["state"])
    tensors(values)
    if listed:
        description["tensors"] = {
            name: {
                "shape": list(array.shape),
                "sha256": hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest(),
            }
            for name, array in values.items()
        }
    describe(description)
    text = json.dumps(description)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return write_tensors(values, {**texts, "state": text, "digest": digest, **(metadata or {})})


def values_of_state(state: TrainingState) -> list[bytes]:
    """Return the bits of all values and moments."""
    moments = [state.optimizer.moments[name] for name in sorted(state.optimizer.moments)]
    arrays = [*state.values.values(), *(m.first for m in moments), *(m.second for m in moments)]
    return [array.tobytes() for array in arrays]
