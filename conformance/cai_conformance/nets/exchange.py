"""What is said about nets that become weights files, and about sources that become nets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cai_conformance.interchange import read_weights
from cai_conformance.interchange.nets import export_model
from cai_conformance.interchange.sources import load_source
from cai_reference.nets.conversion import Model
from cai_reference.nets.format import NetFile


@dataclass(frozen=True)
class Rounding:
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
    rounding: Rounding | None


def export_source(text: str, seed: int) -> ExportedNet:
    """Make a net of a weights file, of `phase1` to `phase9` or `draft` with initial values, or of a suite.

    Raises:
        ConformanceError: as `load_source`.
    """
    if Path(text).is_file():
        model = read_weights(text)
        return ExportedNet(export_model(model, text), rounding_of(model))
    return ExportedNet(load_source(text, seed), None)


def rounding_of(model: Model) -> Rounding:
    """Tell what rounding to binary32 does to the parameters of a model whose values fit into it."""
    values = changed = 0
    largest, parameter = 0.0, ""
    for each in model.parameters:
        errors = np.abs(each.value - each.value.astype(np.float32).astype(np.float64))
        values += each.value.size
        changed += int(np.count_nonzero(errors))
        if errors.size and float(np.max(errors)) > largest:
            largest, parameter = float(np.max(errors)), each.name
    return Rounding(values, changed, largest, parameter)


def weight_count(net: NetFile) -> int:
    """Return how many weights a net has; the library does not count biases among them."""
    return sum(neuron.weights.size for neurons in net.neurons for neuron in neurons)
