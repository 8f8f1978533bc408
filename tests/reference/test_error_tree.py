"""Every error of the reference: raised through a public call, told in full, carried across a process border.

The calls stand in the modules `support_errors_*` beside this folder, a list CASES in each.
"""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cai_reference
from cai_reference.errors import CaiReferenceError
from support_raising import values_of

Case = tuple[CaiReferenceError, Callable[[], object]]

CASES: list[Case] = [
    case
    for path in sorted(Path(__file__).resolve().parents[1].glob("support_errors_*.py"))
    for case in importlib.import_module(path.stem).CASES
]

# Fields that the message spells otherwise than Python does, or leaves out, as the course's messages do.
SPELLED_OTHERWISE: dict[tuple[str, str], Callable[[CaiReferenceError], str]] = {
    ("InvalidNameCharacter", "byte"): lambda error: f"0x{values_of(error)['byte']:02x}",
    ("InvalidUtf8", "error_length"): lambda error: "",
    ("UnknownArithmetic", "known"): lambda error: "strict/1, libm/1, fast",
    ("NonFiniteAccumulation", "coordinate"): lambda error: (
        "" if values_of(error)["coordinate"] is None else f"coordinate {values_of(error)['coordinate']}"
    ),
}


def leaves(error: type[CaiReferenceError]) -> Iterator[type[CaiReferenceError]]:
    """Yield the classes below `error`, or `error` itself, that have no subclasses."""
    below = [other for other in error.__subclasses__() if other.__module__.startswith("cai_reference.")]
    if not below:
        yield error
    for other in below:
        yield from leaves(other)


def caught(trigger: Callable[[], object]) -> CaiReferenceError:
    """Return what a call raises."""
    with pytest.raises(CaiReferenceError) as raised:
        trigger()
    return raised.value


def cases() -> list[object]:
    """Return the table with the class names as test ids."""
    return [pytest.param(*case, id=type(case[0]).__name__) for case in CASES]


@pytest.mark.parametrize(("expected", "trigger"), cases())
def test_each_error_can_be_raised(expected: CaiReferenceError, trigger: Callable[[], object]) -> None:
    """The class, its fields and its message are those of the table."""
    error = caught(trigger)
    assert (type(expected), values_of(expected)) == (type(error), values_of(error))
    assert str(expected) == str(error)


def test_every_message_tells_every_value() -> None:
    """Whoever reads only the text learns what the fields say."""
    for error, _ in CASES:
        for name, value in values_of(error).items():
            spelled = SPELLED_OTHERWISE.get((type(error).__name__, name), lambda _, value=value: str(value))(error)
            assert spelled in str(error), (type(error).__name__, name)
        assert str(error).strip(), type(error).__name__
        assert "{" not in str(error), type(error).__name__


def test_every_error_survives_pickling_and_copying() -> None:
    """Worker processes hand it over whole."""
    for error, _ in CASES:
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert (type(error), values_of(error), str(error)) == (type(other), values_of(other), str(other))


def test_the_table_is_complete() -> None:
    """A leaf of the tree that no call raises must not exist."""
    for module in pkgutil.walk_packages(cai_reference.__path__, "cai_reference."):
        importlib.import_module(module.name)
    assert {error.__name__ for error in leaves(CaiReferenceError)} == {type(expected).__name__ for expected, _ in CASES}


def test_names_are_unique_in_the_tree() -> None:
    """Reports name an error by its class alone."""
    names = [error.__name__ for error in leaves(CaiReferenceError)]
    assert sorted(set(names)) == sorted(names)


def test_inner_nodes_are_never_raised() -> None:
    """Only leaves have a text; each says what it means in its docstring."""
    for error in leaves(CaiReferenceError):
        assert error.template, error
        assert error.__doc__
        for base in error.__mro__[1:]:
            if issubclass(base, CaiReferenceError):
                assert base.template == "", base
