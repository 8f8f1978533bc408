"""PyTorch and transformers conform on the Llama suites: every judged check passes or is a near tie; all are counted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

SUITES = ("llama.dense", "llama.gqa-window")

JUDGED = {"torch": 108, "torch:float32": 108, "torch:bfloat16": 102, "transformers": 56}
"""How many checks are judged; what lies between is skipped, with the reason."""


def outcomes(backend: str) -> Counter[str]:
    """Run the command line, and count outcomes."""
    command = [sys.executable, "-m", "cai_conform.main", "run", *SUITES, "--backend", backend, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout[-2000:] + done.stderr[-500:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return Counter(line["outcome"] for line in lines if line["type"] == "verdict")


class TestConformingEngines:
    """What conforms raises no alarm, and is judged."""

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("backend", JUDGED)
    def test_nothing_fails_and_all_that_can_be_is_judged(self, backend: str) -> None:
        """Passes and near ties only, as many as were counted."""
        if backend == "transformers":
            pytest.importorskip("transformers", reason="transformers is not installed")
        found = outcomes(backend)
        assert {"pass", "near_tie", "skipped"} >= set(found)
        assert JUDGED[backend] == found["pass"] + found["near_tie"]
        assert (found["near_tie"] > 0) == (backend == "torch:bfloat16")
