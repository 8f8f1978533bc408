"""From a specification on the command line to a backend.

| specification      | backend                                                        |
|--------------------|----------------------------------------------------------------|
| `reference`        | the NumPy reference                                            |
| `trace:FILE`       | a recorded trace                                               |
| `module:attribute` | a Python object, or a callable that returns one                |
| a name             | an entry point of the group `cai_conform.backends`             |
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from cai_conformance.backends.errors import BackendNotImportable, UnknownBackend, one_line
from cai_conformance.backends.protocol import Backend
from cai_conformance.backends.trace_file import TraceFileBackend

ENTRY_POINT_GROUP: Final = "cai_conform.backends"
SCHEMES: Final = ("reference", "trace:FILE", "module:attribute")


@dataclass(frozen=True)
class ListedBackend:
    """A backend by name: where it comes from, and why it cannot be used, if so."""

    name: str
    source: str
    problem: str = ""


def resolve(spec: str, *, isolated: bool = False) -> Backend:
    """Return the backend that a specification names; the reference runs in processes of its own if `isolated`.

    Raises:
        UnknownBackend: it names nothing.
        BackendNotImportable: a module or entry point cannot be loaded.
        TraceFileUnreadable: a trace file cannot be read.
    """
    if spec == "reference":
        from cai_conformance.backends.reference import ReferenceBackend

        return ReferenceBackend(isolated=isolated)
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.name == spec:
            return _loaded(spec, point)
    scheme, separator, rest = spec.partition(":")
    if separator and scheme == "trace":
        return TraceFileBackend.open(rest)
    if separator and rest and all(part.isidentifier() for part in scheme.split(".")):
        return _loaded(spec, EntryPoint(spec, spec, ENTRY_POINT_GROUP))
    raise UnknownBackend(spec, ", ".join([*SCHEMES, *_names()]))


def list_backends() -> Sequence[ListedBackend]:
    """Return the built-in backend and every entry point, the ones that fail to import with the reason."""
    listed = [ListedBackend("reference", "built in")]
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        try:
            _loaded(point.name, point)
        except BackendNotImportable as error:
            listed.append(ListedBackend(point.name, point.value, error.problem))
        else:
            listed.append(ListedBackend(point.name, point.value))
    return listed


def _names() -> list[str]:
    return sorted(point.name for point in entry_points(group=ENTRY_POINT_GROUP))


def _loaded(spec: str, point: EntryPoint) -> Backend:
    importlib.invalidate_caches()
    try:
        found = point.load()
        backend = found() if (callable(found) and not hasattr(found, "trace")) or isinstance(found, type) else found
        name = getattr(backend, "name", None)
    # Whatever a foreign module raises on import is the reason to report, and it must not end this program.
    except (Exception, SystemExit) as error:
        raise BackendNotImportable(spec, one_line(error)) from error
    if not isinstance(name, str):
        raise BackendNotImportable(spec, "it has no name, or one that is not a string")
    for method in ("trace", "replay"):
        if not callable(getattr(backend, method, None)):
            raise BackendNotImportable(spec, f"it has no method {method}")
    return cast("Backend", backend)
