"""The decode suites: the same checks over all phases, so that what differs is the phase.

The inputs of the decode suites, and the files of their goldens that are not the trace.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from cai_conformance.backends.engine.given_model import GivenModel
from cai_conformance.backends.reference.decoder_answers import GivenReference
from cai_conformance.backends.reference.story_training import course_epochs, prepare, train_models
from cai_conformance.checks import (
    decode_arms,
    decoder_recount,
    draft_counters,
    forward,
    run,
    sampling,
    trace,
    training_cases,
)
from cai_conformance.checks import run as run_witness
from cai_conformance.checks.check import Check
from cai_conformance.fixtures.decoder_cases import decoder_cases
from cai_conformance.fixtures.decoder_phases import DECODE_PHASES, sizes_for
from cai_conformance.fixtures.given_weights import write_given
from cai_conformance.fixtures.inputs import GoldenFiles, SuiteInput, exact_everywhere
from cai_conformance.fixtures.phases import DecodePhase
from cai_conformance.fixtures.stories.errors import StoryError
from cai_conformance.fixtures.vectors import write_vectors
from cai_conformance.suites.probe import engine_checks
from cai_conformance.suites.suite import Suite
from cai_conformance.trace.grammars.decoder import DECODER_GRAMMARS
from cai_reference.arithmetic.instances import STRICT

VERSION = "1.0.0"


def generated_input() -> SuiteInput:
    """Return the suite's own input: stories are generated from the seed in its plan."""
    return SuiteInput(b"", b"", "golden")


def foreign_stories(phase: DecodePhase, stories: bytes) -> SuiteInput:
    """Return an input of the user's stories.

    Raises:
        FixtureError, InputError: the suite cannot be run on them, so that no backend is blamed for what the user gave.
    """
    if not stories:
        # No bytes would mean the generated stories.
        raise StoryError("no-stories")
    sizes = sizes_for(phase, "foreign", 0)
    data = prepare(sizes, stories)
    if phase.selection is not None:
        course_epochs(phase.selection, sizes, data.train, data.validation)
    return SuiteInput(stories, b"", "foreign")


def record_files(phase: DecodePhase) -> GoldenFiles:
    """Train in `strict/1`; return the rounded weights, and the answers to all vector cases."""
    sizes = sizes_for(phase, "golden", 0)
    model = train_models(phase, sizes, prepare(sizes, b""), STRICT).model
    weights = write_given(phase, {each.name: exact_everywhere(each.value) for each in model.parameters})
    reference = GivenReference(GivenModel(phase, sizes, weights), STRICT)
    cases = tuple(replace(case, expected=reference.answer(case)) for case in decoder_cases(phase, sizes))
    beside = phase.model_files(sizes, model.configuration.vocabulary)
    return GoldenFiles(write_vectors(phase.suite, VERSION, cases), weights, beside)


TITLES: Final = {
    "cai.kv-cache": "KV cache",
    "cai.multi-token": "multi-token prediction as self-speculation",
    "cai.diagonal-ssm": "diagonal state-space recurrence",
    "cai.latent-attention": "multi-head latent attention",
    "cai.speculative": "speculation with a draft model and rollback",
    "cai.hybrid": "recurrence and latent attention in turn",
    "cai.grouped-hybrid": "the hybrid with grouped projections",
    "cai.local-global": "a local window, then global attention",
    "cai.parallel-block": "attention and feed-forward layer in parallel",
    "llama.dense": "the model of engines, untied",
    "llama.gqa-window": "the model of engines with shared keys, a window and a tied head",
    "course.decoder": "the model of the course",
}


CASE_CHECKS: Final = (
    forward.BATCH,
    forward.SESSION,
    forward.GENERATION,
    sampling.LOWER,
    forward.CAUSAL,
    forward.REACH,
    sampling.SEEDED,
    sampling.LAW,
    sampling.SUPPORT,
    sampling.EDGES,
    sampling.SPECULATION,
    training_cases.UPDATES,
)
"""The checks over vector cases; a suite has those of which it has cases."""


def _checks(phase: DecodePhase) -> tuple[Check, ...]:
    """Return the checks of one suite, in the order of judging."""
    block = sizes_for(phase, "golden", 0).block
    return (
        trace.judge_grammar,
        trace.judge_conventions,
        *_case_checks(phase),
        *engine_checks(phase),
        run.SIZES,
        run.LOSSES,
        run.golden_bits,
        decoder_recount.judge_decode_learning,
        *((run.judge_selection,) if phase.selection is not None else ()),
        run.STAGES,
        *_arm_checks(phase, block),
        draft_counters.judge_counters,
        *((draft_counters.judge_identical_drafts,) if phase.futures else ()),
        *((draft_counters.judge_self_draft,) if phase.self_draft else ()),
        run.DECODING,
        replace(run_witness.judge_witnesses, witnesses=run_witness.witnesses_of(block)),
        decoder_recount.judge_decode_consistency,
        trace.judge_replay,
    )


def _case_checks(phase: DecodePhase) -> tuple[Check, ...]:
    names: dict[str, list[str]] = {}
    for case in decoder_cases(phase, sizes_for(phase, "golden", 0)):
        names.setdefault(case.check, []).append(case.case)
    return tuple(check.of_cases(tuple(names[check.name])) for check in CASE_CHECKS if check.name in names)


def _arm_checks(phase: DecodePhase, block: int) -> tuple[Check, ...]:
    """Return the checks of what arms generate and hold; where there is a window, rows must have left it."""
    caches, evicted = decode_arms.judge_caches, (decode_arms.EVICTED,) if phase.has_window else ()

    def equal(check: Check) -> Check:
        return replace(check, witnesses=(*check.witnesses, *evicted))

    speculative: tuple[str, ...] = ("scripted",)
    speculative += ("mtp-full", "mtp-cached") if phase.futures else ()
    speculative += ("draft",) if phase.has_draft else ()
    speculative += ("self-draft",) if phase.self_draft else ()
    return (
        equal(decode_arms.CALLS),
        *((equal(decode_arms.LATENTS),) if phase.has_latent else ()),
        caches if phase.has_window else replace(caches, witnesses=(decode_arms.CACHES,)),
        equal(decode_arms.speculation_equal(speculative)),
        decode_arms.SMALL_BUDGETS,
        decode_arms.stops_in_blocks(block),
    )


def _suite(phase: DecodePhase) -> Suite:
    grammar = next(found for found in DECODER_GRAMMARS if found.suite == phase.suite)
    title = TITLES[phase.suite]
    return Suite(
        phase.suite,
        VERSION,
        f"decoder: {title}",
        f"A small decoder ({title}) is trained on generated stories, then decodes by every arm: re-encoding, "
        "streaming, chunked prefill, speculation with planned mistakes, and the arms of its own feature. All of them "
        "must generate the same tokens; in strict arithmetic, from the same bits.",
        "strict/1",
        grammar,
        _checks(phase),
        generated_input,
        lambda stories, _splits: foreign_stories(phase, stories),
        partial(decoder_cases, phase, sizes_for(phase, "golden", 0)),
        partial(record_files, phase),
        takes_stories=True,
        weights_file=phase.weights_layout.file,
    )


DECODE_SUITES: Final = tuple(map(_suite, DECODE_PHASES))
