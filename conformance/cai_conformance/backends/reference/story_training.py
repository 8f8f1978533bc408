"""From stories to trained models: tokens, batches, the decoder, its draft, and runs that select."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cai_conformance.errors import FixtureError
from cai_conformance.fixtures.phases import CourseTraining, DecodePhase
from cai_conformance.fixtures.sizes import Sizes
from cai_conformance.fixtures.stories.generator import generate_stories
from cai_conformance.fixtures.stories.reading import read_stories, split_stories
from cai_reference.arithmetic import Arithmetic, Array
from cai_reference.arithmetic.bits import sha256_of
from cai_reference.errors import CaiReferenceError
from cai_reference.models.llama import Llama
from cai_reference.models.registry import decayed_names
from cai_reference.models.stack import DecoderStack
from cai_reference.models.token_shift_draft import TokenShiftDraft
from cai_reference.splitmix import SplitMix64
from cai_reference.text.batches import EncodedDocument, Epoch, Windowing, sequential_plan, shuffled_plan
from cai_reference.text.bpe import train
from cai_reference.text.story_batches import StoryBatch, shuffled_story_batches, story_batches
from cai_reference.text.tokenizer import BpeTokenizer
from cai_reference.training.adamw import AdamW, Moments, ParameterGroups, all_but_gains
from cai_reference.training.decoder_training import DecoderTraining, PlannedEpoch, StoryModel
from cai_reference.training.model_kinds import ParameterSnapshot
from cai_reference.training.selection import LossCheckpoint, SelectedRun, SelectionPlan


@dataclass(frozen=True)
class UpdateFacts:
    """What an update did: its rate, the norm of its gradients before clipping, and how many were clipped so far."""

    rate: float
    norm: float
    clipped: int


@dataclass(frozen=True)
class StepRecord:
    """Losses in nats and digests after one step.

    Attributes:
        step: how many updates had been made.
        train, validation: mean losses.
        parameters, moments: digests; None where the state was not kept.
        update: of the step, where the phase tells it; zeros before the first.
    """

    step: int
    train: float
    validation: float
    parameters: str | None
    moments: str | None
    update: UpdateFacts | None = None


Story = tuple[int, ...]


@dataclass(frozen=True)
class CourseEpochs:
    """The windows that are trained on, and those of the two losses."""

    updates: PlannedEpoch
    train_evaluation: PlannedEpoch
    validation: PlannedEpoch


@dataclass(frozen=True)
class CourseRun:
    """A run: its windows, the model that was selected with the losses of its step, and all checkpoints."""

    epochs: CourseEpochs
    model: Llama
    selected: LossCheckpoint
    steps: tuple[StepRecord, ...]


def course_epochs(
    training: CourseTraining, sizes: Sizes, train: Sequence[Story], validation: Sequence[Story]
) -> CourseEpochs:
    """Cut the windows of both parts.

    Raises:
        FixtureError: a part has no story that is longer than a window.
    """
    everything = _epoch("train", train, Windowing(sizes.context, training.stride))
    evaluated = _epoch("train", train[: sizes.evaluation_stories], Windowing(sizes.context, training.evaluation_stride))
    selecting = _epoch("validation", validation, Windowing(sizes.context, training.evaluation_stride))
    for epoch in (everything, evaluated, selecting):
        if not epoch.slots():
            raise FixtureError("Windows", f"no {epoch.partition} story is longer than {sizes.context} tokens")
    return CourseEpochs(
        PlannedEpoch(everything, shuffled_plan(everything, sizes.batch, SplitMix64(sizes.order_seed))),
        PlannedEpoch(evaluated, sequential_plan(evaluated, sizes.evaluation_batch)),
        PlannedEpoch(selecting, sequential_plan(selecting, sizes.evaluation_batch)),
    )


def train_course(
    phase: DecodePhase,
    training: CourseTraining,
    sizes: Sizes,
    epochs: CourseEpochs,
    vocabulary: int,
    arithmetic: Arithmetic,
) -> CourseRun:
    """Initialise and train the model.

    Raises:
        CaiReferenceError: a number left the range of binary64, or a size does not fit.
    """
    model = phase.initialized(sizes, vocabulary, SplitMix64(sizes.init_seed))
    assert isinstance(model, Llama)
    optimizer = AdamW(sizes.optimizer, all_but_gains(model.parameters))
    plan = SelectionPlan(
        epochs.updates,
        epochs.train_evaluation,
        epochs.validation,
        training.schedule(sizes.steps),
        training.checkpoints(sizes.steps),
        sizes.clip,
    )
    run = plan.run(model, optimizer, arithmetic)
    kept = {
        0: ParameterSnapshot.of(0, model.parameters, optimizer),
        run.selected.step: run.selected,
        run.final.step: run.final,
    }
    steps = tuple(_step(found, run, kept.get(found.step)) for found in run.checkpoints)
    return CourseRun(epochs, run.selected_model, run.selected_checkpoint, steps)


def course_replay(
    phase: DecodePhase,
    training: CourseTraining,
    sizes: Sizes,
    epochs: CourseEpochs,
    vocabulary: int,
    arithmetic: Arithmetic,
) -> bool:
    """Train twice from scratch, and tell whether losses, parameters and moments have the same bits at every step.

    Losses are those of one batch each, so that a few updates cost little.
    """
    one_batch = {name: _first_batch(getattr(epochs, name)) for name in ("train_evaluation", "validation")}
    fewer = replace(epochs, **one_batch)
    runs = [train_course(phase, training, sizes, fewer, vocabulary, arithmetic) for _ in range(2)]
    return runs[0].steps == runs[1].steps


def _epoch(partition: str, stories: Sequence[Story], windowing: Windowing) -> Epoch:
    documents = tuple(
        EncodedDocument(f"{partition}-{number}", partition, story) for number, story in enumerate(stories)
    )
    return Epoch(partition, documents, windowing)


def _first_batch(planned: PlannedEpoch) -> PlannedEpoch:
    return replace(planned, plan=planned.plan[:1])


def _step(found: LossCheckpoint, run: SelectedRun[Llama], state: ParameterSnapshot | None) -> StepRecord:
    """Return what is known of a checkpoint; digests where its state was kept."""
    facts = UpdateFacts(0.0, 0.0, 0)
    if found.step:
        update, before = run.updates[found.step - 1], run.updates[: found.step]
        facts = UpdateFacts(update.learning_rate, update.clip.before, sum(each.clip.clipped for each in before))
    parameters = sha256_of(state.values) if state is not None else None
    moments = sha256_of(_moments(run, state)) if state is not None else None
    return StepRecord(found.step, found.train, found.validation, parameters, moments, facts)


def _moments(run: SelectedRun[Llama], state: ParameterSnapshot) -> list[Array]:
    """Return all first moments, then all second ones, in registry order; zeros where no step was made."""
    stored = state.optimizer.moments
    zeros = [Moments(np.zeros(each.shape), np.zeros(each.shape)) for each in run.selected_model.parameters]
    names = [parameter.name for parameter in run.selected_model.parameters]
    found = [stored.get(name, empty) for name, empty in zip(names, zeros, strict=True)]
    return [moments.first for moments in found] + [moments.second for moments in found]


@dataclass(frozen=True)
class StoryData:
    """Encoded stories and the batches made of them."""

    tokenizer: BpeTokenizer
    train: tuple[Story, ...]
    validation: tuple[Story, ...]
    batches: tuple[StoryBatch, ...]
    train_evaluation: tuple[StoryBatch, ...]
    validation_evaluation: tuple[StoryBatch, ...]

    def vocabulary(self, sizes: Sizes) -> int:
        """Return how many ids the models know."""
        return max(self.tokenizer.vocabulary_size, sizes.vocabulary or 0)

    def prompts(self, sizes: Sizes) -> tuple[Story, ...]:
        """Return the first tokens of the first validation stories, in order."""
        return tuple(story[: sizes.prompt_tokens] for story in self.validation[: sizes.prompts])


@dataclass(frozen=True)
class Trained:
    """A trained decoder, its draft where the phase has one, the decoder's reported steps, and a run that selects."""

    model: DecoderStack
    draft: TokenShiftDraft | None
    steps: tuple[StepRecord, ...]
    course: CourseRun | None = None


def prepare(sizes: Sizes, stories: bytes) -> StoryData:
    """Generate stories, or read the user's; split, learn merges on training stories, encode, cut batches.

    Raises:
        FixtureError: stage Stories, Training or Prompts.
        InputError: the user's stories cannot be used.
    """
    texts = read_stories(stories) if stories else generate_stories(sizes.stories, sizes.story_seed)
    train_texts, validation_texts = split_stories(texts, sizes.validation_every)
    learned_on = [text.encode("utf-8") for text in train_texts[: sizes.merge_stories]]
    try:
        merges = train(learned_on, sizes.merges)
    except CaiReferenceError as error:
        raise FixtureError("Training", str(error)) from error
    tokenizer = BpeTokenizer([merge.pair for merge in merges])
    train_ids, validation_ids = (
        tuple(tuple(tokenizer.encode_document(text)) for text in part) for part in (train_texts, validation_texts)
    )
    long_enough = [story for story in validation_ids[: sizes.prompts] if len(story) >= sizes.prompt_tokens]
    if len(long_enough) < sizes.prompts:
        raise FixtureError(
            "Prompts",
            f"the first {sizes.prompts} validation stories must hold {sizes.prompt_tokens} tokens each; "
            f"{len(long_enough)} do",
        )
    generator = SplitMix64(sizes.order_seed)
    return StoryData(
        tokenizer,
        train_ids,
        validation_ids,
        shuffled_story_batches(train_ids, sizes.batch, sizes.context, generator, sizes.steps),
        story_batches(train_ids[: sizes.evaluation_stories], sizes.evaluation_batch, sizes.context),
        story_batches(validation_ids, sizes.evaluation_batch, sizes.context),
    )


def train_models(phase: DecodePhase, sizes: Sizes, data: StoryData, arithmetic: Arithmetic) -> Trained:
    """Initialise and train the decoder, then the draft on the same batches.

    Raises:
        FixtureError: stage Windows or Training.
    """
    vocabulary = data.vocabulary(sizes)
    try:
        if phase.selection is not None:
            epochs = course_epochs(phase.selection, sizes, data.train, data.validation)
            run = train_course(phase, phase.selection, sizes, epochs, vocabulary, arithmetic)
            return Trained(run.model, None, run.steps, run)
        model = phase.initialized(sizes, vocabulary, SplitMix64(sizes.init_seed))
        steps = train_one(model, sizes, data, arithmetic)
        draft, configuration = None, phase.draft_configuration(sizes, vocabulary)
        if configuration is not None:
            draft = TokenShiftDraft.initialize(configuration, SplitMix64(sizes.init_seed))
            train_one(draft, sizes, data, arithmetic)
    except CaiReferenceError as error:
        raise FixtureError("Training", str(error)) from error
    return Trained(model, draft, steps)


def train_one(model: StoryModel, sizes: Sizes, data: StoryData, arithmetic: Arithmetic) -> tuple[StepRecord, ...]:
    """Train one model in place on all batches of the plan, and return its reported steps."""
    optimizer = optimizer_for(model, sizes)
    training = DecoderTraining(
        data.batches, data.train_evaluation, data.validation_evaluation, sizes.reported_steps, sizes.clip
    )
    records: list[StepRecord] = []
    for step in training.run(model, optimizer, arithmetic):
        if step.train is None or step.validation is None:
            continue
        moments = [optimizer.moments(parameter) for parameter in model.parameters]
        both = [moment.first for moment in moments] + [moment.second for moment in moments]
        records.append(StepRecord(step.step, step.train, step.validation, digest_of(model), sha256_of(both)))
    return tuple(records)


def first_steps_replay(phase: DecodePhase, sizes: Sizes, data: StoryData, arithmetic: Arithmetic, steps: int) -> bool:
    """Take a few steps twice from scratch, and tell whether all parameters end with the same bits."""
    if phase.selection is not None:
        epochs = course_epochs(phase.selection, sizes, data.train, data.validation)
        fewer = replace(sizes, steps=steps)
        return course_replay(phase, phase.selection, fewer, epochs, data.vocabulary(sizes), arithmetic)
    digests: list[str] = []
    for _ in range(2):
        model = phase.initialized(sizes, data.vocabulary(sizes), SplitMix64(sizes.init_seed))
        training = DecoderTraining(data.batches[:steps], (), (), frozenset(), sizes.clip)
        for _step in training.run(model, optimizer_for(model, sizes), arithmetic):
            pass
        digests.append(digest_of(model))
    return digests[0] == digests[1]


def optimizer_for(model: StoryModel, sizes: Sizes) -> AdamW:
    """Return a fresh AdamW that decays the matrices and nothing else."""
    decayed = decayed_names(model.parameters)
    rest = tuple(parameter.name for parameter in model.parameters if parameter.name not in set(decayed))
    return AdamW(sizes.optimizer, ParameterGroups(decayed, rest))


def digest_of(model: StoryModel) -> str:
    """Return the SHA-256 of all parameters, in registry order."""
    return sha256_of([parameter.value for parameter in model.parameters])
