"""What seeded faults are planted under that act on no row of logits: tokens, data, speculation, files, traces.

Each vehicle returns bytes that hold everything it can observe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

import numpy as np

import cai_reference.arithmetic
from cai_conformance import stories
from cai_conformance.arithmetics import arithmetic_identifier
from cai_conformance.backends.decoder import given as given_weights
from cai_conformance.backends.decoder import records as decoder_records
from cai_conformance.backends.decoder import stages
from cai_conformance.backends.decoder.experiment import DecodeExperiment, run_decode_experiment
from cai_conformance.backends.decoder.llama_plan import LLAMA_PHASES
from cai_conformance.backends.decoder.phases import DecodePhase
from cai_conformance.backends.decoder.plan import phase_of
from cai_conformance.faults import Place
from cai_conformance.goldens import locate
from cai_conformance.trace import formatting
from cai_conformance.trace.records import Envelope, Record
from cai_reference import splitmix
from cai_reference.arithmetic import FAST, STRICT, Array
from cai_reference.decoding import generation, speculation, stochastic_speculation
from cai_reference.decoding.drafts import LaterHeads, ScriptedDraft, SelfDraft
from cai_reference.decoding.generation import Limits, StreamingPath
from cai_reference.decoding.sampling.settings import SamplingSettings
from cai_reference.decoding.session import Session, SessionOptions
from cai_reference.decoding.stochastic_drafts import Proposal, SampledDraft
from cai_reference.decoding.text_stream import TextStream
from cai_reference.layers import initialization
from cai_reference.models import NeuralNgram, NeuralNgramConfiguration
from cai_reference.models.stack import DecoderStack
from cai_reference.splitmix import SplitMix64
from cai_reference.text import batches, bpe, special_tokens, story_batches
from cai_reference.text.batches import EncodedDocument, Epoch
from cai_reference.text.tokenizer import BpeTokenizer
from cai_reference.text.windows import Windowing
from cai_reference.training import AdamW, AdamWConfiguration, ParameterGroups, decoder_training, evaluation
from cai_reference.training.planned_epoch import PlannedEpoch
from cai_reference.training.schedules import SteppedRate
from cai_reference.training.selection import SelectionPlan

DOCUMENTS: Final = ((0, 2, 3, 4, 5, 3, 2, 1), (0, 4, 1), (0, 5, 5, 5, 5, 2, 1), (0, 2, 1))
TEXTS: Final = (b"a b a b c", b"bc bc aaaaa", b"cba xyz abab")
PROMPT: Final = (0, 166, 183, 240, 31)


def _bytes(*values: object) -> bytes:
    return repr(values).encode("utf-8")


def _exact(*arrays: Array) -> bytes:
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


@cache
def given_model(suite: str) -> DecoderStack:
    """Return the given model of a suite."""
    phase = phase_of(suite)
    weights = (locate() / suite / phase.weights_layout.file).read_bytes()
    return given_weights.read_given(phase, phase.golden_sizes, weights)


def tokenizer(_suite: str) -> bytes:
    """Learn merges, encode texts with borders, accents, controls, names and line ends, decode whole and as a stream."""
    merges = bpe.train(TEXTS, 12)
    coder = BpeTokenizer([(98, 99), (97, 98), (97, 97)])
    texts = (b"abcaaa", " e\u0301\u00e9\r\n".encode(), bytes((0, 1, 254)), b" ")
    encoded = [coder.encode(text) for text in texts]
    named = BpeTokenizer([(111, 115)])
    names = [special_tokens.encode_with_special(named, "<eos><bos>", allowed) for allowed in ((), ("<eos>",))]
    stream = TextStream(coder, replace=True)
    pieces = [*(stream.push(token) for token in (197, 171, 242)), stream.finish()]
    return _bytes([merge.pair for merge in merges], encoded, [coder.decode_content([197, 171, 2 + 255])], names, pieces)


def data(_suite: str) -> bytes:
    """Cut windows and batches, shuffle both kinds of examples over several epochs, split stories."""
    found: list[object] = []
    for context in (2, 5):
        documents = tuple(EncodedDocument(str(place), "train", ids) for place, ids in enumerate(DOCUMENTS))
        epoch = Epoch("train", documents, Windowing(context))
        found += [epoch.window(slot) for slot in epoch.slots()]
        found += batches.shuffled_plan(epoch, 3, SplitMix64(23))
    found += [splitmix.below(SplitMix64(seed), 2**63 + 1) for seed in range(7)]
    for batch in story_batches.shuffled_story_batches(DOCUMENTS, 3, 6, SplitMix64(3), 6):
        found += [batch.flat_ids, batch.targets(0)]
    return _bytes(*found, stories.split_stories(["a", "b", "c", "b", "d", "e"], 2))


def initial_weights(_suite: str) -> bytes:
    """Draw two matrices and two models."""
    generator = SplitMix64(23)
    drawn = [initialization.xavier_uniform("weight", *shape, generator) for shape in ((16, 4), (4, 4))]
    models = [NeuralNgram.initialize(NeuralNgramConfiguration(6, 2, 3, 4), SplitMix64(5)) for _ in range(2)]
    return _exact(*(each.value for each in (*drawn, *models[0].parameters, *models[1].parameters)))


def speculative(suite: str) -> bytes:
    """Guess by a script, by the model itself, by later heads and by chance; weigh laws; stop inside blocks."""
    model = given_model(suite)

    def path() -> StreamingPath:
        return StreamingPath(Session(model, FAST, SessionOptions(slack=4)))

    limits = Limits(None, 14, 40)
    truth = generation.generate(path(), PROMPT, limits).ids
    found: list[object] = []
    for stop in (None, truth[1]):
        for budget in (3, 14):
            script = ScriptedDraft(truth, len(PROMPT), 4, model.configuration.vocabulary)
            made = speculation.speculate(path(), script, PROMPT, Limits(stop, budget, 40), 4)
            found += [made.ids, made.passes, made.stop]
    own = SelfDraft(Session(model, FAST, SessionOptions(slack=4)))
    found.append(speculation.speculate(path(), own, PROMPT, limits, 4).passes)
    heads = LaterHeads()
    for scale in (1.0, -1.0):
        heads.committed([scale * np.array([0.0, 1.0, 2.0]), scale * np.array([3.0, 1.0, 2.0])])
        found.append(heads.propose([], 1))
    found += _by_chance(model, path)
    return _bytes(*found)


def _by_chance(model: DecoderStack, path: Callable[[], StreamingPath]) -> list[object]:
    settings = SamplingSettings(temperature=1.25, top_k=20)
    draft = SampledDraft(path(), SamplingSettings(temperature=0.75, top_k=12), FAST)
    made = stochastic_speculation.sample_speculatively(
        path(), draft, PROMPT, Limits(None, 10, 40), settings, 3, SplitMix64(36), FAST
    )
    target, law = np.array([0.4, 0.35, 0.2, 0.05]), np.array([0.1, 0.15, 0.5, 0.25])
    found: list[object] = [made.ids, made.state, stochastic_speculation.residual(target, law).tolist()]
    found += [stochastic_speculation.acceptance(target, Proposal(token, law)) for token in range(4)]
    found += [stochastic_speculation.verify(target, Proposal(2, law), Units((unit, 0.1))) for unit in (0.3, 0.4, 0.9)]
    return found


class Units:
    """Numbers from a list."""

    def __init__(self, units: tuple[float, ...]) -> None:
        self._units = list(units)

    def unit(self) -> float:
        """Return the next one."""
        return self._units.pop(0)


def evaluating(_suite: str) -> bytes:
    """Evaluate windows and stories in batches that do not divide evenly, and look at what is left behind."""
    model = NeuralNgram.initialize(NeuralNgramConfiguration(6, 2, 3, 4), SplitMix64(5))
    epoch = Epoch("train", (EncodedDocument("one", "train", (*DOCUMENTS[0], 3, 4, 2)),), Windowing(2))
    plain = evaluation.evaluate(model, epoch, batches.sequential_plan(epoch, 4), FAST)
    decoder = given_model("llama.dense")
    cut = story_batches.story_batches(DOCUMENTS, 3, 6)
    of_stories = decoder_training.evaluate_stories(decoder, cut, FAST, "train")
    left = any(parameter.gradient.any() for parameter in decoder.parameters)
    for parameter in decoder.parameters:
        parameter.zero_gradient()
    return _bytes(plain, of_stories, left)


def selecting(_suite: str) -> bytes:
    """Train for four steps with three rates, and select."""
    phase = LLAMA_PHASES[-1]
    model = phase.initialized(phase.sizes, 12, SplitMix64(3))
    names = tuple(parameter.name for parameter in model.parameters)
    epochs = {
        part: Epoch(part, (EncodedDocument("one", part, (*DOCUMENTS[place], 1, 7, 8)),), Windowing(3))
        for place, part in ((0, "train"), (2, "validation"))
    }
    planned = [PlannedEpoch(epochs[part], batches.sequential_plan(epochs[part], 2)) for part in epochs]
    rates = SteppedRate(((0.3, 1), (0.2, 2), (0.1, 1)))
    plan = SelectionPlan(planned[0], planned[0], planned[1], rates, (0, 1, 2, 4), 1.0)
    found = plan.run(model, AdamW(AdamWConfiguration(0.3), ParameterGroups(names)), FAST)
    values = [parameter.value for parameter in found.selected_model.parameters]
    losses = [(checkpoint.train, checkpoint.validation) for checkpoint in found.checkpoints]
    return _bytes(found.selected.step, losses, [update.learning_rate for update in found.updates]) + _exact(*values)


def loading(suite: str) -> bytes:
    """Read the given weights of a suite, and weights that are moved to where half precision does not reach."""
    phase: DecodePhase = phase_of(suite)
    data = (locate() / suite / phase.weights_layout.file).read_bytes()
    files = (data, moved(phase, data))
    return b"".join(
        name.encode() + np.ascontiguousarray(value).tobytes()
        for file in files
        for name, value in sorted(given_weights.native_values(phase, file).items())
    )


@cache
def moved(phase: DecodePhase, data: bytes) -> bytes:
    """Return a file of weights that are a little larger; to be called first while nothing is planted."""
    values = given_weights.native_values(phase, data)
    return given_weights.write_given(phase, {name: value * (1.0 + 2.0**-15) for name, value in values.items()})


@cache
def short_run() -> DecodeExperiment:
    """Return a run of one update."""
    return run_decode_experiment("cai.diagonal-ssm", "golden", 3, b"", FAST)


def tracing(_suite: str) -> bytes:
    """Write numbers, a short trace, the records of a run, conventions and stages."""
    numbers = [formatting.format_real(value) for value in (0.1234567, -1e-7, 2.0 / 3.0)]
    numbers += [formatting.format_bits(value) for value in (0.1, -2.5, 1e-300)]
    records = [Record("LOSS", (("step", "1"),)), Record("RESULT", (("step", "2"),))]
    envelope = Envelope("llama.dense", "1.0.0", "edges", "fast", "sha256:" + "0" * 64)
    model, phase = given_model("llama.dense"), LLAMA_PHASES[0]
    shown = stages.record_stages(model, PROMPT, FAST)
    return _bytes(
        numbers,
        formatting.format_trace(envelope, records),
        decoder_records.trace_records(short_run()),
        phase.conventions(phase.sizes),
    ) + _exact(*(stage.value for stage in shown))


def arithmetic(_suite: str) -> bytes:
    """Compute sums, products and exponentials whose last bits depend on their order."""
    found = cai_reference.arithmetic.named(arithmetic_identifier("strict"))
    values = np.array([SplitMix64(seed).unit() for seed in range(60)])
    square = values.reshape(6, 10)
    assert STRICT.identifier == found.identifier
    return _exact(found.sum(values), found.sum(square, axis=0), found.matmul(square, square.T), found.exp(-values))


OTHER_VEHICLES: Final[Mapping[Place, Callable[[str], bytes]]] = {
    Place.TOKENIZER: tokenizer,
    Place.DATA: data,
    Place.INITIAL: initial_weights,
    Place.SPECULATION: speculative,
    Place.EVALUATION: evaluating,
    Place.SELECTION: selecting,
    Place.LOADING: loading,
    Place.TRACE: tracing,
    Place.ARITHMETIC: arithmetic,
}
