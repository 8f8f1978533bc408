"""How the packages are built: who imports whom, what the reference may compute with, and what every public thing has.

All of it is read from the source, so that a module nobody imports is looked at too.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import pkgutil
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from string import Formatter
from types import ModuleType
from typing import Final

import pytest

import cai_conform
import cai_conformance
import cai_course
import cai_neural_api
import cai_reference
from cai_conformance.errors import ConformanceError
from cai_conformance.trace.errors import TraceFault
from cai_reference.errors import CaiReferenceError, CodedError

PACKAGES: Final = {
    package.__name__: Path(package.__file__ or "").parent
    for package in (cai_reference, cai_conformance, cai_conform, cai_neural_api, cai_course)
}

MAY_IMPORT: Final = {
    "cai_reference": {"cai_reference"},
    "cai_conformance": {"cai_reference", "cai_conformance"},
    "cai_conform": {"cai_reference", "cai_conformance", "cai_conform"},
    "cai_neural_api": {"cai_reference", "cai_conformance", "cai_conform", "cai_neural_api"},
    "cai_course": {"cai_reference", "cai_conformance", "cai_conform", "cai_course"},
}

ROOMS: Final = ("arithmetic", "splitmix", "text", "autograd", "layers", "models", "training", "decoding", "checkpoints")
"""In the order in which data flows; a room imports itself and earlier ones."""

WINGS: Final = ("trace", "report", "fixtures", "backends", "faults", "checks", "suites", "diagnosis", "run")
"""Of the conformance package, in the order of imports: a wing imports itself, earlier ones and the ground."""

GROUND: Final = ("verdicts", "errors", "strict_json", "engine")
"""Modules below every wing; each imports earlier ones only."""

SHIMS: Final = ("engines", "pytest_plugin")
"""First names of what lives elsewhere, for adapters and entry points; nothing of ours imports them."""

REGISTRY: Final = "backends/registry.py"
"""Where imports of ours may hide inside functions: a backend is imported when somebody asks for it."""

COMMON: Final = {"errors", ""}
"""What every room of the reference may import, and what imports no room."""

MOST_SIBLINGS: Final = 15
"""How many names there are at the top of the conformance package."""

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
    "cai_conformance.backends.torch": ("torch",),
    "cai_conformance.backends.transformers": ("torch", "transformers"),
}
"""What is imported only where an extra is installed."""

MOST_FILES, MOST_LINES = 15, 2_000
"""Of the closure of imports of the Llama model."""

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
    """Published systems, the command line, the conformance package, the reference: each imports what comes after it."""

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
                other = parts[1] if len(parts) > 1 and parts[1] in {*ROOMS, "errors"} else ""
                if other in COMMON:
                    continue
                if room in COMMON or ROOMS.index(other) > ROOMS.index(room):
                    wrong.append((path, name))
        assert [] == wrong

    def test_every_room_has_its_place(self) -> None:
        """A new room is put into the order before it is used."""
        found = {path.partition("/")[0].removesuffix(".py") for path in sources("cai_reference")}
        assert set() == found - {*ROOMS, "__init__", "errors"}

    def test_wings_import_backwards_only(self) -> None:
        """Along the order in which a run uses them."""
        order = [*GROUND, *WINGS]
        wrong = []
        for path, tree in sources("cai_conformance").items():
            wing = path.partition("/")[0].removesuffix(".py")
            for name in imported(tree):
                package, _, rest = name.partition(".")
                other = rest.partition(".")[0]
                if package != "cai_conformance" or wing in SHIMS or not other:
                    continue
                if other not in order or order.index(other) > order.index(wing):
                    wrong.append((path, name))
        assert [] == wrong

    def test_every_wing_has_its_place(self) -> None:
        """A new one is put into the order before it is used, and there are few."""
        found = {path.partition("/")[0].removesuffix(".py") for path in sources("cai_conformance")}
        assert {*GROUND, *WINGS, *SHIMS, "__init__"} == found
        assert len(found) <= MOST_SIBLINGS + 1

    def test_no_import_of_ours_hides_in_a_function(self) -> None:
        """But where backends are found by name, and where the plugin finds out that it has work."""
        hidden = {
            path
            for path, tree in sources("cai_conformance").items()
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(function)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in imported(ast.Module([node], []))
            if name.split(".")[0] in PACKAGES
        }
        assert {REGISTRY, "run/pytest_plugin/__init__.py"} >= hidden

    def test_no_two_classes_share_a_name(self) -> None:
        """A reader who looks for a class finds one."""
        found: dict[str, list[str]] = {}
        for package in PACKAGES:
            for path, tree in sources(package).items():
                for node in ast.walk(tree):
                    if isinstance(node, ast.ClassDef):
                        found.setdefault(node.name, []).append(f"{package}/{path}")
        assert {} == {name: places for name, places in found.items() if len(places) > 1}

    def test_the_textbook_can_be_read_from_the_model(self) -> None:
        """What the Llama model imports, directly or not, fits into a few files; a package counts with its face."""
        pending, closure = ["models/llama.py"], set()
        modules = sources("cai_reference")
        while pending:
            path = pending.pop()
            if path in closure:
                continue
            closure.add(path)
            names = {name for name in imported(modules[path]) if name.startswith("cai_reference")}
            parts = [name.split(".")[1:] for name in names] + [path.removesuffix(".py").split("/")]
            for end in range(4):
                found = {"/".join(part[:end]) for part in parts if len(part) >= end}
                pending += [
                    other for name in found for other in (f"{name}.py", f"{name}/__init__.py") if other in modules
                ]
            pending.append("__init__.py")
        assert len(closure) <= MOST_FILES, sorted(closure)
        lines = sum(len((PACKAGES["cai_reference"] / path).read_text("utf-8").splitlines()) for path in closure)
        assert lines <= MOST_LINES

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
        assert {"cai_conformance/verdicts.py"} == readers

    def test_nothing_but_the_plugin_imports_pytest(self) -> None:
        """It is a library for tests: whoever judges by the command line need not have it."""
        importers = {
            f"{package}/{path}"
            for package in PACKAGES
            for path, tree in sources(package).items()
            for name in imported(tree)
            if name.split(".")[0] in {"pytest", "_pytest", "xdist", "pluggy"}
        }
        assert {"cai_conformance/run/pytest_plugin"} == {path.rpartition("/")[0] for path in importers}

    def test_no_folder_of_tests_passes_for_a_library_that_is_not_there(self) -> None:
        """Folders of tests are on the path, where Python takes one called `torch` for a package of that name."""
        tests = Path(__file__).parent
        project = tomllib.loads((tests.parent / "pyproject.toml").read_text("utf-8"))["project"]
        stated = [
            *project["dependencies"],
            *(one for some in project["optional-dependencies"].values() for one in some),
        ]
        libraries = {found.group() for one in stated if (found := re.match(r"[\w-]+", one))}
        assert {"numpy", "torch", "transformers"} <= libraries
        assert set() == libraries & {path.name for path in tests.rglob("*") if path.is_dir()}

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
            ("cai_conformance.suites", "SUITES Check Suite SuiteInput all_check_ids find_check find_suite find_suites"),
            (
                "cai_conformance.fixtures.goldens",
                "Candidate FileChange FileEntry FileReview Golden GoldenFinding GoldenStore LedgerEntry LineCounts "
                "Review State Status SuiteEntry check_change locate review",
            ),
        ],
    )
    def test_the_faces_of_the_packages_are_pinned(self, module: str, face: str) -> None:
        """What others import is changed on purpose."""
        assert sorted(face.split()) == sorted(importlib.import_module(module).__all__)

    def test_the_packages_are_typed(self) -> None:
        """All ship the marker."""
        assert all((folder / "py.typed").is_file() for folder in PACKAGES.values())


def subclasses(base: type[CodedError]) -> list[type[CodedError]]:
    """Return all classes below one, in the order of their names."""
    found = {below for child in base.__subclasses__() for below in (child, *subclasses(child))}
    return sorted(found, key=lambda error: f"{error.__module__}.{error.__qualname__}")


def kinds() -> dict[str, type[CodedError]]:
    """Return every kind of error of the product by its name."""
    for package in PACKAGES:
        list(modules(package))
    return {kind.__name__: kind for kind in subclasses(CodedError) if kind.__module__.startswith("cai_")}


def named_in(*templates: str) -> set[str]:
    """Return the names of the fields that templates have a place for."""
    return {name for template in templates for _, name, _, _ in Formatter().parse(template) if name}


def sites() -> Iterator[tuple[str, type[CodedError], ast.Call]]:
    """Yield every place of the product that makes an error by kind and code: where it stands, its kind and the call."""
    known = kinds()
    for package in PACKAGES:
        for name, tree in sources(package).items():
            for node in ast.walk(tree):
                kind = known.get(ast.unparse(node.func).split(".")[-1]) if isinstance(node, ast.Call) else None
                if isinstance(node, ast.Call) and kind is not None and code_of(node) and takes_a_code(kind):
                    yield f"{name}:{node.lineno}", kind, node


def takes_a_code(kind: type[CodedError]) -> bool:
    """Whether a kind is made by a code; one of a single variant has its fields as arguments."""
    return "code" in inspect.signature(kind).parameters


def code_of(call: ast.Call) -> str:
    """Return the text that a call has as its first argument, or an empty one."""
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


# What an error carries for its callers, without telling it.
UNSAID: Final = {"invalid-utf8": {"error_length"}}


class TestErrors:
    """Errors are data: a kind, a code, fields, one sentence, the next command."""

    def test_every_error_is_made_with_a_code_of_its_room_and_the_fields_of_its_text(self) -> None:
        """The table that the kind points to has the code; text and hint name what is given, no more and no less."""
        wrong = []
        for where, kind, call in sites():
            code = code_of(call)
            if any(keyword.arg is None for keyword in call.keywords):
                continue
            hint = kind.hints.get(code, "") if issubclass(kind, ConformanceError) else ""
            given = {str(keyword.arg) for keyword in call.keywords} - UNSAID.get(code, set())
            if code not in kind.templates or given != named_in(kind.templates[code], hint):
                wrong.append((where, kind.__name__, code))
        assert [] == wrong

    def test_every_code_is_raised_somewhere(self) -> None:
        """A row that no code names would be documentation of nothing."""
        named = {
            code_of(node)
            for package in PACKAGES
            for tree in sources(package).values()
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
        }
        assert set() == {code for kind in kinds().values() for code in kind.templates} - named

    def test_every_text_is_one_line(self) -> None:
        """Nor is any empty."""
        for kind in kinds().values():
            assert all(text and "\n" not in text for text in kind.templates.values()), kind

    def test_every_error_survives_pickling(self) -> None:
        """Kind, code, text, hint and exit code."""
        for kind in kinds().values():
            for code, template in kind.templates.items() if takes_a_code(kind) else ():
                place = (1, "RECORD", "field") if issubclass(kind, TraceFault) else ()
                hint = kind.hints.get(code, "") if issubclass(kind, ConformanceError) else ""
                error = kind(code, *place, **dict.fromkeys(named_in(template, hint), 7))
                copied = pickle.loads(pickle.dumps(error))
                assert (kind, code, error.fields, str(error)) == (type(copied), copied.code, copied.fields, str(copied))
                if isinstance(error, ConformanceError):
                    assert error.next_command == copied.next_command
                    assert error.exit_code == copied.exit_code

    def test_the_trees_are_apart(self) -> None:
        """The reference knows nothing of suites, and its errors none of theirs."""
        assert not issubclass(ConformanceError, CaiReferenceError)
        assert [] == [kind for kind in subclasses(CaiReferenceError) if kind.__module__.startswith("cai_conform")]
