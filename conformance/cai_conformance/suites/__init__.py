"""Suites: what is asked, of which inputs, and which checks judge the answers."""

from cai_conformance.checks.check import Check
from cai_conformance.fixtures.inputs import SuiteInput
from cai_conformance.suites.registry import SUITES, all_check_ids, find_check, find_suite, find_suites
from cai_conformance.suites.suite import Suite

__all__ = ["SUITES", "Check", "Suite", "SuiteInput", "all_check_ids", "find_check", "find_suite", "find_suites"]
