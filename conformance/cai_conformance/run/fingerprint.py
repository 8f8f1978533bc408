"""A fingerprint of this machine and installation: what bits may depend on, and whether the self-tests pass here."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from threadpoolctl import threadpool_info

from cai_conformance.backends.protocol import PROTOCOL_VERSION
from cai_conformance.errors import GoldenError
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.run.portability.processes import TableDamaged
from cai_conformance.run.portability.table import overview, shipped
from cai_conformance.suites.registry import SUITES
from cai_conformance.trace.records import GRAMMAR
from cai_reference import __version__
from cai_reference.arithmetic.selftest import c_library_selftest, run_selftest

SETTINGS = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "NPY_DISABLE_CPU_FEATURES",
    "GLIBC_TUNABLES",
    "PYTHONHASHSEED",
)


@dataclass(frozen=True)
class Fingerprint:
    """Named values in the order of printing; `sound` is false where a self-test or a golden is wrong."""

    values: Mapping[str, str]
    sound: bool


def fingerprint() -> Fingerprint:
    """Gather versions, libraries, settings and the results of the self-tests."""
    values = {
        "cai-conform": __version__,
        "grammar": GRAMMAR,
        "protocol": PROTOCOL_VERSION,
        "suites": ", ".join(f"{suite.identifier} {suite.version}" for suite in SUITES),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}",
        "processors": str(os.cpu_count() or 1),
    }
    values |= {name: _installed(name) for name in ("numpy", "scipy", "safetensors")}
    values |= dict(_blas())
    values["simd"] = _simd()
    values |= {name: os.environ[name] for name in SETTINGS if name in os.environ}
    strict = run_selftest()
    faults = [result.name for result in strict if not result.passed]
    cases = sum(result.cases for result in strict)
    values["strict/1"] = f"{cases} vectors pass" if not faults else f"FAULTY: {', '.join(faults)}"
    library = c_library_selftest()
    if library.passed:
        values["libm/1"] = f"{library.library}: the published bits"
    else:
        values["libm/1"] = f"{library.library}: other bits than published for {', '.join(library.differing)}"
    golden, agrees = _goldens()
    values["goldens"] = golden
    portable, readable = _portability()
    values |= portable
    return Fingerprint(values, sound=not faults and agrees and readable)


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _blas() -> Iterator[tuple[str, str]]:
    pools = [pool for pool in threadpool_info() if pool.get("user_api") == "blas"]
    for place, pool in enumerate(pools):
        name = "blas" if place == 0 else f"blas {place + 1}"
        kernel = pool.get("architecture", "unknown kernel")
        yield name, f"{pool['internal_api']} {pool['version']}, {kernel}, {pool['num_threads']} threads"


def _simd() -> str:
    """Return the instruction sets that NumPy dispatches to here."""
    found = np.show_config(mode="dicts")["SIMD Extensions"]
    return ", ".join([*found.get("baseline", []), *found.get("found", [])])


def _portability() -> tuple[Mapping[str, str], bool]:
    """Return what is known of other settings, and whether it could be read; a table of other goldens can."""
    try:
        store = GoldenStore(locate())
        table = shipped(store)
        return (dict(overview(table, store)) if table is not None else {"portability": "no table"}), True
    except TableDamaged as error:
        return {"portability": str(error)}, False
    except GoldenError:
        # What is wrong with the goldens themselves is told already.
        return {}, False


def _goldens() -> tuple[str, bool]:
    try:
        store = GoldenStore(locate())
        wrong = [f"{entry.suite} {entry.label}" for entry in store.status() if not entry.agrees]
        missing = sorted({suite.identifier for suite in SUITES} - set(store.suites()))
    except GoldenError as error:
        return str(error), False
    if wrong or missing:
        return f"{store.root}: wrong or missing: {', '.join([*wrong, *missing])}", False
    return f"{store.root}: {len(store.suites())} agree", True
