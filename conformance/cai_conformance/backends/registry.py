"""From a specification on the command line to a backend.

| specification           | backend                                                                        |
|-------------------------|--------------------------------------------------------------------------------|
| `reference`             | the NumPy reference                                                            |
| `torch[:FORMAT]`        | PyTorch, in float64 or another format                                          |
| `transformers[:FORMAT]` | the transformers library                                                       |
| `exec:COMMAND`          | a program that prints traces                                                   |
| `serve:COMMAND`         | a program that speaks the serve protocol                                       |
| `trace:FILE`            | a recorded trace                                                               |
| `module:attribute`      | a backend or an engine as a Python object, or a callable that returns one      |
| a name                  | an entry point of the group `cai_conform.backends`, to the same kinds of thing |
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from cai_conformance.backends.errors import one_line
from cai_conformance.backends.protocol import Backend
from cai_conformance.backends.trace_file import TraceFileBackend
from cai_conformance.engine import PRECISIONS, Engine
from cai_conformance.errors import BackendError

ENTRY_POINT_GROUP: Final = "cai_conform.backends"
SCHEMES: Final = (
    "reference",
    "torch[:FORMAT]",
    "transformers[:FORMAT]",
    "exec:COMMAND",
    "serve:COMMAND",
    "trace:FILE",
    "module:attribute",
)
LIBRARIES: Final = {
    "torch": ("cai_conformance.backends.torch", "TorchEngine"),
    "transformers": ("cai_conformance.backends.transformers", "TransformersEngine"),
}
"""Libraries that have an engine here, its module and its class, which takes a format and a device."""


@dataclass(frozen=True)
class ListedBackend:
    """A backend by name: where it comes from, and why it cannot be used, if so."""

    name: str
    source: str
    problem: str = ""


@dataclass(frozen=True)
class Programs:
    """How programs are asked: seconds for each answer (their usual deadlines if None), and whether JSON Schemas judge.

    Schemas apply to the serve protocol.
    """

    seconds: float | None = None
    validate: bool = False


USUAL: Final = Programs()


def resolve(spec: str, *, isolated: bool = False, programs: Programs = USUAL) -> Backend:
    """Return the backend that a specification names.

    Args:
        spec: see the table above.
        isolated: whether the reference runs in processes of its own.
        programs: how programs are asked.

    Raises:
        BackendError (unknown-backend): it names nothing.
        BackendError (backend-not-importable): a module or entry point cannot be loaded.
        BackendError (trace-file-unreadable): a trace file cannot be read.
    """
    if spec == "reference":
        from cai_conformance.backends.reference.backend import ReferenceBackend

        return ReferenceBackend(isolated=isolated)
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.name == spec:
            return _loaded(spec, point)
    scheme, separator, rest = spec.partition(":")
    if scheme in LIBRARIES and (rest or not separator):
        return _of_library(spec, scheme, rest)
    if separator and scheme in ("exec", "serve"):
        return _of_program(spec, scheme, rest, programs)
    if separator and scheme == "trace":
        return TraceFileBackend.open(rest)
    if separator and rest and all(part.isidentifier() for part in scheme.split(".")):
        return _loaded(spec, EntryPoint(spec, spec, ENTRY_POINT_GROUP))
    raise BackendError("unknown-backend", spec=spec, known=", ".join([*SCHEMES, *_names()]))


def list_backends() -> Sequence[ListedBackend]:
    """Return the built-in backend and every entry point, the ones that fail to import with the reason."""
    listed = [ListedBackend("reference", "built in")]
    for library in LIBRARIES:
        there = importlib.util.find_spec(library) is not None
        problem = "" if there else f"not installed; pip install 'cai-conform[{library}]'"
        listed.append(ListedBackend(library, "built in", problem))
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        try:
            _loaded(point.name, point)
        except BackendError as error:
            if error.code != "backend-not-importable":
                raise
            listed.append(ListedBackend(point.name, point.value, str(error.fields["problem"])))
        else:
            listed.append(ListedBackend(point.name, point.value))
    return listed


def _of_library(spec: str, library: str, wish: str) -> Backend:
    """Return the engine of an installed library; `wish` is a format and a device, such as `float32` or `float32:cuda`.

    The library is imported when the engine is first asked, but that it can be found is looked at now.
    """
    from cai_conformance.backends.engine.backend import EngineBackend
    from cai_conformance.backends.engine.guard import Starting

    if importlib.util.find_spec(library) is None:
        problem = f"{library} is not installed; pip install 'cai-conform[{library}]'"
        raise BackendError("backend-not-importable", spec=spec, problem=problem)
    precision, _, device = wish.partition(":")
    if precision not in ("", *PRECISIONS):
        raise BackendError("unknown-backend", spec=spec, known=", ".join(f"{library}:{name}" for name in PRECISIONS))

    def opened() -> Engine:
        module, name = LIBRARIES[library]
        wishes = [precision or PRECISIONS[0], *([device] if device else [])]
        return cast("Engine", getattr(importlib.import_module(module), name)(*wishes))

    return EngineBackend(spec, Starting(spec, None, opened))


def open_engine(spec: str, arithmetic: str) -> Engine:
    """Return an engine by name: `reference` in an arithmetic, a library's, or `module:attribute`.

    Raises:
        ArithmeticFault (unknown-arithmetic): the arithmetic has another name.
        BackendError (unknown-backend, backend-not-importable, engine-not-importable): the specification names no
            engine.
    """
    from cai_conformance.backends.engine.backend import EngineBackend
    from cai_conformance.backends.reference.engine import ReferenceEngine
    from cai_conformance.backends.serve.__main__ import engine_of
    from cai_reference.arithmetic.instances import named

    library, separator, wish = spec.partition(":")
    if spec == "reference":
        return ReferenceEngine(named(arithmetic))
    if library in LIBRARIES and (wish or not separator):
        backend = _of_library(spec, library, wish)
        assert isinstance(backend, EngineBackend)
        return backend.engine
    return engine_of(spec)


def _of_program(spec: str, scheme: str, command: str, programs: Programs) -> Backend:
    if not command.strip():
        raise BackendError("unknown-backend", spec=spec, known=f"{scheme}:COMMAND")
    if scheme == "exec":
        from cai_conformance.backends.exec import ExecBackend

        seconds = programs.seconds
        backend: Backend = ExecBackend(command) if seconds is None else ExecBackend(command, seconds=seconds)
        return backend
    from cai_conformance.backends.engine.backend import EngineBackend
    from cai_conformance.backends.serve.channel import Deadlines
    from cai_conformance.backends.serve.client import ServeEngine

    deadlines = Deadlines() if programs.seconds is None else Deadlines(programs.seconds, programs.seconds)
    return EngineBackend(spec, lambda: ServeEngine(command, deadlines=deadlines, validate=programs.validate, name=spec))


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
        raise BackendError("backend-not-importable", spec=spec, problem=one_line(error)) from error
    if callable(getattr(backend, "evaluate", None)) and not callable(getattr(backend, "trace", None)):
        from cai_conformance.backends.engine.backend import EngineBackend
        from cai_conformance.backends.engine.guard import Starting

        engine, made = cast("Engine", backend), backend is not found
        opened = Starting(spec, engine, cast("Callable[[], Engine]", found) if made else None)
        return EngineBackend(spec, opened, again=made)
    if not isinstance(name, str):
        raise BackendError("backend-not-importable", spec=spec, problem="it has no name, or one that is not a string")
    for method in ("trace", "replay"):
        if not callable(getattr(backend, method, None)):
            raise BackendError("backend-not-importable", spec=spec, problem=f"it has no method {method}")
    return cast("Backend", backend)
