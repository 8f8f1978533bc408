"""Concluding what a judge that drives an engine says: it tells what it met, and fails if that shows nothing."""

from __future__ import annotations

from collections.abc import Sequence

from cai_conformance.judges.engines.comparing import RowComparison
from cai_conformance.judges.finding import Finding
from cai_conformance.judges.witness import Met, told, unmet


def concluded(comparison: RowComparison, met: Sequence[Met], case: str = "") -> Finding:
    """Return what a comparison found, unless it met nothing of what it needed: that is a failure of its own."""
    missing = unmet(met)
    if missing and comparison.holds:
        return Finding.failed(f"this shows nothing, for it met {missing}; {told(met)}", case=case)
    return comparison.finding(told(met), case).having_met(*met)
