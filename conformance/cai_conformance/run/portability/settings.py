"""The settings under which goldens are recorded anew, as environment variables and a number of BLAS threads.

What a process really computes with: the versions, and what a setting made of them.
"""

from __future__ import annotations

import hashlib
import math
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from cai_conformance import strict_json
from cai_reference import __version__

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
class MachineSetting:
    """A named set of environment variables, and how many threads BLAS may use."""

    name: str
    variables: Mapping[str, str]
    threads: int = 1

    @property
    def of_blas(self) -> bool:
        """Whether it changes BLAS alone."""
        return "OPENBLAS_CORETYPE" in self.variables


NO_SETTING: Final = MachineSetting("no setting", {})
"""One thread, and otherwise what the libraries choose by themselves."""


def settings_table() -> tuple[MachineSetting, ...]:
    """Return every setting: five kernels with one and two threads, two SIMD levels, and a C library without FMA."""
    kernels = [
        MachineSetting(
            f"kernel {kernel}, {threads} thread{'' if threads == 1 else 's'}",
            {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": str(threads)},
            threads,
        )
        for kernel in KERNELS
        for threads in (1, 2)
    ]
    return (
        *kernels,
        MachineSetting("NumPy without AVX-512", {"NPY_DISABLE_CPU_FEATURES": AVX512}),
        MachineSetting("NumPy without AVX2 and AVX-512", {"NPY_DISABLE_CPU_FEATURES": f"{AVX2} {AVX512}"}),
        MachineSetting("C library without AVX2 and FMA", {"GLIBC_TUNABLES": WITHOUT_FMA}),
    )


@dataclass(frozen=True)
class Facts:
    """Nothing of it names a processor or a place on the machine; all of it is text, so that it prints as it is.

    Attributes:
        project: the version of this project.
        platform: the operating system and the machine's architecture.
        numpy: the version of NumPy.
        blas: the BLAS library and its version.
        kernel: the kernel of it that runs, by its own word.
        threads: how many threads it uses.
        simd: the instruction sets that NumPy dispatches to.
        c_library: the C library and its version.
        functions: a digest of what its elementary functions return.
    """

    project: str
    platform: str
    numpy: str
    blas: str
    kernel: str
    threads: str
    simd: str
    c_library: str
    functions: str

    @property
    def texts(self) -> dict[str, str]:
        """Every attribute by its name."""
        return {field.name: str(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def of(cls, value: object, where: str) -> Facts:
        """Read what `texts` gave.

        Raises:
            ValueError: it is something else.
        """
        page = strict_json.obj(value, (field.name for field in fields(cls)), where)
        return cls(**{name: strict_json.text(text, f"{name} of {where}") for name, text in page.items()})


def gather(threads: int) -> Facts:
    """Return the facts of this process, whose BLAS is limited to so many threads.

    A product is computed first, so that a kernel that this processor cannot run ends the process here.
    """
    with threadpool_limits(threads):
        square = np.arange(64.0 * 64.0).reshape(64, 64) @ np.eye(64)
        assert square[0, 1] == 1.0
        pools: list[Mapping[str, object]] = threadpool_info()
    blas = next((pool for pool in pools if pool.get("user_api") == "blas"), {})
    library, version = platform.libc_ver()
    found = np.show_config(mode="dicts")["SIMD Extensions"]
    return Facts(
        project=__version__,
        platform=f"{platform.system()} {platform.machine()}",
        numpy=np.__version__,
        blas=f"{blas.get('internal_api', 'unknown')} {blas.get('version', 'unknown')}",
        kernel=str(blas.get("architecture", "unknown")),
        threads=str(blas.get("num_threads", "unknown")),
        simd=", ".join([*found.get("baseline", []), *found.get("found", [])]),
        c_library=f"{library} {version}".strip() or "unknown",
        functions=_functions(),
    )


def _functions() -> str:
    """Return a digest of the C library's elementary functions at places enough to tell its variants apart."""
    digest = hashlib.sha256()
    upper = [number / 733 for number in range(1, 20001)]
    for function in (math.log, math.log1p):
        digest.update(struct.pack(f"<{len(upper)}d", *map(function, upper)))
    for function in (math.exp, math.tanh, math.sin, math.cos):
        for places in (upper, [-place for place in upper]):
            digest.update(struct.pack(f"<{len(places)}d", *map(function, places)))
    return digest.hexdigest()[:16]
