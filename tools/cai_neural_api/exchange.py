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
from pathlib import Path
from typing import Final

import numpy as np

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
from cai_reference.checkpoints.errors import CheckpointError
from cai_reference.checkpoints.tensor_file import StoredTensor, described, read_tensors, write_tensors
from cai_reference.errors import CaiReferenceError

FORMAT: Final = "cai-conform weights"
VERSION: Final = "1"
NUMBERS: Final = {"F64": "<f8", "F32": "<f4"}
"""Number formats that a tensor may have; double precision in our own files, single precision in those of a suite."""

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
    tensors, metadata = _tensors(data, source)
    for key in ("format", "version", "configuration"):
        if key not in metadata or (key == "format" and metadata[key] != FORMAT):
            raise ExchangeError("foreign-weights", path=source, key=key)
    if metadata["version"] != VERSION:
        raise ExchangeError("unknown-weights-version", path=source, version=metadata["version"], known=VERSION)
    try:
        configuration = read_configuration(metadata["configuration"])
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
    tensors, _ = _tensors(data, source)
    if EMBEDDING not in tensors:
        raise ExchangeError("missing-tensor", path=source, name=EMBEDDING)
    vocabulary = tensors[EMBEDDING].shape[0] if tensors[EMBEDDING].shape else 0
    try:
        configuration = configure(vocabulary)
    except CaiReferenceError as error:
        raise ExchangeError("bad-configuration", path=source, problem=str(error)) from error
    return _model(configuration, tensors, source, "F32")


def _tensors(data: bytes, source: str) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    try:
        return read_tensors(data)
    except CheckpointError as error:
        raise ExchangeError("damaged-weights", path=source, problem=str(error.fields["reason"])) from error


def _model(configuration: Configuration, tensors: Mapping[str, StoredTensor], source: str, numbers: str) -> Model:
    try:
        expected = set()
        for name, shape in tensor_shapes(configuration):
            if name not in tensors:
                raise ExchangeError("missing-tensor", path=source, name=name)
            wanted, found = described(numbers, shape), tensors[name].words
            if found != wanted:
                raise ExchangeError("tensor-differs", path=source, name=name, expected=wanted, found=found)
            expected.add(name)
        for name in sorted(tensors.keys() - expected):
            raise ExchangeError("unexpected-tensor", path=source, name=name)
        model = initial_model(configuration)
    except CaiReferenceError as error:
        raise ExchangeError("bad-configuration", path=source, problem=str(error)) from error
    for parameter in model.parameters:
        # A signalling NaN is found as any other one.
        with np.errstate(invalid="ignore"):
            values: Array = np.frombuffer(tensors[parameter.name].data, NUMBERS[numbers]).astype(np.float64)
        finite = np.isfinite(values)
        if not finite.all():
            index = int(np.argmin(finite))
            fields = {"name": parameter.name, "index": index, "value": float(values[index])}
            raise ExchangeError("tensor-not-finite", path=source, **fields)
        parameter.assign(values.reshape(parameter.shape))
    return model


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
        # The library creates it right behind the setting of a seed. The published program draws before that, while it
        # sorts its vocabulary, so that its own nets start elsewhere.
        return initialize(build_net(configuration), MersenneTwister(seed))
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


def export_source(text: str, seed: int) -> tuple[NetFile, str]:
    """Make a net of a weights file, of `phase1` to `phase9` or `draft` with initial values, or of a suite.

    Returns the net, and what the way to binary32 did to its numbers, in words; a suite or a phase holds binary32 to
    begin with.

    Raises:
        ConformanceError: as `load_source`.
    """
    if Path(text).is_file():
        model = read_weights(text)
        return export_model(model, text), rounding_words(model)
    return load_source(text, seed), UNCHANGED


UNCHANGED: Final = "no value was rounded: all were in binary32 already"


def rounding_words(model: Model) -> str:
    """Tell what rounding to binary32 does to the parameters of a model whose values fit into it."""
    values = changed = 0
    largest, parameter = 0.0, ""
    for each in model.parameters:
        errors = np.abs(each.value - each.value.astype(np.float32).astype(np.float64))
        values += each.value.size
        changed += int(np.count_nonzero(errors))
        if errors.size and float(np.max(errors)) > largest:
            largest, parameter = float(np.max(errors)), each.name
    if not changed:
        return UNCHANGED
    return f"{changed:,} of {values:,} values were rounded, by {largest:.2e} at most ({parameter})"
