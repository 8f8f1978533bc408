"""The settings under which goldens are recorded anew, as environment variables and a number of BLAS threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

KERNELS: Final = ("Prescott", "Nehalem", "Sandybridge", "Haswell", "SkylakeX")

AVX512: Final = "X86_V4 AVX512F AVX512CD AVX512_KNL AVX512_KNM AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"
"""Its names in every NumPy: single features in the older ones, levels in the newer ones; unknown names are ignored."""

AVX2: Final = "X86_V3 AVX2 FMA3"

WITHOUT_FMA: Final = "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"

VARIABLES: Final = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
    "GLIBC_TUNABLES",
)
"""What every setting leaves unset unless it sets it, so that the caller's own environment plays no part."""


@dataclass(frozen=True)
class Setting:
    """A named set of environment variables, and how many threads BLAS may use."""

    name: str
    variables: Mapping[str, str]
    threads: int = 1

    @property
    def of_blas(self) -> bool:
        """Whether it changes BLAS alone."""
        return "OPENBLAS_CORETYPE" in self.variables


NO_SETTING: Final = Setting("no setting", {})
"""One thread, and otherwise what the libraries choose by themselves."""


def settings_table() -> tuple[Setting, ...]:
    """Return every setting: five kernels with one and two threads, two SIMD levels, and a C library without FMA."""
    kernels = [
        Setting(
            f"kernel {kernel}, {threads} thread{'' if threads == 1 else 's'}",
            {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": str(threads)},
            threads,
        )
        for kernel in KERNELS
        for threads in (1, 2)
    ]
    return (
        *kernels,
        Setting("NumPy without AVX-512", {"NPY_DISABLE_CPU_FEATURES": AVX512}),
        Setting("NumPy without AVX2 and AVX-512", {"NPY_DISABLE_CPU_FEATURES": f"{AVX2} {AVX512}"}),
        Setting("C library without AVX2 and FMA", {"GLIBC_TUNABLES": WITHOUT_FMA}),
    )
