"""The engine that cases are tried on. One that broke is started again: a later case is none of its business."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from cai_conformance.backends.protocol import Backend
from cai_conformance.backends.reference import ReferenceBackend
from cai_conformance.engines.backend import EngineBackend
from cai_conformance.engines.errors import EngineError
from cai_conformance.engines.protocol import Engine
from cai_conformance.engines.reference_engine import ReferenceEngine
from cai_conformance.faults import HeldFault, fault_named
from cai_conformance.killing.backend import WrongEngine
from cai_conformance.probing.errors import NotDriven
from cai_reference.arithmetic import named

FAULT: Final = "fault:"
"""What stands before the slug of a seeded fault, in the place of a backend."""
SLACK: Final = 4
"""How far windowed and recurrent layers of a wrong reference can be cut back."""


class Driver(Protocol):
    """Hands out an engine."""

    @property
    def engine(self) -> Engine:
        """An engine that can be asked.

        Raises:
            EngineError: it cannot be started.
        """
        ...

    def restart(self) -> None:
        """Let go of the engine; the next one is another."""
        ...


class MadeDriver:
    """Hands out engines that are made when one is needed.

    Args:
        make: makes one.
    """

    def __init__(self, make: Callable[[], Engine]) -> None:
        self._make = make
        self._made: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The engine, made at the first look."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def restart(self) -> None:
        """Let go of the engine."""
        made, self._made = self._made, None
        if made is not None:
            with suppress(EngineError):
                made.close()


class BackendDriver:
    """Hands out the engine of a backend.

    Args:
        backend: which opens it again after it was closed.
    """

    def __init__(self, backend: EngineBackend) -> None:
        self._backend = backend

    @property
    def engine(self) -> Engine:
        """The engine, opened at the first look.

        Raises:
            EngineError: it cannot be started.
        """
        return self._backend.engine

    def restart(self) -> None:
        """Let go of the engine."""
        with suppress(EngineError):
            self._backend.close()


def driver_of(backend: Backend, arithmetic: str | None = None) -> Driver:
    """Return what drives a backend.

    Args:
        backend: an engine's, or the reference.
        arithmetic: of the reference; `strict/1` if None.

    Raises:
        NotDriven: the backend prints traces.
        UnknownArithmetic: the arithmetic has another name.
    """
    if isinstance(backend, EngineBackend):
        return BackendDriver(backend)
    if isinstance(backend, ReferenceBackend):
        computing = named(arithmetic or "strict/1")
        return MadeDriver(lambda: ReferenceEngine(computing))
    raise NotDriven(backend.name)


def wrong_backend(slug: str, arithmetic: str | None = None) -> EngineBackend:
    """Return the reference with a seeded fault, as the backend of an engine.

    Raises:
        UnknownFault: there is none of this slug.
        UnknownArithmetic: the arithmetic has another name.
    """
    fault, computing = fault_named(slug), named(arithmetic or "strict/1")
    # Each engine has a fault of its own: what one remembers, another one has not seen.
    return EngineBackend(f"{FAULT}{slug}", lambda: WrongEngine(computing, SLACK, HeldFault(fault)))
