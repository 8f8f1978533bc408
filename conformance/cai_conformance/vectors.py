"""Vector cases: small questions with one right answer each, for what a golden trace cannot see.

A suite's `vectors.json` holds them in a fixed order. A case names an operation and its input; an answer is a list of
integers, a list of exact doubles, or a text (hex bytes). A backend answers each case with one SAMPLE record of its
`edges` trace, and may leave out what it does not offer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from cai_conformance.errors import InputUnreadable
from cai_conformance.goldens import strict_json
from cai_conformance.trace.formatting import format_bits_list, format_integers
from cai_conformance.trace.records import Record
from cai_reference.arithmetic import NotHexBits, from_hex_bits, hex_bits

VECTORS: Final = "vectors.json"
REMARKS: Final = ("suite", "suite_version", "arithmetic")
"""What a file says about itself."""
CASE_KEYS: Final = ("check", "case", "sees", "operation", "input", "expected")
LARGEST: Final = (1 << 64) - 1
"""No answer is a larger integer than a generator of 64 bits draws."""

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


@dataclass(frozen=True)
class Answer:
    """What an operation returns: exactly one of the three is filled."""

    ids: tuple[int, ...] | None = None
    values: tuple[float, ...] | None = None
    text: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the answer as it stands in `vectors.json`: doubles as sixteen hex digits."""
        if self.ids is not None:
            return {"ids": list(self.ids)}
        if self.values is not None:
            return {"values": [hex_bits(value) for value in self.values]}
        return {"text": self.text}

    def record(self, case: str) -> Record:
        """Return the SAMPLE record that gives this answer."""
        fields = [("case", case), ("draw", "0")]
        if self.ids is not None:
            fields.append(("ids", format_integers(self.ids)))
        if self.values is not None:
            fields.append(("values", format_bits_list(self.values)))
        if self.text is not None:
            fields.append(("text", self.text))
        return Record("SAMPLE", tuple(fields))


@dataclass(frozen=True)
class VectorCase:
    """One question.

    Attributes:
        case: its name, unique within its check and never reused.
        check: the check that judges it, such as `tok.fit`.
        operation: what is to be done, such as `bpe.train`.
        input: the operands, by name; doubles as sixteen hex digits.
        sees: the wrong implementation that this case catches.
        expected: the answer in `strict/1`; None before it is known.
    """

    case: str
    check: str
    operation: str
    input: Mapping[str, Json]
    sees: str
    expected: Answer | None = None

    @property
    def identifier(self) -> str:
        """The id by which a trace answers it, unique in the suite, such as `tok.fit.tie`."""
        return f"{self.check}.{self.case}"

    @property
    def exact(self) -> bool:
        """Whether the answer is doubles, which only one arithmetic defines bit by bit."""
        return self.expected is not None and self.expected.values is not None


@dataclass(frozen=True)
class VectorFile:
    """The cases of a suite, in order, with the digest of the file that holds them."""

    cases: tuple[VectorCase, ...]
    digest: str


def write_vectors(suite: str, version: str, cases: tuple[VectorCase, ...]) -> bytes:
    """Return the bytes of a `vectors.json`."""
    document = {
        "suite": suite,
        "suite_version": version,
        "arithmetic": "strict/1",
        "cases": [
            {
                "id": case.identifier,
                "check": case.check,
                "case": case.case,
                "sees": case.sees,
                "operation": case.operation,
                "input": dict(case.input),
                "expected": None if case.expected is None else case.expected.to_json(),
            }
            for case in cases
        ],
    }
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode("utf-8")


def read_vectors(data: bytes) -> VectorFile:
    """Read the bytes of a `vectors.json`.

    Raises:
        InputUnreadable: it is damaged, or a case has no answer.
    """
    try:
        page = strict_json.obj(strict_json.parse(data), ("cases",), "the file", REMARKS)
        items = strict_json.array(page["cases"], "cases")
        cases = tuple(_case(item, f"case {place}") for place, item in enumerate(items))
    except ValueError as error:
        raise InputUnreadable(VECTORS, str(error)) from None
    return VectorFile(cases, f"sha256:{hashlib.sha256(data).hexdigest()}")


def _case(value: object, where: str) -> VectorCase:
    item = strict_json.obj(value, CASE_KEYS, where, ("id",))
    case, check, operation, sees = (
        strict_json.text(item[key], f"{key} of {where}") for key in ("case", "check", "operation", "sees")
    )
    given = item["input"]
    if not isinstance(given, dict):
        raise ValueError(f"input of {where} is not an object")
    return VectorCase(case, check, operation, given, sees, _answer(item["expected"], where))


def _answer(value: object, where: str) -> Answer:
    match value:
        case {"ids": list(ids), **rest} if not rest:
            return Answer(ids=tuple(_integer(number, where) for number in ids))
        case {"values": list(values), **rest} if not rest:
            return Answer(values=tuple(_double(bits, where) for bits in values))
        case {"text": str(text), **rest} if not rest:
            return Answer(text=text)
    raise ValueError(f"expected of {where} is not an answer")


def _integer(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -LARGEST <= value <= LARGEST:
        raise ValueError(f"an id of {where} is not an integer")
    return value


def _double(value: object, where: str) -> float:
    if not isinstance(value, str):
        raise ValueError(f"a value of {where} is not sixteen hex digits")
    try:
        return from_hex_bits(value)
    except NotHexBits:
        raise ValueError(f"a value of {where} is not sixteen hex digits") from None
