"""Every error of the reference: raised through a public call, told in full, carried across a process border.

The calls stand in the modules `support_errors_*` beside this folder and in those of the published systems, a list CASES
in each.
"""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import cai_course
import cai_neural_api
import cai_reference
from cai_reference.errors import CaiReferenceError, CodedError
from support_refusals import values_of

PACKAGES = (cai_reference, cai_neural_api, cai_course)
OURS = tuple(f"{package.__name__}." for package in PACKAGES)

Case = tuple[CaiReferenceError, Callable[[], object]]

CASES: list[Case] = [
    case
    for path in sorted(Path(__file__).resolve().parents[1].glob("**/support_errors_*.py"))
    for case in importlib.import_module(path.stem).CASES
]

# Fields that the message spells otherwise than Python does, or leaves out, as the course's messages do.
SPELLED_OTHERWISE: dict[tuple[str, str], Callable[[CaiReferenceError], str]] = {
    ("invalid-name-character", "byte"): lambda error: f"0x{values_of(error)['byte']:02x}",
    ("invalid-utf8", "error_length"): lambda error: "",
}


def tables() -> list[Mapping[str, str]]:
    """Return the tables of texts, each once."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    pending: list[type[CodedError]] = [CaiReferenceError]
    found: list[Mapping[str, str]] = []
    while pending:
        kind = pending.pop()
        pending.extend(other for other in kind.__subclasses__() if other.__module__.startswith(OURS))
        if all(kind.templates is not table for table in found):
            found.append(kind.templates)
    return found


def caught(trigger: Callable[[], object]) -> CaiReferenceError:
    """Return what a call raises."""
    with pytest.raises(CaiReferenceError) as raised:
        trigger()
    return raised.value


def cases() -> list[object]:
    """Return the table with the codes as test ids."""
    return [pytest.param(*case, id=case[0].code) for case in CASES]


@pytest.mark.parametrize(("expected", "trigger"), cases())
def test_each_error_can_be_raised(expected: CaiReferenceError, trigger: Callable[[], object]) -> None:
    """The kind, its code, its fields and its message are those of the table."""
    error = caught(trigger)
    assert (type(expected), expected.code, values_of(expected)) == (type(error), error.code, values_of(error))
    assert str(expected) == str(error)


def test_every_message_tells_every_value() -> None:
    """Whoever reads only the text learns what the fields say."""
    for error, _ in CASES:
        for name, value in values_of(error).items():
            spelled = SPELLED_OTHERWISE.get((error.code, name), lambda _, value=value: str(value))(error)
            assert spelled in str(error), (error.code, name)
        assert str(error).strip(), error.code
        assert "{" not in str(error), error.code


def test_every_error_survives_pickling_and_copying() -> None:
    """Worker processes hand it over whole."""
    for error, _ in CASES:
        for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert (type(error), values_of(error), str(error)) == (type(other), values_of(other), str(other))


def test_the_table_is_complete() -> None:
    """A code that no call raises must not exist."""
    assert {code for table in tables() for code in table} == {expected.code for expected, _ in CASES}


def test_codes_are_unique_in_the_tree() -> None:
    """Pages and reports name an error by its code alone."""
    codes = [code for table in tables() for code in table]
    assert sorted(set(codes)) == sorted(codes)
