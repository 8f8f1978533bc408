"""Goldens under other settings: BLAS kernels, thread counts, SIMD levels, C library variants.

The bytes must not change. Settings are environment variables, so each suite is recorded anew in a process of its own
for each of them. A setting that this machine does not know (another processor, another C library) has no effect, and
proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from cai_conformance.backends.reference import ReferenceBackend
from cai_conformance.goldens import GoldenStore
from cai_conformance.questions import Options, question_for
from cai_conformance.suites.suite import Suite

KERNELS: Final = ("Prescott", "Nehalem", "Sandybridge", "Haswell", "SkylakeX")
WITHOUT_AVX512: Final = "X86_V4 AVX512_ICL AVX512_SPR"
WITHOUT_AVX2: Final = "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"
WITHOUT_FMA: Final = "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"


@dataclass(frozen=True)
class Setting:
    """A named set of environment variables."""

    name: str
    variables: Mapping[str, str]


@dataclass(frozen=True)
class PortabilityResult:
    """Whether one suite gave the golden's bytes under one setting."""

    suite: str
    setting: str
    same: bool


def settings_table() -> tuple[Setting, ...]:
    """Return every setting: five kernels with one and two threads, two SIMD levels, and a C library without FMA."""
    kernels = [
        Setting(
            f"kernel {kernel}, {threads} thread{'' if threads == 1 else 's'}",
            {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": str(threads)},
        )
        for kernel in KERNELS
        for threads in (1, 2)
    ]
    return (
        *kernels,
        Setting("NumPy without AVX-512", {"NPY_DISABLE_CPU_FEATURES": WITHOUT_AVX512}),
        Setting("NumPy without AVX2 and AVX-512", {"NPY_DISABLE_CPU_FEATURES": WITHOUT_AVX2}),
        Setting("C library without AVX2 and FMA", {"GLIBC_TUNABLES": WITHOUT_FMA}),
    )


def check_portability(suites: Sequence[Suite], store: GoldenStore, jobs: int) -> Iterator[PortabilityResult]:
    """Record every suite under every setting, several at once, and yield the results suite by suite.

    Raises:
        GoldenError: a golden is missing or damaged.
        BackendCrashed: a process failed.
    """
    backend = ReferenceBackend()
    with ThreadPoolExecutor(max_workers=jobs) as executor:
        for suite in suites:
            request, golden = question_for(suite, store, Options()).request, store.read(suite.identifier).trace
            table = settings_table()
            found = executor.map(backend.trace_under, [request] * len(table), [setting.variables for setting in table])
            for setting, data in zip(table, found, strict=True):
                yield PortabilityResult(suite.identifier, setting.name, data == golden)
