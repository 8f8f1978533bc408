"""Readers of what lies in the folder of goldens, and of requests that carry it."""

from __future__ import annotations

import json
from pathlib import Path

from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.fixtures.goldens import ledger, manifest
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.fixtures.vectors import read_vectors
from fuzzing.target import Target, scratch_file, scratch_folder

SUITE = "course.ngram"


def _golden(name: str) -> bytes:
    return (Path(locate()) / name).read_bytes()


def manifests() -> list[bytes]:
    """Return the manifest, and one of a single suite."""
    data = _golden("manifest.json")
    page = json.loads(data)
    page["suites"] = [suite for suite in page["suites"] if suite["suite"] == SUITE]
    return [json.dumps(page, indent=2, sort_keys=True).encode(), data]


def ledgers() -> list[bytes]:
    """Return the beginning of the ledger."""
    lines = _golden("ledger.jsonl").splitlines(keepends=True)
    return [b"".join(lines[:3]), b"".join(lines[:12])]


def read_manifest(data: bytes) -> None:
    """Read a manifest, and write it again."""
    entries = manifest.read(data, "manifest.json")
    assert entries == manifest.read(manifest.write(entries.values()), "manifest.json")


def read_ledger(data: bytes) -> None:
    """Read a ledger, and hold it against the manifest."""
    entries = ledger.read(data, "ledger.jsonl")
    assert entries == ledger.read(ledger.write(entries), "ledger.jsonl")
    ledger.contradictions(entries, manifest.read(_golden("manifest.json"), "manifest.json"))


def read_store(data: bytes) -> None:
    """Look at a folder with this manifest, one golden and the ledger."""
    scratch_file("golden/manifest.json", data)
    scratch_file("golden/ledger.jsonl", _golden("ledger.jsonl"))
    for name in ("trace.txt", "vectors.json", "weights.safetensors"):
        scratch_file(f"golden/{SUITE}/{name}", _golden(f"{SUITE}/{name}"))
    store = GoldenStore(scratch_folder() / "golden")
    store.status()
    for suite in store.suites():
        store.read(suite)


def vectors() -> list[bytes]:
    """Return vector cases of two suites, the first of each."""
    found = []
    for suite in ("course.ngram", "llama.dense"):
        page = json.loads(_golden(f"{suite}/vectors.json"))
        page["cases"] = page["cases"][:4] + page["cases"][-4:]
        found.append(json.dumps(page, indent=1, ensure_ascii=False).encode())
    return found


def read_cases(data: bytes) -> None:
    """Read vector cases, and print what they expect."""
    for case in read_vectors(data).cases:
        assert isinstance(case.identifier, str)
        if case.expected is not None:
            case.expected.to_json()
            case.expected.record(case.identifier)


def requests() -> list[bytes]:
    """Return requests as they travel between processes."""
    request = TraceRequest(
        "course.ngram", "1.0.0", "golden", "strict/1", b"[]", b"{}", vectors()[0][:200], b"\0\xff", 3
    )
    empty = TraceRequest("cai.hybrid", "1.0.0", "edges", "libm/1", b"", b"", b"", b"")
    return [request.to_json().encode(), empty.to_json().encode()]


def read_request(data: bytes) -> None:
    """Read a request, and write it again."""
    request = TraceRequest.from_json(data.decode("utf-8", "surrogateescape"))
    assert request == TraceRequest.from_json(request.to_json())


TARGETS = (
    Target("goldens.manifest", manifests, read_manifest),
    Target("goldens.ledger", ledgers, read_ledger),
    Target("goldens.store", lambda: manifests()[:1], read_store, share=15),
    Target("vectors", vectors, read_cases),
    Target("request", requests, read_request),
)
