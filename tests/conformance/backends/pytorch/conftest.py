"""PyTorch as an engine, where it is installed, and the suites' folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support_foreign_engines import NO_TORCH, write_folder

if TYPE_CHECKING:
    from cai_conformance.backends.torch.engine import TorchEngine


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Write the folder of a suite once."""
    return cache(lambda suite: write_folder(tmp_path_factory.mktemp(suite), suite))


@pytest.fixture
def engine() -> Iterator[TorchEngine]:
    """An engine in double precision."""
    pytest.importorskip("torch", reason=NO_TORCH)
    from cai_conformance.backends.torch.engine import TorchEngine

    made = TorchEngine()
    yield made
    made.close()
