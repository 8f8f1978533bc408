"""All suites, and how a name on the command line finds them."""

from __future__ import annotations

from collections.abc import Sequence

from cai_conformance.checks.check import Check
from cai_conformance.errors import SelectionError
from cai_conformance.suites.decoder import DECODE_SUITES
from cai_conformance.suites.ngram import COURSE_NGRAM_SUITE
from cai_conformance.suites.suite import Suite

SUITES: tuple[Suite, ...] = (COURSE_NGRAM_SUITE, *DECODE_SUITES)


def find_suite(name: str) -> Suite:
    """Return the suite with this id, or the one whose id ends like this: behind a dot, or, if only one does, anywhere.

    Raises:
        SelectionError (unknown-suite, ambiguous-suite): none, or several.
    """
    found = [suite for suite in SUITES if suite.identifier == name]
    found = found or [suite for suite in SUITES if suite.identifier.endswith(f".{name}")]
    found = found or [suite for suite in SUITES if name and suite.identifier.endswith(name)]
    if not found:
        raise SelectionError("unknown-suite", name=name, known=", ".join(suite.identifier for suite in SUITES))
    if len(found) > 1:
        raise SelectionError("ambiguous-suite", name=name, candidates=", ".join(suite.identifier for suite in found))
    return found[0]


def find_suites(names: Sequence[str]) -> tuple[Suite, ...]:
    """Return the named suites in registry order, each once; all of them where no name is given.

    Raises:
        SelectionError (unknown-suite, ambiguous-suite): as `find_suite`.
    """
    wanted = {find_suite(name).identifier for name in names}
    return tuple(suite for suite in SUITES if not names or suite.identifier in wanted)


def find_check(name: str) -> tuple[Suite, Check, str]:
    """Return suite, check and case (or an empty string) of a full id; a check name that only one suite has will do.

    Raises:
        SelectionError (unknown-check): no suite has it, or several have.
    """
    suite_name, separator, rest = name.rpartition("::")
    check_name, _, case = rest.partition("[")
    case = case.removesuffix("]")
    found = [
        (suite, check, case)
        for suite in SUITES
        if not separator or suite.identifier.endswith(suite_name)
        for check in suite.checks
        if check.name == check_name and (not case or case in check.cases)
    ]
    if len(found) != 1:
        raise SelectionError("unknown-check", name=name)
    return found[0]


def all_check_ids() -> tuple[str, ...]:
    """Return the full ids of all checks of all suites."""
    return tuple(identifier for suite in SUITES for identifier in suite.check_ids())
