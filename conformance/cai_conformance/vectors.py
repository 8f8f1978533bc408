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
from typing import TypeAlias

from cai_conformance.trace.formatting import format_bits_list, format_integers
from cai_conformance.trace.records import Record
from cai_reference.arithmetic import from_hex_bits, hex_bits

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
    """Read the bytes of a `vectors.json`, which the golden store has verified."""
    cases = tuple(
        VectorCase(
            item["case"], item["check"], item["operation"], item["input"], item["sees"], _answer(item["expected"])
        )
        for item in json.loads(data)["cases"]
    )
    return VectorFile(cases, f"sha256:{hashlib.sha256(data).hexdigest()}")


def _answer(item: dict[str, list[int] | list[str] | str]) -> Answer:
    match item:
        case {"ids": list(ids)}:
            return Answer(ids=tuple(map(int, ids)))
        case {"values": list(values)}:
            return Answer(values=tuple(from_hex_bits(str(value)) for value in values))
        case {"text": str(text)}:
            return Answer(text=text)
    raise ValueError(f"{item!r} is not an answer")
