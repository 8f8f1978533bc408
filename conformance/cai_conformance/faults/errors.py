"""What can go wrong with seeded faults.

::

    ConformanceError
    └── FaultError
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from cai_conformance.errors import ConformanceError

FAULTS_TEMPLATES: Final[Mapping[str, str]] = {
    # A fault was to be planted on top of another one without `nested`.
    "fault-already-planted": "{slug} cannot be planted: {planted} is",
    # The process that was to judge a fault failed, or ended.
    "fault-not-judged": "{slug} could not be judged in {vehicle}: {problem}",
    # No fault has this slug.
    "unknown-fault": "there is no fault {slug!r}",
}


class FaultError(ConformanceError):
    """A seeded fault cannot be used as asked."""

    templates = FAULTS_TEMPLATES
