"""Goldens under other settings: every setting is tried, and other bytes are told."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.backends.reference import ReferenceBackend
from cai_conformance.goldens import GoldenStore, locate
from cai_conformance.portability import settings_table
from cai_conformance.questions import Options, question_for
from cai_conformance.suites import find_suites
from support_cli import invoke
from support_traces import golden_bytes


def test_the_table_has_what_the_suites_promise() -> None:
    """Five kernels, one and two threads each, two SIMD levels, and a C library that hides FMA."""
    table = settings_table()
    assert 13 == len(table)
    assert len(table) == len({setting.name for setting in table})
    kernels = {setting.variables.get("OPENBLAS_CORETYPE") for setting in table} - {None}
    assert {"Prescott", "Nehalem", "Sandybridge", "Haswell", "SkylakeX"} == kernels


@pytest.mark.exhaustive
def test_settings_reach_the_process_and_the_bytes_stay() -> None:
    """One setting, for real: the golden of the n-gram."""
    suite, store = find_suites(["ngram"])[0], GoldenStore(locate())
    request = question_for(suite, store, Options()).request
    assert golden_bytes() == ReferenceBackend().trace_under(request, {"NPY_DISABLE_CPU_FEATURES": "X86_V4"})


@pytest.mark.parametrize(("changed", "exit_code"), [((), 0), (("Prescott",), 1)])
def test_other_bytes_are_told_with_their_setting(
    monkeypatch: pytest.MonkeyPatch, changed: tuple[str, ...], exit_code: int
) -> None:
    """One line a suite and setting; exit code 1 where the bytes changed."""

    def answer(_: ReferenceBackend, request: TraceRequest, settings: Mapping[str, str]) -> bytes:
        return golden_bytes() + (b"?" if settings.get("OPENBLAS_CORETYPE") in changed else b"")

    monkeypatch.setattr(ReferenceBackend, "trace_under", answer)
    done = invoke("golden", "settings", "ngram")
    lines = done.out.splitlines()
    assert exit_code == done.code
    assert len(settings_table()) == len(lines)
    assert 2 * len(changed) == sum(line.endswith("OTHER BYTES") for line in lines)
