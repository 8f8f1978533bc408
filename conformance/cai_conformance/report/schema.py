"""The JSON Schema of the JSON lines, for `--schema`.

It describes one line at a time; that a run line comes first and a summary last is said in its descriptions. It allows
no key beyond those it names, so it fits the program that printed it and no other.
"""

from __future__ import annotations

from cai_conformance.report.jsonlines import FORMAT_VERSION
from cai_conformance.verdicts import Level, Outcome, Problem

_STRING: dict[str, object] = {"type": "string"}
_NUMBER: dict[str, object] = {"type": ["number", "null"]}
_COUNT: dict[str, object] = {"type": "integer", "minimum": 0}
_VERSIONS_BY_SUITE: dict[str, object] = {"type": "object", "additionalProperties": _STRING}


def report_schema() -> dict[str, object]:
    """The schema of one line of `--format json`, JSON Schema draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:cai-conform:report:{FORMAT_VERSION}",
        "title": "One line of a conformance report",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in ("run", "verdict", "summary")],
        "$defs": {
            "run": _run(),
            "verdict": _verdict(),
            "difference": _difference(),
            "explanation": _explanation(),
            "summary": _summary(),
        },
    }


def _run() -> dict[str, object]:
    versions = _closed(
        "The five versions of the run.",
        dict.fromkeys(("grammar", "protocol", "arithmetic"), _STRING)
        | dict.fromkeys(("suites", "vectors"), _VERSIONS_BY_SUITE),
    )
    return _closed(
        "The first line: what was judged, and with which versions.",
        {
            "type": {"const": "run"},
            "format": {"const": FORMAT_VERSION},
            "backend": _STRING,
            "versions": versions,
            "required": {"enum": [*(level.value for level in Level), None]},
            "notes": {"type": "array", "items": _STRING},
        },
    )


def _verdict() -> dict[str, object]:
    return _closed(
        "One line a check, in the order in which the suites list them.",
        {
            "type": {"const": "verdict"},
            "check": {"type": "string", "description": "The full id, suite::check[case]."},
            "suite": _STRING,
            "level": {"enum": [level.value for level in Level]},
            "track": {"enum": ["inference", "training"]},
            "outcome": {"enum": [outcome.value for outcome in Outcome]},
            "message": _STRING,
            "met": {
                "type": "object",
                "description": "What the judge met on its way, and how often.",
                "additionalProperties": _COUNT,
            },
            "differences": {"type": "array", "items": {"$ref": "#/$defs/difference"}},
            "explanation": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/explanation"}]},
            "reason": {"type": "string", "description": "Why the check is expected to fail, or empty."},
            "link": _STRING,
            "seconds": {"type": ["number", "null"], "description": "Null where the time is not a finite number."},
        },
    )


def _difference() -> dict[str, object]:
    return _closed(
        "One disagreement, aligned by record key; the first difference comes first.",
        {
            "problem": {"enum": [problem.value for problem in Problem]},
            "record": _STRING,
            "field": _STRING,
            "index": {"type": ["integer", "null"]},
            "expected": _STRING,
            "found": _STRING,
            "ulp": {"type": ["integer", "null"], "description": "Distance in units in the last place of binary64."},
        },
    )


def _explanation() -> dict[str, object]:
    return _closed(
        "Where a difference begins, and what it most likely is; beside the first failure of each kind.",
        {
            "lines": {"type": "array", "items": _STRING},
            "stage": {"type": "string", "description": "A stage or a part of a training step, or empty."},
            "index": {"type": "array", "items": _COUNT},
            "expected": _NUMBER,
            "found": _NUMBER,
            "ulp": {"type": ["integer", "null"], "description": "Distance in the backend's own format."},
            "origin": {"enum": ["", "added", "inherited"]},
            "conventions": {"type": "array", "items": _STRING},
        },
    )


def _summary() -> dict[str, object]:
    return _closed(
        "The last line: how many verdicts there are of each outcome, and the exit code with its meaning.",
        {
            "type": {"const": "summary"},
            "counts": _closed("Zeros included.", {outcome.value: _COUNT for outcome in Outcome}),
            "exit_code": {"enum": [0, 1, 2]},
            "meaning": _STRING,
        },
    )


def _closed(description: str, properties: dict[str, dict[str, object]]) -> dict[str, object]:
    """An object that must have exactly these properties."""
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
