"""One call for every error of decoders, their mixers, sessions and generation, with the error that it must raise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cai_reference.arithmetic.instances import FAST, STRICT
from cai_reference.autograd import Tape
from cai_reference.decoding.errors import DecodingError, SessionError
from cai_reference.decoding.generation import Limits, ReencodingPath, generate
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.errors import CaiReferenceError, LayerError, ModelError
from cai_reference.models.decoder import AttentionSpec, Decoder
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
    (LayerError("heads-do-not-divide", width=8, heads=3), made(heads=3)),
    (LayerError("odd-rope-width", width=1), made(heads=8)),
    (LayerError("window-too-small", window=0), made(mixers=(AttentionSpec(0),))),
]

DECODERS: list[Case] = [
    (ModelError("empty-decoder"), lambda: replace(PLAIN, mixers=())),
    (ModelError("size-too-small", name="futures", size=-2), lambda: replace(PLAIN, futures=-2)),
    (ModelError("empty-sequence"), lambda: LOCAL.forward(TAPE, [], 1)),
    (ModelError("sequence-too-long", length=25, context=24), lambda: LOCAL.forward(TAPE, [2] * 25, 1)),
    (ModelError("no-targets"), lambda: LOCAL.loss(TAPE, StoryBatch(((0,),), 3))),
]

SESSIONS: list[Case] = [
    (SessionError("nothing-to-feed"), lambda: fed().feed([])),
    (SessionError("token-out-of-range", index=1, token=77, vocabulary=13), lambda: fed().feed([3, 77])),
    (SessionError("capacity-exceeded", length=9, count=4, capacity=12), lambda: fed().feed([1, 2, 3, 4])),
    (
        SessionError("invalid-capacity", start=-6, capacity=5, slack=3),
        lambda: Session(LOCAL, STRICT, SessionOptions(-6, 5, 3)),
    ),
    (SessionError("truncation-out-of-range", requested=10, length=9), lambda: fed().truncate(10)),
    (SessionError("truncation-refused", layer=0, requested=4, earliest=8), lambda: fed().truncate(4)),
    (
        SessionError("snapshot-of-another-model", what="kind of session"),
        lambda: fed().restore(fed(capacity=13).snapshot()),
    ),
    (SessionError("non-finite-score", head=1, key=0, value=-math.inf), feed_with_a_score_beyond_every_number),
]

ARMS: list[Case] = [
    (DecodingError("empty-prompt"), generated([])),
    (DecodingError("prompt-too-long", length=6, context=5), generated([2, 3, 4, 5, 6, 7])),
]

CASES: list[Case] = [*MIXERS, *DECODERS, *SESSIONS, *ARMS]
