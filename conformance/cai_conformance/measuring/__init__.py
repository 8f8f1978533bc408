"""Measuring what rounding does to a backend, so that a tolerance is a measurement and not a choice."""

from __future__ import annotations

from cai_conformance.measuring.distances import RowDistance, distance_between
from cai_conformance.measuring.floor import NoiseFloor
from cai_conformance.measuring.policy import Policy, PolicyKind, parse_policy

__all__ = ["NoiseFloor", "Policy", "PolicyKind", "RowDistance", "distance_between", "parse_policy"]
