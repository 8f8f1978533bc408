"""Seeded faults: wrong implementations, made from the reference by patching it from outside for a while.

A suite is worth the faults that it kills, and a diagnosis the faults that it names. A fault says what is wrong, where
it acts and where it was seen; `planted` makes the reference wrong for the length of a `with`, bit for bit as before
afterwards. One file a family; the catalogue has them all.
"""

from __future__ import annotations

from cai_conformance.faults.catalogue import FAULTS, fault_named, faults_at
from cai_conformance.faults.fault import FORWARD, Fault, HeldFault, Place, planted_together
from cai_conformance.faults.planting import Planting
from cai_conformance.faults.vehicle import Vehicle, Way

__all__ = [
    "FAULTS",
    "FORWARD",
    "Fault",
    "HeldFault",
    "Place",
    "Planting",
    "Vehicle",
    "Way",
    "fault_named",
    "faults_at",
    "planted_together",
]
