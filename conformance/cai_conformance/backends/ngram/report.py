"""The learner report of the neural n-gram: the published `name=value` lines, from a finished experiment.

It holds two numbers that no trace holds: how many followers the token 11 has when only the last token is the key, and
under each two-token key, in the toy examples (10, 11) → 12 and (20, 11) → 13 (course, chapter 23).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from cai_conformance.backends.ngram.experiment import SIZES, Experiment
from cai_conformance.backends.ngram.records import PREVIEW, real, reals
from cai_conformance.trace.formatting import format_integers
from cai_reference.arithmetic import Array

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
