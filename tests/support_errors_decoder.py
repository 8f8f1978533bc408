"""One call for every error of decoders, their mixers, sessions and generation, with the error that it must raise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cai_reference.arithmetic import FAST, STRICT
from cai_reference.autograd import Tape
from cai_reference.decoding import errors as decoding
from cai_reference.decoding.generation import Limits, ReencodingPath, generate
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.errors import CaiReferenceError
from cai_reference.layers import errors as layer
from cai_reference.models import errors as model
from cai_reference.models.decoder import Decoder
from cai_reference.models.decoder_configuration import AttentionSpec
from cai_reference.splitmix import SplitMix64
from cai_reference.text.story_batches import StoryBatch
from support_decoder_models import PLAIN, small

Case = tuple[CaiReferenceError, Callable[[], object]]

TAPE = Tape(STRICT)
LOCAL = small("local")


def made(**changes: object) -> Callable[[], object]:
    """Return a call that makes a decoder of another size."""
    return lambda: Decoder.initialize(replace(PLAIN, **changes), SplitMix64(0))  # type: ignore[arg-type]


def fed(capacity: int = 12) -> Session:
    """Return a session of nine tokens over windows of 1, 3 and 2, without slack."""
    session = Session(LOCAL, STRICT, SessionOptions(capacity=capacity))
    session.feed(list(range(1, 10)))
    return session


def feed_with_a_score_beyond_every_number() -> None:
    """Give every query of head 1 a large number, and every key its negative."""
    attending = small("attention")
    parameters = {parameter.name: parameter for parameter in attending.parameters}
    weight, bias = (parameters[f"blocks.0.mixer.slab.{kind}"] for kind in ("weight", "bias"))
    weight.assign(np.zeros(weight.shape))
    values = np.zeros(bias.shape)
    values[4], values[12] = 1e200, -1e200
    bias.assign(values)
    Session(attending, STRICT).feed([3])


def generated(prompt: list[int]) -> Callable[[], object]:
    """Return a call that continues a prompt in a context of five tokens."""
    return lambda: generate(ReencodingPath(LOCAL, FAST), prompt, Limits(1, 4, 5))


MIXERS: list[Case] = [
    (layer.HeadsDoNotDivide(8, 3), made(heads=3)),
    (layer.OddRopeWidth(1), made(heads=8)),
    (layer.WindowTooSmall(0), made(mixers=(AttentionSpec(0),))),
]

DECODERS: list[Case] = [
    (model.EmptyDecoder(), lambda: replace(PLAIN, mixers=())),
    (model.SizeTooSmall("futures", -2), lambda: replace(PLAIN, futures=-2)),
    (model.EmptySequence(), lambda: LOCAL.forward(TAPE, [], 1)),
    (model.SequenceTooLong(25, 24), lambda: LOCAL.forward(TAPE, [2] * 25, 1)),
    (model.NoTargets(), lambda: LOCAL.loss(TAPE, StoryBatch(((0,),), 3))),
]

SESSIONS: list[Case] = [
    (decoding.NothingToFeed(), lambda: fed().feed([])),
    (decoding.TokenOutOfRange(1, 77, 13), lambda: fed().feed([3, 77])),
    (decoding.CapacityExceeded(9, 4, 12), lambda: fed().feed([1, 2, 3, 4])),
    (decoding.InvalidCapacity(-6, 5, 3), lambda: Session(LOCAL, STRICT, SessionOptions(-6, 5, 3))),
    (decoding.TruncationOutOfRange(10, 9), lambda: fed().truncate(10)),
    (decoding.TruncationRefused(0, 4, 8), lambda: fed().truncate(4)),
    (
        decoding.SnapshotOfAnotherModel("kind of session"),
        lambda: fed().restore(fed(capacity=13).snapshot()),
    ),
    (decoding.NonFiniteScore(1, 0, -math.inf), feed_with_a_score_beyond_every_number),
]

ARMS: list[Case] = [
    (decoding.EmptyPrompt(), generated([])),
    (decoding.PromptTooLong(6, 5), generated([2, 3, 4, 5, 6, 7])),
]

CASES: list[Case] = [*MIXERS, *DECODERS, *SESSIONS, *ARMS]
