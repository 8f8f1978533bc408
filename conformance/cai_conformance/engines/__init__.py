"""Engines: implementations that are given a model and asked for logits, one call at a time.

A backend answers a request with a whole trace. An engine is smaller: it loads a model folder, evaluates tokens in
slots, and forgets. From its answers the trace of a suite's given weights is made here, so that whoever has a model need
not write a trace. Programs are reached as engines through `cai_conformance.serving`.
"""

from __future__ import annotations

from cai_conformance.engines.description import Description, Feature, Nondeterminism, Precision
from cai_conformance.engines.protocol import Engine, Evaluated, Generated, GenerationOrder, Loaded, Piece

__all__ = [
    "Description",
    "Engine",
    "Evaluated",
    "Feature",
    "Generated",
    "GenerationOrder",
    "Loaded",
    "Nondeterminism",
    "Piece",
    "Precision",
]
