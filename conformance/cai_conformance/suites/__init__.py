"""Suites: what is asked, of which inputs, and which checks judge the answers."""

from cai_conformance.suites.registry import SUITES, all_check_ids, find_check, find_suite, find_suites
from cai_conformance.suites.suite import Check, Suite, SuiteInput

__all__ = ["SUITES", "Check", "Suite", "SuiteInput", "all_check_ids", "find_check", "find_suite", "find_suites"]
