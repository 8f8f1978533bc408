"""What seeded faults are planted under: short runs of the reference on the given weights of a suite.

Each observer returns bytes that hold everything it can see, so that "as before" means equal in every bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache
from typing import Final

import numpy as np

from cai_conformance.faults import Place
from cai_conformance.fixtures.decoder_phases import phase_of, sizes_for
from cai_conformance.fixtures.given_weights import read_given
from cai_conformance.fixtures.goldens.store import locate
from cai_conformance.fixtures.phases import DecodePhase
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.instances import FAST
from cai_reference.autograd import Tape, Variable
from cai_reference.autograd.backward import backward
from cai_reference.autograd.probability import mean_nll_of
from cai_reference.decoding import generation, greedy
from cai_reference.decoding import sampling as choice
from cai_reference.decoding import sampling as distribution
from cai_reference.decoding.errors import SessionError
from cai_reference.decoding.generation import Limits, StreamingPath
from cai_reference.decoding.latent_states import LatentCache
from cai_reference.decoding.sampling import SamplingSettings
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.errors import ModelError
from cai_reference.models.registry import decayed_names
from cai_reference.models.stack import DecoderStack
from cai_reference.splitmix import SplitMix64
from cai_reference.text.story_batches import StoryBatch
from cai_reference.training.adamw import AdamW, AdamWConfiguration, ParameterGroups
from cai_reference.training.decoder_training import DecoderTraining

IDS: Final = (0, 166, 183, 240, 31, 88, 140, 260, 256, 72, 68, 273, 47, 166, 183, 31)
"""Sixteen ids, some of them twice."""

BATCHES: Final = (
    StoryBatch(((0, 166, 31, 166, 31, 1), (0, 88, 88, 1)), 5),
    StoryBatch(((0, 140, 260, 1), (0, 31, 72, 68, 47, 1)), 5),
)
"""Two batches with repeated ids and rows of unequal length."""

EDGES: Final = ((0.0, 0.6, 0.4), tuple([0.1] * 10))
"""A law that excludes id 0, and one whose probabilities add up to less than 1."""

SETTINGS: Final = AdamWConfiguration(0.01, 0.9, 0.98, 1e-4, 0.1)
CLIP: Final = 0.5


@cache
def given(suite: str) -> tuple[DecodePhase, bytes]:
    """Return the phase of a suite and the file of its weights."""
    phase = phase_of(suite)
    return phase, (locate() / suite / phase.weights_layout.file).read_bytes()


@cache
def model_of(suite: str, *, tied: bool = False) -> DecoderStack:
    """Return the given model; nobody may write to it."""
    phase, weights = given(suite)
    return read_given(phase, sizes_for(phase, "golden", 0), weights, tied=tied)


def forward(
    model: DecoderStack, ids: tuple[int, ...] = IDS, start: int = 0, arithmetic: Arithmetic = FAST
) -> dict[str, Array]:
    """Return every stage of a full pass, without the batch axis."""
    kept: dict[str, Array] = {}

    def keep(name: str, value: Variable) -> None:
        kept[name] = value.value[0]

    model.forward(Tape(arithmetic, recording=False), list(ids), 1, start, keep)
    return kept


def batch_path(suite: str) -> bytes:
    """Run one late sequence, with all stages."""
    return _bytes(forward(model_of(suite), start=3000))


def session(suite: str) -> bytes:
    """Feed chunks, cut, go on, try a cut that may be refused, begin again; for each kind of cache."""
    kinds = tuple(LatentCache) if given(suite)[0].has_latent else (LatentCache.HEADS,)
    return b"".join(_session(model_of(suite), latent) for latent in kinds)


def _session(model: DecoderStack, latent: LatentCache) -> bytes:
    session = Session(model, FAST, SessionOptions(start=40, slack=4, latent=latent))
    found = [session.feed(IDS[:7]), session.feed(IDS[7:8]), session.feed(IDS[8:14])]
    counts = [[each.floats, each.slack, each.allocated] for each in session.accounting()]
    session.truncate(11)
    found += [session.feed(IDS[11:13]), session.feed(IDS[13:])]
    refused = 0.0
    try:
        session.truncate(4)
    except SessionError as error:
        if error.code != "truncation-refused":
            raise
        refused = 1.0
    found += [session.feed(IDS[9:12])]
    session.reset()
    found += [session.feed(IDS[:3])]
    beside = Session(model, FAST, SessionOptions(slack=4, latent=latent))
    beside.feed(IDS[3:9])
    found += [session.feed(IDS[3:5])]
    rows = {f"{place} {head}": logits for place, heads in enumerate(found) for head, logits in enumerate(heads)}
    return _bytes(rows | {"refused": np.array(refused), "counts": np.array(counts, dtype=np.float64)})


def decoding_loop(suite: str) -> bytes:
    """Generate from ties until the second new token, taken for EOS, and until the budget."""
    model = model_of(suite, tied=True)
    ids = [generation.generate(_path(model), IDS[:5], Limits(None, 4, 40)).ids]
    ids.append(generation.generate(_path(model), IDS[:5], Limits(ids[0][1], 4, 40)).ids)
    assert greedy.greedy_token(np.array([0.0, 2.0, 1.0])) == 1
    return repr(ids).encode()


def sampler(_suite: str) -> bytes:
    """Keep parts of laws whose mass is met exactly and crossed, draw at the ends, refuse, and count draws."""
    even, tenths = (np.log(np.array(law)) for law in ([0.5, 0.25, 0.125, 0.125], [0.1, 0.4, 0.2, 0.3]))
    settings = (
        SamplingSettings(top_p=0.75),
        SamplingSettings(top_p=0.8),
        SamplingSettings(temperature=2.0, top_p=0.65),
        SamplingSettings(top_k=3),
        SamplingSettings(top_k=3, top_p=0.75),
        SamplingSettings(min_p=0.6),
        SamplingSettings(temperature=0.0),
        SamplingSettings(top_k=1),
    )
    laws = [distribution.distribution_of(logits, each, FAST) for logits in (even, tenths) for each in settings]
    found = {str(place): law.probabilities for place, law in enumerate(laws)}
    generator = SplitMix64(36)
    tokens = [choice.draw(law, generator).token for law in laws]
    edges = [choice.choose(np.array(law), unit).token for law in EDGES for unit in (0.0, 0.3, 1.0 - 2.0**-53)]
    try:
        refused = float(choice.sample(np.array([0.0, np.nan, 1.0]), settings[0], FAST, generator).token)
    except ModelError as error:
        if error.code != "non-finite-logit":
            raise
        refused = -1.0
    numbers = [*tokens, *edges, generator.state % 2**32, refused]
    return _bytes(found | {"numbers": np.array(numbers, dtype=np.float64)})


def training(suite: str) -> bytes:
    """Take two steps, and look at the gradients of the first batch."""
    model = deepcopy(model_of(suite))
    loss = model.loss(Tape(FAST), BATCHES[0])
    backward(loss)
    large = mean_nll_of(FAST, np.array([[1e4, 9.999e3]]), [0])
    found: dict[str, Array] = {"loss": loss.value, "large loss": np.array(large)}
    for parameter in model.parameters:
        found[f"{parameter.name} gradient"] = parameter.gradient
        parameter.zero_gradient()
    optimizer = optimizer_of(model)
    for _ in DecoderTraining(BATCHES, (), (), frozenset(), CLIP).run(model, optimizer, FAST):
        pass
    return _bytes(found | {parameter.name: parameter.value for parameter in model.parameters})


def optimizer_of(model: DecoderStack) -> AdamW:
    """Return a fresh optimiser that decays matrices."""
    decayed = decayed_names(model.parameters)
    rest = tuple(each.name for each in model.parameters if each.name not in decayed)
    return AdamW(SETTINGS, ParameterGroups(decayed, rest))


OBSERVERS: Final[Mapping[Place, Callable[[str], bytes]]] = {
    Place.BATCH: batch_path,
    Place.SESSION: session,
    Place.LOOP: decoding_loop,
    Place.SAMPLER: sampler,
    Place.TRAINING: training,
}
"""What observes a fault at its place."""


@cache
def untouched(place: Place, suite: str) -> bytes:
    """Return what an observer gives before anything was planted."""
    return OBSERVERS[place](suite)


def _path(model: DecoderStack) -> StreamingPath:
    return StreamingPath(Session(model, FAST))


def _bytes(values: Mapping[str, Array]) -> bytes:
    return b"".join(name.encode() + np.ascontiguousarray(value).tobytes() for name, value in values.items())
