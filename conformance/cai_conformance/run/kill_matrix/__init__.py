"""The proof that the suites can fail: every seeded fault as a backend, and which checks see it.

A fault is killed if a check that is expected to fail fails. A crash is no kill, nor is a check that nobody expected:
the first says nothing about the judge, the second nothing about why.
"""

from __future__ import annotations

from cai_conformance.run.kill_matrix.observation import Observation, observe
from cai_conformance.run.kill_matrix.results import FaultResult, KillMatrix, Standing
from cai_conformance.run.kill_matrix.workers import run_faults

__all__ = ["FaultResult", "KillMatrix", "Observation", "Standing", "observe", "run_faults"]
