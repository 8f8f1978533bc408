"""How the reference is changed from outside and put back: the one helper of all faults.

The reference has no hooks. A function is replaced under every name by which a module of the project holds it, because
`from x import f` copies the reference to it; a method is replaced in the class that defines it; a setting, such as the
base of rotary positions, is read as another one by whoever asks its description. What is put back is the very object
that was there, also in modules that were imported in between.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, wraps
from inspect import Parameter, signature
from types import ModuleType, SimpleNamespace
from typing import Any, Final, TypeAlias

PACKAGES: Final = ("cai_reference", "cai_conformance", "cai_conform")
_CACHED: Final = type(lru_cache(len))
"""What a cached function is."""

Target: TypeAlias = Callable[..., Any] | tuple[type, str]
"""A function, or a class with the name of a method, class method or property that it defines itself."""

Holders: TypeAlias = list[tuple[ModuleType, str]]
"""The names under which modules hold one object."""


class Patch:
    """What is replaced for one fault, how to undo it for a while, and how to do it again."""

    def __init__(self) -> None:
        self._changes: list[_Change] = []
        self._in_place = 0

    def replace(self, target: Target, wrong: Callable[..., object]) -> None:
        """Put `wrong` in the place of a function, wherever a module looks it up, or of a method.

        Of a class method `wrong` takes the class first, of a property the object.
        """
        if not isinstance(target, tuple):
            self._replace_function(target, wrong)
            return
        owner, name = target
        right = vars(owner)[name]
        kind = type(right) if isinstance(right, classmethod | staticmethod | property) else None
        stand_in = wrong if kind is None else kind(wrong)
        self._make(lambda: setattr(owner, name, stand_in), lambda: setattr(owner, name, right))

    def around(self, target: Target, wrong: Callable[..., object]) -> None:
        """Replace by a function that is handed the right one first, then whatever the right one would be."""
        right = _present(target)

        @wraps(right)
        def called(*arguments: object, **named: object) -> object:
            return wrong(right, *arguments, **named)

        self.replace(target, called)

    def arguments(self, target: Target, /, **changed: object) -> None:
        """Let a function or method be called with other arguments.

        Args:
            target: what is called; its arguments are positional or have a keyword, none of them a star.
            changed: by name the value that is used instead, or a function that makes it of all arguments as they
                were given, which are attributes of what it is handed.
        """
        parameters = signature(_present(target)).parameters
        defaults = {name: each.default for name, each in parameters.items() if each.default is not Parameter.empty}
        places = [name for name, each in parameters.items() if each.kind is not Parameter.KEYWORD_ONLY]

        def wrong(right: Callable[..., object], *given: object, **named: object) -> object:
            call = {**defaults, **dict(zip(places, given, strict=False)), **named}
            seen = SimpleNamespace(**call)
            call |= {name: value(seen) if callable(value) else value for name, value in changed.items()}
            positional = [call.pop(name) for name in places]
            return right(*positional, **call)

        self.around(target, wrong)

    def within(self, scope: Target, target: Target, wrong: Callable[..., object]) -> None:
        """As `around`, but only while another function or method is called; everywhere else the right one acts."""
        depth = 0

        def entered(right: Callable[..., object], *given: object, **named: object) -> object:
            nonlocal depth
            depth += 1
            try:
                return right(*given, **named)
            finally:
                depth -= 1

        def chosen(right: Callable[..., object], *given: object, **named: object) -> object:
            return wrong(right, *given, **named) if depth else right(*given, **named)

        self.around(scope, entered)
        self.around(target, chosen)

    def setting(self, owner: type, name: str, value: object) -> None:
        """Let every object of a data class read another value of a field, whichever one it was made with.

        Args:
            owner: a class without slots.
            name: of the field.
            value: what is read, or a function that makes it of the right value.
        """
        before = vars(owner).get(name, _Absent)
        field = _Field(name, before, value)

        def undo() -> None:
            if before is _Absent:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self._make(lambda: setattr(owner, name, field), undo)

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

    def _replace_function(self, right: Callable[..., Any], wrong: Callable[..., object]) -> None:
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

    def _make(self, apply: Callable[[], None], undo: Callable[[], None]) -> None:
        apply()
        self._changes.append(_Change(apply, undo))
        self._in_place += 1


def _present(target: Target) -> Callable[..., Any]:
    """Return what acts now: of a class method its function, of a property what gets it."""
    if not isinstance(target, tuple):
        return target
    found = vars(target[0])[target[1]]
    if isinstance(found, classmethod | staticmethod):
        return found.__func__
    function = found.fget if isinstance(found, property) else found
    assert callable(function)
    return function


class _Absent:
    """Stands for the default of a field that has none."""


class _Field:
    """A field that is read as another value; what is stored stays right."""

    def __init__(self, name: str, before: Any, value: object) -> None:
        self._name, self._before, self._value = name, before, value

    def __get__(self, instance: object, owner: type) -> object:
        if instance is None:
            if self._before is _Absent:
                raise AttributeError(self._name)
            return self._before.__get__(None, owner) if isinstance(self._before, _Field) else self._before
        # Another fault may have changed the same field before.
        nested = isinstance(self._before, _Field)
        right = self._before.__get__(instance, owner) if nested else vars(instance)[self._name]
        return self._value(right) if callable(self._value) else self._value

    def __set__(self, instance: object, value: object) -> None:
        vars(instance)[self._name] = value


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
