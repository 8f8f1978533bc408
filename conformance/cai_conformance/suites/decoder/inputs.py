"""The inputs of the decode suites, and the files of their goldens that are not the trace."""

from __future__ import annotations

from dataclasses import replace

from cai_conformance.backends.decoder.course_training import course_epochs
from cai_conformance.backends.decoder.edges import answer
from cai_conformance.backends.decoder.given import write_given
from cai_conformance.backends.decoder.phases import DecodePhase
from cai_conformance.backends.decoder.plan import sizes_for
from cai_conformance.backends.decoder.setting import DecoderSetting
from cai_conformance.backends.decoder.training import prepare, train_models
from cai_conformance.stories.errors import NoStories
from cai_conformance.suites.decoder.cases import decoder_cases
from cai_conformance.suites.rounding import exact_everywhere
from cai_conformance.suites.suite import GoldenFiles, SuiteInput
from cai_conformance.vectors import write_vectors
from cai_reference.arithmetic import STRICT

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
        raise NoStories
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
    setting = DecoderSetting(phase, sizes, STRICT, weights)
    cases = tuple(replace(case, expected=answer(case, setting)) for case in decoder_cases(phase, sizes))
    beside = phase.model_files(sizes, model.configuration.vocabulary)
    return GoldenFiles(write_vectors(phase.suite, VERSION, cases), weights, beside)
