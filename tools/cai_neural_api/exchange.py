"""What a net comes from and goes to: `.nn` files, weights files, the published phases, the decode suites.

Weights files: all parameters of a decoder or a draft in double precision, with the configuration beside them.

A safetensors file with three keys of metadata: `format`, `version`, and `configuration` as JSON. Tensors are named as
parameters are. Reading asks for exactly the tensors that the configuration has, in exactly their shapes.

`.nn` files, and the models in them.

The nets of the nine published phases, at their published size, with the library's own initial weights.

What a net can be made of, as a text on the command line names it.

In this order: an existing weights file; `phase1` to `phase9` and `draft`, at their published size with initial weights
from a seed; a decode suite by its id or a unique ending of it, with its golden weights.

What is said about nets that become weights files, and about sources that become nets.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import numpy as np
from safetensors import SafetensorError, deserialize

from cai_conformance import strict_json
from cai_conformance.errors import SelectionError
from cai_conformance.fixtures.configurations import (
    Configuration,
    read_configuration,
    tensor_shapes,
    write_configuration,
)
from cai_conformance.fixtures.decoder_phases import PHASES, sizes_for
from cai_conformance.fixtures.files import FilePath, read_file, write_file
from cai_conformance.fixtures.goldens.store import GoldenStore, locate
from cai_conformance.fixtures.sizes import PUBLISHED_SIZES
from cai_conformance.suites import find_suite
from cai_neural_api.conversion import Model, build_net, decoder_to_net, initial_model, net_to_decoder
from cai_neural_api.errors import ExchangeError
from cai_neural_api.format import NetFile, format_net, parse_net
from cai_neural_api.initialization import initialize
from cai_neural_api.mersenne import MersenneTwister
from cai_neural_api.published import VOCABULARY
from cai_reference.arithmetic import Array
from cai_reference.checkpoints.tensor_file import write_tensors
from cai_reference.errors import CaiReferenceError

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
        InterchangeError (output-not-written): the operating system refuses.
    """
    metadata = {"format": FORMAT, "version": VERSION, "configuration": write_configuration(model.configuration)}
    write_file(path, write_tensors({parameter.name: parameter.value for parameter in model.parameters}, metadata))


def read_weights(path: FilePath) -> Model:
    """Read the model in a weights file.

    Raises:
        InputError (input-unreadable): the operating system refuses.
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
            raise ExchangeError("foreign-weights", path=source, key=key)
    if metadata["version"] != VERSION:
        raise ExchangeError("unknown-weights-version", path=source, version=str(metadata["version"]), known=VERSION)
    try:
        configuration = read_configuration(str(metadata["configuration"]))
    except ValueError as error:
        raise ExchangeError("bad-configuration", path=source, problem=str(error)) from error
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
        raise ExchangeError("missing-tensor", path=source, name=EMBEDDING)
    vocabulary = tensors[EMBEDDING].shape[0] if tensors[EMBEDDING].shape else 0
    try:
        configuration = configure(vocabulary)
    except CaiReferenceError as error:
        raise ExchangeError("bad-configuration", path=source, problem=str(error)) from error
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
        raise ExchangeError("damaged-weights", path=source, problem=str(error)) from error


def _metadata(data: bytes, source: str) -> Mapping[str, object]:
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    try:
        header = strict_json.parse(data[LENGTH_BYTES : LENGTH_BYTES + length])
    except ValueError as error:
        raise ExchangeError("damaged-weights", path=source, problem=str(error)) from error
    found = header.get("__metadata__") if isinstance(header, dict) else None
    return found if isinstance(found, dict) else {}


def _model(configuration: Configuration, tensors: Mapping[str, _Tensor], source: str, numbers: str) -> Model:
    try:
        expected = set()
        for name, shape in tensor_shapes(configuration):
            if name not in tensors:
                raise ExchangeError("missing-tensor", path=source, name=name)
            wanted = _words(numbers, shape)
            if tensors[name].words != wanted:
                raise ExchangeError(
                    "tensor-differs", path=source, name=name, expected=wanted, found=tensors[name].words
                )
            expected.add(name)
        for name in sorted(tensors.keys() - expected):
            raise ExchangeError("unexpected-tensor", path=source, name=name)
        model = initial_model(configuration)
    except CaiReferenceError as error:
        raise ExchangeError("bad-configuration", path=source, problem=str(error)) from error
    for parameter in model.parameters:
        values = tensors[parameter.name].values()
        finite = np.isfinite(values)
        if not finite.all():
            index = int(np.argmin(finite))
            raise ExchangeError(
                "tensor-not-finite", path=source, name=parameter.name, index=index, value=float(values.flat[index])
            )
        parameter.assign(values)
    return model


def _words(numbers: str, shape: tuple[int, ...]) -> str:
    return f"{numbers} {list(shape)}"


def read_net(path: FilePath) -> NetFile:
    """Read a `.nn` file.

    Raises:
        InputError (input-unreadable): the operating system refuses.
        ExchangeError (unreadable-net): the file is damaged, or holds what is not supported.
    """
    data = read_file(path)
    try:
        return parse_net(data)
    except CaiReferenceError as error:
        raise ExchangeError("unreadable-net", path=os.fspath(path), problem=str(error)) from error


def write_net(path: FilePath, net: NetFile) -> None:
    """Write a `.nn` file, whole or not at all; values are rounded to single precision.

    Raises:
        ExchangeError (unfit-source): the net has layers or weights that the format has no words for.
        InterchangeError (output-not-written): the operating system refuses.
    """
    try:
        data = format_net(net)
    except CaiReferenceError as error:
        raise ExchangeError("unfit-source", source="the net", problem=str(error)) from error
    write_file(path, data)


def import_net(net: NetFile) -> Model:
    """Return the decoder or draft that a net is.

    Raises:
        ExchangeError (unfit-source): it is none of the family; the inner error says where it differs.
    """
    try:
        return net_to_decoder(net)
    except CaiReferenceError as error:
        raise ExchangeError("unfit-source", source="the net", problem=str(error)) from error


def export_model(model: Model, source: str) -> NetFile:
    """Return the net of a model, in single precision; `source` names it in errors.

    Raises:
        ExchangeError (unfit-source): a weight is too large for single precision.
    """
    try:
        return decoder_to_net(model)
    except CaiReferenceError as error:
        raise ExchangeError("unfit-source", source=source, problem=str(error)) from error


_PHASE = re.compile(r"phase([1-9])", re.ASCII)


def published_configuration(name: str) -> Configuration | None:
    """Return the configuration of `phase1` to `phase9`, or of `draft`, the small model of phase 5; None for others."""
    if name == "draft":
        return next(phase for phase in PHASES if phase.draft).draft_model(PUBLISHED_SIZES, VOCABULARY)
    found = _PHASE.fullmatch(name)
    return None if found is None else PHASES[int(found[1]) - 1].decoder(PUBLISHED_SIZES, VOCABULARY)


def published_net(configuration: Configuration, seed: int) -> NetFile:
    """Return a net as the library creates it right behind the setting of a seed.

    The published program draws before that, while it sorts its vocabulary, so that its own nets start elsewhere.
    """
    return initialize(build_net(configuration), MersenneTwister(seed))


WEIGHTS = "weights.safetensors"


def load_source(text: str, seed: int) -> NetFile:
    """Return the net that a text names.

    Args:
        text: a weights file, `phase1` to `phase9`, `draft`, or a suite.
        seed: of the initial weights of a published net; nothing else draws.

    Raises:
        ExchangeError (unknown-source): the text names nothing.
        ExchangeError (not-a-decode-suite): it names a suite without a decoder.
        `input-unreadable`, InterchangeError: the file cannot be read, or its model does not fit into a net.
        GoldenError: the golden of the suite cannot be read.
    """
    if Path(text).is_file():
        return export_model(read_weights(text), text)
    configuration = published_configuration(text)
    if configuration is not None:
        return published_net(configuration, seed)
    try:
        suite = find_suite(text).identifier
    except SelectionError as error:
        raise ExchangeError("unknown-source", text=text, problem=str(error)) from error
    return export_model(golden_model(suite), suite)


def golden_model(suite: str) -> Model:
    """Return the decoder of a suite, with its golden weights.

    Raises:
        ExchangeError (not-a-decode-suite): the suite has none.
        GoldenError, InterchangeError: the golden or its weights cannot be read.
    """
    phase = next((phase for phase in PHASES if phase.suite == suite), None)
    if phase is None:
        raise ExchangeError("not-a-decode-suite", suite=suite)
    sizes = sizes_for(phase, "golden", 0)
    data = GoldenStore(locate()).read(suite).files[WEIGHTS]
    return parse_bare_weights(data, lambda vocabulary: phase.decoder(sizes, vocabulary), f"{suite}/{WEIGHTS}")


@dataclass(frozen=True)
class ExportRounding:
    """What the way to binary32 did to numbers.

    Attributes:
        values: how many there are.
        changed: how many are not in binary32 as they were.
        largest: the largest change.
        parameter: whose number that was; empty if none changed.
    """

    values: int
    changed: int
    largest: float
    parameter: str


@dataclass(frozen=True)
class ExportedNet:
    """A net made of a source; `rounding` is None where the source holds binary32 to begin with."""

    net: NetFile
    rounding: ExportRounding | None


def export_source(text: str, seed: int) -> ExportedNet:
    """Make a net of a weights file, of `phase1` to `phase9` or `draft` with initial values, or of a suite.

    Raises:
        ConformanceError: as `load_source`.
    """
    if Path(text).is_file():
        model = read_weights(text)
        return ExportedNet(export_model(model, text), rounding_of(model))
    return ExportedNet(load_source(text, seed), None)


def rounding_of(model: Model) -> ExportRounding:
    """Tell what rounding to binary32 does to the parameters of a model whose values fit into it."""
    values = changed = 0
    largest, parameter = 0.0, ""
    for each in model.parameters:
        errors = np.abs(each.value - each.value.astype(np.float32).astype(np.float64))
        values += each.value.size
        changed += int(np.count_nonzero(errors))
        if errors.size and float(np.max(errors)) > largest:
            largest, parameter = float(np.max(errors)), each.name
    return ExportRounding(values, changed, largest, parameter)


def weight_count(net: NetFile) -> int:
    """Return how many weights a net has; the library does not count biases among them."""
    return sum(neuron.weights.size for neurons in net.neurons for neuron in neurons)
