"""Explaining verdicts: what was shown is gathered, and the diagnosis that it allows is put beside the first failure.

Every failure of a suite on given weights has one cause far more often than several, so each of three parts of a suite
is explained once: inference on given weights, training on given weights, and the run of its own.
"""

from __future__ import annotations

from cai_conformance.explaining.explain import explained

__all__ = ["explained"]
