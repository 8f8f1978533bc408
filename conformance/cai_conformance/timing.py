"""The one clock of the package: checks and decode arms are timed by it, and nothing else depends on time."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Final, TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Seconds since some moment; only differences mean anything."""

WALL: Final[Clock] = perf_counter
"""The clock on the wall."""
