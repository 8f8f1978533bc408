from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import cast

import pytest

from cai_conformance.report.jsonlines import render_jsonlines
from cai_conformance.report.schema import report_schema
from cai_conformance.verdicts import Level
from support_reports import EVERY_OUTCOME, PASS, report

Schema = dict[str, object]

TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "null": type(None),
    "array": list,
    "object": dict,
}
KEYWORDS = {
    "$schema", "$id", "$defs", "$ref", "title", "description", "oneOf", "type", "const", "enum", "minimum", "items",
    "properties", "required", "additionalProperties",
}  # fmt: skip


def valid(value: object, schema: Schema, root: Schema) -> bool:
    """Judge a value by the few keywords of JSON Schema that the schema uses, and refuse any other."""
    assert schema.keys() <= KEYWORDS
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        return valid(value, cast(dict[str, Schema], root["$defs"])[name], root)
    if "oneOf" in schema:
        return 1 == sum(valid(value, option, root) for option in cast(list[Schema], schema["oneOf"]))
    if "const" in schema and (value != schema["const"] or type(value) is not type(schema["const"])):
        return False
    if "enum" in schema and value not in cast(list[object], schema["enum"]):
        return False
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if isinstance(value, bool) or not any(isinstance(value, TYPES[str(name)]) for name in names):
            return False
    if "minimum" in schema and cast(float, value) < cast(float, schema["minimum"]):
        return False
    if isinstance(value, list):
        return all(valid(item, cast(Schema, schema["items"]), root) for item in value)
    if isinstance(value, dict):
        properties = cast(dict[str, Schema], schema.get("properties", {}))
        others = schema.get("additionalProperties", {})
        if not set(cast(list[str], schema.get("required", []))) <= value.keys():
            return False
        return all(
            valid(item, properties[key], root)
            if key in properties
            else others is not False and valid(item, cast(Schema, others), root)
            for key, item in value.items()
        )
    return True


LINES = [
    json.loads(line)
    for told in (report(*EVERY_OUTCOME, required=Level.I3, notes=("a note",)), report(replace(PASS, seconds=math.nan)))
    for line in render_jsonlines(told)
]


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_real_lines_are_valid(line: dict[str, object]) -> None:
    """Whatever the program prints satisfies the schema that it prints."""
    schema = report_schema()
    assert valid(line, schema, schema)


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_every_key_is_required_and_no_other_allowed(line: dict[str, object]) -> None:
    """A line with a key less or a key more is not valid, so the schema describes the lines and not a superset."""
    schema = report_schema()
    for key in line:
        assert not valid({name: value for name, value in line.items() if name != key}, schema, schema)
    assert not valid({**line, "surprise": 1}, schema, schema)


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("outcome", "passed"),
        ("level", "I4"),
        ("track", "both"),
        ("differences", [{}]),
        ("seconds", "0.1"),
        ("type", "x"),
    ],
)
def test_wrong_values_are_not_valid(key: str, wrong: object) -> None:
    """The schema names the words that a verdict may use."""
    schema = report_schema()
    assert not valid({**LINES[1], key: wrong}, schema, schema)


def test_the_schema_is_json_of_draft_2020_12() -> None:
    """It can be printed as it is, and says which draft it follows."""
    schema = report_schema()
    assert schema == json.loads(json.dumps(schema, allow_nan=False))
    assert "https://json-schema.org/draft/2020-12/schema" == schema["$schema"]
    assert "urn:cai-conform:report:1" == schema["$id"]
