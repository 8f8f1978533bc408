"""Readers of tensors: weights files, given weights, model folders, both kinds of checkpoints."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
from safetensors.numpy import save

from cai_conformance.backends.engine.files import read_folder
from cai_conformance.backends.engine.given_model import SETTINGS
from cai_conformance.backends.serve.messages import model_shapes
from cai_conformance.fixtures.configurations import write_configuration
from cai_conformance.fixtures.decoder_phases import DECODE_PHASES, sizes_for
from cai_conformance.fixtures.given_weights import native_values, read_given, write_given
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.fixtures.weight_files import WeightsLayout
from cai_course.checkpoint import course_checksum, read_course_checkpoint
from cai_neural_api.exchange import parse_bare_weights, parse_weights
from cai_reference.arithmetic import Array
from cai_reference.checkpoints.saved import read_checkpoint
from cai_reference.models.token_shift_draft import DraftConfiguration
from fuzzing.target import Target, scratch_file, scratch_folder
from support_course_checkpoints import written
from support_net_models import TINY, drawn
from support_resumable import saved

WEIGHTS_METADATA = {"format": "cai-conform weights", "version": "1"}


STEPS: Final = {"draft": 1, "ngram": 2, "llama": 1, "grouped": 0}
"""After how many steps the run of a model is saved."""

KINDS: Final = {"ngram": b'"neural-ngram"', "llama": b'"llama"', "grouped": b'"decoder"'}
"""The word by which the description of a model is told from that of a draft."""


def with_fitting_length(data: bytes) -> bytes:
    """Return a safetensors file whose first eight bytes tell where its header ends, if it still is JSON."""
    try:
        _, end = json.JSONDecoder().raw_decode(data[8:].decode("latin-1"))
    except (ValueError, RecursionError):
        return data
    # Writers fill the header with blanks.
    blanks = len(data[8 + end : 16 + end]) - len(data[8 + end : 16 + end].lstrip(b" "))
    return struct.pack("<Q", end + blanks) + data[8:]


def with_fitting_offsets(data: bytes) -> bytes:
    """Return a safetensors file whose tensors fill it, whatever shapes its header has."""
    if len(data) < 8:
        return data
    data = with_fitting_length(data)
    (length,) = struct.unpack_from("<Q", data)
    try:
        header = json.loads(data[8 : 8 + length])
        place = 0
        for name in sorted(header):
            if name == "__metadata__":
                continue
            size = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "U8": 1, "I64": 8}[header[name]["dtype"]]
            for axis in header[name]["shape"]:
                size *= axis
            header[name]["data_offsets"] = [place, place + size]
            place += size
        if place not in range(1 << 20):  # a shape may hold anything
            return data
        text = json.dumps(header).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return data
    body = data[8 + length :][: int(place)].ljust(int(place), b"\0")
    return struct.pack("<Q", len(text)) + text + body


def weights_files() -> list[bytes]:
    """Return weights files of small models."""
    found = []
    for name in ("draft", "hybrid", "grouped"):
        tensors = {each.name: np.ascontiguousarray(each.value) for each in drawn(TINY[name]).parameters}
        metadata = WEIGHTS_METADATA | {"configuration": write_configuration(TINY[name])}
        found.append(save(tensors, metadata))
    return found


def bare_files() -> list[bytes]:
    """Return a draft's tensors in single precision, without metadata."""
    model = drawn(TINY["draft"])
    return [save({each.name: np.ascontiguousarray(each.value, dtype=np.float32) for each in model.parameters})]


def _given(suite: str) -> bytes:
    phase = next(phase for phase in DECODE_PHASES if phase.suite == suite)
    return GoldenStore(locate()).read(suite).files[phase.weights_layout.file]


def _reader_of_given(suite: str) -> Callable[[bytes], object]:
    phase = next(phase for phase in DECODE_PHASES if phase.suite == suite)
    sizes = sizes_for(phase, "golden", 0)

    def read(data: bytes) -> None:
        write_given(phase, native_values(phase, data))
        read_given(phase, sizes, data)

    return read


@cache
def _folder_files(suite: str) -> tuple[bytes, bytes, str]:
    """Return settings, weights, and what the file of the weights is called."""
    from cai_conformance.backends.engine.given_model import GivenModel

    phase = next(phase for phase in DECODE_PHASES if phase.suite == suite)
    files = GivenModel(phase, sizes_for(phase, "golden", 0), _given(suite)).files()
    return files[SETTINGS], files[phase.weights_layout.file], phase.weights_layout.file


def _reader_of_folder(suite: str, replaced: str) -> Callable[[bytes], object]:
    """Return a reader of a model folder whose `settings` or `weights` are the bytes."""

    def read(data: bytes) -> None:
        settings, weights, name = _folder_files(suite)
        folder = scratch_file(f"{suite}/{SETTINGS}", data if replaced == "settings" else settings).parent
        scratch_file(f"{suite}/{name}", data if replaced == "weights" else weights)
        read_folder(folder)

    return read


def read_shapes(data: bytes) -> None:
    """Read the shapes of a model folder."""
    scratch_file(f"shapes/{WeightsLayout.NATIVE.file}", data)
    model_shapes(scratch_folder() / "shapes")


def small_course_checkpoint() -> list[bytes]:
    """Return the course's checkpoint."""
    return [written()]


def signed(data: bytes) -> bytes:
    """Return a checkpoint of the course whose extents and checksum are right."""
    if len(data) < 38:
        return data
    (header,) = struct.unpack_from("<Q", data, 14)
    header = header if 38 <= header <= len(data) else min(len(data), 2869)
    data = data[:14] + struct.pack("<QQ", header, len(data) - header) + data[30:]
    return data[:30] + struct.pack("<Q", course_checksum(data)) + data[38:]


def redigested(data: bytes) -> bytes:
    """Return a checkpoint of ours whose description and tensors have the digests that it states."""
    if len(data) < 8:
        return data
    data = with_fitting_length(data)
    (length,) = struct.unpack_from("<Q", data)
    try:
        header = json.loads(data[8 : 8 + length])
        metadata = header["__metadata__"]
        state = metadata["state"]
        try:
            described = json.loads(state)
            for name, entry in described["tensors"].items():
                start, stop = header[name]["data_offsets"]
                entry["sha256"] = hashlib.sha256(data[8 + length + start : 8 + length + stop]).hexdigest()
            metadata["state"] = state = json.dumps(described)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        metadata["digest"] = hashlib.sha256(state.encode()).hexdigest()
        text = json.dumps(header).encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return data
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def checkpoints() -> list[bytes]:
    """Return checkpoints of every kind of model."""
    return [saved(kind, steps) for kind, steps in STEPS.items()]


def descriptions() -> list[bytes]:
    """Return the descriptions of checkpoints, as they stand in the files."""
    return [_description(data) for data in checkpoints()]


def _description(data: bytes) -> bytes:
    (length,) = struct.unpack_from("<Q", data)
    state: str = json.loads(data[8 : 8 + length])["__metadata__"]["state"]
    return state.encode()


def read_description(data: bytes) -> None:
    """Read the checkpoint of a model with another description, whose digest is right."""
    kind = next((kind for kind, word in KINDS.items() if word in data), "draft")
    whole = saved(kind, STEPS[kind])
    (length,) = struct.unpack_from("<Q", whole)
    header = json.loads(whole[8 : 8 + length])
    state = data.decode("utf-8", "replace")
    header["__metadata__"] |= {"state": state, "digest": hashlib.sha256(state.encode()).hexdigest()}
    text = json.dumps(header).encode()
    read_checkpoint(struct.pack("<Q", len(text)) + text + whole[8 + length :])


def configured(vocabulary: int) -> DraftConfiguration:
    """Return the configuration of the small draft, with a vocabulary from a file."""
    return DraftConfiguration(vocabulary, 7, 6, 9)


def configurations() -> list[bytes]:
    """Return configurations of small models."""
    return [write_configuration(TINY[name]).encode() for name in ("draft", "hybrid", "grouped")]


def read_configured(data: bytes) -> None:
    """Read the weights file of a small model with another configuration."""
    name = "draft" if b"draft" in data else "grouped" if b'channels_per_group": 3' in data else "hybrid"
    parse_weights(save(_tensors(name), WEIGHTS_METADATA | {"configuration": data.decode("utf-8", "replace")}), "file")


@cache
def _tensors(name: str) -> dict[str, Array]:
    return {each.name: np.ascontiguousarray(each.value) for each in drawn(TINY[name]).parameters}


PROMISED = (ValueError, FileNotFoundError)
"""What reading a model folder may raise, too; engines turn it into a refusal."""

TARGETS = (
    Target("weights.file", weights_files, lambda data: parse_weights(data, "file"), with_fitting_offsets),
    Target("weights.configuration", configurations, read_configured),
    Target("weights.bare", bare_files, lambda data: parse_bare_weights(data, configured, "file"), with_fitting_offsets),
    Target(
        "given.native",
        lambda: [_given("cai.grouped-hybrid")],
        _reader_of_given("cai.grouped-hybrid"),
        with_fitting_offsets,
        share=15,
    ),
    Target(
        "given.hugging-face",
        lambda: [_given("llama.gqa-window")],
        _reader_of_given("llama.gqa-window"),
        with_fitting_offsets,
        share=15,
    ),
    *(
        Target(
            f"folder.settings-{suite}",
            lambda suite=suite: [_folder_files(suite)[0]],  # type: ignore[misc]
            _reader_of_folder(suite, "settings"),
            share=15,
            allowed=PROMISED,
        )
        for suite in ("cai.grouped-hybrid", "llama.gqa-window", "course.decoder")
    ),
    *(
        Target(
            f"folder.weights-{suite}",
            lambda suite=suite: [_folder_files(suite)[1]],  # type: ignore[misc]
            _reader_of_folder(suite, "weights"),
            with_fitting_offsets,
            share=10,
            allowed=PROMISED,
        )
        for suite in ("cai.grouped-hybrid", "llama.gqa-window")
    ),
    Target("folder.shapes", weights_files, read_shapes, with_fitting_offsets, share=20),
    Target("checkpoint.course", small_course_checkpoint, read_course_checkpoint, signed),
    Target("checkpoint.saved", checkpoints, read_checkpoint, redigested),
    Target("checkpoint.description", descriptions, read_description),
)
