"""A workshop of hostile programs for every test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support_serving import Workshop, workshop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    """Programs of the test's own, none of which may be left afterwards."""
    with workshop(tmp_path) as found:
        yield found
