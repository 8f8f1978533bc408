"""From stories to trained models: tokens, split, batches, the decoder and, where a phase has one, its draft."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cai_conformance.backends.decoder.course_training import CourseRun, course_epochs, course_replay, train_course
from cai_conformance.backends.decoder.phases import DecodePhase
from cai_conformance.backends.decoder.sizes import Sizes
from cai_conformance.backends.decoder.step_record import StepRecord
from cai_conformance.errors import FixtureError
from cai_conformance.stories import generate_stories, read_stories, split_stories
from cai_reference import CaiReferenceError
from cai_reference.arithmetic import Arithmetic, sha256_of
from cai_reference.models.registry import decayed_names
from cai_reference.models.stack import DecoderStack
from cai_reference.models.token_shift_draft import TokenShiftDraft
from cai_reference.splitmix import SplitMix64
from cai_reference.text import BpeTokenizer, train
from cai_reference.text.story_batches import StoryBatch, shuffled_story_batches, story_batches
from cai_reference.training import AdamW, ParameterGroups
from cai_reference.training.decoder_training import DecoderTraining, StoryModel

Story = tuple[int, ...]


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
