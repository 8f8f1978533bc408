"""The inputs of the neural n-gram suite, and the files of its golden that are not the trace."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files

import numpy as np
from safetensors.numpy import save

from cai_conformance.backends.ngram.edges import Setting, answer
from cai_conformance.backends.ngram.experiment import prepare, train_once
from cai_conformance.judges.ngram.facts import CORPUS_CHECKSUM
from cai_conformance.suites.ngram.cases import ngram_cases
from cai_conformance.suites.rounding import exact_everywhere
from cai_conformance.suites.suite import GoldenFiles, SuiteInput
from cai_conformance.vectors import write_vectors
from cai_reference.arithmetic import STRICT
from cai_reference.models.neural_ngram import PARAMETER_NAMES
from cai_reference.text import corpus_checksum

SUITE = "course.ngram"
VERSION = "1.1.0"


def embedded_input() -> SuiteInput:
    """Return the corpus that ships with the suite."""
    data = files("cai_conformance.data")
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
    setting = Setting(STRICT, weights)
    cases = tuple(replace(case, expected=answer(case, setting)) for case in ngram_cases())
    return GoldenFiles(write_vectors(SUITE, VERSION, cases), weights)
