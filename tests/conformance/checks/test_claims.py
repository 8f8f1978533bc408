"""What checks claim to catch, against the kill matrix that was measured."""

from __future__ import annotations

from collections import defaultdict

from cai_conformance.faults.catalogue import FAULTS
from cai_conformance.run.kill_matrix.file import read_matrix
from cai_conformance.suites import SUITES


def claims() -> dict[str, set[str]]:
    """Return, for each check by name, the slugs that it claims in any suite; a family stands for all of its slugs."""
    found: dict[str, set[str]] = defaultdict(set)
    for check in (check for suite in SUITES for check in suite.checks):
        for claim in check.catches:
            slugs = {fault.slug for fault in FAULTS if claim in (fault.slug, f"{fault.family}.*")}
            assert slugs, f"{check.name} claims {claim}, which is no fault"
            found[check.name] |= slugs
    return found


def kills() -> dict[str, set[str]]:
    """Return, for each check by name, the faults of which it was expected that it kills them, and did."""
    found: dict[str, set[str]] = defaultdict(set)
    for slug, known in read_matrix().items():
        for name in known.killed_by:
            found[name].add(slug)
    return found


class TestClaims:
    """A claim is a promise: the matrix was measured."""

    def test_every_claimed_fault_is_killed_and_every_kill_is_claimed(self) -> None:
        """No check claims what it does not show, and none keeps silent about what it is there for."""
        assert kills() == claims()

    def test_every_expected_check_claims_the_fault_that_it_kills(self) -> None:
        """A fault says where it is expected; there the check has it among its claims."""
        claimed, killed = claims(), kills()
        for fault in FAULTS:
            for name in fault.expected:
                assert fault.slug in claimed[name] or fault.slug not in killed[name], (fault.slug, name)

    def test_what_no_suite_can_show_is_claimed_by_nobody(self) -> None:
        """A fault that changes no answer is caught by none."""
        silent = {fault.slug for fault in FAULTS if fault.equivalent}
        assert silent and not any(silent & slugs for slugs in claims().values())
