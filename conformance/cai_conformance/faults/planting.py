"""How the reference is changed from outside and put back: the one helper of all faults.

The reference has no hooks. A function is replaced under every name by which a module of the project holds it, because
`from x import f` copies the reference to it; a method is replaced in the class that defines it. What is put back is the
very object that was there, also in modules that were imported in between.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Final, TypeAlias, TypeVar

PACKAGES: Final = ("cai_reference", "cai_conformance", "cai_conform")
_CACHED: Final = type(lru_cache(len))
"""What a cached function is."""

Function = TypeVar("Function", bound=Callable[..., object])
Holders: TypeAlias = list[tuple[ModuleType, str]]
"""The names under which modules hold one object."""


class Planting:
    """One planting: what is replaced, how to undo it for a while, and how to do it again."""

    def __init__(self) -> None:
        self._changes: list[_Change] = []
        self._in_place = 0

    def function(self, right: Function, wrong: Function) -> None:
        """Put `wrong` in the place of a function of the reference, wherever a module looks it up."""
        present: list[tuple[Holders, int]] = []

        def apply() -> None:
            known = _index()
            holders = known.holders_of(right)
            known.stand_ins[id(wrong)] = holders
            present.append((holders, len(sys.modules)))
            _bind(holders, right, wrong)

        def undo() -> None:
            holders, modules = present.pop()
            _bind(holders, wrong, right)
            _index().stand_ins.pop(id(wrong), None)
            if len(sys.modules) != modules:
                _bind(_search(wrong), wrong, right)

        self._make(apply, undo)

    def name(self, module: ModuleType, name: str, wrong: object) -> None:
        """Put `wrong` in the place of what one module calls `name`; what other modules call so stays."""
        right = getattr(module, name)
        self._make(lambda: setattr(module, name, wrong), lambda: setattr(module, name, right))

    def method(self, owner: type, name: str, wrong: Callable[..., object]) -> None:
        """Put `wrong` in the place of a method, class method or property that `owner` itself defines.

        Of a class method `wrong` takes the class first, of a property the object.
        """
        right = vars(owner)[name]
        kind = type(right) if isinstance(right, classmethod | staticmethod | property) else None
        stand_in = wrong if kind is None else kind(wrong)
        self._make(lambda: setattr(owner, name, stand_in), lambda: setattr(owner, name, right))

    def suspend(self) -> None:
        """Put everything back, newest first."""
        while self._in_place:
            self._in_place -= 1
            self._changes[self._in_place].undo()

    def resume(self) -> None:
        """Replace everything again, oldest first."""
        while self._in_place < len(self._changes):
            self._changes[self._in_place].apply()
            self._in_place += 1

    def _make(self, apply: Callable[[], None], undo: Callable[[], None]) -> None:
        apply()
        self._changes.append(_Change(apply, undo))
        self._in_place += 1


@dataclass(frozen=True)
class _Change:
    """One replacement, both ways."""

    apply: Callable[[], None]
    undo: Callable[[], None]


def forget_what_was_computed() -> None:
    """Empty the reference's caches, whose values may come from functions that were replaced since."""
    for clear in _index().cached:
        clear()


@dataclass(frozen=True)
class _Index:
    """Who holds what, for as long as no module is imported.

    Attributes:
        modules: how many modules there were.
        holders: by the identity of an object.
        objects: keeps these identities from being used again.
        cached: what empties each cache of the reference.
        stand_ins: the holders of what is planted now, by the identity of what is planted.
    """

    modules: int
    holders: dict[int, Holders]
    objects: list[object]
    cached: list[Callable[[], None]]
    stand_ins: dict[int, Holders]

    def holders_of(self, function: object) -> Holders:
        return self.stand_ins.get(id(function)) or self.holders.get(id(function)) or _search(function)


def _index() -> _Index:
    """Return who holds what; to look through all modules for every planting would cost more than a forward pass."""
    if _KNOWN and _KNOWN[-1].modules == len(sys.modules):
        return _KNOWN[-1]
    stand_ins = _KNOWN.pop().stand_ins if _KNOWN else {}
    known = _Index(len(sys.modules), {}, [], [], stand_ins)
    for module in _modules(*PACKAGES):
        for name, value in list(vars(module).items()):
            if callable(value):
                known.holders.setdefault(id(value), []).append((module, name))
                known.objects.append(value)
            if isinstance(value, _CACHED) and module.__name__.startswith(PACKAGES[0]):
                known.cached.append(value.cache_clear)
    _KNOWN.append(known)
    return known


_KNOWN: Final[list[_Index]] = []


def _bind(holders: Holders, present: object, wanted: object) -> None:
    for module, name in holders:
        if vars(module).get(name) is present:
            setattr(module, name, wanted)


def _search(function: object) -> Holders:
    return [
        (module, name)
        for module in _modules(*PACKAGES)
        for name, value in list(vars(module).items())
        if value is function
    ]


def _modules(*packages: str) -> Iterator[ModuleType]:
    prefixes = tuple(f"{package}." for package in packages)
    for name, module in list(sys.modules.items()):
        if name in packages or name.startswith(prefixes):
            yield module
