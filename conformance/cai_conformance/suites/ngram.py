"""The suite `course.ngram`: every check, from the grammar of the trace to the bits of the last training step.

The inputs of the neural n-gram suite, and the files of its golden that are not the trace.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from typing import Final

import numpy as np
from safetensors.numpy import save

from cai_conformance.backends.reference.ngram_answers import NgramSetting, answer
from cai_conformance.backends.reference.ngram_run import prepare, train_once
from cai_conformance.checks import (
    forward,
    initial_values,
    ngram_recount,
    published,
    run,
    sampling,
    tokenizer,
    trace,
    training_cases,
)
from cai_conformance.checks.check import Check
from cai_conformance.fixtures.inputs import GoldenFiles, SuiteInput, exact_everywhere
from cai_conformance.fixtures.ngram_cases import ngram_cases
from cai_conformance.fixtures.published import CORPUS_CHECKSUM
from cai_conformance.fixtures.vectors import write_vectors
from cai_conformance.suites.suite import Suite
from cai_conformance.trace.grammars.course_ngram import COURSE_NGRAM
from cai_reference.arithmetic.instances import STRICT
from cai_reference.models.neural_ngram import PARAMETER_NAMES
from cai_reference.text.corpus import corpus_checksum

SUITE = "course.ngram"
VERSION = "1.1.0"


def embedded_input() -> SuiteInput:
    """Return the corpus that ships with the suite."""
    data = files("cai_conformance.fixtures.data")
    return SuiteInput((data / "corpus.json").read_bytes(), (data / "splits.json").read_bytes(), "golden")


def foreign_input(corpus: bytes, splits: bytes) -> SuiteInput:
    """Return an input of any corpus; its checksum tells the embedded and the published one from all others.

    Raises:
        FixtureError: the suite cannot be run on it, so that no backend is blamed for what the user gave.
    """
    own = embedded_input()
    if (corpus, splits) == (own.corpus, own.splits):
        return own
    prepare(corpus, splits)
    published = corpus_checksum(corpus) == CORPUS_CHECKSUM
    return SuiteInput(corpus, splits, "published" if published else "foreign")


def record_files() -> GoldenFiles:
    """Train on the embedded corpus in `strict/1`; return the rounded weights, and the answers to all vector cases."""
    own = embedded_input()
    trained = train_once(prepare(own.corpus, own.splits), STRICT).final_parameters
    weights = save(
        {
            name: exact_everywhere(values).astype(np.float32)
            for name, values in zip(PARAMETER_NAMES, trained, strict=True)
        }
    )
    setting = NgramSetting(STRICT, weights)
    cases = tuple(replace(case, expected=answer(case, setting)) for case in ngram_cases())
    return GoldenFiles(write_vectors(SUITE, VERSION, cases), weights)


def _of_cases(*checks: Check) -> tuple[Check, ...]:
    return tuple(
        each.of_cases(tuple(case.case for case in ngram_cases() if case.check == each.name)) for each in checks
    )


CHECKS: Final = (
    replace(
        trace.judge_grammar,
        explanation=f"{trace.judge_grammar.explanation} Nothing else can be judged before this holds.",
    ),
    replace(
        trace.judge_conventions,
        explanation="Two implementations that follow different conventions differ in every number. The CONVENTION "
        "record says which are followed; a difference there is reported in words, and no number is compared.",
    ),
    *_of_cases(
        tokenizer.FIT,
        tokenizer.ENCODING,
        tokenizer.DECODING,
        tokenizer.SPECIAL,
        tokenizer.STREAM,
        forward.ELEMENTARY,
        forward.NGRAM,
        sampling.LOWEST,
        sampling.MASKING,
        training_cases.DATA_WINDOWS,
        training_cases.DATA_ORDER,
    ),
    replace(
        run.SIZES,
        explanation="How many documents, windows and batches there are, and with which hyperparameters the model is "
        "trained.",
    ),
    *_of_cases(training_cases.INITIAL),
    initial_values.judge_initial_statistics,
    run.golden_stages,
    *_of_cases(
        training_cases.LOSS,
        training_cases.LOSS_SHIFT,
        training_cases.EVALUATION,
        training_cases.GRADIENTS,
        training_cases.ADAMW,
    ),
    ngram_recount.judge_consistency,
    ngram_recount.judge_learning,
    run.NGRAM_RESULTS,
    replace(
        run.golden_bits,
        summary="parameters, moments and losses after every step have the golden's bits",
        requires=("trace.convention", "data.split"),
    ),
    replace(
        trace.judge_replay,
        explanation="Another process, hash seed and thread count. A difference means that something else than the "
        "seeds decides.",
    ),
    published.judge_published_text,
    published.judge_published_bits,
)

COURSE_NGRAM_SUITE: Final = Suite(
    SUITE,
    VERSION,
    "neural n-gram: tokenizer, split, training, greedy continuation",
    "A neural n-gram language model on a small bilingual corpus: byte-pair merges learned on the training documents, a "
    "held-out split, a SwiGLU network of 3384 parameters, fifteen AdamW steps, a greedy continuation. Its printed "
    "trace is the published format of a course; vector cases ask for what that trace cannot show.",
    "strict/1",
    COURSE_NGRAM,
    CHECKS,
    embedded_input,
    foreign_input,
    ngram_cases,
    record_files,
)
