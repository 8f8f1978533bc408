"""Goldens: finding them, reading them verified, reviewing and accepting changes, safe against crashes and rivals."""

from __future__ import annotations

from cai_conformance.goldens.locate import locate
from cai_conformance.goldens.records import Candidate, FileChange, FileEntry, Golden, LedgerEntry, SuiteEntry
from cai_conformance.goldens.review import FileReview, LineCounts, Review, review
from cai_conformance.goldens.status import Finding, State, Status
from cai_conformance.goldens.store import GoldenStore

__all__ = [
    "Candidate",
    "FileChange",
    "FileEntry",
    "FileReview",
    "Finding",
    "Golden",
    "GoldenStore",
    "LedgerEntry",
    "LineCounts",
    "Review",
    "State",
    "Status",
    "SuiteEntry",
    "locate",
    "review",
]
