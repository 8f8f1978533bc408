"""The decoder of chapters 33 to 38: five ids, one layer, documents that count in circles, and what is trained on what.

The same model goes through five chapters: trained and selected (33), evaluated once (34), written down (35), loaded to
sample with (36), and to sample with a cache (38).

Sampled generation as the course does it: temperature, top-k, and limits of the model's positions (chapter 36).

A prompt may fill all positions, and the last token that is chosen may lack one: nothing is predicted from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from cai_course.checkpoint import write_course_checkpoint
from cai_course.checkpoint.content import CourseCheckpoint, LiteralTokens, course_configuration
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.decoding.generation import DecoderStop, Limits, Path, ReencodingPath
from cai_reference.decoding.sampled_generation import SampledGeneration, sample_generation
from cai_reference.decoding.sampling import SamplingSettings
from cai_reference.models.llama import Llama, LlamaConfiguration
from cai_reference.splitmix import SplitMix64
from cai_reference.text.batches import EncodedDocument, Epoch, Windowing, sequential_plan, shuffled_plan
from cai_reference.training.adamw import AdamW, AdamWConfiguration, all_but_gains
from cai_reference.training.decoder_training import PlannedEpoch
from cai_reference.training.schedules import SteppedRate
from cai_reference.training.selection import SelectedRun, SelectionPlan

VOCABULARY: Final = 5
CONTEXT: Final = 2
MODEL: Final = course_configuration(
    vocabulary=VOCABULARY,
    width=4,
    heads=2,
    feed_forward=4,
    layers=1,
    positions=CONTEXT,
    rope_base=10000.0,
    epsilon=1e-6,
)
SEED: Final = 33
"""Of the initial values, and of the order of batches."""

RATES: Final = SteppedRate(((0.04, 2), (0.025, 2), (0.015, 2), (0.008, 2)))
WEIGHT_DECAY: Final = 0.01
MAXIMUM_NORM: Final = 0.35
CHECKPOINT_STEPS: Final = (0, 2, 4, 6, 8)
BATCH: Final = 2
TRAIN_EVALUATION_BATCH: Final = 5
VALIDATION_BATCH: Final = 4
TEST_BATCH: Final = 4
SAMPLING_SEED: Final = 35
"""Of the generator in the checkpoint, which has made one draw (chapter 35)."""


def _circle(first: int, length: int) -> tuple[int, ...]:
    return tuple((first + place) % VOCABULARY for place in range(length))


DOCUMENTS: Final = {
    "train": {"train-a": _circle(0, 12), "train-b": _circle(2, 12)},
    "validation": {"validation-a": _circle(0, 9), "validation-b": (0,) * 9},
    "test": {"test-a": (4, 3, 2, 1, 0, 4, 3, 2, 1), "test-b": (3, 2, 1, 0, 4, 3, 2)},
}
"""Ids by partition and document."""


def epoch(partition: str) -> Epoch:
    """Return the windows of two tokens of a partition."""
    documents = tuple(EncodedDocument(name, partition, ids) for name, ids in DOCUMENTS[partition].items())
    return Epoch(partition, documents, Windowing(CONTEXT))


def sequential(windows: Epoch, batch: int) -> PlannedEpoch:
    """Return windows in their own order."""
    return PlannedEpoch(windows, sequential_plan(windows, batch))


def shuffled(windows: Epoch, batch: int, seed: int) -> PlannedEpoch:
    """Return windows in a drawn order."""
    return PlannedEpoch(windows, shuffled_plan(windows, batch, SplitMix64(seed)))


def selection_plan() -> SelectionPlan:
    """Return what is trained on what, and what selects."""
    train = epoch("train")
    return SelectionPlan(
        shuffled(train, BATCH, SEED),
        sequential(train, TRAIN_EVALUATION_BATCH),
        sequential(epoch("validation"), VALIDATION_BATCH),
        RATES,
        CHECKPOINT_STEPS,
        MAXIMUM_NORM,
    )


def fresh() -> tuple[Llama, AdamW]:
    """Return the model before any step, with its optimiser; gains do not decay."""
    model = Llama.initialize(MODEL, SplitMix64(SEED))
    (first_rate, _), *_ = RATES.stages
    return model, AdamW(AdamWConfiguration(first_rate, weight_decay=WEIGHT_DECAY), all_but_gains(model.parameters))


@cache
def selected_run(arithmetic: Arithmetic) -> SelectedRun[Llama]:
    """Return the trained and selected model; it is made once, and nobody changes it."""
    return selection_plan().run(*fresh(), arithmetic)


def literal_tokens() -> LiteralTokens:
    """Return the tokenizer: id 3 is the text `3`."""
    return LiteralTokens(tuple(str(token).encode() for token in range(VOCABULARY)))


def checkpoint_bytes(arithmetic: Arithmetic) -> bytes:
    """Return the file of chapter 35: the selected model with its optimiser, tokens, and a generator on its way."""
    run, generator = selected_run(arithmetic), SplitMix64(SAMPLING_SEED)
    generator.next_u64()
    optimizer = run.selected_optimizer
    content = CourseCheckpoint.of(literal_tokens(), run.selected_model, optimizer, generator, optimizer.groups)
    return write_course_checkpoint(content)


GENERATED: Final = 4
"""How many new tokens chapters 36 and 38 allow."""

SETTINGS: Final = SamplingSettings(1.0, 3)
"""Temperature and top-k of chapters 36 and 38."""

STOPS: Final = {DecoderStop.EOS: "eos", DecoderStop.LIMIT: "token-limit", DecoderStop.CONTEXT: "context-limit"}
"""What the course calls the reasons to stop."""


class CoursePrefixPath(ReencodingPath):
    """Encodes the whole sequence every time, and notes how long it was."""

    def __init__(self, model: Llama, arithmetic: Arithmetic) -> None:
        super().__init__(model, arithmetic)
        self.prefixes: list[int] = []

    def after(self, ids: Sequence[int], newest: int) -> list[Array]:
        """Encode all of `ids` and return the last rows."""
        self.prefixes.append(len(ids))
        return super().after(ids, newest)


def decisions(generation: SampledGeneration) -> tuple[object, ...]:
    """Return what two paths have to agree on: tokens, numbers drawn, intervals, and why it ended."""
    return generation.stop, [(choice.token, choice.unit, choice.interval) for choice in generation.choices]


def sampled(
    path: Path,
    sizes: LlamaConfiguration,
    prompt: Sequence[int],
    eos: int | None,
    generator: SplitMix64,
    arithmetic: Arithmetic,
    settings: SamplingSettings = SETTINGS,
    new_tokens: int = GENERATED,
) -> SampledGeneration:
    """Continue a prompt."""
    limits = Limits(eos, new_tokens, sizes.context + 1)
    return sample_generation(path, prompt, limits, settings, generator, arithmetic)
