"""A wrong backend: the reference with a fault, which is in place while it answers and at no other time.

Judges compute with the reference, too. So whatever they compute between two answers is right.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from cai_conformance.backends.engine.given_model import GivenModel, OpenedModel
from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.backends.reference.backend import ReferenceBackend
from cai_conformance.backends.reference.engine import ReferenceEngine
from cai_conformance.faults.fault import HeldFault
from cai_reference.arithmetic import Arithmetic
from cai_reference.arithmetic.instances import named


class WrongEngine(ReferenceEngine):
    """The reference as an engine, with a fault in place during each call.

    Args:
        arithmetic: in which it computes.
        slack: how many tokens windowed and recurrent layers can always be cut back.
        held: the fault; None for none.
    """

    def __init__(self, arithmetic: Arithmetic, slack: int, held: HeldFault | None) -> None:
        self._held = held
        super().__init__(arithmetic, slack)

    def __getattribute__(self, name: str) -> Any:
        """Return a public method that plants while it is called; anything else as it is."""
        found = super().__getattribute__(name)
        return found if name.startswith("_") or not callable(found) else partial(self._called, name)

    def _called(self, name: str, *arguments: object, **named_arguments: object) -> object:
        with _active(self._held):
            # Looked up again, for the fault may be in the engine's own method.
            method: Callable[..., object] = super().__getattribute__(name)
            return method(*arguments, **named_arguments)


class WrongBackend:
    """The reference as a backend, with a fault; or without one, to be judged in the same way.

    It prints traces also where the reference is asked directly, so that faults of a printed trace can be seen.

    Args:
        held: the fault; None for none.
    """

    name = "reference"

    def __init__(self, held: HeldFault | None) -> None:
        self._held = held
        self._right = ReferenceBackend()

    def trace(self, request: TraceRequest) -> bytes:
        """Answer as the reference would with the fault.

        Raises:
            NotOffered, FixtureError, CaiReferenceError: as the reference does.
        """
        with _active(self._held):
            return self._right.trace(request)

    def replay(self, request: TraceRequest) -> bytes:
        """Answer again, in the same process: a fresh one would be right.

        Raises:
            NotOffered, FixtureError, CaiReferenceError: as `trace`.
        """
        return self.trace(request)

    def opened(self, request: TraceRequest) -> OpenedModel | None:
        """Return the wrong engine with the model of a request; None where the suite gives no model."""
        given = GivenModel.of(request)
        if given is None:
            return None
        return OpenedModel(WrongEngine(named(request.arithmetic), given.sizes.slack, self._held), given)


def _active(held: HeldFault | None) -> AbstractContextManager[None]:
    return nullcontext() if held is None else held.active()
