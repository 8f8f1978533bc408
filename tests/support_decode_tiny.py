"""Decode experiments small enough to run in a test: a narrow model, few merges, two steps, short prompts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Final

import pytest

from cai_conformance.backends.reference import decoder_run as experiment
from cai_conformance.backends.reference.arms import Bench
from cai_conformance.backends.reference.decoder_run import DecodeExperiment
from cai_conformance.backends.reference.story_training import Trained, prepare, train_models
from cai_conformance.fixtures.decoder_phases import Phase, phase_of
from cai_conformance.fixtures.sizes import GOLDEN_SIZES, Sizes
from cai_reference.arithmetic.instances import STRICT, named

TINY: Final = replace(
    GOLDEN_SIZES,
    merges=6,
    merge_stories=4,
    context=15,
    width=12,
    heads=2,
    feed_forward=8,
    window=5,
    latent=3,
    rope=2,
    channels_per_group=4,
    draft_width=6,
    draft_hidden=8,
    stories=20,
    evaluation_stories=4,
    batch=2,
    steps=2,
    prompts=2,
    prompt_tokens=8,
    new_tokens=7,
    block=2,
    slack=2,
    chunk=3,
)


def tiny_sizes(_phase: Phase, _profile: str, _examples: int) -> Sizes:
    """Stand in for `sizes_for`."""
    return TINY


def tiny(suite: str, arithmetic: str = "strict/1") -> DecodeExperiment:
    """Run the experiment of a suite at the tiny size, once a process."""
    return _run(suite, arithmetic)


@cache
def _run(suite: str, arithmetic: str) -> DecodeExperiment:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "sizes_for", tiny_sizes)
        return experiment.run_decode_experiment(suite, "golden", 0, b"", named(arithmetic))


@cache
def trained(suite: str) -> Trained:
    """Train the models of a suite at the tiny size, once a process."""
    return train_models(phase_of(suite), TINY, prepare(TINY, b""), STRICT)


def bench_of(suite: str) -> Bench:
    """Return the bench of a tiny experiment."""
    models = trained(suite)
    return Bench(phase_of(suite), TINY, models.model, models.draft, STRICT)
