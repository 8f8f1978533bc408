"""What can go wrong while nets and weights are read, converted and written.

::

    InputError
    └── InterchangeError
        ├── DamagedWeights          a weights file is no safetensors file
        ├── ForeignWeights          a safetensors file says nothing about a model
        ├── UnknownWeightsVersion   a weights file of a later version
        ├── BadConfiguration        the configuration in a weights file is no model's
        ├── MissingTensor           a parameter is not in the file
        ├── UnexpectedTensor        a tensor in the file is no parameter
        ├── TensorDiffers           a tensor has another shape or number format than the parameter
        ├── TensorNotFinite         a tensor holds NaN or infinity
        ├── UnreadableNet           a `.nn` file is damaged, or holds what is not supported
        ├── UnfitSource             a net is no decoder, or a decoder does not fit into a net
        ├── OutputNotWritten        the operating system refused a write
        ├── UnknownSource           a text names neither a file nor a suite nor a published net
        └── NotADecodeSuite         a suite without a decoder
"""

from __future__ import annotations

from dataclasses import dataclass

from cai_conformance.errors import InputError


@dataclass(eq=False)
class InterchangeError(InputError):
    """A net or a weights file cannot be read, converted or written."""


@dataclass(eq=False)
class DamagedWeights(InterchangeError):
    """A weights file is no safetensors file."""

    template = "{path!r} is not a safetensors file: {problem}"
    path: str
    problem: str


@dataclass(eq=False)
class ForeignWeights(InterchangeError):
    """A safetensors file was not written as a model's weights, so that its configuration is unknown."""

    template = "{path!r} has no metadata key {key!r}, so nothing says which model its tensors are"
    path: str
    key: str


@dataclass(eq=False)
class UnknownWeightsVersion(InterchangeError):
    """A weights file is of a version that this program does not read."""

    template = "{path!r} is of version {version!r} of the weights format; only {known!r} can be read"
    path: str
    version: str
    known: str


@dataclass(eq=False)
class BadConfiguration(InterchangeError):
    """The configuration in a weights file is not one, or no model can have it."""

    template = "the configuration in {path!r} cannot be used: {problem}"
    path: str
    problem: str


@dataclass(eq=False)
class MissingTensor(InterchangeError):
    """A parameter of the model is not in the file."""

    template = "{path!r} lacks the tensor {name!r}"
    path: str
    name: str


@dataclass(eq=False)
class UnexpectedTensor(InterchangeError):
    """A tensor is no parameter of the model."""

    template = "{path!r} has the tensor {name!r}, which the model has not"
    path: str
    name: str


@dataclass(eq=False)
class TensorDiffers(InterchangeError):
    """A tensor has another shape or number format than the parameter of its name."""

    template = "{path!r}: tensor {name!r} is {found}, expected {expected}"
    path: str
    name: str
    expected: str
    found: str


@dataclass(eq=False)
class TensorNotFinite(InterchangeError):
    """A tensor holds a number that no weight can be."""

    template = "{path!r}: tensor {name!r} holds {value} at flat index {index}"
    path: str
    name: str
    index: int
    value: float


@dataclass(eq=False)
class UnreadableNet(InterchangeError):
    """A `.nn` file is damaged, or holds what is not supported."""

    template = "{path!r} cannot be read as a net: {problem}"
    path: str
    problem: str


@dataclass(eq=False)
class UnfitSource(InterchangeError):
    """A model does not fit into a net, or a net is no model of the family; the inner error is the cause."""

    template = "{source} cannot be converted: {problem}"
    source: str
    problem: str


@dataclass(eq=False)
class OutputNotWritten(InterchangeError):
    """The operating system refused to write a file; what stood there before is unchanged."""

    template = "{path!r} cannot be written: {problem}"
    path: str
    problem: str


@dataclass(eq=False)
class UnknownSource(InterchangeError):
    """A text names nothing that a net could be made of."""

    template = "{text!r} is neither a file, nor phase1 to phase9 or draft, nor a suite ({problem})"
    hint = "cai-conform list"
    text: str
    problem: str


@dataclass(eq=False)
class NotADecodeSuite(InterchangeError):
    """The suite has no decoder, so there is no net of it."""

    template = "suite {suite} has no decoder, so no net can be made of it"
    hint = "cai-conform list"
    suite: str
