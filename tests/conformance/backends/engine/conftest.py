"""Tests of engines read each model folder once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support_engines import folders_read_once


@pytest.fixture(scope="module", autouse=True)
def quick_folders() -> Iterator[None]:
    """Read each folder once in a file of tests."""
    with folders_read_once():
        yield
