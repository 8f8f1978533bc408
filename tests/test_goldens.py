"""The goldens: recording anew gives them, whatever the machine may do to floating point, and their folder agrees."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.record import propose
from cai_conformance.suites import SUITES, Suite
from cai_conformance.trace.grammars import grammar_of
from cai_conformance.trace.parse import parse
from support_cli import program
from support_traces import golden_bytes

SETTINGS = (
    {"OPENBLAS_CORETYPE": "Prescott", "PYTHONHASHSEED": "7", "LC_ALL": "C", "TZ": "Asia/Tokyo"},
    {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"},
    {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"},
    {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"},
)


SAMPLE = ("course.ngram",)
"""What every test run records anew; `cai-conform run` judges all suites, and CI records them all."""


@pytest.mark.parametrize(
    "suite",
    [
        pytest.param(suite, id=suite.identifier, marks=() if suite.identifier in SAMPLE else pytest.mark.exhaustive)
        for suite in SUITES
    ],
)
def test_recording_gives_the_golden(suite: Suite, golden: SnapshotAssertion) -> None:
    """Trace, vectors, weights, versions and command; `--snapshot-update` accepts what differs."""
    assert golden(name=suite.identifier) == propose(suite)


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.identifier)
class TestEverySuite:
    """What holds for the golden of each suite."""

    def test_the_golden_says_what_it_is(self, suite: Suite) -> None:
        """The manifest and the trace agree on records, version and arithmetic."""
        golden = GoldenStore(locate()).read(suite.identifier)
        trace = parse(golden.trace, grammar_of)
        entry, envelope = golden.entry, trace.envelope
        assert len(trace.inner) == entry.records
        assert (suite.version, suite.arithmetic) == (entry.suite_version, entry.arithmetic)
        assert (suite.identifier, suite.version, suite.arithmetic) == (
            envelope.suite,
            envelope.suite_version,
            envelope.arithmetic,
        )
        assert f"cai-conform trace {suite.identifier}" == entry.command

    def test_every_change_has_a_reason(self, suite: Suite) -> None:
        """The ledger tells the history of each suite."""
        history = GoldenStore(locate()).history(suite.identifier)
        assert history
        assert all(entry.reason.strip() for entry in history)


def test_the_folder_agrees_with_manifest_and_ledger() -> None:
    """Nothing modified, missing or unlisted."""
    assert [] == [finding for status in GoldenStore(locate()).status() for finding in status.findings]


def test_every_suite_has_a_golden_and_every_golden_a_suite() -> None:
    """Neither forgotten nor left behind."""
    assert sorted(suite.identifier for suite in SUITES) == sorted(GoldenStore(locate()).suites())


@pytest.mark.parametrize(
    "variables",
    [pytest.param(variables, id=" ".join(variables), marks=pytest.mark.exhaustive) for variables in SETTINGS],
)
def test_the_golden_of_the_ngram_has_the_same_bytes_everywhere(variables: dict[str, str]) -> None:
    """BLAS kernels, threads, SIMD, the C library's variants, hash order, language and time zone change nothing."""
    done = program("trace", "course.ngram", variables=variables)
    assert (0, b"") == (done.returncode, done.stderr)
    assert golden_bytes() == done.stdout
