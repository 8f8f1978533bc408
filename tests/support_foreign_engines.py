"""What the tests of foreign engines share: the suites' folders, their vector cases, and calls of one slot."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from cai_conformance.backends.engine.given_model import GivenModel
from cai_conformance.engine import Engine, Evaluated, Piece
from cai_conformance.fixtures.decoder_phases import DECODE_PHASES, phase_of, sizes_for
from cai_conformance.fixtures.goldens.store import locate
from cai_reference.arithmetic import Array
from cai_reference.splitmix import SplitMix64, below

NO_TORCH: Final = "torch is not installed; the extra `torch` installs it"
NO_TRANSFORMERS: Final = "transformers is not installed; the extra `transformers` installs it"
ORDINARY: Final = ("llama.gqa-window", "cai.grouped-hybrid")
"""Between them a window, shared keys, a tied head, a latent, states and groups; the others are looked at where there is
time."""
DECODERS: Final = [
    pytest.param(phase.suite, marks=[] if phase.suite in ORDINARY else [pytest.mark.exhaustive])
    for phase in DECODE_PHASES
]


@cache
def given(suite: str) -> GivenModel:
    """Return the model that a suite ships."""
    phase = phase_of(suite)
    weights = (locate() / suite / phase.weights_layout.file).read_bytes()
    return GivenModel(phase, sizes_for(phase, "golden", 0), weights)


def write_folder(folder: Path, suite: str, *, paired: bool = False) -> Path:
    """Write a suite's model as engines load it; if `paired`, what gives logits comes in equal pairs."""
    folder.mkdir(exist_ok=True)
    model = given(suite)
    for name, data in model.files(model.paired if paired else None).items():
        (folder / name).write_bytes(data)
    return folder


@cache
def cases(suite: str) -> tuple[Mapping[str, Any], ...]:
    """Return a suite's vector cases."""
    return tuple(json.loads((locate() / suite / "vectors.json").read_bytes())["cases"])


def case(suite: str, name: str) -> Mapping[str, Any]:
    """Return one vector case."""
    return next(each for each in cases(suite) if each["id"] == name)


def double(bits: str) -> float:
    """Return the double of sixteen hex digits."""
    return float(struct.unpack(">d", bytes.fromhex(bits))[0])


def feed(engine: Engine, ids: Sequence[int], position: int = 0, slot: int = 0) -> Array:
    """Feed one slot, and return the logits [heads, tokens, vocabulary] behind every token."""
    piece = Piece(slot, position, tuple(ids), tuple(range(len(ids))))
    (found,) = engine.evaluate([piece])
    return found.logits


def fed_afresh(engine: Engine, ids: Sequence[int], position: int = 0, slot: int = 0) -> Array:
    """Empty a slot, then feed it."""
    engine.clear(slot)
    return feed(engine, ids, position, slot)


def observed(engine: Engine, ids: Sequence[int], position: int = 0, slot: int = 0) -> Evaluated:
    """Feed one slot, and return all that is shown on the way."""
    (found,) = engine.evaluate([Piece(slot, position, tuple(ids), (len(ids) - 1,))], observe=True)
    return found


def drawn(count: int, seed: int) -> tuple[int, ...]:
    """Return BOS and drawn ids."""
    generator = SplitMix64(seed)
    return (0, *(2 + below(generator, 318) for _ in range(count - 1)))


def distances(engine: Engine, suite: str) -> Iterator[tuple[str, float]]:
    """Yield, for each case about logits, how far an engine's row is from the expected one."""
    for each in cases(suite):
        given_input = each["input"]
        if each["check"] == "fwd.oracle":
            logits = fed_afresh(engine, given_input["ids"], given_input["start"])
            row = logits[given_input["head"], given_input["row"]]
        elif each["check"] == "kv.split":
            ids, first, start = given_input["ids"], given_input["first_chunk"], given_input["start"]
            fed_afresh(engine, ids[:first], start)
            row = feed(engine, ids[first:], start + first)[given_input["head"], -1]
        else:
            continue
        yield each["id"], distance(row, np.array([double(bits) for bits in each["expected"]["values"]]))


def distance(found: Array, expected: Array) -> float:
    """Return the largest distance; NaN where one is."""
    assert found.shape == expected.shape
    return float(np.max(np.abs(found - expected)))
