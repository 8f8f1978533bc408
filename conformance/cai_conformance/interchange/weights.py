"""Weights files: all parameters of a decoder or a draft in double precision, with the configuration beside them.

A safetensors file with three keys of metadata: `format`, `version`, and `configuration` as JSON. Tensors are named as
parameters are. Reading asks for exactly the tensors that the configuration has, in exactly their shapes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final, cast

import numpy as np
from safetensors import SafetensorError, deserialize

from cai_conformance.goldens import strict_json
from cai_conformance.interchange.configurations import Configuration, read_configuration, write_configuration
from cai_conformance.interchange.errors import (
    BadConfiguration,
    DamagedWeights,
    ForeignWeights,
    MissingTensor,
    TensorDiffers,
    TensorNotFinite,
    UnexpectedTensor,
    UnknownWeightsVersion,
)
from cai_conformance.interchange.files import FilePath, read_file, write_file
from cai_conformance.interchange.tensor_shapes import tensor_shapes
from cai_reference.arithmetic import Array
from cai_reference.checkpoints.saved.container import write_tensors
from cai_reference.errors import CaiReferenceError
from cai_reference.nets.conversion import Model
from cai_reference.nets.conversion.to_decoder import undrawn

FORMAT: Final = "cai-conform weights"
VERSION: Final = "1"
NUMBERS: Final = {"F64": "<f8", "F32": "<f4"}
"""Number formats that a tensor may have; double precision in our own files, single precision in those of a suite."""
LENGTH_BYTES: Final = 8
"""A safetensors file opens with the length of its header."""

EMBEDDING: Final = "embedding.weight"


def write_weights(path: FilePath, model: Model) -> None:
    """Write a model to a weights file, whole or not at all.

    Raises:
        OutputNotWritten: the operating system refuses.
    """
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "configuration": write_configuration(model.configuration),
    }
    write_file(path, write_tensors({parameter.name: parameter.value for parameter in model.parameters}, metadata))


def read_weights(path: FilePath) -> Model:
    """Read the model in a weights file.

    Raises:
        InputUnreadable: the operating system refuses.
        InterchangeError: a leaf that says what of the file is damaged, missing, superfluous or of another size.
    """
    return parse_weights(read_file(path), os.fspath(path))


def parse_weights(data: bytes, source: str) -> Model:
    """Return the model in the bytes of a weights file; `source` names it in errors.

    Raises:
        InterchangeError: as for `read_weights`.
    """
    tensors = _tensors(data, source)
    metadata = _metadata(data, source)
    for key in ("format", "version", "configuration"):
        if not isinstance(metadata.get(key), str) or (key == "format" and metadata[key] != FORMAT):
            raise ForeignWeights(source, key)
    if metadata["version"] != VERSION:
        raise UnknownWeightsVersion(source, str(metadata["version"]), VERSION)
    try:
        configuration = read_configuration(str(metadata["configuration"]))
    except ValueError as error:
        raise BadConfiguration(source, str(error)) from error
    return _model(configuration, tensors, source, "F64")


def parse_bare_weights(data: bytes, configure: Callable[[int], Configuration], source: str) -> Model:
    """Return a model from tensors in single precision without metadata, as the goldens of the suites hold them.

    Args:
        data: the bytes of the file.
        configure: makes the configuration; it is given the vocabulary, which is the length of the embedding.
        source: names the file in errors.

    Raises:
        InterchangeError: as for `read_weights`.
    """
    tensors = _tensors(data, source)
    if EMBEDDING not in tensors:
        raise MissingTensor(source, EMBEDDING)
    vocabulary = tensors[EMBEDDING].shape[0] if tensors[EMBEDDING].shape else 0
    try:
        configuration = configure(vocabulary)
    except CaiReferenceError as error:
        raise BadConfiguration(source, str(error)) from error
    return _model(configuration, tensors, source, "F32")


class _Tensor:
    """One tensor of a file, not yet read."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        shape, data = fields["shape"], fields["data"]
        assert isinstance(shape, list)
        assert isinstance(data, bytes | bytearray)
        self.shape = tuple(int(length) for length in shape)
        self.format = str(fields["dtype"])
        self.data = data

    @property
    def words(self) -> str:
        """Number format and shape."""
        return _words(self.format, self.shape)

    def values(self) -> Array:
        """Return the numbers in double precision."""
        # A signalling NaN is found as any other one.
        with np.errstate(invalid="ignore"):
            values: Array = np.frombuffer(self.data, NUMBERS[self.format]).astype(np.float64)
        return values.reshape(self.shape)


def _tensors(data: bytes, source: str) -> dict[str, _Tensor]:
    parts = cast("Callable[[bytes], list[tuple[str, dict[str, object]]]]", deserialize)
    try:
        return {name: _Tensor(fields) for name, fields in parts(data)}
    except SafetensorError as error:
        raise DamagedWeights(source, str(error)) from error


def _metadata(data: bytes, source: str) -> Mapping[str, object]:
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    try:
        header = strict_json.parse(data[LENGTH_BYTES : LENGTH_BYTES + length])
    except ValueError as error:
        raise DamagedWeights(source, str(error)) from error
    found = header.get("__metadata__") if isinstance(header, dict) else None
    return found if isinstance(found, dict) else {}


def _model(configuration: Configuration, tensors: Mapping[str, _Tensor], source: str, numbers: str) -> Model:
    try:
        expected = set()
        for name, shape in tensor_shapes(configuration):
            if name not in tensors:
                raise MissingTensor(source, name)
            wanted = _words(numbers, shape)
            if tensors[name].words != wanted:
                raise TensorDiffers(source, name, wanted, tensors[name].words)
            expected.add(name)
        for name in sorted(tensors.keys() - expected):
            raise UnexpectedTensor(source, name)
        model = undrawn(configuration)
    except CaiReferenceError as error:
        raise BadConfiguration(source, str(error)) from error
    for parameter in model.parameters:
        values = tensors[parameter.name].values()
        finite = np.isfinite(values)
        if not finite.all():
            index = int(np.argmin(finite))
            raise TensorNotFinite(source, parameter.name, index, float(values.flat[index]))
        parameter.assign(values)
    return model


def _words(numbers: str, shape: tuple[int, ...]) -> str:
    return f"{numbers} {list(shape)}"
