"""Goldens under other settings: BLAS kernels, threads, SIMD levels, C library variants and NumPy versions.

In `strict/1` the bytes must not change. How far records move in the other arithmetics is told by a table that is
shipped beside the goldens. Settings are environment variables, so each recording is made in a process of its own, which
says what it really computed with: a setting without effect, or one that a machine cannot run, proves nothing.
"""

from __future__ import annotations

from cai_conformance.run.portability.matrix import PortabilityResult, check_portability, record_tables
from cai_conformance.run.portability.settings import NO_SETTING, MachineSetting, settings_table
from cai_conformance.run.portability.table import PortabilityTable, shipped

__all__ = [
    "NO_SETTING",
    "MachineSetting",
    "PortabilityResult",
    "PortabilityTable",
    "check_portability",
    "record_tables",
    "settings_table",
    "shipped",
]
