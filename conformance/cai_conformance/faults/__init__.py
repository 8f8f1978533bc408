"""Seeded faults: wrong implementations, made from the reference by patching it from outside for a while.

A suite is worth the faults that it kills, and a diagnosis the faults that it names. A fault says what is wrong, where
it acts, where it was seen, and on which workloads it is judged; `planted` makes the reference wrong for the length of a
`with`, bit for bit as before afterwards. One file a topic; the catalogue has them all.
"""

from __future__ import annotations

from cai_conformance.faults.catalogue import FAULTS, GUESSES, fault_named, faults_at
from cai_conformance.faults.fault import FORWARD, Fault, HeldFault, Place, planted_together
from cai_conformance.faults.patch import Patch
from cai_conformance.faults.workload import Way, Workload

__all__ = [
    "FAULTS",
    "FORWARD",
    "GUESSES",
    "Fault",
    "HeldFault",
    "Patch",
    "Place",
    "Way",
    "Workload",
    "fault_named",
    "faults_at",
    "planted_together",
]
