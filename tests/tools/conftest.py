"""Backends for the tests of the command line: stored answers, right and wrong, importable as `stored`."""

from __future__ import annotations

import sys
import types

import pytest

from support_traces import StoredBackend, conforming, edges_bytes, golden_bytes, sealed, with_field


@pytest.fixture(autouse=True)
def stored(without_ci: None, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The module, each attribute a function that makes a backend."""
    module = types.ModuleType("stored")
    nan = "7ff8000000000000"
    wrong_loss = with_field("LOSS|step=8|", "train", "5.000000")
    makers = {
        "good": conforming,
        "raising": lambda: conforming(golden=ValueError("no such layer")),
        "leaving": lambda: conforming(golden=SystemExit(0)),
        "garbage": lambda: conforming(golden=b"\x00\xffgarbage"),
        "half": lambda: conforming(golden=golden_bytes()[: len(golden_bytes()) // 2]),
        "other_suite": lambda: conforming(golden=with_field("TRACE", "suite", "course.other")),
        "other_profile": lambda: conforming(golden=edges_bytes()),
        "nan_bits": lambda: conforming(golden=with_field("BITS|step=3|", "batch_loss", nan)),
        "other_convention": lambda: conforming(golden=with_field("CONVENTION", "argmax", "highest id")),
        "wrong_loss": lambda: conforming(golden=wrong_loss, second=wrong_loss),
        "restless": lambda: conforming(second=sealed(golden_bytes().replace(b"ids=[1", b"ids=[2"))),
        "textual": lambda: StoredBackend({"golden": golden_bytes()}, {"golden": golden_bytes()}),
        "printing": lambda: _Printing(conforming().answers, conforming().second),
    }
    for name, make in makers.items():
        setattr(module, name, make)
    monkeypatch.setitem(sys.modules, "stored", module)
    return module


class _Printing(StoredBackend):
    """A backend that talks."""

    def trace(self, request: object) -> bytes:
        print("loading weights")
        return super().trace(request)  # type: ignore[arg-type]  # passed through
