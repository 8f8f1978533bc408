"""Small training runs of every kind of model, that clip, follow a schedule, and end epochs in the middle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Final, TypeAlias

import numpy as np

from cai_reference.arithmetic import STRICT, Array
from cai_reference.autograd import Parameter
from cai_reference.checkpoints.saved import write_checkpoint
from cai_reference.checkpoints.saved.container import read_tensors, write_tensors
from cai_reference.models import NeuralNgram, NeuralNgramConfiguration
from cai_reference.models.decoder import Decoder
from cai_reference.models.decoder_configuration import DraftConfiguration
from cai_reference.models.llama import Llama
from cai_reference.models.token_shift_draft import TokenShiftDraft
from cai_reference.splitmix import SplitMix64
from cai_reference.text import Window
from cai_reference.training import AdamWConfiguration
from cai_reference.training.decay_groups import all_but_gains
from cai_reference.training.examples import DecoderWindows, NgramWindows, Stories
from cai_reference.training.resumable import ResumableTraining, Setup, TrainingState
from cai_reference.training.schedules import DecayShape, WarmupDecay
from support_course_fixtures import MODEL, epoch
from support_decoder_models import CONFIGURATIONS

AnyTraining: TypeAlias = (
    ResumableTraining[NeuralNgram]
    | ResumableTraining[Decoder]
    | ResumableTraining[Llama]
    | ResumableTraining[TokenShiftDraft]
)

SCHEDULE: Final = WarmupDecay(0.05, 0.002, 3, 12, DecayShape.COSINE)
MAXIMUM_NORM: Final = 0.05
CONTEXT: Final = 6
STORIES: Final = ((0, 2, 3, 4, 5, 1), (0, 2, 1), (0, 6, 3, 4, 7, 8, 1), (0, 2, 9, 9, 1), (0, 3, 1))
WINDOWS: Final = tuple(
    Window((a, b), (b, (a + b) % 5)) for a, b in ((1, 1), (2, 4), (1, 3), (0, 0), (4, 1), (3, 3), (2, 0))
)


def setup(parameters: tuple[Parameter, ...], batch_size: int = 2) -> Setup:
    """Return a set-up with everything in it: decay, a clip that is reached, a schedule that warms up and falls."""
    rates = AdamWConfiguration(0.05, beta2=0.99, epsilon=1e-6, weight_decay=0.1)
    return Setup(rates, all_but_gains(parameters), SCHEDULE, MAXIMUM_NORM, batch_size, STRICT)


def ngram_training(seed: int = 3) -> ResumableTraining[NeuralNgram]:
    """Train the n-gram on seven windows, two a step, so that every fourth step ends an epoch."""
    model = NeuralNgram.initialize(NeuralNgramConfiguration(5, 2, 3, 4), SplitMix64(9))
    sampling = {"sampling": SplitMix64(seed + 100)}
    return ResumableTraining(model, setup(model.parameters), NgramWindows(WINDOWS), seed, sampling)


def decoder_training(seed: int = 3) -> ResumableTraining[Decoder]:
    """Train a decoder of three mixers on five ragged stories, so that every third step ends an epoch."""
    model = Decoder.initialize(replace(CONFIGURATIONS["hybrid"], context=CONTEXT), SplitMix64(4))
    return ResumableTraining(model, setup(model.parameters), Stories(STORIES, CONTEXT), seed)


def grouped_training(seed: int = 3) -> ResumableTraining[Decoder]:
    """Train a decoder with grouped projections and two heads."""
    model = Decoder.initialize(replace(CONFIGURATIONS["grouped-futures"], context=CONTEXT), SplitMix64(4))
    return ResumableTraining(model, setup(model.parameters), Stories(STORIES[:1] + STORIES[2:4], CONTEXT), seed)


def llama_training(seed: int = 3) -> ResumableTraining[Llama]:
    """Train the course's decoder, whose head is tied, on windows of documents."""
    model = Llama.initialize(MODEL, SplitMix64(33))
    return ResumableTraining(model, setup(model.parameters, 3), DecoderWindows(epoch("train")), seed)


def draft_training(seed: int = 3) -> ResumableTraining[TokenShiftDraft]:
    """Train a draft on the stories."""
    model = TokenShiftDraft.initialize(DraftConfiguration(11, CONTEXT, 6, 10), SplitMix64(4))
    return ResumableTraining(model, setup(model.parameters), Stories(STORIES, CONTEXT), seed)


MAKERS: Final[Mapping[str, Callable[[], AnyTraining]]] = {
    "ngram": ngram_training,
    "decoder": decoder_training,
    "grouped": grouped_training,
    "llama": llama_training,
    "draft": draft_training,
}


def after(name: str, steps: int) -> AnyTraining:
    """Return a run after so many steps."""
    training = MAKERS[name]()
    for _ in range(steps):
        training.step()
    return training


@cache
def saved(name: str, steps: int) -> bytes:
    """Return the checkpoint of a run after so many steps."""
    return write_checkpoint(after(name, steps).state())


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
