"""How the packages are built: who imports whom, what the reference may compute with, and what every public thing has.

All of it is read from the source, so that a module nobody imports is looked at too.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

import cai_conform
import cai_conformance
import cai_reference
from cai_conformance.errors import ConformanceError, FixtureError
from cai_reference.errors import CaiReferenceError

PACKAGES: Final = {
    package.__name__: Path(package.__file__ or "").parent for package in (cai_reference, cai_conformance, cai_conform)
}

MAY_IMPORT: Final = {
    "cai_reference": {"cai_reference"},
    "cai_conformance": {"cai_reference", "cai_conformance"},
    "cai_conform": {"cai_reference", "cai_conformance", "cai_conform"},
}

ROOMS: Final = (
    "arithmetic",
    "splitmix",
    "text",
    "autograd",
    "layers",
    "models",
    "training",
    "decoding",
    "checkpoints",
    "nets",
    "legacy",
)
"""In the order in which data flows; a room imports itself and earlier ones."""

COMMON: Final = {"errors", "version", ""}
"""What every room of the reference may import, and what imports no room."""

STANDARD_LIBRARY: Final = {
    "__future__",
    "base64",
    "collections",
    "contextlib",
    "dataclasses",
    "enum",
    "functools",
    "hashlib",
    "importlib",
    "itertools",
    "json",
    "math",
    "platform",
    "re",
    "struct",
    "sys",
    "types",
    "typing",
}
"""What the reference may use: nothing that reads a clock, a file name, the environment or chance."""

ELEMENTARY: Final = {
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "logaddexp", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "arcsin", "arccos", "arctan", "power", "float_power", "pow", "cbrt", "hypot", "erf", "gamma",
}  # fmt: skip
"""Functions whose last bits differ between libraries."""

SUMMING: Final = {
    "sum", "mean", "average", "std", "var", "nansum", "dot", "vdot", "inner", "matmul",
    "tensordot", "einsum", "trace", "linalg", "fft", "convolve", "reduce", "reduceat", "fsum", "sumprod", "trapezoid",
}  # fmt: skip
"""Functions that add in an order of their own."""

EXTRAS: Final = {
    "cai_conformance.torch_engine": ("torch",),
    "cai_conformance.transformers_engine": ("torch", "transformers"),
}
"""What is imported only where an extra is installed."""

MAY_COMPUTE_FREELY: Final = {"arithmetic/fast.py", "arithmetic/libm.py"}


@cache
def sources(package: str) -> dict[str, ast.Module]:
    """Return the parsed source of every module of a package, by its path within it."""
    root = PACKAGES[package]
    return {
        path.relative_to(root).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(root.rglob("*.py"))
    }


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the full names that a module imports, wherever in it, and `.` for a relative import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield "."
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules(package: str) -> Iterator[ModuleType]:
    """Yield every module of a package, imported, but for those whose extra is not installed."""
    yield importlib.import_module(package)
    missing = tuple(room for room, needed in EXTRAS.items() if any(find_spec(name) is None for name in needed))
    for found in pkgutil.walk_packages([str(PACKAGES[package])], f"{package}."):
        if not found.name.startswith(missing):
            yield importlib.import_module(found.name)


def public(package: str) -> Iterator[tuple[str, object]]:
    """Yield every public class and function that a package defines, and the public methods of its classes."""
    for module in modules(package):
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", "") != module.__name__:
                continue
            # A function that another one made is described where it is made.
            if inspect.isclass(value) or (inspect.isfunction(value) and "<locals>" not in value.__qualname__):
                yield f"{module.__name__}.{name}", value
            if inspect.isclass(value):
                for inner, method in vars(value).items():
                    if not inner.startswith("_") and (inspect.isfunction(method) or isinstance(method, property)):
                        yield f"{module.__name__}.{name}.{inner}", method


class TestImports:
    """Tools import the conformance package, which imports the reference, which imports nothing of ours."""

    @pytest.mark.parametrize("package", PACKAGES)
    def test_packages_import_in_one_direction(self, package: str) -> None:
        """And by their full names only."""
        ours = [
            (path, name)
            for path, tree in sources(package).items()
            for name in imported(tree)
            if name == "." or (name.split(".")[0] in PACKAGES and name.split(".")[0] not in MAY_IMPORT[package])
        ]
        assert [] == ours

    def test_rooms_of_the_reference_import_backwards_only(self) -> None:
        """Along the order in which data flows."""
        wrong = []
        for path, tree in sources("cai_reference").items():
            room = path.partition("/")[0].removesuffix(".py").replace("__init__", "")
            for name in imported(tree):
                parts = name.split(".")
                if parts[0] != "cai_reference":
                    continue
                other = parts[1] if len(parts) > 1 and parts[1] in {*ROOMS, "errors", "version"} else ""
                if other in COMMON:
                    continue
                if room in COMMON or ROOMS.index(other) > ROOMS.index(room):
                    wrong.append((path, name))
        assert [] == wrong

    def test_every_room_has_its_place(self) -> None:
        """A new room is put into the order before it is used."""
        found = {path.partition("/")[0].removesuffix(".py") for path in sources("cai_reference")}
        assert set() == found - {*ROOMS, "__init__", "errors", "version"}

    def test_the_reference_imports_numpy_and_what_is_deterministic(self) -> None:
        """No SciPy, no clock, no chance, no environment."""
        allowed = STANDARD_LIBRARY | {"numpy", "safetensors", "cai_reference"}
        wrong = {
            (path, name)
            for path, tree in sources("cai_reference").items()
            for name in imported(tree)
            if name.split(".")[0] not in allowed or name.startswith("numpy.random")
        }
        assert set() == wrong

    def test_nothing_reads_a_clock_but_the_module_that_hands_it_out(self) -> None:
        """The runner times checks by it, and decode arms are handed it; nothing else may depend on time or chance."""
        readers = {
            f"{package}/{path}"
            for package in PACKAGES
            for path, tree in sources(package).items()
            for name in imported(tree)
            if name.split(".")[0] in {"time", "datetime", "random", "secrets", "uuid"}
        }
        assert {"cai_conformance/timing.py"} == readers

    def test_nothing_but_the_plugin_imports_pytest(self) -> None:
        """It is a library for tests: whoever judges by the command line need not have it."""
        importers = {
            f"{package}/{path}"
            for package in PACKAGES
            for path, tree in sources(package).items()
            for name in imported(tree)
            if name.split(".")[0] in {"pytest", "_pytest", "xdist", "pluggy"}
        }
        assert {"cai_conformance/pytest_plugin"} == {path.rpartition("/")[0] for path in importers}

    def test_the_command_line_imports_numbers_late(self) -> None:
        """At the top of its modules, only Typer, the standard library and itself."""
        wrong = set()
        for path, tree in sources("cai_conform").items():
            top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
            wrong |= {(path, name) for name in imported(top) if name.split(".")[0] in {"rich", "numpy", *PACKAGES}}
        assert set() == {(path, name) for path, name in wrong if not name.startswith("cai_conform.")}


class TestArithmetic:
    """The reference computes with its arithmetic object: no library decides an order of sums or a last bit."""

    def test_no_product_operator(self) -> None:
        """`@` is BLAS."""
        wrong = [
            path
            for path, tree in sources("cai_reference").items()
            for node in ast.walk(tree)
            if isinstance(node, ast.MatMult) and path not in MAY_COMPUTE_FREELY
        ]
        assert [] == wrong

    def test_no_elementary_function_or_sum_of_a_library(self) -> None:
        """Neither of NumPy nor of `math`."""
        wrong = [
            (path, node.lineno, f"{node.value.id}.{node.attr}")
            for path, tree in sources("cai_reference").items()
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in {"np", "numpy", "math"}
            and node.attr in ELEMENTARY | SUMMING | {"random"}
            and path not in MAY_COMPUTE_FREELY
        ]
        assert [] == wrong

    def test_no_summing_method_of_an_array(self) -> None:
        """`x.sum()` adds pairwise; `arithmetic.sum(x)` adds in order."""
        wrong = [
            (path, node.lineno, ast.unparse(node.func))
            for path, tree in sources("cai_reference").items()
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"sum", "mean", "std", "var", "dot"}
            and not ast.unparse(node.func.value).lower().endswith(("arithmetic", "strict", "libm"))
            and path not in MAY_COMPUTE_FREELY
        ]
        assert [] == wrong

    def test_no_power_of_what_is_computed(self) -> None:
        """`pow` differs between C libraries; constants are folded exactly."""
        wrong = [
            (path, node.lineno, ast.unparse(node))
            for path, tree in sources("cai_reference").items()
            for node in ast.walk(tree)
            if isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Pow)
            and any(isinstance(inner, ast.Name | ast.Attribute | ast.Call) for inner in ast.walk(node))
        ]
        assert [] == wrong


class TestPublicThings:
    """Documentation and faces."""

    @pytest.mark.parametrize("package", PACKAGES)
    def test_everything_public_says_what_it_is(self, package: str) -> None:
        """Modules, classes, functions, methods and properties."""
        assert [] == [module.__name__ for module in modules(package) if not (module.__doc__ or "").strip()]
        assert [] == [name for name, value in public(package) if not (inspect.getdoc(value) or "").strip()]

    @pytest.mark.parametrize("package", PACKAGES)
    def test_a_face_names_what_there_is_in_order(self, package: str) -> None:
        """Every `__all__` is sorted, complete and resolvable."""
        for module in modules(package):
            face = getattr(module, "__all__", None)
            if face is None:
                continue
            assert sorted(face) == sorted(set(face)), module.__name__
            assert [] == [name for name in face if not hasattr(module, name)]

    @pytest.mark.parametrize(
        ("module", "face"),
        [
            ("cai_reference", "CaiReferenceError __version__"),
            ("cai_conformance.backends", "Backend TraceRequest"),
            (
                "cai_conformance.suites",
                "SUITES Check Suite SuiteInput all_check_ids find_check find_suite find_suites",
            ),
            (
                "cai_conformance.goldens",
                "Candidate FileChange FileEntry FileReview Finding Golden GoldenStore LedgerEntry LineCounts Review "
                "State Status SuiteEntry locate review",
            ),
            (
                "cai_conformance.reports",
                "Format default_format render_jsonlines render_junit render_markdown render_table report_schema",
            ),
        ],
    )
    def test_the_faces_of_the_packages_are_pinned(self, module: str, face: str) -> None:
        """What others import is changed on purpose."""
        assert sorted(face.split()) == sorted(importlib.import_module(module).__all__)

    def test_the_packages_are_typed(self) -> None:
        """The libraries ship the marker."""
        assert all((PACKAGES[name] / "py.typed").is_file() for name in ("cai_reference", "cai_conformance"))


def subclasses(base: type[Exception]) -> list[type[Exception]]:
    """Return all classes below one, in the order of their names."""
    found = {below for child in base.__subclasses__() for below in (child, *subclasses(child))}
    return sorted(found, key=lambda error: f"{error.__module__}.{error.__qualname__}")


def example(kind: type[Exception]) -> Exception:
    """Return an error with a value in every field that its constructor takes."""
    assert is_dataclass(kind)
    values = ["value" if field.type in ("str", str) else 7 for field in fields(kind)]
    return kind(*values)


class TestErrors:
    """Errors are data: fields, one sentence, the next command; they cross a process border unharmed."""

    @pytest.fixture
    def kinds(self) -> list[type[Exception]]:
        """Every error class of the conformance package that somebody raises."""
        for package in ("cai_conformance", "cai_conform"):
            list(modules(package))
        ours = [kind for kind in subclasses(ConformanceError) if kind.__module__.startswith("cai_conformance")]
        return [kind for kind in ours if not kind.__subclasses__() and kind is not FixtureError] + [FixtureError]

    def test_every_error_is_one_sentence_with_its_values(self, kinds: list[type[Exception]]) -> None:
        """The template names only fields, and a line break is no part of it."""
        for kind in kinds:
            text = str(example(kind))
            assert text, kind
            assert "\n" not in text

    def test_every_error_survives_pickling(self, kinds: list[type[Exception]]) -> None:
        """Class, text, hint and exit code."""
        for kind in kinds:
            error = example(kind)
            copied = pickle.loads(pickle.dumps(error))
            assert isinstance(error, ConformanceError)
            assert (type(error), str(error), error.next_command) == (type(copied), str(copied), copied.next_command)
            assert error.exit_code in (1, 2)

    def test_every_error_is_raised_somewhere(self, kinds: list[type[Exception]]) -> None:
        """A class that no code constructs would be documentation of nothing."""
        constructed = {
            name
            for package in PACKAGES
            for tree in sources(package).values()
            for node in ast.walk(tree)
            if isinstance(node, ast.Call | ast.Raise)
            for name in (
                (ast.unparse(node.func).split(".")[-1],)
                if isinstance(node, ast.Call)
                else (ast.unparse(node.exc).split(".")[-1],)
                if node.exc is not None
                else ()
            )
        }
        assert [] == [kind.__name__ for kind in kinds if kind.__name__ not in constructed]

    def test_the_trees_are_apart(self) -> None:
        """The reference knows nothing of suites, and its errors none of theirs."""
        assert not issubclass(ConformanceError, CaiReferenceError)
        assert [] == [kind for kind in subclasses(CaiReferenceError) if kind.__module__.startswith("cai_conform")]
