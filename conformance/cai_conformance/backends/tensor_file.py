"""Tensors of a safetensors file as doubles, whatever the file holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import numpy as np
from safetensors import SafetensorError, deserialize

from cai_conformance.errors import InputUnreadable
from cai_reference.arithmetic import Array

NUMBERS: Final = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
"""Number formats that are read."""


def read_tensor_file(data: bytes, name: str) -> dict[str, Array]:
    """Return the tensors of a file in double precision, by their names in it; `name` is what errors call the file.

    Raises:
        InputUnreadable: it is no whole safetensors file, or a tensor holds other numbers than `NUMBERS`.
    """
    parts = cast("Callable[[bytes], list[tuple[str, dict[str, object]]]]", deserialize)
    try:
        found = parts(data)
    except SafetensorError as error:
        raise InputUnreadable(name, str(error)) from None
    return {tensor: _values(fields, tensor, name) for tensor, fields in found}


def _values(fields: dict[str, object], tensor: str, name: str) -> Array:
    numbers, shape, data = str(fields["dtype"]), fields["shape"], fields["data"]
    assert isinstance(shape, list)
    assert isinstance(data, bytes | bytearray)
    if numbers not in NUMBERS:
        raise InputUnreadable(name, f"the tensor {tensor[:60]!r} holds {numbers}, not one of {', '.join(NUMBERS)}")
    # A signalling NaN is as good as another one.
    with np.errstate(invalid="ignore"):
        values: Array = np.frombuffer(data, NUMBERS[numbers]).astype(np.float64)
    return values.reshape(shape)
