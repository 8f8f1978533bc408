"""Safetensors files as bytes, written so that the same tensors always give the same ones.

The library's own writer orders metadata by chance; this one sorts everything. Reading is the library's, with the header
parsed once more and strictly, because the library does not hand out metadata, nor refuse a key that stands twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
from safetensors import SafetensorError, deserialize

from cai_reference.arithmetic import Array
from cai_reference.checkpoints.errors import CheckpointError
from cai_reference.text import strict_json

DOUBLE: Final = "F64"


LENGTH_BYTES: Final = 8


ALIGNMENT: Final = 8


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a file, not yet taken as numbers."""

    numbers: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def words(self) -> str:
        """Format of the numbers, and shape."""
        return described(self.numbers, self.shape)

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self.data).hexdigest()

    def values(self) -> Array:
        """Return the numbers, which have to be doubles."""
        values: Array = np.frombuffer(self.data, "<f8").astype(np.float64)
        return values.reshape(self.shape)


def described(numbers: str, shape: tuple[int, ...]) -> str:
    """Return format and shape as errors spell them."""
    return f"{numbers} {list(shape)}"


def double_bytes(values: Array) -> bytes:
    """Return doubles row by row, little-endian."""
    return np.ascontiguousarray(values, "<f8").tobytes()


def write_tensors(tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """Return a file of doubles, tensors and keys in the order of their names."""
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    body: list[bytes] = []
    place = 0
    for name, values in sorted(tensors.items()):
        data = double_bytes(values)
        header[name] = {"dtype": DOUBLE, "shape": list(values.shape), "data_offsets": [place, place + len(data)]}
        body.append(data)
        place += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text + b"".join(body)


def read_tensors(data: bytes) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """Return tensors by name, and metadata.

    Raises:
        CheckpointError (not-a-tensor-file): the bytes are something else, or not all of it.
    """
    parts = cast("Callable[[bytes], list[tuple[str, dict[str, object]]]]", deserialize)
    try:
        # The library hands tensors out in an order that changes from run to run.
        tensors = {name: _stored(fields) for name, fields in sorted(parts(data), key=lambda part: part[0])}
        length = int.from_bytes(data[:LENGTH_BYTES], "little")
        header = strict_json.parse(data[LENGTH_BYTES : LENGTH_BYTES + length])
    except (SafetensorError, strict_json.JsonProblem) as error:
        raise CheckpointError("not-a-tensor-file", reason=str(error)) from None
    metadata: strict_json.Json = header.get("__metadata__") if isinstance(header, strict_json.Object) else None
    texts = metadata.items() if isinstance(metadata, strict_json.Object) else ()
    return tensors, {key: value for key, value in texts if isinstance(value, str)}


def _stored(fields: Mapping[str, object]) -> StoredTensor:
    shape, data = cast("list[int]", fields["shape"]), cast("bytes | bytearray", fields["data"])
    return StoredTensor(str(fields["dtype"]), tuple(shape), bytes(data))
