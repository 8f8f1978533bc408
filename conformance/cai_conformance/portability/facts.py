"""What a process really computes with: the versions, and what a setting made of them."""

from __future__ import annotations

import hashlib
import math
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from cai_conformance.goldens import strict_json
from cai_reference import __version__


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
