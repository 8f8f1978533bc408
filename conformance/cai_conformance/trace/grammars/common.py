"""The records that every suite has: TRACE, CONVENTION, SAMPLE and END."""

from __future__ import annotations

from cai_conformance.trace.grammar import FieldRule, RecordRule
from cai_conformance.trace.values import FieldType

CONVENTION_KEYS = (
    "rope",
    "rope_base",
    "window",
    "argmax",
    "softmax_scale",
    "swiglu_gate",
    "norm",
    "norm_eps",
    "tie",
    "adamw",
    "loss",
    "padding",
)
"""What a suite states about its conventions, in this order; the values are words for people, compared as text."""

UNSTATED = "unstated"
"""What stands in CONVENTION for what a backend does not say about itself."""


def integers(*names: str) -> tuple[FieldRule, ...]:
    """Fields that hold an integer each."""
    return tuple(FieldRule(name, FieldType.INTEGER) for name in names)


def reals(*names: str) -> tuple[FieldRule, ...]:
    """Fields that hold a real each."""
    return tuple(FieldRule(name, FieldType.REAL6) for name in names)


TRACE = RecordRule(
    "TRACE",
    (
        FieldRule("grammar", FieldType.WORD),
        FieldRule("suite", FieldType.WORD),
        FieldRule("suite_version", FieldType.WORD),
        FieldRule("profile", FieldType.WORD),
        FieldRule("arithmetic", FieldType.STRING),
        FieldRule("vectors", FieldType.SHA256),
    ),
)

CONVENTION = RecordRule("CONVENTION", tuple(FieldRule(name, FieldType.STRING) for name in CONVENTION_KEYS))

END = RecordRule("END", (FieldRule("records", FieldType.INTEGER), FieldRule("digest", FieldType.SHA256)))

SAMPLE = RecordRule(
    "SAMPLE",
    (
        FieldRule("case", FieldType.STRING),
        FieldRule("draw", FieldType.INTEGER),
        FieldRule("ids", FieldType.INTEGERS, required=False),
        FieldRule("values", FieldType.BITS_LIST, required=False),
        FieldRule("text", FieldType.STRING, required=False),
    ),
    maximum=None,
)
