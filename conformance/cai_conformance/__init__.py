"""Suites, backends, traces, judges and reports: is a backend right, or is it float noise?

A suite asks, a backend answers, a trace records, a judge compares, a report tells.
"""
