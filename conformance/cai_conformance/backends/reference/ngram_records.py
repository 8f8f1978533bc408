"""From a finished n-gram run to the records of its trace, and to the published text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from cai_conformance.backends.reference.ngram_run import CONVENTIONS, SIZES, Experiment, NgramStep
from cai_conformance.trace.format import format_bits, format_bits_list, format_integers, format_real, format_reals
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


def _bits(experiment: Experiment, step: NgramStep) -> Record:
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


TOY_EXAMPLES: Final = (((10, 11), 12), ((20, 11), 13))


def report_text(experiment: Experiment) -> str:
    """Return the report, one `name=value` line each, with a final LF."""
    data, outcome = experiment.data, experiment.outcome
    sizes, probe, continuation = outcome.configuration, outcome.probe, outcome.continuation
    shapes = [
        (1, sizes.context),
        *(values.shape for values in (probe.embeddings, probe.concatenated, probe.hidden, probe.logits)),
    ]
    lines = {
        "chapter": "23-neural-ngram",
        "prediction": " -> ".join(map(format_integers, shapes)),
        "config": (
            f"vocabulary:{sizes.vocabulary} context:{sizes.context} embedding:{sizes.embedding} hidden:{sizes.hidden} "
            f"parameters:{sizes.parameters} batch:{SIZES.batch} evaluation_batch:{SIZES.evaluation_batch} "
            f"steps:{SIZES.steps}"
        ),
        "split": (
            f"train_documents:{len(data.train.documents)} validation_documents:{len(data.validation.documents)} "
            f"train_contexts:{data.train_contexts} validation_contexts:{data.validation_contexts} "
            f"test_text_used:{_boolean(not experiment.test_text_unused)}"
        ),
        "probe_context": format_integers(data.prompt_ids),
        "probe_embeddings": _shaped(probe.embeddings),
        "probe_hidden": _shaped(probe.hidden),
        "probe_logits": (
            f"shape:{format_integers(probe.logits.shape)} preview:{reals(probe.logits[0, :PREVIEW])} "
            f"argmax:{probe.argmax} value:{real(float(probe.logits[0, probe.argmax]))}"
        ),
        "first_gradient_l1": reals(outcome.gradient_l1),
    }
    for step, train, validation in outcome.reported():
        lines[f"checkpoint[{step}]"] = f"train:{real(train)} validation:{real(validation)}"
    lines |= {
        "validation_improvement": real(experiment.improvement),
        "generation": (
            f"prompt:{SIZES.prompt} prompt_ids:{format_integers(data.prompt_ids)} "
            f"ids:{format_integers(continuation.ids)} stop:{continuation.stop.value} "
            f"bytes_hex:{data.tokenizer.decode_content(continuation.ids).hex()}"
        ),
        "historical": (
            f"bigram_followers:{len(_followers(1)[(11,)])} "
            f"fixed_context_followers:{format_integers([len(_followers(2)[key]) for key, _ in TOY_EXAMPLES])} "
            f"neural_context_width:{sizes.concatenated}"
        ),
        "all_parameter_gradient_l1_positive_finite": _boolean(experiment.gradients_positive),
        "all_parameter_nodes_preserved": _boolean(outcome.parameters_preserved),
        "all_post_update_gradients_cleared": _boolean(outcome.gradients_cleared),
        "same_seed_replays_bitwise": _boolean(experiment.replays),
        "test_text_encoded_or_scored": _boolean(not experiment.test_text_unused),
        "next": "replace fixed concatenation with causal sequence mixing",
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def _followers(key_length: int) -> dict[tuple[int, ...], set[int]]:
    """Return which tokens follow each key of the last `key_length` tokens, in the toy examples."""
    followers: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for context, follower in TOY_EXAMPLES:
        followers[context[-key_length:]].add(follower)
    return followers


def _shaped(values: Array) -> str:
    return f"shape:{format_integers(values.shape)} values:{reals(values)}"


def _boolean(value: bool) -> str:
    return "true" if value else "false"
