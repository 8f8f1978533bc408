"""How the reference is changed from outside and put back: the one helper of all faults.

The reference has no hooks. A function is replaced under every name by which a module of the project holds it, because
`from x import f` copies the reference to it; a method is replaced in the class that defines it. What is put back is the
very object that was there, also in modules that were imported in between.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Final, TypeVar

PACKAGES: Final = ("cai_reference", "cai_conformance", "cai_conform")

Function = TypeVar("Function", bound=Callable[..., object])


class Planting:
    """One planting: what was replaced, and how to undo it."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def function(self, right: Function, wrong: Function) -> None:
        """Put `wrong` in the place of a function of the reference, wherever a module looks it up."""
        self._undo.append(lambda: _exchange(wrong, right))
        _exchange(right, wrong)

    def name(self, module: ModuleType, name: str, wrong: Callable[..., object]) -> None:
        """Put `wrong` in the place of what one module calls `name`; what other modules call so stays."""
        right = getattr(module, name)
        self._undo.append(lambda: setattr(module, name, right))
        setattr(module, name, wrong)

    def method(self, owner: type, name: str, wrong: Callable[..., object]) -> None:
        """Put `wrong` in the place of a method, class method or property that `owner` itself defines.

        Of a class method `wrong` takes the class first, of a property the object.
        """
        right = vars(owner)[name]
        kind = type(right) if isinstance(right, classmethod | staticmethod | property) else None
        self._undo.append(lambda: setattr(owner, name, right))
        setattr(owner, name, wrong if kind is None else kind(wrong))

    def restore(self) -> None:
        """Put everything back, newest first."""
        while self._undo:
            self._undo.pop()()


def forget_what_was_computed() -> None:
    """Empty the reference's caches, whose values may come from functions that were replaced since."""
    for module in _modules("cai_reference"):
        for value in list(vars(module).values()):
            clear = getattr(value, "cache_clear", None)
            if callable(clear):
                clear()


def _exchange(present: object, wanted: object) -> None:
    for module in _modules(*PACKAGES):
        names = vars(module)
        for name in [name for name, value in names.items() if value is present]:
            setattr(module, name, wanted)


def _modules(*packages: str) -> Iterator[ModuleType]:
    prefixes = tuple(f"{package}." for package in packages)
    for name, module in list(sys.modules.items()):
        if name in packages or name.startswith(prefixes):
            yield module
