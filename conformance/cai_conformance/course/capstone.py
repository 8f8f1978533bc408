"""The capstone of the course, chapter 39: the experiment up to the selected model and its checkpoint.

A tokenizer of eight merges, a decoder of 1,188 numbers, 32 updates. Rounding grows on the way: on the course's corpus
nine decimals of the perplexity tell arithmetics apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cai_conformance.course.corpus import CourseCorpus
from cai_conformance.course.watching import same_bits
from cai_reference.arithmetic import Arithmetic
from cai_reference.checkpoints.course import ByteBpe, CourseCheckpoint, write_course_checkpoint
from cai_reference.checkpoints.course.content import course_configuration
from cai_reference.decoding.sampling import SamplingSettings
from cai_reference.models.llama import Llama
from cai_reference.models.llama_configuration import LlamaConfiguration
from cai_reference.splitmix import SplitMix64
from cai_reference.text import BpeTokenizer, Epoch, sequential_plan, shuffled_plan
from cai_reference.training.adamw import AdamW, AdamWConfiguration
from cai_reference.training.decay_groups import everything
from cai_reference.training.planned_epoch import PlannedEpoch
from cai_reference.training.schedules import SteppedRate
from cai_reference.training.selection import SelectedRun, SelectionPlan

LAYOUT: Final = 1
"""Of token ids: BOS and EOS, bytes, merges."""

MERGES: Final = 8
CONTEXT: Final = 4
UPDATE_BATCH: Final = 16
EVALUATION_BATCH: Final = 128
UPDATES: Final = 32
RATE: Final = 0.04
MAXIMUM_NORM: Final = 1.0
SEED: Final = 39
"""Of the initial values, and of the order of batches."""

PROMPT: Final = "A"
PROBE: Final = "At"
"""The text whose logits are compared before and after the checkpoint."""

SETTINGS: Final = SamplingSettings(0.8, 4)
NEW_TOKENS: Final = 3
GENERATION_SEED: Final = 38


@dataclass(frozen=True)
class Experiment:
    """Everything up to the selected model.

    Attributes:
        corpus: what it was given.
        tokenizer: trained on the training documents.
        epochs: the windows of each partition.
        plan: what is trained on what.
        run: the training.
        replays: whether a second training gave the same bits.
    """

    corpus: CourseCorpus
    tokenizer: BpeTokenizer
    epochs: dict[str, Epoch]
    plan: SelectionPlan
    run: SelectedRun[Llama]
    replays: bool

    @property
    def sizes(self) -> LlamaConfiguration:
        """Of the model."""
        return self.run.selected_model.configuration


def experiment(arithmetic: Arithmetic, corpus: CourseCorpus) -> Experiment:
    """Train the tokenizer, then the model, twice."""
    tokenizer = corpus.tokenizer(MERGES)
    epochs = {role: corpus.epoch(role, tokenizer, CONTEXT) for role in corpus.documents}
    plan = SelectionPlan(
        PlannedEpoch(epochs["train"], shuffled_plan(epochs["train"], UPDATE_BATCH, SplitMix64(SEED))),
        in_order(epochs["train"]),
        in_order(epochs["validation"]),
        SteppedRate(((RATE, UPDATES),)),
        (0, UPDATES),
        MAXIMUM_NORM,
    )
    run, again = (_trained(plan, tokenizer.vocabulary_size, arithmetic) for _ in range(2))
    replays = (
        (run.updates, run.checkpoints) == (again.updates, again.checkpoints)
        and same_bits(run.selected, again.selected)
        and same_bits(run.final, again.final)
    )
    return Experiment(corpus, tokenizer, epochs, plan, run, replays)


def _trained(plan: SelectionPlan, vocabulary: int, arithmetic: Arithmetic) -> SelectedRun[Llama]:
    sizes = course_configuration(
        vocabulary=vocabulary,
        width=4,
        heads=1,
        feed_forward=4,
        layers=1,
        positions=CONTEXT,
        rope_base=10000.0,
        epsilon=1e-6,
    )
    model = Llama.initialize(sizes, SplitMix64(SEED))
    return plan.run(model, AdamW(AdamWConfiguration(RATE), everything(model.parameters)), arithmetic)


def in_order(epoch: Epoch) -> PlannedEpoch:
    """Return windows in the order and the batches of evaluation."""
    return PlannedEpoch(epoch, sequential_plan(epoch, EVALUATION_BATCH))


def written(made: Experiment) -> bytes:
    """Return the checkpoint of the selected model; its generator is the one that generation starts from."""
    run = made.run
    tokens, generator = ByteBpe(tuple(made.tokenizer.pairs)), SplitMix64(GENERATION_SEED)
    return write_course_checkpoint(
        CourseCheckpoint.of(tokens, run.selected_model, run.selected_optimizer, generator, None)
    )
