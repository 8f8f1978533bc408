"""The kill matrix as a file: shipped with the package, in the order of the catalogue, equal wherever it is made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from cai_conformance.faults.catalogue import FAULTS
from cai_conformance.faults.errors import FaultError
from cai_conformance.run.kill_matrix.results import FaultResult, KillMatrix

FORM: Final = 1
"""Changed whenever readers of the file have to be."""
NAME: Final = "kill-matrix.json"


@dataclass(frozen=True)
class KnownKill:
    """What the shipped matrix says of one fault.

    Attributes:
        standing: how it fared.
        killed_by: names of expected checks that failed.
        also_seen_by: names of other checks that failed.
        failed: by workload, such as `llama.dense given`: names of the checks that failed there, sorted.
    """

    standing: str
    killed_by: tuple[str, ...]
    also_seen_by: tuple[str, ...]
    failed: Mapping[str, tuple[str, ...]]


def matrix_bytes(matrix: KillMatrix) -> bytes:
    """Return the file of a matrix."""
    document = {"form": FORM, "faults": {result.fault.slug: document_of(result) for result in matrix.results}}
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode("utf-8")


def document_of(result: FaultResult) -> dict[str, Any]:
    """Return what the file says of one fault."""
    fault = result.fault
    return {
        "title": fault.title,
        "kinds": list(fault.kinds),
        "places": sorted(place.value for place in fault.places),
        "standing": result.standing.value,
        "expected": list(fault.expected),
        "killed_by": list(result.killed_by),
        "also_seen_by": list(result.also_seen_by),
        "vehicles": {str(each.workload): list(each.failed) for each in result.observations},
    }


def read_matrix(data: bytes | None = None) -> Mapping[str, KnownKill]:
    """Return the shipped matrix, or one that is given, by slug.

    Raises:
        KeyError, ValueError: the bytes are no matrix of this form.
    """
    document = json.loads(_shipped() if data is None else data)
    if document["form"] != FORM:
        raise ValueError(f"a kill matrix of form {document['form']}, and not {FORM}")
    return {
        slug: KnownKill(
            each["standing"],
            tuple(each["killed_by"]),
            tuple(each["also_seen_by"]),
            {workload: tuple(names) for workload, names in each["vehicles"].items()},
        )
        for slug, each in document["faults"].items()
    }


def known_kill(slug: str) -> KnownKill:
    """Return what the shipped matrix says of a fault.

    Raises:
        FaultError (unknown-fault): it has none of this slug.
    """
    try:
        return read_matrix()[slug]
    except KeyError:
        raise FaultError("unknown-fault", slug=slug) from None


def is_whole(matrix: KillMatrix) -> bool:
    """Tell whether a matrix holds every fault of the catalogue, so that it may stand for all of them."""
    return [result.fault.slug for result in matrix.results] == [fault.slug for fault in FAULTS]


def _shipped() -> bytes:
    return (files("cai_conformance.fixtures.data") / NAME).read_bytes()
