"""Checks that kill no seeded fault, and why they stay: exactly these, which a test holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

IDLE: Final[Mapping[str, str]] = {
    "kv.poison": "asked of engines whose unowned memory can be filled, which the reference is not",
    "kv.fail": "asked of engines that can be made to fail within a call, which the reference is not",
    "published.text": "judged only on the published corpus, which does not come with the suites",
    "published.bits": "judged only on the published corpus, with the C library that its digests were measured on",
}
"""By name."""
