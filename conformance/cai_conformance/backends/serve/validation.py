"""Messages and answers held against their JSON Schemas: a second opinion on what the hand-written reading accepts."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any, Final

from cai_conformance.backends.serve.errors import ProtocolViolation
from cai_conformance.backends.serve.lines import Object
from cai_conformance.errors import BackendError

SCHEMAS: Final = ("common", "message", "answer")
"""The files of the folder `schemas`."""

_BASE: Final = "urn:cai-conform:serve:1:"


def schema(name: str) -> dict[str, Any]:
    """Return one of `SCHEMAS`."""
    text = (files("cai_conformance.backends.serve") / "schemas" / f"{name}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


class Validator:
    """Holds objects against the schemas; slow to make, quick to ask."""

    def __init__(self) -> None:
        """Read the schemas.

        Raises:
            BackendError (validator-missing): the library that understands them is not installed.
        """
        try:
            import jsonschema
            import referencing
        except ImportError as error:
            raise BackendError("validator-missing", library=error.name or "jsonschema") from None
        read = {name: schema(name) for name in SCHEMAS}
        registry: Any = referencing.Registry().with_resources(
            [(found["$id"], referencing.Resource.from_contents(found)) for found in read.values()]
        )
        self._parts = {
            (name, part): jsonschema.Draft202012Validator({"$ref": f"{_BASE}{name}#/$defs/{part}"}, registry=registry)
            for name in ("message", "answer")
            for part in read[name]["$defs"]
        }

    def check_message(self, message: Object) -> None:
        """Hold a message against the schema of what it asks.

        Raises:
            ProtocolViolation: it does not fit.
        """
        self._check("message", message.get("do"), message)

    def check_answer(self, do: str, answer: Object) -> None:
        """Hold an answer against the schema of what was asked.

        Raises:
            ProtocolViolation: it does not fit.
        """
        self._check("answer", do, answer)

    def knows(self, do: object) -> bool:
        """Tell whether there is such a message."""
        return ("message", do) in self._parts

    def _check(self, kind: str, do: object, value: Object) -> None:
        validator = self._parts.get((kind, str(do)))
        if validator is None:
            raise ProtocolViolation(f"the {kind}", f"is of no known kind: {do!r}")
        error = next(iter(sorted(validator.iter_errors(value), key=lambda found: list(map(str, found.path)))), None)
        if error is not None:
            place = "/".join(map(str, error.absolute_path)) or "the whole"
            problem = error.message if len(error.message) <= 200 else f"{error.message[:199]}…"
            raise ProtocolViolation(
                f"the {kind} {do}" if kind == "message" else f"the answer to {do}",
                f"breaks its schema at {place}: {problem}",
            )
