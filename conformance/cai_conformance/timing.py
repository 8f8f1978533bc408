"""The clock that decode arms are timed by. Whoever times takes a clock as an argument, so that tests can bring one."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Final, TypeAlias

Clock: TypeAlias = Callable[[], float]
"""Seconds since some moment; only differences mean anything."""

WALL: Final[Clock] = perf_counter
"""The clock on the wall."""
