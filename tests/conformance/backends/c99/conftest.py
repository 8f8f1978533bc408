"""The example backend in C, compiled once a session, plainly and (with `--exhaustive`) with sanitizers."""

from __future__ import annotations

import os

import pytest

from support_c99 import SANITIZED, STRICT, Program, compiled, compiler


@pytest.fixture(scope="session", params=["plain", pytest.param("sanitized", marks=pytest.mark.exhaustive)])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The compiled program; several workers share one folder, and the first to finish compiling wins."""
    if compiler() is None:
        pytest.skip("no C compiler (cc, gcc or clang) on the path")
    options = STRICT if request.param == "plain" else SANITIZED
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    target = shared / f"cai-c99-{request.param}"
    if not target.exists():
        own = base / f"own-{request.param}"
        complaint = compiled(own, options)
        if complaint and request.param == "sanitized":
            pytest.skip(f"this compiler has no sanitizers: {complaint.splitlines()[0]}")
        assert complaint == ""
        own.replace(target)
    return Program(target)
