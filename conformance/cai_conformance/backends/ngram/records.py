"""From a finished experiment to the records of its trace.

The body is the published format, field by field (course, chapter 23); BITS adds, outside the body, the exact bits and
digests of every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cai_conformance.backends.ngram.conventions import CONVENTIONS
from cai_conformance.backends.ngram.experiment import SIZES, Experiment, StepRecord
from cai_conformance.trace.formatting import format_bits, format_bits_list, format_integers, format_real, format_reals
from cai_conformance.trace.records import Record
from cai_reference.arithmetic import Array

PREVIEW = 6


def trace_records(experiment: Experiment) -> tuple[Record, ...]:
    """Return all records between TRACE and END, in order."""
    records = [Record("CONVENTION", CONVENTIONS), *_body(experiment)]
    if experiment.arithmetic.bitwise:
        records.extend(_bits(experiment, step) for step in experiment.outcome.steps)
    return tuple(records)


def _body(experiment: Experiment) -> Iterator[Record]:
    yield _config(experiment)
    yield _split(experiment)
    yield from _stages(experiment)
    for step, train, validation in experiment.outcome.reported():
        yield _record("LOSS", step=str(step), train=real(train), validation=real(validation))
    yield _result(experiment)
    yield _generate(experiment)
    yield _proof(experiment)


def real(value: float, digits: int = 6) -> str:
    """Return a real as the n-gram prints it: what rounds to zero from below keeps its sign."""
    return format_real(value, digits, negative_zero=True)


def reals(values: Array | Sequence[float]) -> str:
    """Return a list of reals as the n-gram prints it."""
    return format_reals(np.ravel(values).tolist(), negative_zero=True)


def _record(kind: str, **fields: str) -> Record:
    return Record(kind, tuple(fields.items()))


def _config(experiment: Experiment) -> Record:
    sizes, optimizer = experiment.outcome.configuration, SIZES.optimizer
    return _record(
        "CONFIG",
        vocabulary=str(sizes.vocabulary),
        merges=str(SIZES.merges),
        context=str(sizes.context),
        embedding=str(sizes.embedding),
        concatenated=str(sizes.concatenated),
        swiglu_inner=str(sizes.hidden),
        hidden=str(sizes.hidden),
        parameters=str(sizes.parameters),
        batch=str(SIZES.batch),
        evaluation_batch=str(SIZES.evaluation_batch),
        init_seed=str(SIZES.init_seed),
        shuffle_seed=str(SIZES.shuffle_seed),
        max_steps=str(SIZES.steps),
        lr=real(optimizer.learning_rate),
        beta1=real(optimizer.beta1),
        beta2=real(optimizer.beta2),
        epsilon=real(optimizer.epsilon, 9),
        weight_decay=real(optimizer.weight_decay),
    )


def _split(experiment: Experiment) -> Record:
    data = experiment.data
    return _record(
        "SPLIT",
        train_documents=str(len(data.train.documents)),
        validation_documents=str(len(data.validation.documents)),
        test_text_used="no" if experiment.test_text_unused else "yes",
        train_contexts=str(data.train_contexts),
        validation_contexts=str(data.validation_contexts),
        train_batches=str(len(data.plan)),
        train_evaluation_batches=str(len(data.train_evaluation)),
        validation_evaluation_batches=str(len(data.validation_evaluation)),
    )


def _stages(experiment: Experiment) -> Iterator[Record]:
    probe, prompt_ids = experiment.outcome.probe, experiment.data.prompt_ids
    yield _record(
        "STAGE",
        index="0",
        name="context_ids",
        shape=format_integers([1, len(prompt_ids)]),
        ids=format_integers(prompt_ids),
    )
    for index, name in enumerate(("embeddings", "concatenated", "hidden"), start=1):
        values: Array = getattr(probe, name)
        yield _record("STAGE", index=str(index), name=name, shape=format_integers(values.shape), values=reals(values))
    yield _record(
        "STAGE",
        index="4",
        name="logits",
        shape=format_integers(probe.logits.shape),
        preview=reals(probe.logits[0, :PREVIEW]),
        argmax=str(probe.argmax),
        argmax_logit=real(float(probe.logits[0, probe.argmax])),
    )


def _result(experiment: Experiment) -> Record:
    (_, _, initial), *_, (step, _, final) = experiment.outcome.reported()
    return _record(
        "RESULT",
        step=str(step),
        initial_validation=real(initial),
        final_validation=real(final),
        improvement=real(experiment.improvement),
    )


def _generate(experiment: Experiment) -> Record:
    continuation = experiment.outcome.continuation
    return _record(
        "GENERATE",
        prompt=SIZES.prompt,
        prompt_ids=format_integers(experiment.data.prompt_ids),
        ids=format_integers(continuation.ids),
        stop=continuation.stop.value,
    )


def _proof(experiment: Experiment) -> Record:
    outcome = experiment.outcome
    return _record(
        "PROOF",
        replay="bitwise" if experiment.replays else "changed",
        test_text="not_encoded_or_scored" if experiment.test_text_unused else "encoded_or_scored",
        target="final_shifted",
        gradient_l1="five_positive_finite" if experiment.gradients_positive else "invalid",
        parameter_nodes="preserved" if outcome.parameters_preserved else "replaced",
        gradients="cleared" if outcome.gradients_cleared else "retained",
        generation="deterministic",
    )


def _bits(experiment: Experiment, step: StepRecord) -> Record:
    fields = {"step": str(step.step), "parameters": step.parameters, "moments": step.moments}
    for name in ("batch_loss", "train", "validation"):
        value: float | None = getattr(step, name)
        if value is not None:
            fields[name] = format_bits(value)
    if step.step == 0:
        probe = experiment.outcome.probe
        fields["embeddings"] = format_bits_list(probe.embeddings.ravel().tolist())
        fields["hidden"] = format_bits_list(probe.hidden.ravel().tolist())
        fields["logits"] = format_bits_list(probe.logits.ravel().tolist())
    if step.step == 1:
        fields["gradient_l1"] = format_bits_list(experiment.outcome.gradient_l1)
    return Record("BITS", tuple(fields.items()))
