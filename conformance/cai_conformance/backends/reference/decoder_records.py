"""From a finished decode experiment to the records of its trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cai_conformance.backends.reference.decoder_run import DecodeExperiment
from cai_conformance.backends.reference.story_training import StepRecord
from cai_conformance.trace.format import format_bits, format_bits_list, format_integers, format_real, format_reals
from cai_conformance.trace.records import Record
from cai_reference.arithmetic.bits import sha256_of
from cai_reference.models.registry import parameter_count, weight_count
from cai_reference.text.tokenizer import CONTENT_OFFSET


def trace_records(experiment: DecodeExperiment) -> tuple[Record, ...]:
    """Return all records between TRACE and END, in order."""
    return (
        Record("CONVENTION", experiment.phase.conventions(experiment.sizes)),
        _config(experiment),
        _split(experiment),
        *_stages(experiment),
        *map(_loss, experiment.trained.steps),
        _result(experiment),
        *_decodes(experiment),
        *_drafts(experiment),
        *_caches(experiment),
        *_generated(experiment),
        _proof(experiment),
        *(_bits(step) for step in experiment.trained.steps if experiment.arithmetic.bitwise),
    )


def _record(kind: str, **fields: str) -> Record:
    return Record(kind, tuple(fields.items()))


def _config(experiment: DecodeExperiment) -> Record:
    phase, sizes, optimizer = experiment.phase, experiment.sizes, experiment.sizes.optimizer
    draft = experiment.trained.draft
    drafted = (parameter_count(draft.parameters), weight_count(draft.parameters)) if draft is not None else (0, 0)
    common = {
        "vocabulary": experiment.data.vocabulary(sizes),
        "merges": len(experiment.data.tokenizer.pairs),
        "context": sizes.context,
        "width": sizes.width,
        "heads": sizes.heads,
        "feed_forward": sizes.feed_forward,
    }
    counted = {"parameters": experiment.parameters, "weights": experiment.weights}
    trained = {
        "stories": len(experiment.data.train) + len(experiment.data.validation),
        "story_seed": sizes.story_seed,
        "validation_every": sizes.validation_every,
        "story_cut": sizes.context,
        "batch": sizes.batch,
        "evaluation_batch": sizes.evaluation_batch,
        "steps": sizes.steps,
        "init_seed": sizes.init_seed,
        "order_seed": sizes.order_seed,
    }
    decoded = {
        "prompts": sizes.prompts,
        "prompt_tokens": sizes.prompt_tokens,
        "new_tokens": sizes.new_tokens,
        "chunk": sizes.chunk,
        "block": sizes.block,
        "slack": sizes.slack,
    }
    return _record(
        "CONFIG",
        **_printed(common),
        **phase.model_fields(sizes),
        **_printed(counted),
        **phase.draft_fields(*drafted),
        **_printed(trained),
        lr=format_real(optimizer.learning_rate),
        beta1=format_real(optimizer.beta1),
        beta2=format_real(optimizer.beta2),
        epsilon=format_real(optimizer.epsilon, 9),
        weight_decay=format_real(optimizer.weight_decay),
        clip=format_real(sizes.clip),
        **_printed(decoded),
    )


def _printed(values: dict[str, int]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items()}


def _split(experiment: DecodeExperiment) -> Record:
    data, context, course = experiment.data, experiment.sizes.context, experiment.trained.course
    if course is not None:
        return _record(
            "SPLIT",
            train_stories=str(len(data.train)),
            validation_stories=str(len(data.validation)),
            train_windows=str(len(course.epochs.updates.epoch.slots())),
            validation_windows=str(len(course.epochs.validation.epoch.slots())),
            batches=str(len(course.epochs.updates.plan)),
        )
    return _record(
        "SPLIT",
        train_stories=str(len(data.train)),
        validation_stories=str(len(data.validation)),
        train_windows=str(_targets(data.train, context)),
        validation_windows=str(_targets(data.validation, context)),
        batches=str(len(data.batches)),
    )


def _targets(stories: Iterable[tuple[int, ...]], context: int) -> int:
    """Count the input positions that have a real target."""
    return sum(min(len(story) - 1, context) for story in stories)


def _stages(experiment: DecodeExperiment) -> Iterator[Record]:
    for stage in experiment.stages:
        fields = {
            "index": str(stage.index),
            "name": stage.name,
            "shape": format_integers(stage.value.shape),
            "at": format_integers(stage.at),
            "values": format_reals(stage.values),
        }
        if experiment.arithmetic.bitwise:
            fields["bits"] = format_bits_list(value + 0.0 for value in stage.values)
        yield _record("STAGE", **fields, norm=format_real(stage.norm(experiment.arithmetic)))


def _loss(step: StepRecord) -> Record:
    update = {}
    if step.update is not None:
        update = {
            "rate": format_real(step.update.rate),
            "norm": format_real(step.update.norm),
            "clipped": str(step.update.clipped),
        }
    return _record(
        "LOSS", step=str(step.step), train=format_real(step.train), validation=format_real(step.validation), **update
    )


def _result(experiment: DecodeExperiment) -> Record:
    first, last = experiment.trained.steps[0], experiment.trained.steps[-1]
    selected = {}
    if experiment.trained.course is not None:
        found = experiment.trained.course.selected
        selected = {"selected_step": str(found.step), "selected_validation": format_real(found.validation)}
    return _record(
        "RESULT",
        step=str(last.step),
        initial_validation=format_real(first.validation),
        final_validation=format_real(last.validation),
        improvement=format_real(first.validation - last.validation),
        **selected,
    )


def _decodes(experiment: DecodeExperiment) -> Iterator[Record]:
    for result in experiment.arms:
        generation = result.generation
        fields = {
            "arm": result.arm,
            "prompt": str(result.prompt),
            "prompt_ids": format_integers(result.prompt_ids),
            "ids": format_integers(generation.ids),
            "margins": format_reals(generation.margins()),
        }
        if experiment.arithmetic.bitwise:
            fields["logits"] = sha256_of(generation.rows)
        yield _record(
            "DECODE",
            **fields,
            forwards=str(generation.forwards),
            draft_forwards=str(generation.draft_forwards),
            stop=generation.stop.value,
        )


def _drafts(experiment: DecodeExperiment) -> Iterator[Record]:
    for result in experiment.arms:
        for number, found in enumerate(result.generation.passes):
            yield _record(
                "DRAFT",
                arm=result.arm,
                prompt=str(result.prompt),
                **{"pass": str(number)},
                proposed=str(found.proposed),
                accepted=str(found.accepted),
                committed=str(found.committed),
                rolled_back=str(found.rolled_back),
            )


def _caches(experiment: DecodeExperiment) -> Iterator[Record]:
    for count in experiment.caches:
        found = count.accounting
        yield _record(
            "CACHE",
            layer=str(count.layer),
            arm=count.arm,
            prefix=str(count.prefix),
            floats=str(found.floats),
            slack=str(found.slack),
            allocated=str(found.allocated),
            formula=found.formula,
        )


def _generated(experiment: DecodeExperiment) -> Iterator[Record]:
    tokenizer = experiment.data.tokenizer
    for result in experiment.of_arm("full"):
        ids = result.generation.ids
        known = range(CONTENT_OFFSET, tokenizer.vocabulary_size)
        data = tokenizer.decode_content([token for token in ids if token in known])
        yield _record(
            "GENERATE",
            arm="full",
            prompt=str(result.prompt),
            ids=format_integers(ids),
            text=data.decode("utf-8", "replace"),
            stop=result.generation.stop.value,
        )


def _proof(experiment: DecodeExperiment) -> Record:
    replay = "bitwise" if experiment.arithmetic.bitwise else "equal"
    return _record(
        "PROOF",
        replay=replay if experiment.replays else "changed",
        arms="equal" if experiment.tokens_equal() else "different",
        logits=experiment.logits_agreement(),
        cache="exact" if experiment.caches_exact() else "wrong",
        rollback=experiment.rollback.value,
        witnesses="met" if experiment.witnesses_met() else "missing",
    )


def _bits(step: StepRecord) -> Record:
    digests = {"parameters": step.parameters, "moments": step.moments}
    return _record(
        "BITS",
        step=str(step.step),
        **{name: digest for name, digest in digests.items() if digest is not None},
        train=format_bits(step.train),
        validation=format_bits(step.validation),
    )
