"""What a program that prints traces is given: a folder with everything that a request holds."""

from __future__ import annotations

import json
from pathlib import Path

from cai_conformance.backends.protocol import TraceRequest
from cai_conformance.engines.given_model import model_folder
from cai_conformance.vectors import read_vectors

VECTORS = "vectors.json"
REQUEST = "request.json"


def request_files(request: TraceRequest) -> dict[str, bytes]:
    """Return the files of a request, by name."""
    corpus = {"corpus.txt": request.corpus, "splits.json": request.splits}
    return {
        **model_folder(request),
        **{name: data for name, data in corpus.items() if data},
        VECTORS: request.vectors,
        REQUEST: _request(request),
    }


def write_request(request: TraceRequest, folder: Path) -> None:
    """Write the files of a request into a folder."""
    for name, data in request_files(request).items():
        (folder / name).write_bytes(data)


def _request(request: TraceRequest) -> bytes:
    stated = {
        "suite": request.suite,
        "suite_version": request.suite_version,
        "profile": request.profile,
        "arithmetic": request.arithmetic,
        "vectors": read_vectors(request.vectors).digest,
        "examples": request.examples,
    }
    return (json.dumps(stated, indent=1) + "\n").encode("utf-8")
